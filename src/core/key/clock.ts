/**
 * The clock of a key, or of all keys of a process: the machine's, except that it never goes back while it is in memory. When the machine's clock is
 * set back, it continues from the last time it saw, so no lease or wait is extended by more than the time since
 * then. There is no better source: `performance.now()` is the machine's clock as well (workerd 2026-11). A jump forward
 * at least as large as the step back is taken for its correction.
 */
export class KeyClock {
  readonly #wall: () => number;
  #seen = Number.NEGATIVE_INFINITY;
  #aheadMs = 0;

  /** `wall` is the machine's clock, in milliseconds since the epoch. */
  constructor(wall: () => number) {
    this.#wall = wall;
  }

  now(): number {
    const wall = this.#wall();
    const passed = wall - this.#seen;
    this.#seen = wall;
    if (passed < 0) this.#aheadMs -= passed;
    else if (passed >= this.#aheadMs) this.#aheadMs = 0;
    return wall + this.#aheadMs;
  }

  /** What the machine's clock will show at `time`. */
  toWall(time: number): number {
    return time - this.#aheadMs;
  }
}
