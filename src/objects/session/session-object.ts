import { DurableObject } from "cloudflare:workers";
import { authenticateSecret } from "../../auth/principal.ts";
import { sameSecret } from "../../auth/secrets.ts";
import type { NoticeAnswer } from "../../engine/index.ts";
import { REFUSAL_HEADER } from "../../protocols/carrier/refusal.ts";
import type { Effect, Loss, Notice, Want } from "../../session/effects.ts";
import type { KeyOutcome } from "../../session/key-calls.ts";
import { SocketSession, VANISHED } from "../../session/socket-session.ts";
import { CLOSE } from "../../session/wire/protocol.ts";
import { Activity } from "../awake/activity.ts";
import { bookWakeUp } from "../awake/awake-sessions.ts";
import { WAKE_UP_IS_NEAR_MS } from "../awake/resting.ts";
import { answerClose, closeSocket } from "../calls/closing.ts";
import type { Listener } from "../calls/notices.ts";
import type { Env } from "../env.ts";
import { type SessionParts, sessionPartsOf } from "../session-common/session-parts.ts";
import { SessionRunner } from "../session-common/session-runner.ts";
import { type ClientEntry, decodeEntry, RESUME_HEADER, resumableFrom } from "./client-entry.ts";
import { ClientSockets } from "./client-sockets.ts";
import { Keepalives } from "./keepalives.ts";
import { Listing } from "./listing.ts";
import { inTurn, patienceFor, ReturnTurns } from "./paced-returns.ts";
import { Reports } from "./report-requests.ts";
import { ResumeAttempts } from "./resume-attempts.ts";
import { SessionRest } from "./session-rest.ts";
import { SessionSocket } from "./session-socket.ts";
import { SessionTelemetry } from "./session-telemetry.ts";

