import { type Clock, elapsedMs, type Moment, momentOf, within } from "../clock.ts";
import { AuthError, ConnectionError } from "../errors.ts";
import {
  ATTEMPTS_IN_GRACE,
  CLOSED_WITHIN_MS,
  FRESH_MS,
  PROBE_MS,
  SAFE_PART,
  STABLE_MS,
  SUSPICION_MS,
  TOKEN_WITHIN_MS,
} from "../limits.ts";
import { BROKEN, GONE, type Message, REFUSED } from "../wire.ts";
import { pauseMs } from "./backoff.ts";
import { Standstill } from "./frozen-worker.ts";
import { Link, type LinkEnd, type LinkEvents, type Session } from "./link.ts";
import type { SocketConstructor } from "./socket.ts";

export interface ChannelOptions {
  readonly url: string;
  readonly WebSocket: SocketConstructor;
  readonly clock: Clock;
  /** Asked for before every connection: tickets do not live long. */
  readonly token?: string | (() => string | Promise<string>) | undefined;
}

/**
 * Keeps one connection to the service, for one session after another. A session is taken up again after every loss of
 * its socket, for as long as the service has it.
 */
export abstract class Channel implements LinkEvents {
  readonly clock: Clock;
  readonly #options: ChannelOptions;
  #attempts = 0;
  readonly #standstill: Standstill;
  #state: "idle" | "connecting" | "ready" | "leaving" | "closed" = "idle";
  #link: Link | undefined;
  /** The last one that was left while the client goes on. */
  #parted: Link | undefined;
  #session: Session | undefined;
  /** When something was sent that has been answered: the service surely had us on the line then. */
  #provedAt: Moment;
  #readyAt: Moment;
  #isOverdue = false;
  #tags = 0;
  #problem: unknown;
  #cancelRetry: (() => void) | undefined;
  #cancelGrace: () => void = () => {};
  /** The last connection, which is only there to leave, has come about or failed. */
  #tellReturned: () => void = () => {};

  constructor(options: ChannelOptions) {
    this.#options = options;
    this.clock = options.clock;
    this.#standstill = new Standstill(options.clock);
    this.#provedAt = momentOf(options.clock);
    this.#readyAt = this.#provedAt;
  }

  /** Requests may be sent, in a new session or in the one before. */
  abstract ready(how: "connected" | "resumed"): void;
  abstract message(message: Message): void;
  /** The connection is lost, and another is tried for. */
  abstract interrupted(): void;
  /** The session and all it had are gone, or may be given away from now on; the next one begins with nothing. */
  abstract gone(error: ConnectionError): void;
  abstract refused(error: AuthError): void;

  get isReady(): boolean {
    return this.#state === "ready";
  }

