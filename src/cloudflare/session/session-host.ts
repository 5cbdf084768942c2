import type { NoticeAnswer } from "../../core/engine/index.ts";
import type { Loss, Notice, Want } from "../../core/session/effects.ts";
import type { SocketSession } from "../../core/session/socket-session.ts";
import { CLOSE } from "../../core/session/wire/protocol.ts";
import { Activity } from "../awake/activity.ts";
import type { Listener } from "../calls/notices.ts";
import type { Env } from "../env.ts";
import type { SessionParts } from "../session-common/session-parts.ts";
import type { EffectHandlers, SessionRunner } from "../session-common/session-runner.ts";
import { Arrivals } from "./arrivals.ts";
import type { ClientSockets } from "./client-sockets.ts";
import { Departure } from "./departure.ts";
import { hostPartsOf } from "./host-parts.ts";
import type { HostPlace } from "./host-place.ts";
import type { Keepalives } from "./keepalives.ts";
import { Reports } from "./report-requests.ts";
import { SessionRest } from "./session-rest.ts";
import type { SessionTelemetry } from "./session-telemetry.ts";

const encoder = new TextEncoder();
const MAX_MESSAGE_BYTES = 1_048_576;

/**
 * Hosts the session of one client on a socket: `SocketSession` decides, the host stores, calls and sends. While the
 * client waits or idles the object may sleep; its state is then with the socket, in storage or at the keys.
 */
export class SessionHost implements Listener {
  readonly #own: SessionParts;
  readonly #session: SocketSession;
  readonly #runner: SessionRunner;
  readonly #keepalives: Keepalives;
  readonly #reports: Reports;
  readonly #rest: SessionRest;
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
    kept: () => this.#restSoon(),
    resumed: ({ attempt, refusal }) => this.#arrivals.settle(attempt, refusal),
    ended: () => this.#departure.begin(),
    authenticate: ({ secret }) => void this.#arrivals.authenticate(secret),
    report: (effect) => void this.#own.activity.during(() => this.#reports.make(effect)),
    count: ({ happening }) => this.#telemetry.count(happening, this.#sockets.entry?.transport),
    log: ({ level, event, fields }) => this.#telemetry.log(level, event, fields),
  };
  /** On Cloudflare, an object without work is put to sleep by the platform. */
  readonly #mayRest: () => boolean;

  readonly session: string;

  constructor(place: HostPlace, env: Env, mayRest: () => boolean) {
    this.session = place.session;
    this.#mayRest = mayRest;
    const host = hostPartsOf(place, env, new Activity(() => this.#restSoon()), this.#handlers);
    this.#own = host.own;
    this.#session = host.session;
    this.#runner = host.runner;
    this.#sockets = host.sockets;
    this.#keepalives = host.keepalives;
    this.#telemetry = host.telemetry;
    this.#reports = new Reports(host);
    this.#arrivals = new Arrivals(host);
    this.#departure = new Departure(host);
    this.#rest = new SessionRest(host);
    this.#arrivals.restore();
  }

  /** Opens the session on a WebSocket, or resumes it. A refusal is a 503 with the reason in a header. */
  open({ headers }: Request): Promise<Response> {
    return this.#own.activity.during(() => this.#arrivals.receive(headers, { mayResume: !this.#departure.isDue }));
  }

  message(socket: WebSocket, message: string | ArrayBuffer): Promise<void> | undefined {
    if (!this.#sockets.isCurrent(socket)) {
      // The socket was closed before, and this host may have been made for the message alone.
      this.#restSoon();
      return undefined;
    }
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

  closed(socket: WebSocket, code: number): Promise<void> {
    return this.#own.activity.during(() => this.#departure.closed(socket, code));
  }

  broken(socket: WebSocket): Promise<void> {
    return this.#own.activity.during(() => this.#departure.broken(socket));
  }

  wake(): Promise<void> {
    return this.#own.activity.during(async () => {
      this.#own.wakeUp.clear();
      const wasConnected = this.#session.conversation !== undefined;
      this.#runner.run(() => this.#session.wake());
      // A client that is being cut off answers the close, and that may abort this object.
      if (!wasConnected) await this.#departure.settled();
    });
  }

  deliver(notice: Notice): Promise<NoticeAnswer> {
    return this.#own.activity.during(() => {
      if (this.#session.conversation) this.#keepalives.atWork();
      return this.#runner.notice((number) => this.#session.notice(number, notice));
    });
  }

  lose(loss: Loss): Promise<void> {
    return this.#own.activity.during(async () => this.#runner.run(() => this.#session.lose(loss)));
  }

  want(want: Want): Promise<void> {
    return this.#own.activity.during(async () => this.#runner.run(() => this.#session.want(want)));
  }

  isLive(): Promise<boolean> {
    // Ending the session is not awaited: it calls the directory, which awaits this answer.
    return this.#own.activity.during(async () => this.#runner.run(() => this.#session.isLive()));
  }

  /** Another host may be made for the same session: this one does nothing more. */
  stop(): void {
    this.#runner.stop();
  }

  #restSoon(): void {
    if (this.#mayRest()) this.#rest.soon();
  }
}
