/** workerd evicts an object that has been idle for this long (70 to 140 s, workerd 2026-11). */
const ASLEEP_AFTER_MS = 150_000;
/** A key called this recently is probably still busy. */
const SETTLED_AFTER_MS = 20;
/** If it takes longer, the caller that asked the key to rest has died. */
const RESTS_WITHIN_MS = 5_000;
/** Two uses within this time, but not simultaneous, make a key a regular one. */
const REGULAR_WITHIN_MS = 60_000;
const REGULAR_AFTER_MS = 200;

/**
 * Awake keys, in the order in which they should be put to rest: first those used once, then those used regularly;
 * within each group, least recently used first. So many keys that are touched once each do not push out keys that
 * others renew all the time. At most half of the allowed keys count as regular.
 */
export class AwakeList {
  /** When each was last called, least recent first. */
  readonly #casual = new Map<string, number>();
  readonly #regular = new Map<string, number>();
  /** Keys being put to rest, and since when: their files are still open. */
  readonly #going = new Map<string, number>();
  /** When clients last used keys, and whether regularly, least recent first; includes keys at rest. */
  readonly #uses = new Map<string, { readonly at: number; readonly isRegular: boolean }>();

  has(key: string): boolean {
    return this.#casual.has(key) || this.#regular.has(key);
  }

  /** How many keys are awake, including those being put to rest. */
  count(now: number): number {
    for (const list of [this.#casual, this.#regular]) dropOlder(list, now - ASLEEP_AFTER_MS);
    for (const [key, since] of this.#going) if (now - since > RESTS_WITHIN_MS) this.#going.delete(key);
    return this.#casual.size + this.#regular.size + this.#going.size;
  }

  add(key: string, now: number): void {
    const isRegular = this.#uses.get(key)?.isRegular === true;
    this.#casual.delete(key);
    this.#regular.delete(key);
    (isRegular ? this.#regular : this.#casual).set(key, now);
  }

  /** Records that a client uses the key, which may be asleep. `max` keys may be awake. */
  use(key: string, now: number, max: number): void {
    for (const [each, { at }] of this.#uses) {
      if (now - at <= REGULAR_WITHIN_MS) break;
      this.#uses.delete(each);
    }
    const before = this.#uses.get(key);
    if (before && now - before.at < REGULAR_AFTER_MS) return;
    this.#uses.delete(key);
    this.#uses.set(key, { at: now, isRegular: before !== undefined });
    if (this.has(key)) this.add(key, now);
    if (this.#regular.size > max / 2) this.#demoteIdlest();
  }

  #demoteIdlest(): void {
    const [key, at] = this.#regular.entries().next().value ?? [];
    if (key === undefined || at === undefined) return;
    this.#regular.delete(key);
    this.#casual.set(key, at);
  }

  /** The key that should rest first. It counts as going to rest from now on. */
  takeIdlest(now: number): string | undefined {
    for (const list of [this.#casual, this.#regular]) {
      const [key, at] = list.entries().next().value ?? [];
      if (key === undefined || at === undefined || now - at < SETTLED_AFTER_MS) continue;
      list.delete(key);
      this.#going.set(key, now);
      return key;
    }
    return undefined;
  }

  /** A key that was asked to rest turned out to be busy. */
  stayed(key: string, now: number): void {
    this.#going.delete(key);
    this.add(key, now);
  }

  /** The key is at rest. If it was asleep, asking it to rest woke it briefly. */
  rested(key: string): void {
    this.#going.delete(key);
    this.#casual.delete(key);
    this.#regular.delete(key);
  }
}

function dropOlder(list: Map<string, number>, than: number): void {
  for (const [key, at] of list) {
    if (at >= than) return;
    list.delete(key);
  }
}