  /**
   * By the clock, whether it has been told yet or not: what the session had may be somebody else's. Also while the
   * connection looks fine, since after a sleep it may not be; the next answer tells.
   */
  get isLapsed(): boolean {
    const session = this.#session;
    return session !== undefined && (this.#graceLeftMs(session) <= 0 || this.#standstill.isInDoubt);
  }

  /** Why the last connection ended or did not come about. */
  get problem(): unknown {
    return this.#problem;
  }

  /** The number by which reports name the session (docs/protocol.md); undefined where it has no name. */
  get owner(): number | undefined {
    return this.#session && Number.parseInt(this.#session.credential.slice(0, 13), 16) + 1;
  }

  /** A tag that no request of this client has had. */
  nextTag(): string {
    this.#tags += 1;
    return this.#tags.toString(36);
  }

  /** Sends only on a connection that is ready: nothing is ever kept for a later one. */
  send(text: string): void {
    if (this.isReady) this.#link?.send(text);
  }

  proved(sentAt: Moment): void {
    if (sentAt.steady >= this.#provedAt.steady) this.#provedAt = sentAt;
    this.#standstill.proved(sentAt);
  }

  /** The network or the page may be another: connects now, or looks whether the connection still works. */
  wake(): void {
    if (this.#state === "idle") this.#connect();
    else this.#link?.probe(PROBE_MS);
    this.#checkGrace();
  }

  /** Somebody wants something of the service. */
  demand(): void {
    if (this.#state === "idle" && !this.#cancelRetry) this.#connect();
  }

  /** An answer is long overdue: another connection may do better. */
  suspect(): void {
    this.#link?.probe(SUSPICION_MS);
  }

  /**
   * The page stands still from now on. Browsers break the sockets of such a page (Chromium 153), and when it runs again
   * they report it as gone, which would end the session: better to give the socket up while there is time.
   */
  part(): void {
    this.#link?.drop("page frozen");
  }

  /** The page may never run again: leaves with the session, and connects again should the page come back. */
  leave(): void {
    const link = this.#link;
    if (!link || this.#isClosed) return;
    this.#state = "idle";
    this.#link = undefined;
    this.#standstill.end();
    this.#problem = "page left";
    this.#partWith(link);
    this.interrupted();
    this.#forget();
  }

  /** Connects again with a fresh token, if that may help and costs nothing. */
  refresh(): boolean {
    const { token } = this.#options;
    if (typeof token !== "function" || !this.#session || !this.isReady) return false;
    if (elapsedMs(this.clock, this.#readyAt) < FRESH_MS) return false;
    this.#link?.drop();
    return true;
  }

  /** Leaves, with the session. Resolves when the service knows, or after a while. */
  async close(): Promise<void> {
    const isUnderWay = this.#state === "connecting";
    const mustReturn = this.#session !== undefined && !this.isReady;
    this.#state = mustReturn ? "leaving" : "closed";
    this.#cancelRetry?.();
    this.#cancelGrace();
    this.#standstill.end();
    const returned = mustReturn ? this.#return(isUnderWay) : Promise.resolve();
    const left = returned.then(() => this.#link?.close());
    await within(this.clock, CLOSED_WITHIN_MS, left).catch(() => {});
    this.#state = "closed";
    this.#problem = undefined;
    void this.#link?.close();
    // Nobody may be there to answer it.
    for (const link of [this.#link, this.#parted]) link?.terminate();
  }

  /** Leaves on this connection, with its session. */
  #partWith(link: Link): void {
    this.#parted?.terminate();
    this.#parted = link;
    void link.close();
  }

  /** A session without connection is taken up once more, to be left in due form: else everybody waits out its grace. */
  #return(isUnderWay: boolean): Promise<void> {
    return new Promise((resolve) => {
      this.#tellReturned = resolve;
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
      this.#tellReturned();
      return;
    }
    this.#problem = undefined;
    const link = this.#link;
    if (this.#isOverdue && asked && link) {
      // All that the session had has been told lost. It is left, so that nobody waits for it, and a new one begins.
      this.#isOverdue = false;
      this.#session = undefined;
      this.#partWith(link);
      this.#connect();
      return;
    }
    this.#state = "ready";
    this.#session = given;
    this.#readyAt = momentOf(this.clock);
    this.#isOverdue = false;
    this.#cancelGrace();
    this.#standstill.begin(() => this.suspect());
    this.ready(asked ? "resumed" : "connected");
  }

  ended({ code, cause }: LinkEnd): void {
    if (this.#isClosed) {
      this.#link = undefined;
      this.#tellReturned();
      return;
    }
    const wasReady = this.isReady;
    const wasStable = wasReady && elapsedMs(this.clock, this.#readyAt) >= STABLE_MS;
    const { isInDoubt } = this.#standstill;
    this.#state = "idle";
    this.#link = undefined;
    this.#standstill.end();
    this.#problem = cause ?? `closed with code ${code}`;
    if (wasStable) this.#attempts = 0;
    this.interrupted();
    if (code === GONE || (wasReady && !this.#session)) this.#forget();
    else this.#checkGrace();
    if (code === REFUSED) {
      this.refused(new AuthError("the service refused the token"));
      // Nobody is helped by being refused again and again: the next request tries once more.
      if (!this.#session || this.#isOverdue) return;
    }
    // Who does not know what he has cannot wait.
    if (wasStable && isInDoubt) this.#connect();
    else this.#retry();
  }

  #forget(): void {
    this.#session = undefined;
    this.#cancelGrace();
    this.gone(new ConnectionError("the session is gone", this.#problem));
  }

  /** While there is no connection, tells in time when the service may have given away what the session had. */
  #checkGrace(): void {
    if (this.isReady || !this.#session || this.#isOverdue || this.#isClosed) return;
    const leftMs = this.#graceLeftMs(this.#session);
    this.#cancelGrace();
    if (leftMs > 0) this.#cancelGrace = this.clock.after(leftMs, () => this.#checkGrace());
    else {
      this.#isOverdue = true;
      this.gone(new ConnectionError("out of reach", this.#problem));
      // Gives its turn to those that can still save their sessions, if many wait to be let in.
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
