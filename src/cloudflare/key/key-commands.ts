import {
  type Changes,
  type CommandContext,
  FenceExhaustedError,
  fenceBefore,
  type KeyCommandOf,
  type KeyCommandType,
  KeyEngine,
  type KeyOutcomeOf,
  limitIfNew,
  nextFence,
  outcomeWithoutKey,
  perform,
  type StoredKey,
  timeOfFence,
} from "../../core/engine/index.ts";
import { log } from "../../log.ts";
import type { KeyListing } from "./key-listing.ts";

/** What a command decides, and its outcome. */
export type Decision<Outcome> = (engine: KeyEngine, context: CommandContext) => Outcome;

/**
 * A key keeps its rows for at least this long after its last use, because its fence is in them: a clock that is set back by
 * less cannot make a fence fall.
 */
const KEPT_MS = 3_600_000;
/** Most keys are used for a few minutes, so an alarm that comes this much later finds them old enough. */
const LATER = 1.1;
/** A key that could not be deleted is looked at again after this time. */
const PRUNE_RETRY_MS = 60_000;

/** A key as loaded. */
export interface LoadedKey {
  readonly key: StoredKey;
  /** The directory has listed this key. */
  readonly isListed: boolean;
}

/** A key's rows. */
export interface KeyRows {
  /** False if nothing is stored. */
  readonly isStored: boolean;
  /** The key as stored, or undefined if it does not exist. */
  load(): LoadedKey | undefined;
  /** A key begins to exist. It is stored with the first change. */
  found(key: Pick<StoredKey, "limit" | "fence" | "lastActivity">): void;
  /** Writes all changes of one command, or none of them. */
  write(changes: Changes): void;
  /** Deletes everything, including the alarm. */
  deleteAll(): Promise<void>;
}

/** The parts of a key that running a command needs. */
interface Parts {
  readonly name: string;
  readonly store: KeyRows;
  readonly listing: KeyListing;
  /** A cap on keys is set: a new key asks the directory before it grants anything. */
  readonly isCapped: boolean;
  context(): CommandContext;
  /** Makes sure that the object wakes at this time of the key's clock or earlier. */
  wakeBy(time: number): void;
  /** What the engine has to tell may be told. */
  stored(engine: KeyEngine): void;
  /** Discards what is remembered of a key that no longer exists. */
  forget(): void;
  restart(why: string): void;
}

/** Runs commands on a key: decide, store, then answer, in one synchronous step. */
export class KeyCommands {
  readonly #parts: Parts;
  /** Undefined while nothing is stored. */
  #engine: KeyEngine | undefined;
  #deleting: Promise<void> | undefined;

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  get engine(): KeyEngine | undefined {
    return this.#engine;
  }

