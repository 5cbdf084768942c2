/** What a client sends to see whether anybody is there, and what it then gets. */
const REQUEST = "@keepalive ping\n_\n_\n";
const RESPONSE = "@keepalive ok\n";
/** A session that has been at rest for so long has sent all it had to say. */
const QUIET_AFTER_MS = 1_000;

/**
 * Lets the platform answer keep-alives, so that they do not wake a session that sleeps. While the session is at work it
 * answers them itself: an answer of the platform that meets a message being sent breaks the connection (workerd 2026-11).
 */
export class Keepalives {
  readonly #ctx: DurableObjectState;
  readonly #isAtWork: () => boolean;
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(ctx: DurableObjectState, isAtWork: () => boolean) {
    this.#ctx = ctx;
    this.#isAtWork = isAtWork;
  }

  /** The client may be answered, by whoever is there. */
  begin(): void {
    this.#ctx.setWebSocketAutoResponse(new WebSocketRequestResponsePair(REQUEST, RESPONSE));
  }

  /** The session has something to do. */
  atWork(): void {
    if (this.#timer === undefined) {
      if (this.#ctx.getWebSocketAutoResponse() === null) return;
      this.#ctx.setWebSocketAutoResponse();
    } else clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#look(), QUIET_AFTER_MS);
  }

  #look(): void {
    this.#timer = undefined;
    this.begin();
    if (this.#isAtWork()) this.atWork();
  }
}
