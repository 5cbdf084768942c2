/** Requests a client may be ahead of its session's answers. A session takes 1,024 at a time and refuses more. */
const MAX_AHEAD = 1_280;
const LINES_PER_REQUEST = 3;
/** A session silent for this long is only waiting. */
const SILENCE_MS = 1_000;
/** The window reopens after this time in any case: the client may have leases to renew. */
const MAX_SHUT_MS = 2_000;

/**
 * Keeps a client that sends faster than its session answers from filling workerd with work. Which answer belongs to
 * which request does not matter, since each request has exactly one.
 *
 * Once shut, the window stays shut until everything is answered. workerd reads from a connection for as long as there
 * is something to read, and ignores all others meanwhile (workerd 2026-11): it has to run dry now and then.
 */
export class AnswerWindow {
  readonly #now: () => number;
  /** Lines of requests that have no answer yet. */
  #ahead = 0;
  #isShut = false;
  #quietSince: number;
  #shutAt = 0;

  /** `now` must be monotonic. */
  constructor(now: () => number = () => performance.now()) {
    this.#now = now;
    this.#quietSince = now();
  }

  get isOpen(): boolean {
    return !this.#isShut;
  }

  /** Counts lines passed on to the session. */
  asked(lines: number): void {
    if (this.#ahead === 0) this.#quietSince = this.#now();
    this.#ahead += lines;
    if (this.#isShut || this.#ahead < MAX_AHEAD * LINES_PER_REQUEST) return;
    this.#isShut = true;
    this.#shutAt = this.#now();
  }

  /** Counts an answer. */
  answered(): void {
    // While open, credit one extra line: line fragments count but get no answer. While shut, all must be answered.
    this.#ahead = Math.max(0, this.#ahead - LINES_PER_REQUEST - (this.#isShut ? 0 : 1));
    this.#quietSince = this.#now();
    // Lines of an incomplete request will not be answered.
    if (this.#ahead < LINES_PER_REQUEST) this.#isShut = false;
  }

  /** How long until a shut window opens, even without answers. */
  msUntilForgiven(): number {
    const until = Math.min(this.#quietSince + SILENCE_MS, this.#shutAt + MAX_SHUT_MS);
    return Math.max(0, until - this.#now());
  }

  /** Opens the window if it is time. */
  forgive(): void {
    if (this.msUntilForgiven() > 0) return;
    this.#ahead = 0;
    this.#isShut = false;
  }
}
