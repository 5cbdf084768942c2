import { type Clock, elapsedMs, type Moment, momentOf, within } from "../clock.ts";
import { AuthError, ConnectionError } from "../errors.ts";
import {
  ATTEMPTS_IN_GRACE,
  CLOSED_WITHIN_MS,
  FRESH_MS,
  PROBE_MS,
  SAFE_PART,
  STABLE_MS,
  SUSPECT_PROBE_MS,
  TOKEN_WITHIN_MS,
} from "../limits.ts";
import { BROKEN, GONE, type Message, REFUSED } from "../wire.ts";
import { pauseMs } from "./backoff.ts";
import { FreezeDetector } from "./frozen-worker.ts";
import { Link, type LinkEnd, type LinkEvents, type Session } from "./link.ts";
import type { SocketConstructor } from "./socket.ts";

export interface ChannelOptions {
  readonly url: string;
  readonly WebSocket: SocketConstructor;
  readonly clock: Clock;
  /** A function is called before every connection: tickets are short-lived. */
  readonly token?: string | (() => string | Promise<string>) | undefined;
}

/**
 * Keeps one connection to the service and reconnects when it is lost. The session is resumed for as long as the service
 * keeps it; then a new one begins.
 */
export abstract class Channel implements LinkEvents {
  readonly clock: Clock;
  readonly #options: ChannelOptions;
  #attempts = 0;
  readonly #freeze: FreezeDetector;
  #state: "idle" | "connecting" | "ready" | "leaving" | "closed" = "idle";
  #link: Link | undefined;
  /** The last connection that is being closed while the client goes on. */
  #detached: Link | undefined;
  #session: Session | undefined;
  /** When the last answered request was sent: the session existed then. */
  #provedAt: Moment;
  #readyAt: Moment;
  #isOverdue = false;
  #tags = 0;
  #problem: unknown;
  #cancelRetry: (() => void) | undefined;
  #cancelGrace: () => void = () => {};
  /** Resolves `#resumeToLeave`: the connection is open, or has failed. */
  #resolveResumed: () => void = () => {};

  constructor(options: ChannelOptions) {
    this.#options = options;
    this.clock = options.clock;
    this.#freeze = new FreezeDetector(options.clock);
    this.#provedAt = momentOf(options.clock);
    this.#readyAt = this.#provedAt;
  }

  /** Requests may be sent, in a new session or a resumed one. */
  abstract ready(how: "connected" | "resumed"): void;
  abstract message(message: Message): void;
  /** The connection is lost, and the client reconnects. */
  abstract interrupted(): void;
  /** The session is gone or may be, with all it held. The next one begins with nothing. */
  abstract gone(error: ConnectionError): void;
  abstract refused(error: AuthError): void;

  get isReady(): boolean {
    return this.#state === "ready";
  }

