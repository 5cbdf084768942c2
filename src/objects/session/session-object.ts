import { DurableObject } from "cloudflare:workers";
import { authenticateSecret } from "../../auth/principal.ts";
import type { NoticeAnswer } from "../../engine/index.ts";
import type { Effect, Loss, Notice, Want } from "../../session/effects.ts";
import type { KeyOutcome } from "../../session/key-calls.ts";
import { SocketSession } from "../../session/socket-session.ts";
import { CLOSE } from "../../session/wire/protocol.ts";
import { Activity } from "../awake/activity.ts";
import { bookWakeUp } from "../awake/awake-sessions.ts";
import { WAKE_UP_IS_NEAR_MS } from "../awake/resting.ts";
import type { Listener } from "../calls/notices.ts";
import type { Env } from "../env.ts";
import { type SessionParts, sessionPartsOf } from "../session-common/session-parts.ts";
import { SessionRunner } from "../session-common/session-runner.ts";
import { Arrivals } from "./arrivals.ts";
import { ClientSockets } from "./client-sockets.ts";
import { Departure } from "./departure.ts";
import type { HostParts } from "./host-parts.ts";
import { Keepalives } from "./keepalives.ts";
import { Listing } from "./listing.ts";
import { patienceFor, ReturnTurns } from "./paced-returns.ts";
import { Reports } from "./report-requests.ts";
import { SessionRest } from "./session-rest.ts";
import { SessionTelemetry } from "./session-telemetry.ts";

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
  readonly #listing: Listing;
  readonly #reports: Reports;
  readonly #rest: SessionRest;
  readonly #turns: ReturnTurns;
  readonly #sockets: ClientSockets;
  readonly #telemetry: SessionTelemetry;
  readonly #arrivals: Arrivals;
  readonly #departure: Departure;

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env);
    const activity = new Activity(() => this.#rest.soon());
    this.#own = sessionPartsOf(ctx, env, activity);
    this.#session = new SocketSession(this.#own.origin);
    this.#telemetry = new SessionTelemetry(ctx, env, { session: this.#own.session, debug: this.#own.config.debug });
    const received = (bytes: Uint8Array) => this.#runner.run(() => this.#session.received(bytes));
    this.#sockets = new ClientSockets(this.#own.store, received);
    this.#turns = new ReturnTurns(this.#own.config.resumeGraceMs);
    this.#runner = new SessionRunner(this.#session, {
      ...this.#own,
      handle: (effect) => this.#handle(effect),
      progressed: () => this.#progressed(),
      defer: (time) => bookWakeUp(env, time),
      pace: ({ call, key, request }, make) => {
        const isWanted = () => this.#session.context.isCallWanted(call);
        if (!request || (!this.#turns.isWaiting(key) && !this.#isInRush)) return make();
        const patienceMs = patienceFor(request, this.#own.config.defaultLeaseSeconds * 1_000);
        return this.#turns.run<KeyOutcome | "skipped">(key, patienceMs, async () => {
          if (this.#session.conversation) this.#keepalives.atWork();
          return isWanted() ? make() : "skipped";
        });
      },
    });
    this.#listing = new Listing(env, this.#own);
    this.#reports = new Reports(env);
    const host: HostParts = {
      ctx,
      env,
      own: this.#own,
      session: this.#session,
      runner: this.#runner,
      sockets: this.#sockets,
      listing: this.#listing,
      turns: this.#turns,
      telemetry: this.#telemetry,
    };
    this.#arrivals = new Arrivals(host);
    this.#departure = new Departure(host);
    this.#rest = new SessionRest(ctx, activity, {
      settle: () => this.#telemetry.settled(),
      isQuiet: () => this.#telemetry.isQuiet,
      mayRest: () => this.#mayRest,
    });
    // A request that waits for its turn sends nothing, however long that takes.
    this.#keepalives = new Keepalives(ctx, () => this.#session.requests.table.atWork > this.#turns.waiting);
    const [socket] = ctx.getWebSockets();
    if (socket) this.#arrivals.restore(socket);
    else if (this.#session.resumption.isOn && !this.#session.isOver) this.#runner.run(() => this.#session.loseSocket());
  }

  /** Opens the session on a WebSocket, or resumes it. A refusal is a 503 with the reason in a header. */
  override fetch({ headers }: Request): Promise<Response> {
    return this.#own.activity.during(() => this.#arrivals.receive(headers, { mayResume: !this.#departure.isDue }));
  }

  override webSocketMessage(socket: WebSocket, message: string | ArrayBuffer): Promise<void> | undefined {
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
    return this.#own.activity.during(() => this.#departure.closed(socket, code));
  }

  override webSocketError(socket: WebSocket): Promise<void> {
    return this.#own.activity.during(() => this.#departure.broken(socket));
  }

  override alarm(): Promise<void> {
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

  #handle(effect: Effect): void {
    switch (effect.type) {
      case "send":
        this.#keepalives.atWork();
        this.#sockets.current?.send(effect.line);
        break;
      case "close":
        this.#sockets.current?.close(effect.code);
        break;
      case "known":
        if (this.#sockets.entry?.protocol !== "godistlock") this.#keepalives.begin();
        break;
      case "detached":
        this.#sockets.drop();
        break;
      case "kept":
        this.#rest.soon();
        break;
      case "resumed":
        this.#arrivals.settle(effect.attempt, effect.refusal);
        break;
      case "ended":
        this.#departure.begin();
        break;
      case "authenticate":
        void this.#authenticate(effect.secret);
        break;
      case "report":
        void this.#own.activity.during(() => this.#report(effect));
        break;
      case "count":
        this.#telemetry.count(effect.happening, this.#sockets.entry?.transport);
        break;
      case "log":
        this.#telemetry.log(effect.level, effect.event, effect.fields);
    }
  }

  /** Saves what a sleep would lose, and arms the read deadline. */
  #progressed(): void {
    const { conversation, isOver } = this.#session;
    if (!conversation || isOver) return;
    this.#sockets.current?.progressed(conversation);
    if (conversation.isKnown) this.#own.wakeUp.by(conversation.readDeadline);
  }

  /** The session has just been resumed, and so have many others. */
  get #isInRush(): boolean {
    return this.#turns.isInRush(this.#session.conversation?.resumedAt);
  }

  /** The answer concerns the client that asked, not one that has taken its place since. */
  async #authenticate(secret: Uint8Array | string): Promise<void> {
    const asker = this.#session.conversation;
    const principal = await authenticateSecret(this.#own.config, secret);
    if (this.#session.conversation === asker) this.#runner.run(() => this.#session.authenticated(principal));
  }

  async #report({ id, ask, scope }: Extract<Effect, { readonly type: "report" }>): Promise<void> {
    const { requests } = this.#session;
    const isWanted = () => !this.#session.isOver && requests.table.get(id) !== undefined;
    const outcome = await this.#reports
      .make(ask, scope, isWanted, this.#listing.joined)
      .then((document) => document !== undefined && ({ status: "ok", document } as const))
      .catch(() => ({ status: "error" }) as const);
    if (outcome) this.#runner.run(() => requests.reported(id, outcome));
  }

  /** Self-hosted: no client is connected, nothing is in flight, and everything known is stored. */
  get #mayRest(): boolean {
    const { activity, wakeUp } = this.#own;
    const session = this.#session;
    if (this.env.SELF_HOSTED === undefined || activity.isBusy || session.hasClient || session.isBusy) return false;
    // A departure that continues from the alarm keeps its retry delay in memory.
    return (session.isOver || session.resumption.isKept) && !session.isEnding && !wakeUp.isNear(WAKE_UP_IS_NEAR_MS);
  }
}
