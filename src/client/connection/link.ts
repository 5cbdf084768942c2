import { type Clock, type Moment, momentOf } from "../clock.ts";
import { BEAT_MS, BEATS_IN_GRACE, READY_WITHIN_MS } from "../limits.ts";
import { BROKEN, DONE, frameOf, KEEPALIVE_TAG, type Message, messageOf, PARTED, REFUSED } from "../wire.ts";
import { Heartbeat, type Patient } from "./heartbeat.ts";
import { openSocket, type Socket, type SocketConstructor } from "./socket.ts";

/** A session as the service lets it be taken up again. */
export interface Session {
  readonly credential: string;
  /** For how long it outlives its socket. */
  readonly graceMs: number;
}

export interface LinkOptions {
  readonly url: string;
  readonly WebSocket: SocketConstructor;
  readonly clock: Clock;
  readonly token: string | undefined;
  /** The session to take up again; undefined begins a new one. */
  readonly session: Session | undefined;
}

export interface LinkEnd {
  /** That of the socket, or `REFUSED`. */
  readonly code: number;
  readonly cause?: unknown;
}

export interface LinkEvents {
  nextTag(): string;
  /** Requests may be sent. What is given is undefined where the service keeps no session beyond its socket. */
  linked(asked: Session | undefined, given: Session | undefined): void;
  message(message: Message): void;
  /** What was sent at that moment has been answered. */
  proved(sentAt: Moment): void;
  /** The connection has ended. Told once, unless the client itself closed it. */
  ended(end: LinkEnd): void;
}

/** One socket, from its opening to its end: shows who we are, asks for the session, and notices when the server is gone. */
export class Link implements Patient {
  readonly #options: LinkOptions;
  readonly #events: LinkEvents;
  readonly #socket: Socket;
  readonly #sessionTag: string;
  #sentAt: Moment;
  #isOver = false;
  #heartbeat: Heartbeat | undefined;
  readonly #cancelPatience: () => void;

  constructor(options: LinkOptions, events: LinkEvents) {
    this.#options = options;
    this.#events = events;
    this.#sessionTag = events.nextTag();
    this.#sentAt = momentOf(options.clock);
    const resumed = options.session ? [`holdfast.resume.${options.session.credential}`] : [];
    const socket = openSocket(options.WebSocket, options.url, ["dflockd.v2", ...resumed]);
    this.#socket = socket;
    socket.addEventListener("open", () => this.#greet());
    socket.addEventListener("message", ({ data }) => this.#hear(data));
    socket.addEventListener("error", (event) => this.#end({ code: BROKEN, cause: causeOf(event) }));
    socket.addEventListener("close", ({ code }) => this.#end({ code }));
    this.#cancelPatience = options.clock.after(READY_WITHIN_MS, () => this.drop());
  }

  send(text: string): void {
    try {
      this.#socket.send(text);
    } catch {
      // A socket that cannot send is about to say that it is closed; what was unanswered is sent again on the next one.
    }
  }

  /** Gives the socket up, but not the session. */
  drop(cause = "no answer in time"): void {
    this.#end({ code: PARTED, cause });
  }

  /** Gives the socket up unless somebody answers within that time. */
  probe(withinMs: number): void {
    if (!this.#isOver) this.#heartbeat?.probe(withinMs);
  }

  /** Waits no longer for the other side, which may be gone: an open socket would keep a program running. */
  terminate(): void {
    this.#socket.terminate?.();
  }

  /** Leaves, with the session. Resolves when the service has heard it. */
  close(): Promise<void> {
    this.#fallSilent();
    return new Promise((resolve) => {
      this.#socket.addEventListener("close", () => resolve());
      closeSocket(this.#socket, DONE);
    });
  }

  beat(): void {
    this.send(frameOf(KEEPALIVE_TAG, "ping"));
  }

  proved(sentAt: Moment): void {
    this.#events.proved(sentAt);
  }

  #greet(): void {
    if (this.#isOver) return;
    const { token, clock } = this.#options;
    this.#sentAt = momentOf(clock);
    if (typeof token === "string") this.send(`auth\n_\n${token.trim().replaceAll(/[\r\n]/g, " ")}\n`);
    // In one message: after a restart of the service everybody asks at once. The session is also asked for when it is
    // taken up: how long it outlives a socket may have changed meanwhile.
    const watch = frameOf(this.#events.nextTag(), "watch", "_", "lost");
    this.send(watch + frameOf(this.#sessionTag, "session", "_", "resume"));
  }

  #hear(data: unknown): void {
    if (this.#isOver || typeof data !== "string") return;
    this.#heartbeat?.hears();
    const message = messageOf(data);
    if (message.type === "untagged") {
      if (message.status === "error_auth") this.#end({ code: REFUSED, cause: "refused" });
    } else if (message.type === "present") this.send(frameOf(this.#events.nextTag(), "ping"));
    else if (message.type !== "answer") this.#events.message(message);
    else if (message.tag === KEEPALIVE_TAG) this.#heartbeat?.heard();
    else if (message.tag === this.#sessionTag) this.#becomeReady(sessionOf(message.rest));
    else this.#events.message(message);
  }

  #becomeReady(session: Session | undefined): void {
    const { clock, session: asked } = this.#options;
    this.#cancelPatience();
    const beatMs = session ? Math.min(BEAT_MS, session.graceMs / BEATS_IN_GRACE) : BEAT_MS;
    this.#heartbeat = new Heartbeat(clock, beatMs, this);
    this.proved(this.#sentAt);
    this.#events.linked(asked, session);
  }

  #end(end: LinkEnd): void {
    if (this.#isOver) return;
    this.#fallSilent();
    closeSocket(this.#socket, PARTED);
    this.terminate();
    this.#events.ended(end);
  }

  #fallSilent(): void {
    this.#isOver = true;
    this.#cancelPatience();
    this.#heartbeat?.stop();
  }
}

/** Undefined for a refusal, which says nothing more. */
function sessionOf(rest: string): Session | undefined {
  const [credential, seconds] = rest.split(" ");
  return credential ? { credential, graceMs: Number(seconds) * 1000 } : undefined;
}

/** What went wrong, where the event of a socket says so: those of browsers and of Node's own sockets do not. */
function causeOf(event: unknown): unknown {
  const { error, message } = event as { readonly error?: Partial<Error>; readonly message?: unknown };
  return error?.message ? error : message || undefined;
}

/** Does nothing to a socket that is closed already. */
function closeSocket(socket: Socket, code: number): void {
  try {
    socket.close(code);
  } catch {
    // Some sockets throw when they are closed twice.
  }
}
