import { authenticateSecret } from "../../core/auth/principal.ts";
import { sameSecret } from "../../core/auth/secrets.ts";
import { REFUSAL_HEADER } from "../../core/protocols/carrier/refusal.ts";
import type { ClientEntry } from "../../service.ts";
import { closeSocket } from "../calls/closing.ts";
import { decodeEntry, RESUME_HEADER, resumableFrom } from "../transports/client-entry.ts";
import type { SocketSessionParts } from "./parts.ts";
import { SessionSocket } from "./session-socket.ts";

/** Closes a socket whose saved state is of another version. */
const RESTARTED = 1012;

/** Clients that open a session or resume it, and sockets that have outlived a sleep. */
export class Arrivals {
  readonly #parts: SocketSessionParts;
  /** Clients that want to resume, by attempt; resolved with the reason if one is refused. */
  readonly #attempts = new Map<number, (refusal: string | undefined) => void>();
  #lastAttempt = 0;

  constructor(parts: SocketSessionParts) {
    this.#parts = parts;
  }

  /** Opens the session on a WebSocket, or resumes it. A refusal is a 503 with the reason in a header. */
  async receive(headers: Headers): Promise<Response> {
    const { ctx, session, runner } = this.#parts;
    const entry = decodeEntry(headers);
    const secret = headers.get(RESUME_HEADER);
    const reason = secret === null ? await this.#admit(entry) : await this.#resume(secret);
    // Another client may have been let in meanwhile.
    const refusal = reason ?? (session.conversation && "session_in_use");
    if (refusal) return new Response(null, { status: 503, headers: { [REFUSAL_HEADER]: refusal } });
    const { 0: theirs, 1: ours } = new WebSocketPair();
    try {
      ctx.acceptWebSocket(ours);
      this.#open(ours, entry);
    } finally {
      if (!session.conversation) runner.run(() => session.opening(false));
    }
    return new Response(null, { status: 101, webSocket: theirs });
  }

  /** The session has decided about an attempt to resume it. */
  settle(attempt: number, refusal: string | undefined): void {
    this.#attempts.get(attempt)?.(refusal);
    this.#attempts.delete(attempt);
  }

  /** Finds out who the client is. The answer concerns the client that asked, not one that has taken its place since. */
  async authenticate(secret: Uint8Array): Promise<void> {
    const { config, session, runner } = this.#parts;
    const asker = session.conversation;
    const principal = await authenticateSecret(config, secret);
    if (session.conversation === asker) runner.run(() => session.authenticated(principal));
  }

  /** Continues on a socket that has outlived the object's sleep. Without one, the session has lost its socket. */
  restore(): void {
    const { ctx, store, session, runner, sockets } = this.#parts;
    const socket = ctx.getWebSockets().find((each) => !SessionSocket.isClosed(each));
    if (!socket) {
      if (session.resumption.isOn && !session.isOver) runner.run(() => session.loseSocket());
      return;
    }
    const { restored, state } = SessionSocket.restore(socket, store);
    if (!state) {
      closeSocket(socket, RESTARTED);
      if (session.resumption.isOn) runner.run(() => session.loseSocket());
      return;
    }
    sockets.listenTo(restored);
    runner.run(() => {
      session.restored({ resumableFrom: resumableFrom(restored.entry) }, state);
      if (session.conversation) restored.restored(session.conversation);
    });
  }

  async #admit(entry: ClientEntry): Promise<string | undefined> {
    const { session, runner, listing } = this.#parts;
    runner.run(() => session.opening(true));
    const refusal = await listing.join(entry);
    if (refusal !== undefined) runner.run(() => session.opening(false));
    return refusal;
  }

  /** Makes way for a new socket. Returns the reason if the client may not resume. */
  async #resume(secret: string): Promise<string | undefined> {
    const { session, runner } = this.#parts;
    const expected = session.resumption.secret;
    const hasSecret = expected !== undefined && sameSecret(secret, expected);
    this.#lastAttempt += 1;
    const attempt = this.#lastAttempt;
    const { promise, resolve } = Promise.withResolvers<string | undefined>();
    this.#attempts.set(attempt, resolve);
    runner.run(() => session.resume(attempt, hasSecret));
    return promise;
  }

  #open(socket: WebSocket, entry: ClientEntry): void {
    const { store, session, runner, sockets, telemetry } = this.#parts;
    sockets.listenTo(SessionSocket.open(socket, store, entry));
    const { protocol = "dflockd", isAuthenticated, rights } = entry;
    const client = { protocol, isAuthenticated, rights, resumableFrom: resumableFrom(entry) };
    runner.run(() => session.opened(client));
    telemetry.log("debug", "session_opened", { transport: entry.transport });
  }
}
