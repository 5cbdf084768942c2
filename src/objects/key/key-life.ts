import { type CommandContext, type Fence, FenceExhaustedError, KeyEngine, type Slot } from "../../engine/index.ts";
import { directoryOfKey } from "../calls/directories.ts";
import { logUnreadable } from "../calls/key-file.ts";
import type { Founding, KeyAdmission } from "../directory/directory-object.ts";
import type { Env } from "../env.ts";
import type { Decision } from "./key-news.ts";
import type { KeyStore } from "./rows.ts";

/** The object that a key's life belongs to. */
interface Owner {
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

/** If the directory takes longer to list a key, its first grant begins again: a lease must not be used up before. */
const MAX_AHEAD_MS = 200;

/** The key has existed, and what it had stored is gone. */
export class LostRowsError extends Error {}

/** What the directory hears when it asks whether a key may be forgotten; see `KeyLife.retire`. */
export type Retirement =
  | { readonly status: "retired"; readonly fence: Fence }
  | { readonly status: "kept"; readonly until: number }
  /** Nothing is stored. */
  | { readonly status: "empty" };

/** Whether a key exists: its founding, its place in the directory, its pruning, and the loss of its rows. See ADR 21. */
export class KeyLife {
  readonly #owner: Owner;
  /** Undefined while the key does not exist. */
  #engine: KeyEngine | undefined;
  #isListed = false;
  #isVisited = false;
  /** Set whenever `#engine` is. */
  #foundedAt: number | undefined;
  /** The key is being founded or pruned: everything else waits until this is done. */
  #transition: Promise<void> | undefined;

  constructor(owner: Owner) {
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
    const { env, name, store } = this.#owner;
    try {
      const stored = store.load();
      this.#engine = stored && new KeyEngine(stored.key);
      this.#isVisited = stored?.isListed ?? false;
      this.#isListed = this.#isVisited && !this.#mayHaveRetired;
      this.#foundedAt = stored?.foundedAt;
    } catch (error) {
      logUnreadable(env, name, error);
      throw error;
    }
  }

  /**
   * Throws if the key has existed and has lost its rows. Finds out whether a grant stored ahead of the listing has been
   * spoken of: if the directory does not list the key, it has not, and it is taken back.
   */
  async checkRows(): Promise<void> {
    const { env, name, store } = this.#owner;
    if (this.exists || this.#transition) return;
    const isAhead = store.isUnconfirmed;
    const founding = this.#founding;
    const directory = directoryOfKey(env, name);
    const listing = await directory.listing(name, founding);
    // Something else may have settled it meanwhile.
    if (this.exists || this.#transition || this.#foundedAt !== founding.foundedAt) return;
    if (listing === "another") throw this.#lostRows();
    if (!isAhead || !store.isUnconfirmed) return;
    if (listing === "same") this.#listed();
    else this.#takeBack(0n);
  }

  /** A grant was stored ahead of the listing, and it is not known whether it was spoken of. */
  get isUnconfirmed(): boolean {
    return !this.#isListed && this.#transition === undefined && this.#owner.store.isUnconfirmed;
  }

  /** Lets a key that has lost its rows be founded again. Returns false and changes nothing if its rows are intact. */
  async giveUp(): Promise<boolean> {
    const { env, name } = this.#owner;
    while (this.#transition) await this.#transition;
    if (this.exists) return false;
    let hasGivenUp = false;
    await this.#inTransition(async () => {
      hasGivenUp = await directoryOfKey(env, name).strikeLost(name, this.#founding);
    });
    return hasGivenUp;
  }

  /** See `KeyObject.isUnfounded`. */
  isUnfounded(listedAt: number): boolean {
    const isFounding = this.#transition !== undefined || this.#owner.store.isUnconfirmed;
    return !this.exists && this.#foundedAt === listedAt && !isFounding;
  }

  /**
   * Founds the key if the cap on keys allows it, and runs the first command on it. Returns what that has decided, or
   * undefined if it has not run: then the key is listed or may not be.
   */
  async found<Outcome>(limit: number, decide: Decision<Outcome>): Promise<{ readonly outcome: Outcome } | undefined> {
    let first: { readonly outcome: Outcome } | undefined;
    await this.#inTransition(async () => {
      const ahead = this.#engine ? undefined : this.#decideAhead(limit, decide);
      if (!ahead) await this.#found(limit);
      else if (await this.#foundAhead(ahead.engine, ahead.slot)) first = ahead;
    });
    return first;
  }

  /** Prunes an idle key. The directory has stored its fence durably before the first row is deleted. */
  prune(engine: KeyEngine): Promise<void> {
    const { env, name, store } = this.#owner;
    return this.#inTransition(async () => {
      this.#isListed = false;
      this.#isVisited = false;
      store.unlist();
      await directoryOfKey(env, name).leaveKey(name, engine.lastFence, this.#founding);
      await this.#forget();
    });
  }

