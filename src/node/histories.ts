import type { Observation } from "../core/engine/index.ts";
import { History, type HistoryView, MAX_GRANTS } from "../core/key/history.ts";
import type { Key } from "./keys.ts";

/** Grants that are remembered, of all keys together: some megabytes. */
const MAX_REMEMBERED = 20_000;

/** The newest grants of each key, as far as the memory for them reaches: keys that were granted lately come first. */
export class Histories {
  /** By name of the key, the one that was granted longest ago first. */
  readonly #byKey = new Map<string, History>();
  readonly #labelOf: (session: string) => string | undefined;
  #remembered = 0;

  constructor(labelOf: (session: string) => string | undefined) {
    this.#labelOf = labelOf;
  }

  /** The service has started again. The end of a hold is remembered only if the hold is. */
  recall(keys: Iterable<Key>): void {
    for (const key of keys) {
      const history = currentHolds(key);
      if (history.size === 0) continue;
      if (this.#remembered + history.size > MAX_REMEMBERED) return;
      this.#byKey.set(key.name, history);
      this.#remembered += history.size;
    }
  }

  note(key: Key, observations: readonly Observation[]): void {
    const grant = observations.find((observation) => observation.type === "granted");
    const known = this.#byKey.get(key.name);
    // The holds of a key whose history was forgotten. The grant itself, and later ones of the same batch, are noted here.
    const history = known ?? (grant && currentHolds(key, grant.fence));
    if (!history) return;
    const before = known ? history.size : 0;
    history.note(observations, this.#labelOf);
    this.#remembered += history.size - before;
    if (!grant) return;
    this.#byKey.delete(key.name);
    this.#byKey.set(key.name, history);
    while (this.#remembered > MAX_REMEMBERED) this.#forgetOldest();
  }

  of(key: Key, now: number): HistoryView {
    return (this.#byKey.get(key.name) ?? currentHolds(key)).at(now);
  }

  forget(name: string): void {
    this.#remembered -= this.#byKey.get(name)?.size ?? 0;
    this.#byKey.delete(name);
  }

  #forgetOldest(): void {
    const [oldest] = this.#byKey.keys();
    if (oldest !== undefined) this.forget(oldest);
  }
}

/** What is held now; with a fence, only what was granted before it. */
function currentHolds(key: Key, before?: string): History {
  const history = new History();
  const holds = key.engine.newestHolds(MAX_GRANTS);
  history.recall(before === undefined ? holds : holds.filter(({ fence }) => fence < before));
  return history;
}
