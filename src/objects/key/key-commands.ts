import { type CommandContext, FenceExhaustedError, type KeyEngine, type Refusal } from "../../engine/index.ts";
import type { Activity } from "../awake/activity.ts";
import { type KeyLife, LostRowsError } from "./key-life.ts";
import type { Decision } from "./key-news.ts";

/** The parts of a key that running a command needs. */
interface Parts {
  readonly life: KeyLife;
  readonly activity: Activity;
  /** A command has come. */
  began(): void;
  context(): CommandContext;
  /** Writes what the engine has changed. If it throws, the change has not happened. */
  store(engine: KeyEngine): void;
  /** What the engine has to tell may be told. */
  stored(engine: KeyEngine): void;
  restart(why: string): void;
}

/**
 * Runs commands on a key: decide, store, then answer, in one synchronous step. A command waits while the key is being
 * founded or pruned.
 */
export class KeyCommands {
  readonly #parts: Parts;

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  /** Runs a command on a key that exists; returns `missing` for one that does not. */
  use<Outcome>(missing: Outcome, decide: Decision<Outcome>): Promise<Outcome> {
    const { life } = this.#parts;
    return this.#atWork(async () => {
      try {
        await this.#settled();
      } catch (error) {
        if (error instanceof LostRowsError) return missing;
        throw error;
      }
      const { engine, exists } = life;
      return engine && (exists || life.isUnconfirmed) ? this.run(engine, decide) : missing;
    });
  }

  /** Like `use`, but throws for a key that has existed and lost its rows: `missing` might be wrong. */
  useUnlessLost<Outcome>(missing: Outcome, decide: Decision<Outcome>): Promise<Outcome> {
    const { life } = this.#parts;
    return this.#atWork(async () => {
      await this.#settled();
      if (!life.exists && !life.isUnconfirmed) await life.checkRows();
      return this.use(missing, decide);
    });
  }

  /**
   * Runs a command on the key, founding it with `limit` first if needed and if the cap on keys allows it. Refuses if no
   * fences are left to grant.
   */
  useFounded<Outcome>(
    limit: number,
    decide: Decision<Outcome>,
  ): Promise<Outcome | Refusal<"max_locks" | "fence_persistence">> {
    const { life } = this.#parts;
    return this.#atWork(async () => {
      for (;;) {
        while (life.isInTransition) await life.settled();
        const { engine, isListed } = life;
        if (engine && isListed) return this.#runUnlessExhausted(engine, decide);
        const first = await life.found(limit, decide);
        if (first) return first.outcome;
        if (!life.isListed) return { status: "max_locks" };
      }
    });
  }

  /**
   * Runs one command. If deciding or storing fails, memory is discarded along with the answer: half a decision must not
   * be stored. Running out of fences is a regular decision and is stored.
   */
  run<Outcome>(engine: KeyEngine, decide: Decision<Outcome>): Outcome {
    let outcome: Outcome;
    try {
      outcome = decide(engine, this.#parts.context());
    } catch (error) {
      if (error instanceof FenceExhaustedError) this.#commit(engine);
      else this.#reload();
      throw error;
    }
    this.#commit(engine);
    return outcome;
  }

  /**
   * Resolves when the key may be used. A first grant that may have been spoken of stands, and the key is listed. If the
   * directory cannot be asked to, commands that grant nothing new may go on.
   */
  async #settled(): Promise<void> {
    const { life } = this.#parts;
    while (life.isInTransition) await life.settled();
    if (!life.engine || !life.isUnconfirmed) return;
    try {
      await life.join(life.engine);
    } catch (error) {
      if (!life.isUnconfirmed || error instanceof LostRowsError) throw error;
    }
    while (life.isInTransition) await life.settled();
  }

  #atWork<Result>(task: () => Promise<Result>): Promise<Result> {
    this.#parts.began();
    return this.#parts.activity.during(task);
  }

  #runUnlessExhausted<Outcome>(engine: KeyEngine, decide: Decision<Outcome>): Outcome | Refusal<"fence_persistence"> {
    try {
      return this.run(engine, decide);
    } catch (error) {
      if (error instanceof FenceExhaustedError) return { status: "fence_persistence" };
      throw error;
    }
  }

  #commit(engine: KeyEngine): void {
    try {
      this.#parts.store(engine);
    } catch (error) {
      this.#reload();
      throw error;
    }
    this.#parts.stored(engine);
  }

  /** Discards memory and continues from the stored state. If that cannot be read, the object restarts. */
  #reload(): void {
    try {
      this.#parts.life.load();
    } catch (error) {
      this.#parts.restart(`key unreadable: ${error}`);
      throw error;
    }
  }
}
