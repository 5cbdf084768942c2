import { KeyEngine } from "../../engine/index.ts";
import { directoryOfKey } from "../calls/directories.ts";
import { logUnreadable } from "../calls/key-file.ts";
import type { Founding } from "../directory/directory-object.ts";
import type { Env } from "../env.ts";
import type { KeyStore } from "./rows.ts";

/** The object that a key's life belongs to. */
interface Owner {
  readonly env: Env;
  readonly name: string;
  readonly store: KeyStore;
  /** Wakes the object when something must be done at the key. */
  wakeFor(engine: KeyEngine): void;
  /** Discards what is remembered of a key that no longer exists. */
  forget(): void;
}

/** Whether a key exists: its founding, its place in the directory, its pruning, and the loss of its rows. */
export class KeyLife {
  readonly #owner: Owner;
  /** Undefined while the key does not exist. */
  #engine: KeyEngine | undefined;
  #isListed = false;
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
      this.#isListed = stored?.isListed ?? false;
      this.#foundedAt = stored?.foundedAt;
    } catch (error) {
      logUnreadable(env, name, error);
      throw error;
    }
  }

  /** Throws if the key has existed and has lost its rows. */
  async checkRows(): Promise<void> {
    const { env, name } = this.#owner;
    if (this.exists) return;
    const isLost = await directoryOfKey(env, name).listsAnother(name, this.#founding);
    if (isLost && !this.exists && !this.#transition) throw this.#lostRows();
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
    return !this.exists && this.#foundedAt === listedAt && this.#transition === undefined;
  }

  /** Founds the key if the cap on keys allows it. */
  found(limit: number): Promise<void> {
    return this.#inTransition(() => this.#found(limit));
  }

  /** Prunes an idle key. The directory has stored its fence durably before the first row is deleted. */
  prune(engine: KeyEngine): Promise<void> {
    const { env, name, store } = this.#owner;
    return this.#inTransition(async () => {
      this.#isListed = false;
      store.unlist();
      await directoryOfKey(env, name).leaveKey(name, engine.lastFence, this.#founding);
      await this.#forget();
    });
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

  /**
   * Has the directory list the key. The key's own row is stored before the directory is asked, and both record
   * `foundedAt`. So if the directory lists the key with a different `foundedAt`, the key has lost its rows. It may be
   * held, so nothing is granted until an operator gives it up.
   */
  async #found(limit: number): Promise<void> {
    const { env, name, store } = this.#owner;
    const isNew = !store.hasGranted;
    const engine = (!isNew && this.#engine) || this.#begin(limit);
    if (!isNew) this.#foundedAt = Date.now();
    const foundedAt = this.#foundedAt as number;
    try {
      const admission = await directoryOfKey(env, name).joinKey(name, engine.lastFence, this.#founding);
      if (admission.isAdmitted) {
        engine.raiseFence(admission.fence);
        if (!isNew) store.relist({ limit: engine.limit, fence: engine.lastFence, foundedAt });
        this.#isListed = true;
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
    this.#engine = new KeyEngine({ limit, fence, lastActivity: foundedAt, slots: [], waiters: [], lapsed: [] });
    return this.#engine;
  }

  #lostRows(): Error {
    const error = new Error("the key is listed, but its stored rows are gone");
    logUnreadable(this.#owner.env, this.#owner.name, error);
    return error;
  }

  async #forget(): Promise<void> {
    this.#engine = undefined;
    this.#foundedAt = undefined;
    this.#owner.forget();
    await this.#owner.store.deleteAll();
  }
}