  /**
   * Whether, by the clock, the session's locks may belong to others, even if the client has no notice of it. Also true
   * while the connection seems fine, because after a sleep it may not be; the next answer tells.
   */
  get isLapsed(): boolean {
    const session = this.#session;
    return session !== undefined && (this.#graceLeftMs(session) <= 0 || this.#freeze.isInDoubt);
  }

  /** Why the last connection ended or failed. */
  get problem(): unknown {
    return this.#problem;
  }

  /** The session's number in reports (docs/protocol.md); undefined without a session that can be resumed. */
  get owner(): number | undefined {
    const [id] = this.#session?.credential.split(".") ?? [];
    return id ? Number(BigInt(`0x${id}`) % (2n ** 52n - 1n)) + 1 : undefined;
  }

  /** A tag that no request of this client has used. */
  nextTag(): string {
    this.#tags += 1;
    return this.#tags.toString(36);
  }

  /** Sends if the connection is ready. Nothing is kept for a later one. */
  send(text: string): void {
    if (this.isReady) this.#link?.send(text);
  }

  proved(sentAt: Moment): void {
    if (sentAt.steady >= this.#provedAt.steady) this.#provedAt = sentAt;
    this.#freeze.proved(sentAt);
  }

  /** The network or the page may have changed: connects now, or checks the connection. */
  wake(): void {
    if (this.#state === "idle") this.#connect();
    else this.#link?.probe(PROBE_MS);
    this.#checkGrace();
  }

  /** There is a request: connects, unless that is already planned. */
  demand(): void {
    if (this.#state === "idle" && !this.#cancelRetry) this.#connect();
  }

  /** An answer is long overdue: checks the connection. */
  suspect(): void {
    this.#link?.probe(SUSPECT_PROBE_MS);
  }

  /**
   * The page is being frozen. Browsers break the sockets of a frozen page (Chromium 153) and close them in its name when
   * it runs again, which would end the session: so the socket is given up now.
   */
  detach(): void {
    this.#link?.drop("page frozen");
  }

  /** The page may never run again: ends the session, and reconnects if the page is shown again. */
  leave(): void {
    const link = this.#link;
    if (!link || this.#isClosed) return;
    this.#state = "idle";
    this.#link = undefined;
    this.#freeze.end();
    this.#problem = "page left";
    this.#leaveOn(link);
    this.interrupted();
    this.#forget();
  }

  /** Reconnects with a fresh token, if there may be one and the session survives it. */
  refresh(): boolean {
    const { token } = this.#options;
    if (typeof token !== "function" || !this.#session || !this.isReady) return false;
    if (elapsedMs(this.clock, this.#readyAt) < FRESH_MS) return false;
    this.#link?.drop();
    return true;
  }

  /** Ends the session and closes. Resolves when the service has confirmed it, or after `CLOSED_WITHIN_MS`. */
  async close(): Promise<void> {
    const isUnderWay = this.#state === "connecting";
    const mustReturn = this.#session !== undefined && !this.isReady;
    this.#state = mustReturn ? "leaving" : "closed";
    this.#cancelRetry?.();
    this.#cancelGrace();
    this.#freeze.end();
    const returned = mustReturn ? this.#resumeToLeave(isUnderWay) : Promise.resolve();
    const left = returned.then(() => this.#link?.close());
    await within(this.clock, CLOSED_WITHIN_MS, left).catch(() => {});
    this.#state = "closed";
    this.#problem = undefined;
    void this.#link?.close();
    // The other side may not answer the close.
    for (const link of [this.#link, this.#detached]) link?.terminate();
  }

  /** Ends the session on this connection. */
  #leaveOn(link: Link): void {
    this.#detached?.terminate();
    this.#detached = link;
    void link.close();
  }

  /** Resumes a session without a connection, only to end it: otherwise other clients wait for its grace period. */
  #resumeToLeave(isUnderWay: boolean): Promise<void> {
    return new Promise((resolve) => {
      this.#resolveResumed = resolve;
      if (!isUnderWay) this.#open().catch(resolve);
    });
  }

  get #isClosed(): boolean {
    return this.#state === "leaving" || this.#state === "closed";
  }

  #connect(): void {
    this.#state = "connecting";
    this.#cancelRetry?.();
    this.#cancelRetry = undefined;
    this.#open().catch((cause) => this.ended({ code: BROKEN, cause }));
  }

  async #open(): Promise<void> {
    const { token, ...options } = this.#options;
    const asked = typeof token === "function" ? Promise.resolve(token()) : undefined;
    const shown = asked ? await within(options.clock, TOKEN_WITHIN_MS, asked) : (token as string | undefined);
    if (this.#state !== "connecting" && this.#state !== "leaving") return;
    this.#link = new Link({ ...options, token: shown, session: this.#session }, this);
  }

  linked(asked: Session | undefined, given: Session | undefined): void {
    if (this.#state === "leaving") {
      this.#resolveResumed();
      return;
    }
    this.#problem = undefined;
    const link = this.#link;
    if (this.#isOverdue && asked && link) {
      // All its locks were reported lost. End it, so that no client waits for its grace period, and begin a new one.
      this.#isOverdue = false;
      this.#session = undefined;
      this.#leaveOn(link);
      this.#connect();
      return;
    }
    this.#state = "ready";
    this.#session = given;
    this.#readyAt = momentOf(this.clock);
    this.#isOverdue = false;
    this.#cancelGrace();
    this.#freeze.begin(() => this.suspect());
    this.ready(asked ? "resumed" : "connected");
  }

  ended({ code, cause }: LinkEnd): void {
    if (this.#isClosed) {
      this.#link = undefined;
      this.#resolveResumed();
      return;
    }
    const wasReady = this.isReady;
    const wasStable = wasReady && elapsedMs(this.clock, this.#readyAt) >= STABLE_MS;
    const { isInDoubt } = this.#freeze;
    this.#state = "idle";
    this.#link = undefined;
    this.#freeze.end();
    this.#problem = cause ?? `closed with code ${code}`;
    if (wasStable) this.#attempts = 0;
    this.interrupted();
    if (code === GONE || (wasReady && !this.#session)) this.#forget();
    else this.#checkGrace();
    if (code === REFUSED) {
      const advice = this.#options.token ? "refused the token" : 'needs a token: set the option "token"';
      this.refused(new AuthError(`the service ${advice}`));
      // Do not retry with a token that was refused. The next request tries once more.
      if (!this.#session || this.#isOverdue) return;
    }
    // It is unknown what the session still holds: find out now.
    if (wasStable && isInDoubt) this.#connect();
    else this.#retry();
  }

  #forget(): void {
    this.#session = undefined;
    this.#cancelGrace();
    this.gone(new ConnectionError("the session is gone", this.#problem));
  }

  /** Without a connection, reports the session gone before the service may grant its locks to others. */
  #checkGrace(): void {
    if (this.isReady || !this.#session || this.#isOverdue || this.#isClosed) return;
    const leftMs = this.#graceLeftMs(this.#session);
    this.#cancelGrace();
    if (leftMs > 0) this.#cancelGrace = this.clock.after(leftMs, () => this.#checkGrace());
    else {
      this.#isOverdue = true;
      this.gone(new ConnectionError("out of reach", this.#problem));
      // If the server is busy, let clients first that can still save their sessions.
      this.#link?.drop();
    }
  }

  #graceLeftMs({ graceMs }: Session): number {
    return graceMs * SAFE_PART - elapsedMs(this.clock, this.#provedAt);
  }

  #retry(): void {
    if (this.#state !== "idle") return;
    const saved = this.#isOverdue ? undefined : this.#session;
    const restMs = pauseMs(this.#attempts, saved && saved.graceMs / ATTEMPTS_IN_GRACE);
    this.#attempts += 1;
    this.#cancelRetry?.();
    this.#cancelRetry = this.clock.after(restMs, () => this.#connect());
  }
}