const encoder = new TextEncoder();
const MAX_MESSAGE_BYTES = 1_048_576;
/** Closes a socket whose saved state is of another version. */
const RESTARTED = 1012;
/** When the launcher dies, its guard kills workerd, within milliseconds unless the machine is busy. */
const GUARD_KILLS_WITHIN_MS = 250;

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
  readonly #attempts = new ResumeAttempts();
  /** A message has arrived since the object started. */
  #hasHeard = false;
  /** The client has left, and its session ends when its turn comes. */
  #hasLeft = false;
  /** Set once the session ends. */
  #ending: Promise<void> | undefined;

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
    this.#rest = new SessionRest(ctx, activity, {
      settle: () => this.#telemetry.settled(),
      isQuiet: () => this.#telemetry.isQuiet,
      mayRest: () => this.#mayRest,
    });
    // A request that waits for its turn sends nothing, however long that takes.
    this.#keepalives = new Keepalives(ctx, () => this.#session.requests.table.atWork > this.#turns.waiting);
    const [socket] = ctx.getWebSockets();
    if (socket) this.#restore(socket);
    else if (this.#session.resumption.isOn && !this.#session.isOver) this.#runner.run(() => this.#session.loseSocket());
  }

  /** Opens the session on a WebSocket, or resumes it. A refusal is a 503 with the reason in a header. */
  override fetch({ headers }: Request): Promise<Response> {
    return this.#own.activity.during(() => this.#receive(headers));
  }

  async #receive(headers: Headers): Promise<Response> {
    const entry = decodeEntry(headers);
    const secret = headers.get(RESUME_HEADER);
    const reason = secret === null ? await this.#admit(entry) : await this.#resume(secret);
    // Another client may have been let in meanwhile.
    const refusal = reason ?? (this.#session.conversation && "session_in_use");
    if (refusal) return new Response(null, { status: 503, headers: { [REFUSAL_HEADER]: refusal } });
    const { 0: theirs, 1: ours } = new WebSocketPair();
    try {
      this.ctx.acceptWebSocket(ours);
      this.#open(ours, entry);
    } finally {
      if (!this.#session.conversation) this.#runner.run(() => this.#session.opening(false));
    }
    return new Response(null, { status: 101, webSocket: theirs });
  }

  override webSocketMessage(socket: WebSocket, message: string | ArrayBuffer): Promise<void> | undefined {
    if (!this.#sockets.isCurrent(socket)) return undefined;
    this.#hasHeard = true;
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
    return this.#own.activity.during(() => this.#closed(socket, code));
  }

  async #closed(socket: WebSocket, code: number): Promise<void> {
    this.#sockets.closed(socket);
    answerClose(socket, code);
    if (this.#sockets.isReplaced(socket)) return;
    if (this.#session.survives(code, this.#session.conversation?.isKnown ?? this.#sockets.wasKnown(socket))) {
      this.#runner.run(() => this.#session.detach());
      return;
    }
    if (code === VANISHED) await this.#outliveLauncher();
    if (this.#isInRush) await this.#endInTurn();
    else await this.#end();
    if (this.#hasHeard || !this.#session.hasHungUp) return;
    await this.#telemetry.settled();
    // A socket on which no message ever arrived keeps its TCP connection when the server closes first (workerd
    // 2026-11). Nothing is left of the session here: dropping the object drops the connection.
    await this.ctx.storage.sync();
    this.ctx.abort("session over");
  }

  override webSocketError(socket: WebSocket): Promise<void> {
    return this.#own.activity.during(() => this.#broken(socket));
  }

  async #broken(socket: WebSocket): Promise<void> {
    if (this.#sockets.isReplaced(socket)) return;
    if (this.#session.resumption.isOn) {
      this.#runner.run(() => this.#session.detach());
      return;
    }
    await this.#outliveLauncher();
    await this.#end();
  }

  /**
   * Self-hosted, a broken connection may mean that the launcher was killed and this process is about to be: then the
   * client has not left, and everything stays as stored. Resolves if the process survives.
   */
  async #outliveLauncher(): Promise<void> {
    if (this.env.SELF_HOSTED === undefined) return;
    this.#session.hangUp();
    await scheduler.wait(GUARD_KILLS_WITHIN_MS);
  }

  override alarm(): Promise<void> {
    return this.#own.activity.during(async () => {
      this.#own.wakeUp.clear();
      const wasConnected = this.#session.conversation !== undefined;
      this.#runner.run(() => this.#session.wake());
      // A client that is being cut off answers the close, and that may abort this object.
      if (wasConnected) return;
      await this.#ending;
      await this.#runner.hasLeft();
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
        if (effect.refusal === undefined) this.#turns.returned(Date.now());
        this.#attempts.settle(effect.attempt, effect.refusal);
        break;
      case "ended":
        this.#sockets.drop();
        this.#telemetry.log("debug", "session_ended");
        this.#ending = this.#own.activity.during(() => this.#leave());
        this.ctx.waitUntil(this.#ending);
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

  async #admit(entry: ClientEntry): Promise<string | undefined> {
    this.#runner.run(() => this.#session.opening(true));
    const refusal = await this.#listing.join(entry);
    if (refusal !== undefined) this.#runner.run(() => this.#session.opening(false));
    return refusal;
  }

  /** Makes way for a new socket. Returns the reason if the client may not resume. */
  async #resume(secret: string): Promise<string | undefined> {
    if (this.#hasLeft) return "session_gone";
    const expected = this.#session.resumption.secret;
    const hasSecret = expected !== undefined && (await sameSecret(secret, expected));
    return this.#attempts.begin((attempt) => this.#runner.run(() => this.#session.resume(attempt, hasSecret)));
  }

  /** The session has just been resumed, and so have many others. */
  get #isInRush(): boolean {
    return this.#turns.isInRush(this.#session.conversation?.resumedAt);
  }

  #open(socket: WebSocket, entry: ClientEntry): void {
    this.#sockets.listenTo(SessionSocket.open(socket, this.#own.store, entry));
    const { protocol = "dflockd", isAuthenticated, rights } = entry;
    const client = { protocol, isAuthenticated, rights, resumableFrom: resumableFrom(entry) };
    this.#runner.run(() => this.#session.opened(client));
    this.#telemetry.log("debug", "session_opened", { transport: entry.transport });
  }

  #restore(socket: WebSocket): void {
    const { line, state } = SessionSocket.restore(socket, this.#own.store);
    if (!state) {
      closeSocket(socket, RESTARTED);
      if (this.#session.resumption.isOn) this.#runner.run(() => this.#session.loseSocket());
      return;
    }
    this.#sockets.listenTo(line);
    this.#runner.run(() => {
      this.#session.restored({ resumableFrom: resumableFrom(line.entry) }, state);
      if (this.#session.conversation) line.restored(this.#session.conversation);
    });
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

  /** The client has left: resolves when its keys have been left, and the session is no longer listed. */
  async #end(): Promise<void> {
    this.#runner.run(() => this.#session.end());
    await this.#ending;
  }

  /** Clients that resume come first: they lose everything if they are too late, and a departure costs more than they do. */
  async #endInTurn(): Promise<void> {
    this.#hasLeft = true;
    this.#session.hangUp();
    await inTurn(this.#own.config.resumeGraceMs, () => this.#end());
  }

  async #leave(): Promise<void> {
    const address = this.#session.resumption.address ?? this.#sockets.entry?.address ?? "";
    await Promise.all([this.#listing.leave(address), this.#runner.hasLeft()]);
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
