import { Failure } from "../../node/listeners/failure.ts";
import type { Listen } from "./config.ts";
import type { RunningWorkerd, WorkerdExit } from "./process.ts";

/** Where requests are passed on to. */
export interface Upstream {
  /** Where workerd listens, as soon as it does; undefined if that takes too long. */
  ready(): Promise<Listen | undefined>;
  /** The whole service is ending: its clients are cut off without an answer. */
  readonly isEnding?: boolean;
}

/** A workerd that ran for this long was healthy: its end resets the count of early ends. */
const WELL_AFTER_MS = 30_000;
const FIRST_PAUSE_MS = 100;
const LONGEST_PAUSE_MS = 5_000;
/** Early ends in a row after which it is not restarted. */
const MAX_EARLY_ENDS = 6;
/** How long a client waits for a restarting workerd before it is refused. */
const PATIENCE_MS = 5_000;

/** Keeps workerd running: restarts it when it ends by itself, after growing pauses. */
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

  /** Resolves once workerd runs. If the first start fails, it is not retried, and this rejects with the reason. */
  async start(): Promise<void> {
    this.#runs(await this.#launch());
    this.#started.resolve();
  }

  /** The process id of the current or last workerd. */
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

  /** Ends workerd immediately, for good. */
  async kill(): Promise<void> {
    await this.#end();
    await this.#current?.kill();
  }

  /** Awaits a start in progress: the process it starts must be ended too. */
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
  // A shell reports death by a signal as 128 plus its number.
  return code !== null && code > 128 ? `signal ${code - 128}` : `exit code ${code}`;
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
