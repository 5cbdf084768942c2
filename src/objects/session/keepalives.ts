/** The client's keep-alive request and its response. */
const REQUEST = "@keepalive ping\n_\n_\n";
const RESPONSE = "@keepalive ok\n";
/** A session idle for this long has sent everything it had to send. */
const QUIET_AFTER_MS = 1_000;

/**
 * Lets the platform answer keep-alives, so that they do not wake a sleeping session. While the session is busy it
 * answers them itself: an automatic response that coincides with a message being sent breaks the connection (workerd
 * 2026-11).
 */
export class Keepalives {
  readonly #ctx: DurableObjectState;
  readonly #isAtWork: () => boolean;
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(ctx: DurableObjectState, isAtWork: () => boolean) {
    this.#ctx = ctx;
    this.#isAtWork = isAtWork;
  }

  /** Turns automatic responses on. */
  begin(): void {
    this.#ctx.setWebSocketAutoResponse(new WebSocketRequestResponsePair(REQUEST, RESPONSE));
  }

  /** Turns automatic responses off while the session is busy. */
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