  /**
   * The directory wants to forget the key. If it may, the key is no longer listed as far as it knows: it asks the
   * directory again before it grants anything. After a crash it still does; see `#mayHaveRetired`.
   */
  retire(listedAt: number): Retirement {
    const engine = this.#engine;
    const { now, gcMaxIdleMs } = this.#owner.context();
    if (this.#transition) return { status: "kept", until: now + gcMaxIdleMs };
    if (!engine) return { status: "empty" };
    if (this.isUnconfirmed && this.#foundedAt === listedAt) this.#listed();
    const isUnfounded = this.isUnfounded(listedAt);
    const isDone = isUnfounded || (this.exists && engine.isPrunable({ now, gcMaxIdleMs }));
    if (!isDone || engine.hasNews) return { status: "kept", until: quietFrom(engine, now) + 2 * gcMaxIdleMs };
    this.#isListed = false;
    return { status: "retired", fence: engine.lastFence };
  }

  /** The directory has stored that it forgets the key. False if the key is in use again: then it stays. */
  async forgetRetired(): Promise<boolean> {
    if (this.#isListed || this.#transition) return false;
    const engine = this.#engine;
    if (!engine) return true;
    if ((this.exists && !engine.isPrunable(this.#owner.context())) || engine.hasNews) return false;
    await this.#inTransition(() => this.#forget());
    return true;
  }

  /**
   * The key retired before its object was lost, or may have: that it did is not stored. A key retires when it has been
   * idle for `gcMaxIdleMs`; half of that leaves room for a clock that was set back.
   */
  get #mayHaveRetired(): boolean {
    const { now, gcMaxIdleMs } = this.#owner.context();
    const since = this.#engine?.idleSince;
    return since !== undefined && (since > now || now - since > gcMaxIdleMs / 2);
  }

  get #founding(): Founding {
    return { foundedAt: this.#foundedAt, hasGranted: this.#owner.store.hasGranted };
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
      return slot && { engine, slot, outcome };
    } catch (error) {
      if (error instanceof FenceExhaustedError) return undefined;
      throw error;
    }
  }

  /**
   * Stores the first grant, has the directory list the key, and only then lets the grant be spoken of: one commit here
   * instead of two. False if the command has to run again.
   */
  async #foundAhead(engine: KeyEngine, slot: Slot): Promise<boolean> {
    const { env, name, store } = this.#owner;
    const foundedAt = Date.now();
    store.begin({ limit: engine.limit, fence: 0n, foundedAt }, slot);
    this.#foundedAt = foundedAt;
    this.#engine = engine;
    this.#owner.wakeFor(engine);
    let admission: KeyAdmission;
    try {
      admission = await directoryOfKey(env, name).joinKey(name, 0n, this.#founding);
    } catch (error) {
      // The directory may list the key: this founding must stay known.
      this.#takeBack(0n);
      throw error;
    }
    if (!admission.isAdmitted) {
      await this.#forget();
      if (admission.hasLostRows) throw this.#lostRows();
    } else if (admission.fence >= engine.lastFence || this.#owner.context().now - slot.since > MAX_AHEAD_MS) {
      // An earlier life of the key may have granted this fence, or the lease has been running for too long.
      this.#listed();
      this.#takeBack(admission.fence);
      store.confirm();
    } else {
      this.#listed();
      this.#owner.stored(engine);
      return true;
    }
    return false;
  }

  #listed(): void {
    this.#isListed = true;
    this.#isVisited = true;
    this.#owner.store.confirm();
  }

  /** Undoes a grant that nobody has heard of. The founding stays. */
  #takeBack(fence: Fence): void {
    const limit = this.#engine?.limit ?? 1;
    const foundedAt = this.#foundedAt ?? Date.now();
    this.#owner.store.begin({ limit, fence, foundedAt });
    this.#engine = newEngine(limit, fence, foundedAt);
    // Prune the key in time, like any other unused key.
    this.#owner.wakeFor(this.#engine);
  }

  /**
   * Has the directory list the key. The key's own row is stored before the directory is asked, and both record
   * `foundedAt`. So if the directory lists the key with a different `foundedAt`, the key has lost its rows. It may be
   * held, so nothing is granted until an operator gives it up.
   */
  async #found(limit: number): Promise<void> {
    const { env, name, store } = this.#owner;
    const isNew = !store.hasGranted;
    const engine = (!isNew && this.#engine) || this.#begin(limit);
    // Never the same as before: the directory may be about to forget that founding.
    if (!isNew) this.#foundedAt = Math.max(Date.now(), (this.#foundedAt ?? 0) + 1);
    const foundedAt = this.#foundedAt as number;
    try {
      const admission = await directoryOfKey(env, name).joinKey(name, engine.lastFence, this.#founding);
      if (admission.isAdmitted) {
        engine.raiseFence(admission.fence);
        if (!isNew) store.relist({ limit: engine.limit, fence: engine.lastFence, foundedAt });
        this.#listed();
      } else if (admission.hasLostRows) throw this.#lostRows();
      else if (isNew) await this.#forget();
    } catch (error) {
      // Prune the key in time, like any other unused key.
      this.#owner.wakeFor(engine);
      throw error;
    }
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
    logUnreadable(this.#owner.env, this.#owner.name, error);
    return error;
  }

  async #forget(): Promise<void> {
    this.#engine = undefined;
    this.#foundedAt = undefined;
    this.#isListed = false;
    this.#isVisited = false;
    this.#owner.forget();
    await this.#owner.store.deleteAll();
  }
}

/** From when on the key may be idle: the end of its leases. */
function quietFrom(engine: KeyEngine, now: number): number {
  if (engine.idleSince !== undefined) return engine.idleSince;
  return engine.view().holders.reduce((last, { expiresAt }) => Math.max(last, expiresAt), now);
}

function newEngine(limit: number, fence: Fence, lastActivity: number): KeyEngine {
  return new KeyEngine({ limit, fence, lastActivity, slots: [], waiters: [], lapsed: [] });
}