  /** Loads the stored state, discarding memory. Throws if it is unreadable. */
  load(): void {
    const { name, store, listing } = this.#parts;
    try {
      const stored = store.load();
      this.#engine = stored && new KeyEngine(stored.key);
      listing.loaded(stored?.isListed === true && !this.#mayBeUnlisted);
    } catch (error) {
      // One of the few events that name a key: an operator has to look at it.
      log("error", "key_unreadable", { key: name, error: String(error) }, name);
      throw error;
    }
  }

  /** Carries out a command. The key begins to exist if need be, and if the cap on keys allows it. */
  async carryOut<Type extends KeyCommandType>(command: KeyCommandOf<Type>): Promise<KeyOutcomeOf<Type>> {
    const limit = limitIfNew<Type>(command);
    const decide: Decision<KeyOutcomeOf<Type>> = (engine, context) => perform<Type>(engine, command, context);
    if (limit === undefined) return this.use(outcomeWithoutKey<Type>(command), decide);
    const { listing, context } = this.#parts;
    for (;;) {
      while (this.#deleting) await this.#deleting;
      try {
        if (!this.#mustAsk) return this.#runOrFound(limit, decide);
        const { now, fenceFloor } = context();
        const fence = nextFence(this.#engine?.lastFence ?? 0n, fenceFloor, now);
        if (!(await listing.admit(fence))) return outcomeWithoutKey<Type>(command);
      } catch (error) {
        if (error instanceof FenceExhaustedError) return outcomeWithoutKey<Type>(command, "fence_persistence");
        throw error;
      }
    }
  }

  /**
   * Decides something about a key that exists; returns `missing` for one that does not. It waits for the directory's answer
   * to a request that came before it: a client that leaves must not overtake what it has asked for.
   */
  async use<Outcome>(missing: Outcome, decide: Decision<Outcome>): Promise<Outcome> {
    for (;;) {
      const pending = this.#deleting ?? this.#parts.listing.asking;
      if (!pending) return this.#useNow(missing, decide);
      await pending;
    }
  }

  /** Like `use`, for the directory: it may be what the key waits for. */
  async look<Outcome>(missing: Outcome, decide: Decision<Outcome>): Promise<Outcome> {
    while (this.#deleting) await this.#deleting;
    return this.#useNow(missing, decide);
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

  /** Deletes the key if it has been idle for long enough. True if it has. */
  async prune(): Promise<boolean> {
    const { listing, wakeBy } = this.#parts;
    const engine = this.#engine;
    if (!engine) return false;
    if (!this.#mayDelete(engine) || listing.isPending) {
      wakeBy(this.#nextLook(engine));
      return false;
    }
    const isUnlisted = await listing.unlist(engine.lastFence);
    // From here on one synchronous step: the key may have been used, or read again, while the directory was asked.
    const current = this.#engine;
    if (!current) return false;
    if (current !== engine || !isUnlisted || !this.#mayDelete(engine)) {
      if (current.idleSince === undefined && !listing.isListed) listing.list(current.lastFence);
      wakeBy(this.#nextLook(current));
      return false;
    }
    const deleting = this.#deleteAll();
    this.#deleting = deleting
      .catch(() => {})
      .finally(() => {
        this.#deleting = undefined;
      });
    await deleting;
    return true;
  }

  #useNow<Outcome>(missing: Outcome, decide: Decision<Outcome>): Outcome {
    return this.#engine ? this.run(this.#engine, decide) : missing;
  }

  #runOrFound<Outcome>(limit: number, decide: Decision<Outcome>): Outcome {
    if (this.#engine) return this.run(this.#engine, decide);
    const { store, listing, context } = this.#parts;
    const { now } = context();
    // Earlier rows of this key may have been deleted, but none with a higher fence.
    const founded = { limit, fence: fenceBefore(now), lastActivity: now };
    const engine = new KeyEngine({ ...founded, slots: [], waiters: [], lapsed: [] });
    store.found(founded);
    this.#engine = engine;
    try {
      return this.run(engine, decide);
    } finally {
      // A command that has changed nothing leaves nothing behind.
      if (!store.isStored) {
        listing.withdraw();
        this.load();
      }
    }
  }

  /** A new key, or one that is idle and gave up its place, needs a place under the cap. */
  get #mustAsk(): boolean {
    const { isCapped, listing } = this.#parts;
    if (!isCapped || listing.isListed) return false;
    if (this.#engine) this.run(this.#engine, (engine, context) => engine.tick(context));
    return this.#engine?.idleSince !== undefined || !this.#engine;
  }

  /** Its entry may have been removed before its memory was lost, because it is idle. */
  get #mayBeUnlisted(): boolean {
    const { now } = this.#parts.context();
    const since = this.#engine?.idleSince;
    // The half of it leaves room for a clock that was set back.
    return since !== undefined && (since > now || now - since > KEPT_MS / 2);
  }

  /** The key has not been used for long enough, and a grant after its deletion would have a higher fence. */
  #mayDelete(engine: KeyEngine): boolean {
    const { now, gcMaxIdleMs, fenceFloor } = this.#parts.context();
    const isIdle = engine.isPrunable({ now, gcMaxIdleMs: Math.max(gcMaxIdleMs, KEPT_MS) });
    const isPassed = engine.lastFence <= fenceFloor || timeOfFence(engine.lastFence) < now;
    return isIdle && isPassed && !engine.hasNews;
  }

  /** One alarm serves a key's whole life: it is set with the first row, and again when it has fired. */
  #nextWake(engine: KeyEngine): number {
    const { now, gcMaxIdleMs } = this.#parts.context();
    const keptMs = Math.max(gcMaxIdleMs, KEPT_MS) * LATER;
    return Math.min(engine.nextWake({ gcMaxIdleMs: keptMs, graceMs: 0 }), now + keptMs);
  }

  /** The same for a key that is not deleted now, although it may be time. */
  #nextLook(engine: KeyEngine): number {
    const { now } = this.#parts.context();
    const next = this.#nextWake(engine);
    if (engine.idleSince === undefined || engine.hasNews) return next;
    // A clock that was set back may be behind the key's fence for long.
    const isPassedAt = Math.min(timeOfFence(engine.lastFence) + 1, now + KEPT_MS);
    return Math.max(next, now + PRUNE_RETRY_MS, isPassedAt);
  }

  #commit(engine: KeyEngine): void {
    const { store, listing, stored, wakeBy } = this.#parts;
    try {
      store.write(engine.takeChanges());
      if (store.isStored) wakeBy(this.#nextLook(engine));
    } catch (error) {
      this.#reload();
      throw error;
    }
    stored(engine);
    if (!listing.isListed && store.isStored && engine.idleSince === undefined) listing.list(engine.lastFence);
  }

  /** Discards memory and continues from the stored state. If that cannot be read, the object restarts. */
  #reload(): void {
    try {
      this.load();
    } catch (error) {
      this.#parts.restart(`key unreadable: ${error}`);
      throw error;
    }
  }

  async #deleteAll(): Promise<void> {
    this.#engine = undefined;
    this.#parts.forget();
    try {
      await this.#parts.store.deleteAll();
    } catch (error) {
      this.load();
      throw error;
    }
  }
}
