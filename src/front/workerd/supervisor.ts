import { Failure } from "../system/failure.ts";
import type { Listen } from "./config.ts";
import type { RunningWorkerd, WorkerdExit } from "./process.ts";

/** Where requests go on to. */
export interface Upstream {
  /** Where workerd listens, as soon as it does; undefined if that takes too long. */
  ready(): Promise<Listen | undefined>;
  /** The whole service is ending: its clients are cut off, not answered. */
  readonly isEnding?: boolean;
}

/** A workerd that lived for so long was well, and its end is a new story. */
const WELL_AFTER_MS = 30_000;
const FIRST_PAUSE_MS = 100;
const LONGEST_PAUSE_MS = 5_000;
/** Ends in a row, each soon after its start, before nothing more is tried. */
const MAX_EARLY_ENDS = 6;
/** A client waits so long for a workerd that is being started again before it is refused. */
const PATIENCE_MS = 5_000;

/** Keeps a workerd running: one that ended by itself is started again, after pauses that grow. */
export class Supervisor implements Upstream {
  readonly #launch: () => Promise<RunningWorkerd>;
  readonly #log: (line: string) => void;
  readonly #gaveUp = Promise.withResolvers<Failure>();
  #current: RunningWorkerd | undefined;
  #startedAt = performance.now();
  #earlyEnds = 0;
  readonly #started = Promise.withResolvers<void>();
  /** Settled while workerd runs. */
  #starting: Promise<void> = this.#started.promise;
  readonly #ending = Promise.withResolvers<void>();
  #isRunning = false;
  #isEnding = false;

  constructor(launch: () => Promise<RunningWorkerd>, log: (line: string) => void) {
    this.#launch = launch;
    this.#log = log;
  }

  /** Resolves once workerd runs. A first start that fails is not tried again: its reason is the caller's. */
  async start(): Promise<void> {
    this.#runs(await this.#launch());
    this.#started.resolve();
  }

  /** The process id of the workerd that runs, or ran last. */
  get pid(): number | undefined {
    return this.#current?.pid;
  }

  /** Resolves if workerd keeps ending. */
  get gaveUp(): Promise<Failure> {
    return this.#gaveUp.promise;
  }

  get isEnding(): boolean {
    return this.#isEnding;
  }

  async ready(): Promise<Listen | undefined> {
    if (!this.#isRunning) await Promise.race([this.#starting, pause(PATIENCE_MS)]);
    return this.#isRunning ? this.#current?.http : undefined;
  }

  async stop(): Promise<void> {
    await this.#end();
    await this.#current?.stop();
  }

  /** Ends workerd without warning, for good. */
  async kill(): Promise<void> {
    await this.#end();
    await this.#current?.kill();
  }

  /** A start that is under way is awaited: what it starts has to be ended too. */
  async #end(): Promise<void> {
    this.#isEnding = true;
    this.#ending.resolve();
    await this.#starting;
  }

  #runs(workerd: RunningWorkerd): void {
    this.#current = workerd;
    this.#isRunning = true;
    void workerd.exited.then((exit) => {
      this.#isRunning = false;
      if (!this.#isEnding) this.#starting = this.#restart(exit);
    });
  }

  async #restart(exit: WorkerdExit): Promise<void> {
    let reason = `workerd ended by itself (${inWords(exit)})`;
    for (;;) {
      this.#earlyEnds = performance.now() - this.#startedAt < WELL_AFTER_MS ? this.#earlyEnds + 1 : 1;
      if (this.#earlyEnds > MAX_EARLY_ENDS) {
        this.#gaveUp.resolve(new Failure(`${reason}, ${this.#earlyEnds} times in a row: giving up`));
        return;
      }
      const pauseMs = Math.min(FIRST_PAUSE_MS * 2 ** (this.#earlyEnds - 1), LONGEST_PAUSE_MS);
      this.#log(`${reason}; starting it again in ${pauseMs} ms`);
      await Promise.race([pause(pauseMs), this.#ending.promise]);
      if (this.#isEnding) return;
      this.#startedAt = performance.now();
      try {
        this.#runs(await this.#launch());
        return;
      } catch (error) {
        reason = error instanceof Failure ? error.message : String(error);
      }
    }
  }
}

function inWords({ code, signal }: WorkerdExit): string {
  if (signal) return `signal ${signal}`;
  // A shell reports the end by a signal as 128 and its number.
  return code !== null && code > 128 ? `signal ${code - 128}` : `exit code ${code}`;
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
