/** Stores what commands have changed, and takes it back if that fails. */
export interface BatchStore {
  /** Makes everything that the commands of this batch have changed durable. Throws if nothing of it was stored. */
  commit(): void;
  /**
   * Nothing of this batch counts: what it has touched is read again. False if there is nothing to read it from: then the
   * batch counts as it is, except for the command that has thrown.
   */
  takeBack(error: unknown): boolean;
  /** A step of a batch has thrown. */
  untold(error: unknown): void;
}

interface Work {
  readonly run: () => void;
  /** The batch whose commands have caused it; undefined if it came from outside, or from a batch that was stored. */
  readonly cause: number | undefined;
}

interface Step {
  readonly done: () => void;
  readonly failed: ((error: unknown) => void) | undefined;
}

interface Fault {
  readonly error: unknown;
  /** Steps of the command that has thrown. They fail in any case. */
  readonly steps: readonly Step[];
}

/** Calls back once no more commands arrive, or at least not much later. `arrived` counts them. */
export type Schedule = (settle: () => void, arrived: () => number) => void;

/** Commands of one batch run for this long, at the most, in ms. Then it is stored, and those that are left are the next. */
const BATCH_MS = 20;
/** Commands between two looks at the clock, unless one of them is long. */
const LOOK_EVERY = 16;

/**
 * Runs commands in the order in which they arrive, and announces nothing before its changes are durable. Commands run as
 * they arrive. Once no more arrive, they are one batch: one commit, then all their replies leave. While a commit runs,
 * input waits in the kernel, so the next batch is larger.
 */
export class Batch {
  readonly #store: BatchStore;
  readonly #schedule: Schedule;
  readonly #elapsed: () => number;
  #work: Work[] = [];
  /** The next command in `#work`. */
  #next = 0;
  #steps: Step[] = [];
  #callbacks: (() => void)[] = [];
  #isRunning = false;
  /** A batch is being stored and told: commands wait, or what they say could leave with what is told. */
  #isSettling = false;
  #isScheduled = false;
  #arrived = 0;
  #endsAt = 0;
  #untilLook = LOOK_EVERY;
  #number = 0;
  #isStopped = false;
  #fault: Fault | undefined;

  /** `elapsed` is a clock in ms. */
  constructor(store: BatchStore, schedule: Schedule, elapsed: () => number) {
    this.#store = store;
    this.#schedule = schedule;
    this.#elapsed = elapsed;
  }

  /** Changes with every batch. */
  get number(): number {
    return this.#number;
  }

  /** Commands that wait for the next batch. */
  get backlog(): number {
    return this.#work.length - this.#next;
  }

  /** Runs a command now, or after those before it. */
  enter(command: () => void): void {
    if (this.#isStopped) return;
    this.#arrived += 1;
    this.#work.push({ run: command, cause: this.#isRunning ? this.#number : undefined });
    this.#arm();
    if (!this.#isRunning && !this.#isSettling) this.#run();
  }

  /** The command that runs takes long: the clock is looked at after it. */
  takesLong(): void {
    this.#untilLook = 1;
  }

  /** Runs a step once this batch is durable, or `failed` if it cannot be made so. Only for commands that run. */
  afterwards(done: () => void, failed?: (error: unknown) => void): void {
    this.#steps.push({ done, failed });
    this.#arm();
  }

  /** The outcome of a command, once it and everything it may depend on is durable. Rejects if its batch fails. */
  ask<Result>(command: () => Result): Promise<Result> {
    const { promise, resolve, reject } = Promise.withResolvers<Result>();
    this.enter(() => {
      let result: Result;
      this.afterwards(() => resolve(result), reject);
      result = command();
    });
    return promise;
  }

  /** Runs something once this batch is over, whether it was stored or not. */
  afterBatch(callback: () => void): void {
    this.#callbacks.push(callback);
    this.#arm();
  }

  /** Ends the batch now. */
  settle(): void {
    if (this.#isStopped) return;
    this.#isScheduled = false;
    this.#isSettling = true;
    const callbacks = this.#callbacks;
    this.#callbacks = [];
    const fault = this.#fault ?? this.#commit();
    this.#fault = undefined;
    const isTakenBack = fault !== undefined && this.#takeBack(fault.error);
    const steps = this.#steps;
    this.#steps = [];
    for (const { failed } of [...(isTakenBack ? steps : []), ...(fault?.steps ?? [])])
      this.#tell(() => failed?.(fault?.error));
    if (!isTakenBack) for (const { done } of steps) this.#tell(done);
    this.#number += 1;
    this.#endsAt = 0;
    for (const callback of callbacks) callback();
    this.#isSettling = false;
    if (this.backlog > 0) {
      this.#arm();
      this.#run();
    }
  }

  /** Nothing happens from here on. What was not stored has not happened. */
  stop(): void {
    this.#isStopped = true;
  }

  #commit(): Fault | undefined {
    try {
      this.#store.commit();
      return undefined;
    } catch (error) {
      return { error, steps: [] };
    }
  }

  /** What the commands of a failed batch have caused does not happen, such as the news of a grant. */
  #takeBack(error: unknown): boolean {
    if (!this.#store.takeBack(error)) return false;
    this.#work = this.#work.slice(this.#next).filter(({ cause }) => cause !== this.#number);
    this.#next = 0;
    return true;
  }

  /** A step that throws does not keep the others from being run. */
  #tell(step: () => void): void {
    try {
      step();
    } catch (error) {
      this.#store.untold(error);
    }
  }

  #arm(): void {
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    this.#schedule(
      () => this.settle(),
      () => this.#arrived,
    );
  }

  #run(): void {
    // What one batch has half done must not be mixed with the next.
    if (this.#fault || this.#isStopped) return;
    const startedAt = this.#elapsed();
    if (this.#endsAt === 0) this.#endsAt = startedAt + BATCH_MS;
    else if (startedAt > this.#endsAt) return;
    this.#isRunning = true;
    let earlierSteps = 0;
    try {
      while (this.#next < this.#work.length) {
        const { run } = this.#work[this.#next] as Work;
        this.#next += 1;
        earlierSteps = this.#steps.length;
        run();
        this.#untilLook -= 1;
        if (this.#untilLook > 0) continue;
        this.#untilLook = LOOK_EVERY;
        if (this.#elapsed() > this.#endsAt) break;
      }
    } catch (error) {
      this.#fault = { error, steps: this.#steps.splice(earlierSteps) };
    }
    this.#isRunning = false;
    if (this.#next === this.#work.length) this.#work = [];
    else if (this.#next > 1_000) this.#work.splice(0, this.#next);
    else return;
    this.#next = 0;
  }
}
