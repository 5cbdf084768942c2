/** Stores what commands have changed, and takes it back if that fails. */
export interface BatchStore {
  /** Makes everything that the commands of this batch have changed durable. Throws if nothing of it was stored. */
  commit(): void;
  /**
   * Nothing of this batch counts: what it has touched is read again. What is entered meanwhile runs before everything
   * that waits. False if nothing can be taken back: then the batch counts as it is.
   */
  takeBack(error: unknown): boolean;
  /** Somebody could not be told. */
  untold(error: unknown): void;
}

interface Step {
  readonly done: () => void;
  readonly failed: ((error: unknown) => void) | undefined;
}

/** The cause of a command that comes from outside. */
const OUTSIDE = -1;
/** Commands run before other connections get their turn, at the most, in ms. */
const TURN_MS = 20;

/**
 * Runs commands in the order in which they arrive, and tells nobody of them before their changes are durable. Everything
 * that arrives in one turn of the event loop is one batch: the commands run at once, then one commit, then whatever they
 * have to say leaves. While a commit runs, input waits in the kernel, so the next batch is larger.
 */
export class Batch {
  readonly #store: BatchStore;
  readonly #schedule: (turn: () => void) => void;
  readonly #elapsed: () => number;
  #work: (() => void)[] = [];
  /** For each command in `#work` the batch in which another command has caused it, or `OUTSIDE`. */
  #causes: number[] = [];
  /** The next command in `#work`. */
  #next = 0;
  #steps: Step[] = [];
  #callbacks: (() => void)[] = [];
  #isRunning = false;
  #isTakingBack = false;
  #isScheduled = false;
  #turnEndsAt = 0;
  #turn = 0;
  #isStopped = false;
  #fault: { readonly error: unknown } | undefined;

  /** `schedule` calls back at the end of the current turn of the event loop; `elapsed` is a clock in ms. */
  constructor(store: BatchStore, schedule: (turn: () => void) => void, elapsed: () => number) {
    this.#store = store;
    this.#schedule = schedule;
    this.#elapsed = elapsed;
  }

  /** Changes with every batch. */
  get turn(): number {
    return this.#turn;
  }

  /** Commands that wait for the next batch. */
  get backlog(): number {
    return this.#work.length - this.#next;
  }

  /**
   * Runs a command now, or after those before it. One that is entered by another command does not count if that one's
   * batch fails.
   */
  enter(command: () => void): void {
    if (this.#isStopped) return;
    this.#work.push(command);
    this.#causes.push(this.#isRunning ? this.#turn : OUTSIDE);
    this.#arm();
    if (!this.#isRunning && !this.#isTakingBack) this.#run();
  }

  /** Like `enter`. If the command throws, `failed` is told. */
  attempt(command: () => void, failed: (error: unknown) => void): void {
    this.enter(() => {
      try {
        command();
      } catch (error) {
        failed(error);
        throw error;
      }
    });
  }

  /** Runs a step once this batch is durable, or `failed` if it cannot be made so. Only for commands that run. */
  afterwards(done: () => void, failed?: (error: unknown) => void): void {
    this.#steps.push({ done, failed });
    this.#arm();
  }

  /** The outcome of a command, once it and everything it may depend on is durable. */
  ask<Result>(command: () => Result): Promise<Result> {
    const { promise, resolve, reject } = Promise.withResolvers<Result>();
    this.attempt(() => {
      const result = command();
      this.afterwards(() => resolve(result), reject);
    }, reject);
    return promise;
  }

  /** Runs something once this batch is over, whether it was stored or not. */
  afterTurn(callback: () => void): void {
    this.#callbacks.push(callback);
    this.#arm();
  }

  /** Ends the batch now. */
  settle(): void {
    if (this.#isStopped) return;
    this.#isScheduled = false;
    const [steps, callbacks] = [this.#steps, this.#callbacks];
    this.#steps = [];
    this.#callbacks = [];
    const fault = this.#fault ?? this.#commit();
    this.#fault = undefined;
    this.#turn += 1;
    if (fault && this.#takeBack(fault.error)) {
      for (const { failed } of steps) if (failed) this.#tell(() => failed(fault.error));
    } else for (const { done } of steps) this.#tell(done);
    this.#turnEndsAt = 0;
    for (const callback of callbacks) callback();
    if (this.backlog > 0) {
      this.#arm();
      this.#run();
    }
  }

  /** Nothing happens from here on. What was not stored has not happened. */
  stop(): void {
    this.#isStopped = true;
  }

  #commit(): { readonly error: unknown } | undefined {
    try {
      this.#store.commit();
      return undefined;
    } catch (error) {
      return { error };
    }
  }

  /** Drops what the batch that has failed would still have done. */
  #takeBack(error: unknown): boolean {
    const waiting = this.#work.slice(this.#next);
    const causes = this.#causes.slice(this.#next);
    this.#work = [];
    this.#causes = [];
    this.#next = 0;
    this.#isTakingBack = true;
    const isTakenBack = this.#store.takeBack(error);
    this.#isTakingBack = false;
    for (const [index, command] of waiting.entries()) {
      const cause = causes[index] ?? OUTSIDE;
      if (isTakenBack && cause === this.#turn - 1) continue;
      this.#work.push(command);
      this.#causes.push(cause);
    }
    return isTakenBack;
  }

  /** Whoever cannot be told keeps nobody else from being told. */
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
    this.#schedule(() => this.settle());
  }

  #run(): void {
    // What one batch has half done must not be mixed with the next.
    if (this.#fault || this.#isStopped) return;
    const startedAt = this.#elapsed();
    if (this.#turnEndsAt === 0) this.#turnEndsAt = startedAt + TURN_MS;
    else if (startedAt > this.#turnEndsAt) return;
    this.#isRunning = true;
    try {
      for (let count = 1; this.#next < this.#work.length; count += 1) {
        const command = this.#work[this.#next] as () => void;
        this.#next += 1;
        command();
        if (count % 16 === 0 && this.#elapsed() > this.#turnEndsAt) break;
      }
    } catch (error) {
      this.#fault = { error };
    }
    this.#isRunning = false;
    if (this.#next === this.#work.length) {
      this.#work = [];
      this.#causes = [];
    } else if (this.#next > 1_000) {
      this.#work.splice(0, this.#next);
      this.#causes.splice(0, this.#next);
    } else return;
    this.#next = 0;
  }
}
