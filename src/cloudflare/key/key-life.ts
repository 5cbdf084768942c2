import { type CommandContext, type Fence, FenceExhaustedError, KeyEngine, type Slot } from "../../core/engine/index.ts";
import { log } from "../../log.ts";
import { directoryOfKey } from "../calls/directories.ts";
import type { Founding } from "../directory/directory-object.ts";
import type { Env } from "../env.ts";
import { type Admission, askToList } from "./admission.ts";
import type { Decision } from "./key-news.ts";
import type { KeyStore } from "./rows.ts";

/** What the key object gives `KeyLife` to work with. */
interface KeyObjectParts {
  readonly env: Env;
  readonly name: string;
  readonly store: KeyStore;
  context(): CommandContext;
  /** Wakes the object when something must be done at the key. */
  wakeFor(engine: KeyEngine): void;
  /** What the engine has to tell may be told. */
  stored(engine: KeyEngine): void;
  /** Discards what is remembered of a key that no longer exists. */
  forget(): void;
}

/** If the directory takes longer to list a key, its first grant begins again: its lease has been running meanwhile. */
const MAX_AHEAD_MS = 200;

/** A key that has been idle for longer has to join again when it wakes, however long idle keys are kept. */
const MAX_TRUSTED_MS = 30_000;

/** The key has existed, and what it had stored is gone. */
export class LostRowsError extends Error {}

/** What the directory hears when it asks whether a key may be forgotten; see `KeyLife.retire`. */
export type Retirement =
  | { readonly status: "retired"; readonly fence: Fence }
  /** It is in use, or was until recently. `until` is the end of its leases. */
  | { readonly status: "kept"; readonly until: number }
  /** It is being founded or deleted. */
  | { readonly status: "busy" }
  /** Nothing is stored under this listing. */
  | { readonly status: "empty" };

/** Whether a key exists: its founding, its place in the directory, its pruning, and the loss of its rows. See ADR 21. */
export class KeyLife {
  readonly #owner: KeyObjectParts;
  /** Undefined while the key does not exist. */
  #engine: KeyEngine | undefined;
  /** Nothing may be granted otherwise. */
  #isListed = false;
  #isVisited = false;
  /** Set whenever `#engine` is. */
  #foundedAt: number | undefined;
  /** The directory lists no other founding, so this one is not what followed a loss. False until asked. */
  #isWhole = false;
  /** The question to which the key has answered that it may be deleted. Undefined if it has joined since. */
  #agreedTo: string | undefined;
  /** The key is being founded or pruned: everything else waits until this is done. */
  #transition: Promise<void> | undefined;
  /** The directory is being asked to list a key that may be held: a holder that shows its token does not wait. */
  #servesHolder = false;

  constructor(owner: KeyObjectParts) {
    this.#owner = owner;
  }

  get engine(): KeyEngine | undefined {
    return this.#engine;
  }

  get isListed(): boolean {
    return this.#isListed;
  }

  /** False if nothing is stored, or only that the key is being founded: then it has no holders or waiters. */
  get exists(): boolean {
    return this.#isListed || this.#owner.store.hasGranted;
  }

  /** The first grant is stored, and its holder may or may not have been told. */
  get isUnconfirmed(): boolean {
    return !this.#isListed && this.#transition === undefined && this.#owner.store.isUnconfirmed;
  }

  /** The same, and it may have been stored after a loss of what the key had stored before. */
  get isDoubtful(): boolean {
    return this.isUnconfirmed && !this.#isWhole;
  }

