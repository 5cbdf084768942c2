const FIRST_PAUSE_MS = 100;
const LONGEST_PAUSE_MS = 5_000;

/** How long to wait before the next attempt: longer every time, and never as long as somebody else. */
export class Backoff {
  #attempts = 0;

  reset(): void {
    this.#attempts = 0;
  }

  /** Never longer than that, however many attempts there were. */
  nextMs(longestMs = LONGEST_PAUSE_MS): number {
    const pauseMs = Math.min(FIRST_PAUSE_MS * 2 ** this.#attempts, longestMs, LONGEST_PAUSE_MS);
    this.#attempts += 1;
    return pauseMs * (0.5 + Math.random() / 2);
  }
}
