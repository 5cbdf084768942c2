import type { Observation } from "../core/engine/index.ts";
import { History, type HistoryView, MAX_GRANTS, type PastGrant } from "../core/key/history.ts";
import type { Key } from "./keys.ts";

/** Grants that are remembered, of all keys together: some megabytes. */
const MAX_REMEMBERED = 20_000;

interface Remembered {
  readonly history: History;
  readonly grant: PastGrant;
}

/** The newest grants of all keys, each in the history of its key. */
export class Histories {
  /** A ring: the oldest grant makes room for the newest. */
  readonly #ring: Remembered[] = [];
  #next = 0;
  readonly #labelOf: (session: string) => string | undefined;

  constructor(labelOf: (session: string) => string | undefined) {
    this.#labelOf = labelOf;
  }

  /** The service has started again. The end of a hold is remembered only if the hold is. */
  recall(keys: Iterable<Key>): void {
    for (const key of keys) {
      if (!key.isInUse) continue;
      const holds = key.engine.newestHolds(MAX_GRANTS);
      if (this.#ring.length + holds.length > MAX_REMEMBERED) return;
      if (holds.length === 0) continue;
      const history = new History();
      key.history = history;
      for (const grant of history.recall(holds)) this.#remember({ history, grant });
    }
  }

  note(key: Key, observations: readonly Observation[]): void {
    for (const observation of observations) {
      if (observation.type === "granted") {
        key.history ??= new History();
        this.#remember({ history: key.history, grant: key.history.granted(observation, this.#labelOf) });
      } else if (observation.type === "ended") key.history?.ended(observation);
    }
  }

  /** Includes current holds that were forgotten. */
  of(key: Key, now: number): HistoryView {
    key.history ??= new History();
    const forgotten = key.isInUse ? key.history.recall(key.engine.newestHolds(MAX_GRANTS)) : [];
    const view = key.history.at(now);
    for (const grant of forgotten) key.history.forget(grant);
    return view;
  }

  #remember(remembered: Remembered): void {
    const oldest = this.#ring[this.#next];
    oldest?.history.forget(oldest.grant);
    this.#ring[this.#next] = remembered;
    this.#next = (this.#next + 1) % MAX_REMEMBERED;
  }
}