  /** The directory lists the key since `listedAt`. */
  heardOfListing(listedAt: number): void {
    if (listedAt === this.#foundedAt) this.#isWhole = true;
  }

  /** The directory looks after the key from time to time. Otherwise the key has to wake up by itself to be pruned. */
  get isVisited(): boolean {
    return this.#isVisited;
  }

  get isInTransition(): boolean {
    return this.#transition !== undefined;
  }

  /** Resolves when the transition under way, if any, is over. Another may have begun by then: look again. */
  async settled(): Promise<void> {
    await this.#transition;
  }

  /** Loads the stored state, discarding memory. Throws if it is unreadable. */
  load(): void {
    const { name, store } = this.#owner;
    try {
      const stored = store.load();
      this.#engine = stored && new KeyEngine(stored.key);
      this.#isVisited = stored?.isListed ?? false;
      this.#isListed = this.#isVisited && !this.#mayHaveRetired;
      this.#foundedAt = stored?.foundedAt;
      this.#isWhole = false;
      this.#agreedTo = undefined;
    } catch (error) {
      logUnreadable(name, error);
      throw error;
    }
  }

  /** Throws if the key has existed and has lost its rows. */
  async checkRows(): Promise<void> {
    const { env, name } = this.#owner;
    if (this.exists) return;
    const founding = this.#founding;
    const isLost = await directoryOfKey(env, name).listsAnother(name, founding);
    if (isLost && !this.exists && !this.#transition) throw this.#lostRows();
    if (!isLost && founding.foundedAt !== undefined) this.#isWhole = founding.foundedAt === this.#foundedAt;
  }

  /** Lets a key that has lost its rows be founded again. Returns false and changes nothing if its rows are intact. */
  async giveUp(): Promise<boolean> {
    const { env, name } = this.#owner;
    while (this.#transition) await this.#transition;
    if (this.exists) return false;
    let hasGivenUp = false;
    await this.#inTransition(async () => {
      hasGivenUp = await directoryOfKey(env, name).strikeLost(name, this.#founding);
      if (hasGivenUp && this.#engine) await this.#forget();
    });
    return hasGivenUp;
  }

  /**
   * Founds the key if the cap on keys allows it, and runs the first command on it. Returns what that has decided, or
   * undefined if it has not run: then the key is listed or may not be.
   */
  async found<Outcome>(limit: number, decide: Decision<Outcome>): Promise<{ readonly outcome: Outcome } | undefined> {
    let first: { readonly outcome: Outcome } | undefined;
    await this.#inTransition(async () => {
      const ahead = this.#engine ? undefined : this.#decideAhead(limit, decide);
      if (!ahead) await this.#join(limit);
      else if (await this.#foundAhead(ahead.engine, ahead.slot)) first = ahead;
    });
    return first;
  }

  /**
   * Confirms a first grant if this is its token: its sender was told of it, so the directory had listed the key before.
   * There is no need to ask the directory again, or to wait for it. False if the key is not to be used in this way.
   */
  confirm(token: string): boolean {
    if (!(this.#servesHolder || this.isUnconfirmed) || !this.#engine?.knows(token)) return false;
    this.#listed();
    return true;
  }

  /** Has the directory list a key that may not be listed. Does nothing if the cap on keys does not allow it. */
  join(engine: KeyEngine): Promise<void> {
    return this.#inTransition(() => this.#join(engine.limit));
  }

  /**
   * The directory lists the key since `listedAt`, and wants to forget it. Once the key has agreed, it grants nothing
   * before it has joined the directory again. After a crash it still does not; see `#mayHaveRetired`.
   */
  retire(listedAt: number, question: string, tick: (engine: KeyEngine) => void): Retirement {
    const { store } = this.#owner;
    const engine = this.#engine;
    if (this.#transition) return { status: "busy" };
    this.#agreedTo = undefined;
    if (!engine) return { status: "empty" };
    if (!this.exists && this.#foundedAt !== listedAt) {
      // It joins when its own alarm comes, at the latest.
      tick(engine);
      return { status: "busy" };
    }
    if (store.isUnconfirmed) this.#listed();
    tick(engine);
    const isDone = store.hasGranted ? engine.isPrunable(this.#owner.context()) : engine.idleSince !== undefined;
    if (!isDone || engine.hasNews) return { status: "kept", until: endOfLeases(engine) };
    this.#isListed = false;
    this.#agreedTo = question;
    return { status: "retired", fence: engine.lastFence };
  }

  /** Deletes the key if it agreed to be forgotten, and has not joined again or lost its memory since. */
  async forgetRetired(question: string): Promise<boolean> {
    if (this.#transition) return false;
    if (!this.#engine) return true;
    if (this.#agreedTo !== question) return false;
    await this.#inTransition(() => this.#forget());
    return true;
  }

  /**
   * The key has agreed to be forgotten before its object was lost, or may have: that is not stored. A key agrees when it
   * has been idle for `gcMaxIdleMs`; half of that leaves room for a clock that was set back. It may have been less when
   * the key agreed, so not more than the half of its default.
   */
  get #mayHaveRetired(): boolean {
    const { now, gcMaxIdleMs } = this.#owner.context();
    const since = this.#engine?.idleSince;
    return since !== undefined && (since > now || now - since > Math.min(gcMaxIdleMs / 2, MAX_TRUSTED_MS));
  }

  get #founding(): Founding {
    const { hasGranted, isUnconfirmed } = this.#owner.store;
    const firstFence = isUnconfirmed ? this.#engine?.lastFence : undefined;
    return { foundedAt: this.#foundedAt, hasGranted, firstFence };
  }

  /** Runs a change of the key's existence that involves other objects, holding back everything else. */
  #inTransition(change: () => Promise<void>): Promise<void> {
    const transition = change().finally(() => {
      this.#transition = undefined;
    });
    this.#transition = transition.catch(() => {});
    return transition;
  }

  /** What the command decides on a new key, if it is a grant and nothing else. */
  #decideAhead<Outcome>(limit: number, decide: Decision<Outcome>) {
    const { store } = this.#owner;
    const context = this.#owner.context();
    const engine = newEngine(limit, 0n, context.now);
    try {
      const outcome = decide(engine, context);
      const slot = store.isCompact(engine.takeChanges());
      return slot?.isReported ? { engine, slot, outcome } : undefined;
    } catch (error) {
      if (error instanceof FenceExhaustedError) return undefined;
      throw error;
    }
  }

  /**
   * Stores the first grant, has the directory list the key, and only then lets the grant be announced: one commit here
   * instead of two. False if the command has to run again.
   */
  async #foundAhead(engine: KeyEngine, slot: Slot): Promise<boolean> {
    const { store } = this.#owner;
    const foundedAt = Date.now();
    store.begin({ limit: engine.limit, fence: 0n, foundedAt }, slot);
    this.#foundedAt = foundedAt;
    this.#engine = engine;
    let admission: Admission;
    try {
      admission = await this.#askToList();
    } catch (error) {
      // The directory may list the key: this founding must stay known. Prune the key in time, like any other unused key.
      this.#owner.wakeFor(this.#takeBack(0n));
      throw error;
    }
    if (admission.status === "listed") {
      this.#listed();
      if (this.#owner.context().now - slot.since <= MAX_AHEAD_MS) {
        this.#owner.wakeFor(engine);
        this.#owner.stored(engine);
        return true;
      }
      this.#takeBack(admission.fence);
    } else if (admission.status === "fence_too_low") {
      this.#takeBack(admission.fence);
      await this.#join(engine.limit);
    } else {
      await this.#forget();
      if (admission.status === "lost_rows") throw this.#lostRows();
    }
    return false;
  }

  /** Undoes a grant that was not announced. The founding stays. */
  #takeBack(fence: Fence): KeyEngine {
    const limit = this.#engine?.limit ?? 1;
    const foundedAt = this.#foundedAt ?? Date.now();
    this.#owner.store.begin({ limit, fence, foundedAt });
    this.#engine = newEngine(limit, fence, foundedAt);
    return this.#engine;
  }

  /**
   * Has the directory list the key. What is stored here is durable before the directory is asked, and both record
   * `foundedAt`. So if the directory lists the key with a different `foundedAt`, the key has lost its rows. It may be
   * held, so nothing is granted until an operator gives it up.
   */
  async #join(limit: number): Promise<void> {
    const { store } = this.#owner;
    const engine = ((store.hasGranted || store.isUnconfirmed) && this.#engine) || this.#begin(limit);
    let admission: Admission;
    try {
      this.#servesHolder = store.isUnconfirmed;
      admission = await this.#askToList();
    } catch (error) {
      // Prune the key in time, like any other unused key.
      this.#owner.wakeFor(engine);
      throw error;
    } finally {
      this.#servesHolder = false;
    }
    engine.tick(this.#owner.context());
    const isIdle = engine.idleSince !== undefined;
    if (admission.status === "listed") {
      engine.raiseFence(admission.fence);
      if (store.isUnconfirmed) store.confirmSoon();
      this.#listed();
    } else if (admission.status === "fence_too_low") {
      if (!isIdle) throw new Error("the key cannot be listed before its first hold has ended");
      this.#takeBack(admission.fence);
      await this.#join(limit);
    } else {
      if (!store.hasGranted && isIdle) await this.#forget();
      if (admission.status === "lost_rows") throw this.#lostRows();
    }
  }

  #askToList(): Promise<Admission> {
    this.#agreedTo = undefined;
    return askToList(this.#owner.env, this.#owner.name, () => this.#founding);
  }

  #listed(): void {
    this.#isListed = true;
    this.#isVisited = true;
    this.#agreedTo = undefined;
    this.#owner.store.confirm();
  }

  /** A key that has granted nothing yet takes the limit of the first request. */
  #begin(limit: number): KeyEngine {
    const foundedAt = this.#foundedAt ?? Date.now();
    const fence = this.#engine?.lastFence ?? 0n;
    if (this.#engine?.limit !== limit) this.#owner.store.begin({ limit, fence, foundedAt });
    this.#foundedAt = foundedAt;
    this.#engine = newEngine(limit, fence, foundedAt);
    return this.#engine;
  }

  #lostRows(): LostRowsError {
    const error = new LostRowsError("the key is listed, but its stored rows are gone");
    logUnreadable(this.#owner.name, error);
    return error;
  }

  async #forget(): Promise<void> {
    this.#engine = undefined;
    this.#foundedAt = undefined;
    this.#isWhole = false;
    this.#isListed = false;
    this.#isVisited = false;
    this.#agreedTo = undefined;
    this.#owner.forget();
    try {
      await this.#owner.store.deleteAll();
    } catch (error) {
      this.load();
      throw error;
    }
  }
}

function endOfLeases(engine: KeyEngine): number {
  return engine.view().holders.reduce((last, { expiresAt }) => Math.max(last, expiresAt), 0);
}

function newEngine(limit: number, fence: Fence, lastActivity: number): KeyEngine {
  return new KeyEngine({ limit, fence, lastActivity, slots: [], waiters: [], lapsed: [] });
}

/** One of the few events that name a key: an operator has to look at it. */
function logUnreadable(key: string, error: unknown): void {
  log("error", "key_unreadable", { key, error: String(error) }, key);
}
