/** How far a client may be ahead of its session's answers. A session takes 1,024 requests at a time, and refuses more. */
const MAX_AHEAD = 1_280;
const LINES_PER_REQUEST = 3;
/** A session that has been silent for so long has nothing left to do but to wait. */
const SILENCE_MS = 1_000;
/** However it is answered, a client is heard again after this time: it may have leases to renew. */
const MAX_SHUT_MS = 2_000;

/**
 * Keeps a client that sends faster than its session answers from filling workerd with work. Which answer belongs to
 * which request does not matter, since each request has exactly one.
 *
 * Once shut, the window stays so until everything is answered. workerd reads from a connection for as long as there is
 * something to read, and looks at no other one meanwhile (workerd 2026-11): it has to come to an end now and then.
 */
export class AnswerWindow {
  readonly #now: () => number;
  /** Lines of requests that have no answer yet. */
  #ahead = 0;
  #isShut = false;
  #quietSince: number;
  #shutAt = 0;

  /** `now` never goes back. */
  constructor(now: () => number = () => performance.now()) {
    this.#now = now;
    this.#quietSince = now();
  }

  get isOpen(): boolean {
    return !this.#isShut;
  }

  /** So many lines have been passed on to the session. */
  asked(lines: number): void {
    if (this.#ahead === 0) this.#quietSince = this.#now();
    this.#ahead += lines;
    if (this.#isShut || this.#ahead < MAX_AHEAD * LINES_PER_REQUEST) return;
    this.#isShut = true;
    this.#shutAt = this.#now();
  }

  /** An answer has come back. */
  answered(): void {
    // A little more than was asked, unless everything has to be answered: pieces of lines count, and have no answer of their own.
    this.#ahead = Math.max(0, this.#ahead - LINES_PER_REQUEST - (this.#isShut ? 0 : 1));
    this.#quietSince = this.#now();
    // Lines of a request that is not whole have no answer to come.
    if (this.#ahead < LINES_PER_REQUEST) this.#isShut = false;
  }

  /** How long until a shut window opens, whatever is answered. */
  msUntilForgiven(): number {
    const until = Math.min(this.#quietSince + SILENCE_MS, this.#shutAt + MAX_SHUT_MS);
    return Math.max(0, until - this.#now());
  }

  /** Opens if it is time. */
  forgive(): void {
    if (this.msUntilForgiven() > 0) return;
    this.#ahead = 0;
    this.#isShut = false;
  }
}
