import { type Clock, type Moment, momentOf } from "../clock.ts";
import { frameOf, KEEPALIVE_TAG, type Message, messageOf } from "../wire.ts";
import { Heartbeat } from "./heartbeat.ts";
import { CLOSE, openSocket, type Socket, type SocketConstructor } from "./socket.ts";

/**
 * From opening a socket to the first word of the service on it. After a restart everybody comes back, and a busy server refuses a
 * connection after ten seconds: a client that gives up before that starts again at the end of the queue.
 */
const READY_WITHIN_MS = 11_000;
/** For a token that is asked for. */
export const TOKEN_WITHIN_MS = 5_000;
const BEAT_MS = 5_000;
/** So many heartbeats fit into the time for which the service keeps a session without socket. */
const BEATS_IN_GRACE = 4;

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
  nextTag(): string;
}

export type LinkEnd =
  | { readonly type: "closed"; readonly code: number; readonly cause?: unknown }
  /** The service has refused the token. */
  | { readonly type: "refused" };

export interface LinkEvents {
  /** Requests may be sent. The session is undefined where the service keeps none beyond its socket. */
  ready(session: Session | undefined): void;
  message(message: Message): void;
  /** What was sent at that moment has been answered. */
  proved(sentAt: Moment): void;
  /** Nothing comes any more. Told once, unless the client itself closed it. */
  ended(end: LinkEnd): void;
}

/** One socket, from its opening to its end: shows who we are, asks for the session, and notices when nobody is there any more. */
export class Link {
  readonly #options: LinkOptions;
  readonly #events: LinkEvents;
  readonly #socket: Socket;
  readonly #sessionTag: string;
  readonly #watchTag: string;
  #session: Session | undefined;
  #sentAt: Moment;
  #isOver = false;
  #heartbeat: Heartbeat | undefined;
  readonly #cancelPatience: () => void;

  constructor(options: LinkOptions, events: LinkEvents) {
    this.#options = options;
    this.#events = events;
    this.#session = options.session;
    this.#sessionTag = options.nextTag();
    this.#watchTag = options.nextTag();
    this.#sentAt = momentOf(options.clock);
    const resumed = options.session ? [`holdfast.resume.${options.session.credential}`] : [];
    const socket = openSocket(options.WebSocket, options.url, ["dflockd.v2", ...resumed]);
    this.#socket = socket;
    socket.addEventListener("open", () => this.#greet());
    socket.addEventListener("message", ({ data }) => this.#hear(data));
    socket.addEventListener("error", (event) => this.#end({ type: "closed", code: 1006, cause: causeOf(event) }));
    socket.addEventListener("close", ({ code }) => this.#end({ type: "closed", code }));
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
    this.#end({ type: "closed", code: CLOSE.parted, cause });
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
      closeSocket(this.#socket, CLOSE.done);
    });
  }

  #greet(): void {
    if (this.#isOver) return;
    const { token, clock } = this.#options;
    this.#sentAt = momentOf(clock);
    if (typeof token === "string") this.send(frameOf(undefined, "auth", "_", token.trim().replaceAll(/[\r\n]/g, " ")));
    // Also of a session that is taken up: how long it outlives a socket may have changed meanwhile.
    this.send(frameOf(this.#sessionTag, "session", "_", "resume"));
    this.send(frameOf(this.#watchTag, "watch", "_", "lost"));
  }

  #hear(data: unknown): void {
    if (this.#isOver || typeof data !== "string") return;
    this.#heartbeat?.hears();
    const message = messageOf(data);
    if (message.type === "untagged") {
      if (message.status === "error_auth") this.#end({ type: "refused" });
    } else if (message.type === "present") this.send(frameOf(this.#options.nextTag(), "ping"));
    else if (message.type !== "answer") this.#events.message(message);
    else if (message.tag === KEEPALIVE_TAG) this.#heartbeat?.heard();
    else if (message.tag === this.#sessionTag) this.#session = sessionOf(message.status, message.rest);
    else if (message.tag === this.#watchTag) this.#becomeReady();
    else this.#events.message(message);
  }

  #becomeReady(): void {
    const session = this.#session;
    this.#cancelPatience();
    this.#heartbeat = new Heartbeat(
      this.#options.clock,
      session ? Math.min(BEAT_MS, session.graceMs / BEATS_IN_GRACE) : BEAT_MS,
      {
        beat: () => this.send(frameOf(KEEPALIVE_TAG, "ping")),
        proved: (sentAt) => this.#events.proved(sentAt),
        died: () => this.drop(),
      },
    );
    this.#events.proved(this.#sentAt);
    this.#events.ready(session);
  }

  #end(end: LinkEnd): void {
    if (this.#isOver) return;
    this.#fallSilent();
    closeSocket(this.#socket, CLOSE.parted);
    this.terminate();
    this.#events.ended(end);
  }

  #fallSilent(): void {
    this.#isOver = true;
    this.#cancelPatience();
    this.#heartbeat?.stop();
  }
}

function sessionOf(status: string, rest: string): Session | undefined {
  const [credential, seconds] = rest.split(" ");
  if (status !== "ok" || !credential) return undefined;
  return { credential, graceMs: Number(seconds) * 1000 };
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
