import { type CommandContext, FenceExhaustedError, type KeyEngine, type Refusal } from "../../core/engine/index.ts";
import { type KeyLife, LostRowsError } from "./key-life.ts";
import type { Decision } from "./key-news.ts";

/** The parts of a key that running a command needs. */
interface Parts {
  readonly life: KeyLife;
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
  async use<Outcome>(missing: Outcome, decide: Decision<Outcome>): Promise<Outcome> {
    const { life } = this.#parts;
    while (life.isInTransition) await life.settled();
    return this.#runIfThere(missing, decide);
  }

  /** Like `use`, but throws for a key that has existed and lost its rows: `missing` might be wrong. */
  async useUnlessLost<Outcome>(missing: Outcome, decide: Decision<Outcome>): Promise<Outcome> {
    const { life } = this.#parts;
    while (life.isInTransition) await life.settled();
    if (life.isDoubtful || !(life.exists || life.isUnconfirmed)) await life.checkRows();
    return this.use(missing, decide);
  }

  /** Like `useUnlessLost`, for a command whose outcome may reveal a first grant: the key is listed first. */
  async useListed<Outcome>(missing: Outcome, decide: Decision<Outcome>): Promise<Outcome> {
    const { life } = this.#parts;
    if (life.isInTransition || life.isUnconfirmed) await this.#confirmed();
    return this.useUnlessLost(missing, decide);
  }

  /** Like `useListed`, but a key that has lost its rows is `missing`. */
  async useListedIfAny<Outcome>(missing: Outcome, decide: Decision<Outcome>): Promise<Outcome> {
    try {
      await this.#confirmed();
    } catch (error) {
      if (error instanceof LostRowsError) return missing;
      throw error;
    }
    return this.use(missing, decide);
  }

  /** Like `useListed`, for a command that shows a token, which itself may confirm that the key is listed. */
  async useShown<Outcome>(token: string, missing: Outcome, decide: Decision<Outcome>): Promise<Outcome> {
    return this.#parts.life.confirm(token) ? this.#runIfThere(missing, decide) : this.useListed(missing, decide);
  }

  /**
   * Runs a command on the key, founding it with `limit` first if needed and if the cap on keys allows it. Refuses if no
   * fences are left to grant.
   */
  async useFounded<Outcome>(
    limit: number,
    decide: Decision<Outcome>,
  ): Promise<Outcome | Refusal<"max_locks" | "fence_persistence">> {
    const { life } = this.#parts;
    for (;;) {
      while (life.isInTransition) await life.settled();
      const { engine, isListed } = life;
      if (engine && isListed) return this.#runUnlessExhausted(engine, decide);
      const first = await life.found(limit, decide);
      if (first) return first.outcome;
      if (!life.isListed) return { status: "max_locks" };
    }
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

  /** Resolves when the key is listed, if its first grant may have been announced. */
  async #confirmed(): Promise<void> {
    const { life } = this.#parts;
    while (life.isInTransition) await life.settled();
    if (!life.engine || !life.isUnconfirmed) return;
    await life.join(life.engine);
    while (life.isInTransition) await life.settled();
    if (life.isUnconfirmed) throw new Error("the key cannot be listed");
  }

  #runIfThere<Outcome>(missing: Outcome, decide: Decision<Outcome>): Outcome {
    const { engine, exists, isUnconfirmed } = this.#parts.life;
    return engine && (exists || isUnconfirmed) ? this.run(engine, decide) : missing;
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
