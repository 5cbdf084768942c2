/** The client's keep-alive request and its response. */
const REQUEST = "@keepalive ping\n_\n_\n";
const RESPONSE = "@keepalive ok\n";
/** A session idle for this many looks, about a second, has sent everything it had to send. */
const QUIET_AFTER_LOOKS = 4;
const LOOK_EVERY_MS = 250;

/**
 * Lets the platform answer keep-alives, so that they do not wake a sleeping session. While the session is busy it
 * answers them itself: an automatic response that coincides with a message being sent breaks the connection (workerd
 * 2026-11).
 */
export class Keepalives {
  readonly #ctx: DurableObjectState;
  readonly #isAtWork: () => boolean;
  /** Looks until automatic responses are turned on again; 0 if no timer is set for that. */
  #looksLeft = 0;

  constructor(ctx: DurableObjectState, isAtWork: () => boolean) {
    this.#ctx = ctx;
    this.#isAtWork = isAtWork;
  }

  /** Turns automatic responses on. */
  begin(): void {
    this.#ctx.setWebSocketAutoResponse(new WebSocketRequestResponsePair(REQUEST, RESPONSE));
  }

  /** Turns automatic responses off while the session is busy. Costs next to nothing while it stays busy. */
  atWork(): void {
    if (this.#looksLeft === 0) {
      if (this.#ctx.getWebSocketAutoResponse() === null) return;
      this.#ctx.setWebSocketAutoResponse();
      this.#lookLater();
    }
    this.#looksLeft = QUIET_AFTER_LOOKS;
  }

  #lookLater(): void {
    setTimeout(() => this.#look(), LOOK_EVERY_MS);
  }

  #look(): void {
    this.#looksLeft = this.#isAtWork() ? QUIET_AFTER_LOOKS : this.#looksLeft - 1;
    if (this.#looksLeft > 0) this.#lookLater();
    else this.begin();
  }
}
