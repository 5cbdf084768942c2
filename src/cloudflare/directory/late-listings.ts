/** A key whose listing failed is listed again after a minute at the latest, if it is used. */
const REMEMBERED_MS = 60_000;

/**
 * Keys that were listed later than they should have been. While some keep coming, more may be missing: reports say that they
 * are behind.
 */
export class LateListings {
  #times: number[] = [];

  note(): void {
    const now = Date.now();
    if (this.#times.length % 1_000 === 0) this.#forget(now);
    this.#times.push(now);
  }

  /** How many came in the last minute. */
  count(): number {
    this.#forget(Date.now());
    return this.#times.length;
  }

  #forget(now: number): void {
    this.#times = this.#times.filter((time) => time <= now && now - time < REMEMBERED_MS);
  }
}
