import { DurableObject } from "cloudflare:workers";
import { authenticateSecret } from "../../auth/principal.ts";
import { sameSecret } from "../../auth/secrets.ts";
import type { NoticeAnswer } from "../../engine/index.ts";
import { log } from "../../log.ts";
import { REFUSAL_HEADER } from "../../protocols/carrier/refusal.ts";
import type { Effect, Happening, Loss, Notice, Want } from "../../session/effects.ts";
import type { KeyOutcome } from "../../session/key-calls.ts";
import { SocketSession, VANISHED } from "../../session/socket-session.ts";
import { CLOSE } from "../../session/wire/protocol.ts";
import { Activity } from "../awake/activity.ts";
import { bookWakeUp } from "../awake/awake-sessions.ts";
import { WAKE_UP_IS_NEAR_MS } from "../awake/resting.ts";
import { answerClose, closeSocket } from "../calls/closing.ts";
import type { Listener } from "../calls/notices.ts";
import { ownerIdOf } from "../calls/session-names.ts";
import type { Env } from "../env.ts";
import { countAnswer } from "../metrics/count-answer.ts";
import { Meter } from "../metrics/meter.ts";
import { type SessionParts, sessionPartsOf } from "../session-common/session-parts.ts";
import { SessionRunner } from "../session-common/session-runner.ts";
import { type ClientEntry, decodeEntry, RESUME_HEADER, resumableFrom } from "./client-entry.ts";
import { Keepalives } from "./keepalives.ts";
import { Listing } from "./listing.ts";
import { ANSWERS_PER_MS, PacedInput } from "./paced-input.ts";
import { mustWait, noteReturn, patienceFor, ReturnTurns } from "./paced-returns.ts";
import { Reports } from "./report-requests.ts";
import { SessionRest } from "./session-rest.ts";
import { SessionSocket } from "./session-socket.ts";

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
  readonly #turns = new ReturnTurns();
  #socket: SessionSocket | undefined;
  #input: PacedInput | undefined;
  /** The session's newest socket, even after it is lost. */
  #lastSocket: SessionSocket | undefined;
  #entry: ClientEntry | undefined;
  #returnedAt = Number.NEGATIVE_INFINITY;
  /** Clients that want to resume, by attempt; resolved with the reason if one is refused. */
  readonly #attempts = new Map<number, (refusal: string | undefined) => void>();
  #lastAttempt = 0;
  /** A message has arrived since the object started. */
  #hasHeard = false;
  /** Set once the client has left. */
  #ending: Promise<void> | undefined;
  #meter: Meter | undefined;

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env);
    const activity = new Activity(() => this.#rest.soon());
    this.#own = sessionPartsOf(ctx, env, activity);
    this.#session = new SocketSession(this.#own.origin);
    this.#runner = new SessionRunner(this.#session, {
      ...this.#own,
      handle: (effect) => this.#handle(effect),
      progressed: () => this.#progressed(),
      defer: (time) => bookWakeUp(env, time),
      pace: ({ call, key, request }, make) => {
        const isWanted = () => this.#session.context.isCallWanted(call);
        if (!request || (!this.#turns.isWaiting(key) && !this.#isAmongMany())) return make();
        const patienceMs = patienceFor(request, this.#own.config.defaultLeaseSeconds * 1_000);
        return this.#turns.run<KeyOutcome | "skipped">(key, patienceMs, async () => (isWanted() ? make() : "skipped"));
      },
    });
    this.#listing = new Listing(env, this.#own);
    this.#reports = new Reports(env);
    this.#rest = new SessionRest(ctx, activity, {
      settle: () => this.#meter?.settled(),
      isQuiet: () => this.#meter?.isQuiet !== false,
      mayRest: () => this.#mayRest,
    });
    this.#keepalives = new Keepalives(ctx, () => this.#session.requests.table.isAtWork);
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
    if (!this.#socket?.isOn(socket)) return undefined;
    this.#hasHeard = true;
    this.#keepalives.atWork();
    if (this.#session.isProbing) this.#runner.run(() => this.#session.heard());
    if (this.#session.context.callsInFlight === 0) this.#own.keys.clientWaited();
    if (message === "") return undefined;
    const bytes = typeof message === "string" ? encoder.encode(message) : new Uint8Array(message);
    if (bytes.length <= MAX_MESSAGE_BYTES) return this.#input?.take(bytes);
    this.#runner.run(() => this.#session.close(CLOSE.tooLong));
    return undefined;
  }

  override webSocketClose(socket: WebSocket, code: number): Promise<void> {
    return this.#own.activity.during(() => this.#closed(socket, code));
  }

  async #closed(socket: WebSocket, code: number): Promise<void> {
    if (this.#socket?.isOn(socket)) this.#input?.forget();
    answerClose(socket, code);
    if (this.#isReplaced(socket)) return;
    if (this.#session.survives(code, this.#isKnownOn(socket))) {
      this.#runner.run(() => this.#session.detach());
      return;
    }
    if (code === VANISHED) await this.#outliveLauncher();
    await this.#end();
    if (this.#hasHeard || !this.#session.hasHungUp) return;
    await this.#meter?.settled();
    // A socket on which no message ever arrived keeps its TCP connection when the server closes first (workerd
    // 2026-11). Nothing is left of the session here: dropping the object drops the connection.
    await this.ctx.storage.sync();
    this.ctx.abort("session over");
  }

  override webSocketError(socket: WebSocket): Promise<void> {
    return this.#own.activity.during(() => this.#broken(socket));
  }

  async #broken(socket: WebSocket): Promise<void> {
    if (this.#isReplaced(socket)) return;
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
        this.#socket?.send(effect.line);
        break;
      case "close":
        this.#socket?.close(effect.code);
        break;
      case "known":
        if (this.#entry?.protocol !== "godistlock") this.#keepalives.begin();
        break;
      case "detached":
        this.#dropSocket();
        break;
      case "kept":
        this.#rest.soon();
        break;
      case "resumed":
        this.#resumed(effect.attempt, effect.refusal);
        break;
      case "ended":
        this.#dropSocket();
        this.#debug("session_ended", {});
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
        this.#count(effect.happening);
        break;
      case "log":
        if (effect.level === "debug") this.#debug(effect.event, effect.fields);
        else log(effect.level, effect.event, { ...effect.fields });
    }
  }

  /** Saves what a sleep would lose, and arms the read deadline. */
  #progressed(): void {
    const { conversation, isOver } = this.#session;
    if (!conversation || isOver) return;
    this.#socket?.progressed(conversation);
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
    const expected = this.#session.resumption.secret;
    const hasSecret = expected !== undefined && (await sameSecret(secret, expected));
    this.#lastAttempt += 1;
    const attempt = this.#lastAttempt;
    const { promise, resolve } = Promise.withResolvers<string | undefined>();
    this.#attempts.set(attempt, resolve);
    this.#runner.run(() => this.#session.resume(attempt, hasSecret));
    return promise;
  }

  #resumed(attempt: number, refusal: string | undefined): void {
    if (refusal === undefined) this.#noteReturn(Date.now());
    this.#attempts.get(attempt)?.(refusal);
    this.#attempts.delete(attempt);
  }

  /** Counts at most once per grace period: one client that resumes again and again is no rush. */
  #noteReturn(now: number): void {
    if (now - this.#returnedAt > this.#own.config.resumeGraceMs) noteReturn(now);
    this.#returnedAt = now;
  }

  /** The session has just been resumed, and so have many others. */
  #isAmongMany(): boolean {
    const resumedAt = this.#session.conversation?.resumedAt ?? Number.NEGATIVE_INFINITY;
    const now = Date.now();
    return now - resumedAt < this.#own.config.resumeGraceMs && mustWait(now);
  }

  #open(socket: WebSocket, entry: ClientEntry): void {
    this.#listenTo(SessionSocket.open(socket, this.#own.store, entry));
    const { protocol = "dflockd", isAuthenticated, rights } = entry;
    const client = { protocol, isAuthenticated, rights, resumableFrom: resumableFrom(entry) };
    this.#runner.run(() => this.#session.opened(client));
    this.#debug("session_opened", { transport: entry.transport });
  }

  #restore(socket: WebSocket): void {
    const { line, state } = SessionSocket.restore(socket, this.#own.store);
    if (!state) {
      closeSocket(socket, RESTARTED);
      if (this.#session.resumption.isOn) this.#runner.run(() => this.#session.loseSocket());
      return;
    }
    this.#listenTo(line);
    this.#runner.run(() => {
      this.#session.restored({ resumableFrom: resumableFrom(line.entry) }, state);
      if (this.#session.conversation) line.restored(this.#session.conversation);
    });
  }

  #listenTo(socket: SessionSocket): void {
    this.#own.store.useShelf(socket, socket.keys);
    [this.#socket, this.#lastSocket, this.#entry] = [socket, socket, socket.entry];
    const pace = socket.entry.hasWindow ? ANSWERS_PER_MS.carrier : ANSWERS_PER_MS.client;
    this.#input = new PacedInput((piece) => this.#hear(socket, piece), pace);
  }

  /** Processes a piece of input; an empty one is the end of input. Returns the number of answers sent synchronously. */
  #hear(socket: SessionSocket, bytes: Uint8Array): number {
    if (this.#socket !== socket) return 0;
    const { said } = socket;
    socket.heard(bytes.length);
    this.#runner.run(() => this.#session.received(bytes));
    return socket.said - said;
  }

  #dropSocket(): void {
    this.#socket?.end();
    this.#socket = undefined;
  }

  /** Whether this is an older socket of the session, not its current or last one. */
  #isReplaced(socket: WebSocket): boolean {
    // When a close wakes the object, its socket is no longer among the open ones: only the event has it.
    this.#entry ??= SessionSocket.entryOf(socket);
    if (!this.#lastSocket) this.#own.store.useShelf(undefined, SessionSocket.keysOf(socket));
    return this.#lastSocket !== undefined && !this.#lastSocket.isOn(socket);
  }

  /** Whether the client on this socket, the session's last, had authenticated as far as the service requires. */
  #isKnownOn(socket: WebSocket): boolean {
    return this.#session.conversation?.isKnown ?? SessionSocket.phaseOf(socket, this.#own.store) !== "handshake";
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

  #count(happening: Happening): void {
    this.#meter ??= new Meter(this.env, (promise) => this.ctx.waitUntil(promise));
    if (happening.type === "answered") countAnswer(this.#meter, happening.status);
    else if (happening.type === "protocol_error")
      this.#meter.count("protocol_errors_total", { code: String(happening.code) });
    else this.#meter.count("auth_failures_total", { transport: this.#entry?.transport ?? "ws" });
  }

  #debug(event: string, fields: object): void {
    if (this.#own.config.debug) log("debug", event, { session: ownerIdOf(this.#own.session), ...fields });
  }

  /** The client has left: resolves when its keys have been left, and the session is no longer listed. */
  async #end(): Promise<void> {
    this.#runner.run(() => this.#session.end());
    await this.#ending;
  }

  async #leave(): Promise<void> {
    const address = this.#session.resumption.address ?? this.#entry?.address ?? "";
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
