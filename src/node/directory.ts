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

/** The first keys of a range. */
export function pageOf(range: KeyRange, { names, report }: Looking): Pick<KeyPage, "keys" | "unreachable" | "next"> {
  const { prefix, after, limit, detail, sees } = range;
  const all = names.inOrder;
  const keys: (KeyReport & { readonly key: string })[] = [];
  let last: string | undefined;
  for (let at = firstAfter(all, after, prefix); at < all.length; at += 1) {
    const key = all[at] as string;
    if (!key.startsWith(prefix)) break;
    if (!sees(key)) continue;
    if (keys.length >= limit) return { keys, unreachable: [], next: last };
    const found = report(key, detail);
    last = key;
    if (found) keys.push({ key, ...found });
  }
  return { keys, unreachable: [], next: undefined };
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
