import { DurableObject } from "cloudflare:workers";
import type { NoticeAnswer } from "../../core/engine/index.ts";
import type { Loss, Notice, Want } from "../../core/session/effects.ts";
import { CLOSE } from "../../core/session/wire/protocol.ts";
import type { Listener } from "../calls/notices.ts";
import type { Env } from "../env.ts";
import type { EffectHandlers } from "../session-common/session-runner.ts";
import { Arrivals } from "./arrivals.ts";
import { Departure } from "./departure.ts";
import { type SocketSessionParts, socketSessionPartsOf } from "./parts.ts";
import { Reports } from "./report-requests.ts";

const encoder = new TextEncoder();
const MAX_MESSAGE_BYTES = 1_048_576;

/**
 * Hosts the session of one client on a socket: `SocketSession` decides, this object stores, calls and sends. While the
 * client waits or idles the object may sleep; its state is then with the socket, in storage or at the keys.
 */
export class SessionObject extends DurableObject<Env> implements Listener {
  readonly #parts: SocketSessionParts;
  readonly #reports: Reports;
  readonly #arrivals: Arrivals;
  readonly #departure: Departure;

  readonly #handlers: EffectHandlers = {
    send: ({ line }) => {
      this.#parts.keepalives.atWork();
      this.#parts.sockets.current?.send(line);
    },
    close: ({ code }) => this.#parts.sockets.current?.close(code),
    known: () => {
      const { sockets, keepalives } = this.#parts;
      if (sockets.entry?.protocol !== "godistlock") keepalives.begin();
    },
    detached: () => this.#parts.sockets.drop(),
    resumed: ({ attempt, refusal }) => this.#arrivals.settle(attempt, refusal),
    ended: () => this.#departure.begin(),
    authenticate: ({ secret }) => void this.#arrivals.authenticate(secret),
    report: (effect) => this.#reports.make(effect),
    count: ({ happening }) => this.#parts.telemetry.count(happening, this.#parts.sockets.entry?.transport),
    log: ({ level, event, fields }) => this.#parts.telemetry.log(level, event, fields),
  };

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env);
    this.#parts = socketSessionPartsOf(ctx, env, this.#handlers);
    this.#reports = new Reports(this.#parts);
    this.#arrivals = new Arrivals(this.#parts);
    this.#departure = new Departure(this.#parts);
    this.#arrivals.restore();
  }

  /** Opens the session on a WebSocket, or resumes it. A refusal is a 503 with the reason in a header. */
  override fetch({ headers }: Request): Promise<Response> {
    return this.#arrivals.receive(headers);
  }

  override webSocketMessage(socket: WebSocket, message: string | ArrayBuffer): Promise<void> | undefined {
    const { sockets, session, runner, keepalives, keys } = this.#parts;
    // A socket that was closed or replaced may go on sending.
    if (!sockets.isCurrent(socket)) return undefined;
    this.#departure.heard();
    keepalives.atWork();
    if (session.isProbing) runner.run(() => session.heard());
    if (session.context.callsInFlight === 0) keys.clientWaited();
    if (message === "") return undefined;
    const bytes = typeof message === "string" ? encoder.encode(message) : new Uint8Array(message);
    if (bytes.length <= MAX_MESSAGE_BYTES) return sockets.take(bytes);
    runner.run(() => session.close(CLOSE.tooLong));
    return undefined;
  }

  override webSocketClose(socket: WebSocket, code: number): Promise<void> {
    return this.#departure.closed(socket, code);
  }

  override webSocketError(socket: WebSocket): Promise<void> {
    return this.#departure.broken(socket);
  }

  override async alarm(): Promise<void> {
    const { wakeUp, session, runner } = this.#parts;
    wakeUp.clear();
    const wasConnected = session.conversation !== undefined;
    runner.run(() => session.wake());
    // A client that is being cut off answers the close, and that may abort this object.
    if (!wasConnected) await this.#departure.settled();
  }

  async deliver(notice: Notice): Promise<{ readonly answer: NoticeAnswer }> {
    const { session, runner, keepalives } = this.#parts;
    if (session.conversation) keepalives.atWork();
    return { answer: await runner.notice((number) => session.notice(number, notice)) };
  }

  async lose(loss: Loss): Promise<void> {
    const { session, runner } = this.#parts;
    runner.run(() => session.lose(loss));
  }

  async want(want: Want): Promise<void> {
    const { session, runner } = this.#parts;
    runner.run(() => session.want(want));
  }

  async isLive(): Promise<{ readonly isLive: boolean }> {
    const { session, runner } = this.#parts;
    // Ending the session is not awaited: it calls the directory, which awaits this answer.
    return { isLive: runner.run(() => session.isLive()) };
  }
}
