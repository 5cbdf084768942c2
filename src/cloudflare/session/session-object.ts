import { DurableObject } from "cloudflare:workers";
import type { NoticeAnswer } from "../../core/engine/index.ts";
import type { Loss, Notice, Want } from "../../core/session/effects.ts";
import type { SocketSession } from "../../core/session/socket-session.ts";
import { CLOSE } from "../../core/session/wire/protocol.ts";
import type { Listener } from "../calls/notices.ts";
import type { Env } from "../env.ts";
import type { SessionParts } from "../session-common/session-parts.ts";
import type { EffectHandlers, SessionRunner } from "../session-common/session-runner.ts";
import { Arrivals } from "./arrivals.ts";
import type { ClientSockets } from "./client-sockets.ts";
import { Departure } from "./departure.ts";
import { hostPartsOf } from "./host-parts.ts";
import type { Keepalives } from "./keepalives.ts";
import { Reports } from "./report-requests.ts";
import type { SessionTelemetry } from "./session-telemetry.ts";

const encoder = new TextEncoder();
const MAX_MESSAGE_BYTES = 1_048_576;

/**
 * Hosts the session of one client on a socket: `SocketSession` decides, this object stores, calls and sends. While the
 * client waits or idles the object may sleep; its state is then with the socket, in storage or at the keys.
 */
export class SessionObject extends DurableObject<Env> implements Listener {
  readonly #own: SessionParts;
  readonly #session: SocketSession;
  readonly #runner: SessionRunner;
  readonly #keepalives: Keepalives;
  readonly #reports: Reports;
  readonly #sockets: ClientSockets;
  readonly #telemetry: SessionTelemetry;
  readonly #arrivals: Arrivals;
  readonly #departure: Departure;

  readonly #handlers: EffectHandlers = {
    send: ({ line }) => {
      this.#keepalives.atWork();
      this.#sockets.current?.send(line);
    },
    close: ({ code }) => this.#sockets.current?.close(code),
    known: () => {
      if (this.#sockets.entry?.protocol !== "godistlock") this.#keepalives.begin();
    },
    detached: () => this.#sockets.drop(),
    resumed: ({ attempt, refusal }) => this.#arrivals.settle(attempt, refusal),
    ended: () => this.#departure.begin(),
    authenticate: ({ secret }) => void this.#arrivals.authenticate(secret),
    report: (effect) => void this.#reports.make(effect),
    count: ({ happening }) => this.#telemetry.count(happening, this.#sockets.entry?.transport),
    log: ({ level, event, fields }) => this.#telemetry.log(level, event, fields),
  };

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env);
    const host = hostPartsOf(ctx, env, this.#handlers);
    this.#own = host.own;
    this.#session = host.session;
    this.#runner = host.runner;
    this.#sockets = host.sockets;
    this.#keepalives = host.keepalives;
    this.#telemetry = host.telemetry;
    this.#reports = new Reports(host);
    this.#arrivals = new Arrivals(host);
    this.#departure = new Departure(host);
    this.#arrivals.restore();
  }

  /** Opens the session on a WebSocket, or resumes it. A refusal is a 503 with the reason in a header. */
  override fetch({ headers }: Request): Promise<Response> {
    return this.#arrivals.receive(headers);
  }

  override webSocketMessage(socket: WebSocket, message: string | ArrayBuffer): Promise<void> | undefined {
    // A socket that was closed or replaced may go on sending.
    if (!this.#sockets.isCurrent(socket)) return undefined;
    this.#departure.heard();
    this.#keepalives.atWork();
    if (this.#session.isProbing) this.#runner.run(() => this.#session.heard());
    if (this.#session.context.callsInFlight === 0) this.#own.keys.clientWaited();
    if (message === "") return undefined;
    const bytes = typeof message === "string" ? encoder.encode(message) : new Uint8Array(message);
    if (bytes.length <= MAX_MESSAGE_BYTES) return this.#sockets.take(bytes);
    this.#runner.run(() => this.#session.close(CLOSE.tooLong));
    return undefined;
  }

  override webSocketClose(socket: WebSocket, code: number): Promise<void> {
    return this.#departure.closed(socket, code);
  }

  override webSocketError(socket: WebSocket): Promise<void> {
    return this.#departure.broken(socket);
  }

  override async alarm(): Promise<void> {
    this.#own.wakeUp.clear();
    const wasConnected = this.#session.conversation !== undefined;
    this.#runner.run(() => this.#session.wake());
    // A client that is being cut off answers the close, and that may abort this object.
    if (!wasConnected) await this.#departure.settled();
  }

  async deliver(notice: Notice): Promise<NoticeAnswer> {
    if (this.#session.conversation) this.#keepalives.atWork();
    return this.#runner.notice((number) => this.#session.notice(number, notice));
  }

  async lose(loss: Loss): Promise<void> {
    this.#runner.run(() => this.#session.lose(loss));
  }

  async want(want: Want): Promise<void> {
    this.#runner.run(() => this.#session.want(want));
  }

  async isLive(): Promise<boolean> {
    // Ending the session is not awaited: it calls the directory, which awaits this answer.
    return this.#runner.run(() => this.#session.isLive());
  }
}
