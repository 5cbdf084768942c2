/** An answer that took so long was waited for on purpose; a busy machine alone does not take so long. */
const WAITED_FOR_MS = 800;

/**
 * Until when a script expects silence. It is counted from the first thing that was sent since the last pause: what a service
 * does after a time comes no sooner than that, however late a busy machine reads the answers in between.
 */
export class Silence {
  #from = performance.now();
  #hasPaused = true;

  /** Something is being sent, or done to a connection. */
  acts(): void {
    if (this.#hasPaused) this.#from = performance.now();
    this.#hasPaused = false;
  }

  /** Lets `ms` of the script pass: silence that begins now lasts until the result. */
  pauses(ms: number): number {
    this.#from += ms;
    this.#hasPaused = true;
    return this.#from;
  }

  /** Awaits an answer. */
  async awaits<Answer>(answer: Promise<Answer>): Promise<Answer> {
    const askedAt = performance.now();
    const received = await answer;
    if (performance.now() - askedAt > WAITED_FOR_MS) this.#from = performance.now();
    return received;
  }
}
