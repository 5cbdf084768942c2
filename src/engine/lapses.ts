const NEVER = Number.POSITIVE_INFINITY;

/** Told of every session that lapses, with the time, and of every one that is forgotten. */
export type LapseChanged = (session: string, at: number | undefined) => void;

/** Sessions whose two-phase grant ran out before they asked for it, until they ask or nobody cares any more. */
export class Lapses {
  readonly #times: Map<string, number>;
  readonly #changed: LapseChanged;
  /** No lapse is older than this. */
  #oldest = NEVER;

  constructor(stored: Iterable<readonly [session: string, at: number]>, changed: LapseChanged) {
    this.#times = new Map(stored);
    this.#changed = changed;
    for (const at of this.#times.values()) this.#oldest = Math.min(this.#oldest, at);
  }

  add(session: string, at: number): void {
    this.#times.set(session, at);
    this.#oldest = Math.min(this.#oldest, at);
    this.#changed(session, at);
  }

  /** True if this session's grant had lapsed; it is remembered no longer. */
  forget(session: string): boolean {
    if (!this.#times.delete(session)) return false;
    this.#changed(session, undefined);
    return true;
  }

  /** Forgets what lapsed before `time`. */
  forgetBefore(time: number): void {
    if (time <= this.#oldest) return;
    this.#oldest = NEVER;
    for (const [session, at] of this.#times) {
      if (at < time) this.forget(session);
      else this.#oldest = Math.min(this.#oldest, at);
    }
  }
}
