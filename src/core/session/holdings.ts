import type { SessionContext } from "./context.ts";

/** Keys with nothing left on them are removed from storage in batches of this size. */
const FORGET_AT_ONCE = 64;

/** The name of a two-phase place among a session's things on a key. */
export const PLACE = "place";

/** Stands for anything the session had on a key before its object slept. */
const UNKNOWN = "unknown";

/**
 * What a session may still have on which key: requests in flight, tokens, two-phase places, each under a unique name. A
 * key is stored before its first use and may be forgotten when nothing is left on it, so that a session that uses a
 * million keys in its life does not have to visit a million when it ends. What it had on keys before a sleep is unknown
 * here, so such keys stay stored.
 */
export class Holdings {
  readonly #context: SessionContext;
  /** Mostly one thing on each key, and then it stands for itself; null: nothing is left, and the key may be forgotten. */
  readonly #things = new Map<string, string | Set<string> | null>();
  #spent = 0;
  /** Keys known to be stored, and whether they were new then. */
  readonly #stored = new Map<string, boolean>();
  /** Everything stored has been deleted: nothing may be stored any longer. */
  #isClosed = false;

  constructor(context: SessionContext) {
    this.#context = context;
  }

  /** Must be called before the request reaches the key. */
  add(key: string, thing: string): void {
    const isKnownWhole = this.#store(key);
    const things = this.#things.get(key);
    if (things === null) this.#spent -= 1;
    if (things instanceof Set) things.add(thing);
    else if (typeof things === "string") this.#things.set(key, new Set([things, thing]));
    else this.#things.set(key, isKnownWhole ? thing : new Set([thing, UNKNOWN]));
  }

  /**
   * A request was granted this token. A request that has been withdrawn meanwhile leaves nothing; one that has been
   * repeated meanwhile, `isLatest` false, may be granted another.
   */
  granted(key: string, request: string, token: string, { isLatest }: { readonly isLatest: boolean }): void {
    if (!this.#has(key, request)) return;
    this.add(key, token);
    if (isLatest) this.drop(key, request);
  }

  /** The key has taken a `wait`: what the session has there is this request, and no longer its place. */
  waits(key: string, request: string, { endsPlace }: { readonly endsPlace: boolean }): void {
    this.add(key, request);
    if (endsPlace) this.drop(key, PLACE);
  }

  /** Whether a place was taken on the key since the session's object started, and has not been seen to go. */
  hasNewPlace(key: string): boolean {
    return this.#has(key, PLACE);
  }

  drop(key: string, thing: string): void {
    const things = this.#things.get(key);
    if (things instanceof Set ? !things.delete(thing) || things.size > 0 : things !== thing) return;
    this.#things.set(key, null);
    this.#spent += 1;
    if (this.#spent >= FORGET_AT_ONCE) this.#forgetSpent();
  }

  /** Stored keys on which the session may still have something. */
  keysToLeave(): readonly string[] {
    // Those of the running command are not stored yet.
    const keys = new Set([...this.#context.records.keys(), ...this.#stored.keys()]);
    return [...keys].filter((key) => this.#things.get(key) !== null);
  }

  forget(keys: readonly string[]): void {
    if (this.#isClosed || keys.length === 0) return;
    for (const key of keys) this.#stored.delete(key);
    this.#context.emit({ type: "forgetKeys", keys });
  }

  close(): void {
    this.#isClosed = true;
    this.#stored.clear();
  }

  #forgetSpent(): void {
    const spent = [...this.#things.keys()].filter((key) => this.#things.get(key) === null);
    for (const key of spent) this.#things.delete(key);
    this.#spent = 0;
    this.forget(spent);
  }

  #has(key: string, thing: string): boolean {
    const things = this.#things.get(key);
    return things instanceof Set ? things.has(thing) : things === thing;
  }

  /** True if the key was not yet stored when the session's object started. */
  #store(key: string): boolean {
    const known = this.#stored.get(key);
    if (known !== undefined || this.#isClosed) return known ?? true;
    const isNew = !this.#context.records.hasKey(key);
    this.#stored.set(key, isNew);
    // Also if it is stored: an earlier effect of the running command may forget it.
    this.#context.emit({ type: "storeKey", key });
    return isNew;
  }
}
