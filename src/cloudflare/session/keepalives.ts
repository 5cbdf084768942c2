/** The platform's answers to keep-alives. */
type AutoResponse = Pick<DurableObjectState, "setWebSocketAutoResponse" | "getWebSocketAutoResponse">;

/** The client's keep-alive request and its response. */
const REQUEST = "@keepalive ping\n_\n_\n";
const RESPONSE = "@keepalive ok\n";
/** A session that was idle from one look to the next has sent everything it had to send. It stays awake until then. */
const LOOK_EVERY_MS = 20;

/**
 * Lets the platform answer keep-alives, so that they do not wake a sleeping session. While the session is busy it
 * answers them itself: an automatic response that coincides with a message being sent may break the connection. That is
 * rare since workerd #7065 and #7147, but not gone (1.20261104.1): in one of about nine runs with 200 sockets, whose objects
 * were pushed to as they woke, 95 sockets ended with "another message send is already in progress". No run failed in which
 * the objects were awake, whether clients read slowly or output waited for storage.
 */
export class Keepalives {
  readonly #platform: AutoResponse;
  readonly #isAtWork: () => boolean;
  /** A timer is set that turns automatic responses on again. */
  #isWatching = false;
  /** The session has worked since that timer was set. */
  #hasWorked = false;

  constructor(platform: AutoResponse, isAtWork: () => boolean) {
    this.#platform = platform;
    this.#isAtWork = isAtWork;
  }

  /** Turns automatic responses on, unless the session is busy: they come back by themselves then. */
  begin(): void {
    if (!this.#isWatching) this.#platform.setWebSocketAutoResponse(new WebSocketRequestResponsePair(REQUEST, RESPONSE));
  }

  /** Turns automatic responses off while the session is busy. Costs next to nothing while it stays busy. */
  atWork(): void {
    this.#hasWorked = true;
    if (this.#isWatching || this.#platform.getWebSocketAutoResponse() === null) return;
    this.#platform.setWebSocketAutoResponse();
    this.#watch();
  }

  #watch(): void {
    this.#isWatching = true;
    this.#hasWorked = false;
    setTimeout(() => this.#look(), LOOK_EVERY_MS);
  }

  #look(): void {
    this.#isWatching = false;
    if (this.#hasWorked || this.#isAtWork()) this.#watch();
    else this.begin();
  }
}
