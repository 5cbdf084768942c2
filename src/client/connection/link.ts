import { type Clock, type Moment, momentOf } from "../clock.ts";
import { BEAT_MS, BEATS_IN_GRACE, READY_WITHIN_MS } from "../limits.ts";
import { BROKEN, DETACHED, DONE, frameOf, KEEPALIVE_TAG, type Message, messageOf, REFUSED } from "../wire.ts";
import { Heartbeat, type HeartbeatEvents } from "./heartbeat.ts";
import { openSocket, type Socket, type SocketConstructor } from "./socket.ts";

/** What is needed to resume a session. */
export interface Session {
  readonly credential: string;
  /** How long it survives the loss of its socket. */
  readonly graceMs: number;
}

export interface LinkOptions {
  readonly url: string;
  readonly WebSocket: SocketConstructor;
  readonly clock: Clock;
  readonly token: string | undefined;
  /** The session to resume; undefined begins a new one. */
  readonly session: Session | undefined;
}

export interface LinkEnd {
  /** The socket's close code, or `REFUSED`. */
  readonly code: number;
  readonly cause?: unknown;
}

export interface LinkEvents {
  nextTag(): string;
  /** Requests may be sent. `given` is undefined if the session cannot be resumed. */
  linked(asked: Session | undefined, given: Session | undefined): void;
  message(message: Message): void;
  /** A request that was sent at this moment has been answered. */
  proved(sentAt: Moment): void;
  /** The connection has ended. Called once, and not if the client closed it. */
  ended(end: LinkEnd): void;
}

/** One socket: authenticates, begins or resumes the session, and detects a dead server. */
export class Link implements HeartbeatEvents {
  readonly #options: LinkOptions;
  readonly #events: LinkEvents;
  readonly #socket: Socket;
  readonly #sessionTag: string;
  #sentAt: Moment;
  #isOver = false;
  #heartbeat: Heartbeat | undefined;
  readonly #cancelOpenTimer: () => void;

  constructor(options: LinkOptions, events: LinkEvents) {
    this.#options = options;
    this.#events = events;
    this.#sessionTag = events.nextTag();
    this.#sentAt = momentOf(options.clock);
    const resumed = options.session ? [`holdfast.resume.${options.session.credential}`] : [];
    const socket = openSocket(options.WebSocket, options.url, ["dflockd.v2", ...resumed]);
    this.#socket = socket;
    socket.addEventListener("open", () => this.#authenticate());
    socket.addEventListener("message", ({ data }) => this.#receive(data));
    socket.addEventListener("error", (event) => this.#end({ code: BROKEN, cause: causeOf(event) }));
    socket.addEventListener("close", ({ code }) => this.#end({ code }));
    this.#cancelOpenTimer = options.clock.after(READY_WITHIN_MS, () => this.drop());
  }

  send(text: string): void {
    try {
      this.#socket.send(text);
    } catch {
      // The socket is about to report its close. Unanswered requests are sent again on the next one.
    }
  }

  /** Closes the socket and keeps the session. */
  drop(cause = "no answer in time"): void {
    this.#end({ code: DETACHED, cause });
  }

  /** Drops the socket unless the service answers within the time. */
  probe(withinMs: number): void {
    if (!this.#isOver) this.#heartbeat?.probe(withinMs);
  }

  /** Closes the socket without waiting for the other side: an open socket keeps a program running. */
  terminate(): void {
    this.#socket.terminate?.();
  }

  /** Ends the session. Resolves when the service has confirmed the close. */
  close(): Promise<void> {
    this.#stop();
    return new Promise((resolve) => {
      this.#socket.addEventListener("close", () => resolve());
      closeSocket(this.#socket, DONE);
    });
  }

  ping(): void {
    this.send(frameOf(KEEPALIVE_TAG, "ping"));
  }

  proved(sentAt: Moment): void {
    this.#events.proved(sentAt);
  }

  #authenticate(): void {
    if (this.#isOver) return;
    const { token, clock } = this.#options;
    this.#sentAt = momentOf(clock);
    if (typeof token === "string") this.send(`auth\n_\n${token.trim().replaceAll(/[\r\n]/g, " ")}\n`);
    // The end of a lease it counts itself. One message, because all clients send it at once after a restart. A resumed session asks too: its grace period
    // may have changed.
    const watch = frameOf(this.#events.nextTag(), "watch", "_", "taken");
    this.send(watch + frameOf(this.#sessionTag, "session", "_", "resume"));
  }

  #receive(data: unknown): void {
    if (this.#isOver || typeof data !== "string") return;
    this.#heartbeat?.received();
    const message = messageOf(data);
    if (message.type === "untagged") {
      if (message.status === "error_auth") this.#end({ code: REFUSED, cause: "refused" });
    } else if (message.type === "present") this.send(frameOf(this.#events.nextTag(), "ping"));
    else if (message.type !== "answer") this.#events.message(message);
    else if (message.tag === KEEPALIVE_TAG) this.#heartbeat?.answered();
    else if (message.tag === this.#sessionTag) this.#becomeReady(sessionOf(message.rest));
    else this.#events.message(message);
  }

  #becomeReady(session: Session | undefined): void {
    const { clock, session: asked } = this.#options;
    this.#cancelOpenTimer();
    const beatMs = session ? Math.min(BEAT_MS, session.graceMs / BEATS_IN_GRACE) : BEAT_MS;
    this.#heartbeat = new Heartbeat(clock, beatMs, this);
    this.proved(this.#sentAt);
    this.#events.linked(asked, session);
  }

  #end(end: LinkEnd): void {
    if (this.#isOver) return;
    this.#stop();
    closeSocket(this.#socket, DETACHED);
    this.terminate();
    this.#events.ended(end);
  }

  #stop(): void {
    this.#isOver = true;
    this.#cancelOpenTimer();
    this.#heartbeat?.stop();
  }
}

/** Undefined if the service refused, with an empty reply. */
function sessionOf(rest: string): Session | undefined {
  const [credential, seconds] = rest.split(" ");
  return credential ? { credential, graceMs: Number(seconds) * 1000 } : undefined;
}

/** The cause of a socket error, if the event has one: in browsers and Node's own sockets it has none. */
function causeOf(event: unknown): unknown {
  const { error, message } = event as { readonly error?: Partial<Error>; readonly message?: unknown };
  return error?.message ? error : message || undefined;
}

/** Does nothing if the socket is already closed. */
function closeSocket(socket: Socket, code: number): void {
  try {
    socket.close(code);
  } catch {
    // Some sockets throw when they are closed twice.
  }
}
