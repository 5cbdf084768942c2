import { compareBytes } from "../core/byte-order.ts";
import { KeyTotals } from "../core/key/key-gauges.ts";
import type { KeyPage, KeyRange, KeyReport } from "../service.ts";
import type { Keys } from "./keys.ts";

const MIN_REMOVED = 1_000;

/** The names of all keys in the order of their bytes. Sorted only when they are read. */
export class KeyNames {
  #sorted: readonly string[] = [];
  /** A name may be among them twice, and in `#sorted`, too: its key was deleted and created again. */
  #added: string[] = [];
  /** Names of keys that are gone, at most. */
  #removed = 0;
  readonly #keys: Keys;

  constructor(keys: Keys) {
    this.#keys = keys;
  }

  added(name: string): void {
    this.#added.push(name);
  }

  /** Deleted names are cleared away before they outnumber the others. */
  removed(): void {
    this.#removed += 1;
    if (this.#removed < MIN_REMOVED || this.#removed < (this.#sorted.length + this.#added.length) / 2) return;
    this.#removed = 0;
    const isThere = (name: string) => this.#keys.get(name) !== undefined;
    this.#sorted = this.#sorted.filter(isThere);
    this.#added = this.#added.filter(isThere);
  }

  /** Names of deleted keys are left out. */
  get inOrder(): readonly string[] {
    // Every key is in one of the two, so as many names as keys are the names of all keys.
    if (this.#added.length === 0 && this.#sorted.length === this.#keys.size) return this.#sorted;
    const isThere = (name: string) => this.#keys.get(name) !== undefined;
    const fresh = [...new Set(this.#added)].filter(isThere).sort(compareBytes);
    this.#added = [];
    this.#removed = 0;
    const merged: string[] = [];
    let at = 0;
    for (const name of this.#sorted) {
      for (let next = fresh[at]; next !== undefined && compareBytes(next, name) <= 0; next = fresh[at]) {
        if (next !== name) merged.push(next);
        at += 1;
      }
      if (isThere(name)) merged.push(name);
    }
    this.#sorted = [...merged, ...fresh.slice(at)];
    return this.#sorted;
  }
}

/** What the directory needs of its host. */
interface Looking {
  readonly names: KeyNames;
  /** The key as it is now; undefined if it counts as deleted. */
  report(name: string, detail: boolean): KeyReport | undefined;
}

/** The first keys of a range, read in parts: the names as they were at the start, each key as it is when it is read. */
export class PageReader {
  readonly #range: KeyRange;
  readonly #looking: Looking;
  readonly #names: readonly string[];
  readonly #keys: (KeyReport & { readonly key: string })[] = [];
  #at: number;
  #last: string | undefined;
  #next: string | undefined;

  constructor(range: KeyRange, looking: Looking) {
    this.#range = range;
    this.#looking = looking;
    this.#names = looking.names.inOrder;
    this.#at = firstAfter(this.#names, range.after, range.prefix);
  }

  /** Looks at so many names at most. Whether more are left. */
  read(count: number): boolean {
    const { prefix, limit, detail, sees } = this.#range;
    const end = Math.min(this.#at + count, this.#names.length);
    for (; this.#at < end; this.#at += 1) {
      const key = this.#names[this.#at] as string;
      if (!key.startsWith(prefix)) return false;
      if (!sees(key)) continue;
      if (this.#keys.length >= limit) {
        this.#next = this.#last;
        return false;
      }
      const found = this.#looking.report(key, detail);
      this.#last = key;
      if (found) this.#keys.push({ key, ...found });
    }
    return end < this.#names.length;
  }

  get page(): Pick<KeyPage, "keys" | "unreachable" | "next"> {
    return { keys: this.#keys, unreachable: [], next: this.#next };
  }
}

/** The state of all keys in numbers. Those that count as deleted are left out. */
export function totalsOf(keys: Keys, times: { readonly now: number; readonly gcMaxIdleMs: number }): KeyTotals {
  const totals = new KeyTotals();
  for (const key of keys) {
    const counts = key.countsAt(times);
    if (counts) totals.add(counts);
  }
  return totals;
}

/** The index of the first name that comes after `after` and not before `prefix`. */
function firstAfter(names: readonly string[], after: string, prefix: string): number {
  const isBefore = (name: string) => compareBytes(name, prefix) < 0 || (after !== "" && compareBytes(name, after) <= 0);
  let [low, high] = [0, names.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (isBefore(names[middle] as string)) low = middle + 1;
    else high = middle;
  }
  return low;
}
