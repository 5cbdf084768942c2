/** The part of a session's storage that remembers the keys it has used. */
export interface KeyMemory {
  /** Stores the key. True if it was not yet stored when the session's object started. */
  touch(key: string): boolean;
  forget(keys: readonly string[]): void;
}

/** Keys with nothing left on them are removed from storage in batches of this size. */
const FORGET_AT_ONCE = 64;

/** Stands for anything the session had on a key before its object slept. */
const UNKNOWN = "unknown";

/**
 * What a session may still have on which key: requests in flight, tokens, two-phase places, each under a unique name. A
 * key is stored before its first use and may be forgotten when nothing is left on it, so that a session that uses a
 * million keys in its life does not have to visit a million when it ends. What it had on keys before a sleep is unknown
 * here, so such keys stay stored.
 */
export class Holdings {
  readonly #memory: KeyMemory;
  readonly #things = new Map<string, Set<string>>();
  readonly #spent = new Set<string>();

  constructor(memory: KeyMemory) {
    this.#memory = memory;
  }

  /** Must be called before the request reaches the key. */
  add(key: string, thing: string): void {
    const isKnownWhole = this.#memory.touch(key);
    this.#spent.delete(key);
    const things = this.#things.get(key);
    if (things) things.add(thing);
    else this.#things.set(key, new Set(isKnownWhole ? [thing] : [thing, UNKNOWN]));
  }

  /** Replaces one thing by another, such as a request by the token it was granted. */
  turn(key: string, from: string, to: string): void {
    this.add(key, to);
    this.drop(key, from);
  }

  /** Whether the session certainly has nothing on a key that it has stored. */
  isSpent(key: string): boolean {
    return this.#spent.has(key);
  }

  drop(key: string, thing: string): void {
    const things = this.#things.get(key);
    if (!things?.delete(thing) || things.size > 0) return;
    this.#things.delete(key);
    this.#spent.add(key);
    if (this.#spent.size < FORGET_AT_ONCE) return;
    this.#memory.forget([...this.#spent]);
    this.#spent.clear();
  }
}
