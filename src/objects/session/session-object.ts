import { DurableObject } from "cloudflare:workers";
import type { Scope } from "../../auth/scope.ts";
import type { Answer } from "../../engine/index.ts";
import { log, logged } from "../../log.ts";
import { REFUSAL_HEADER } from "../../protocols/carrier/refusal.ts";
import { keyDocument, statsDocument } from "../../reports/stats.ts";
import { Activity } from "../awake/activity.ts";
import { bookWakeUp } from "../awake/awake-sessions.ts";
import { rest, settled, WAKE_UP_IS_NEAR_MS } from "../awake/resting.ts";
import { answerClose } from "../calls/closing.ts";
import { directoryOfAddress } from "../calls/directories.ts";
import type { Listener, Loss, Notice } from "../calls/notices.ts";
import { ownerIdOf } from "../calls/session-names.ts";
import type { SessionAdmission } from "../directory/directory-object.ts";
import type { Env } from "../env.ts";
import { countAnswer } from "../metrics/count-answer.ts";
import { Meter } from "../metrics/meter.ts";
import { type Moment, momentNow } from "../pacing/shared-answers.ts";
import { Operations } from "../session-common/operations.ts";
import { type SessionParts, sessionPartsOf } from "../session-common/session-parts.ts";
import { BegunSteals } from "./begun-steals.ts";
import { type ClientEntry, decodeEntry, RESUME_HEADER } from "./client-entry.ts";
import { Conversation } from "./conversation.ts";
import { CLOSE, type ConversationHost, type ConversationState, type Happening } from "./conversation-host.ts";
import { HandshakeWatch } from "./handshake-deadline.ts";
import { Keepalives } from "./keepalives.ts";
import { ANSWERS_PER_MS, PacedInput } from "./paced-input.ts";
import { noteReturn } from "./paced-returns.ts";
import { PresenceProbe } from "./presence-probe.ts";
import { RecentLosses } from "./recent-losses.ts";
import { Resumption } from "./resumption.ts";
import { SessionSocket } from "./session-socket.ts";

const encoder = new TextEncoder();
const MAX_MESSAGE_BYTES = 1_048_576;
/** A socket that ended without a close frame. */
const VANISHED = 1006;
/** When the launcher dies, its guard kills workerd, within milliseconds unless the machine is busy. */
const GUARD_KILLS_WITHIN_MS = 250;
/** How often a session without a client checks for unreported counts and an open socket before it rests anyway. */
const MAX_LOOKS = 20;
/** Close codes with which a client has lost or given up its socket, but has not left. */
const LOST_CODES: ReadonlySet<number> = new Set([VANISHED, 1012, CLOSE.parted, CLOSE.auth]);

/**
 * One client's session: it lives as long as its socket or, if the client has asked for that, a little longer. While the
 * client waits or idles the object may sleep; its state is then with the socket, in storage or at the keys. When the
 * client leaves, everything it had is given up. When the object itself is lost with its socket, its holds stay: a fault
 * of ours must not release a client's lock.
 */
export class SessionObject extends DurableObject<Env> implements Listener {
  readonly #own: SessionParts;
  readonly #operations: Operations;
  readonly #resumption: Resumption;
  readonly #losses: RecentLosses;
  readonly #steals: BegunSteals;
  readonly #presence: PresenceProbe;
  readonly #handshake: HandshakeWatch;
  readonly #keepalives: Keepalives;
  #line: SessionSocket | undefined;
  #ear: PacedInput | undefined;
  /** The session's newest socket, even after it is lost. */
  #lastLine: SessionSocket | undefined;
  #entry: ClientEntry | undefined;
  #conversation: Conversation | undefined;
  #joined: Promise<SessionAdmission> = Promise.resolve("admitted");
  /** Reports made from this moment on count this session. */
  #joinedBy: Moment | undefined;
  #isOpening = false;
  #returnedAt = Number.NEGATIVE_INFINITY;
  /** Serialises resume attempts. */
  #resuming: Promise<unknown> = Promise.resolve();
  /** A message has arrived since the object started. */
  #hasHeard = false;
  /** The server closed first. */
  #hasHungUp = false;
  /** Set once the client has left. */
  #ending: Promise<void> | undefined;
  #meter: Meter | undefined;
  #isAboutToRest = false;

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env);
    this.#own = sessionPartsOf(ctx, env, new Activity(() => this.#restSoon()));
    this.#operations = new Operations(this.#own);
    const { resumeGraceMs } = this.#own.config;
    const wakeUp = { by: (time: number) => this.#own.wakeUp.by(bookWakeUp(env, time)) };
    this.#resumption = new Resumption(ctx.storage, wakeUp, resumeGraceMs, () => this.#restSoon());
    this.#losses = new RecentLosses(ctx.storage, resumeGraceMs);
    this.#steals = new BegunSteals(ctx.storage);
    this.#presence = new PresenceProbe(resumeGraceMs);
    this.#handshake = new HandshakeWatch(this.#own.wakeUp);
    this.#keepalives = new Keepalives(ctx, () => this.#conversation?.isAtWork === true);
    const [socket] = ctx.getWebSockets();
    if (socket) this.#restore(socket);
    else if (this.#resumption.isOn && !this.#own.store.isEnding()) this.#loseSocket();
  }

  /** Opens the session on a WebSocket, or resumes it. A refusal is a 503 with the reason in a header. */
  override fetch({ headers }: Request): Promise<Response> {
    return this.#own.activity.during(() => this.#receive(headers));
  }

  async #receive(headers: Headers): Promise<Response> {
    const entry = decodeEntry(headers);
    const secret = headers.get(RESUME_HEADER);
    const refusal = secret === null ? await this.#admit(entry) : await this.#mayResume(secret);
    if (refusal) return new Response(null, { status: 503, headers: { [REFUSAL_HEADER]: refusal } });
    const { 0: theirs, 1: ours } = new WebSocketPair();
    try {
      this.ctx.acceptWebSocket(ours);
      this.#open(ours, entry);
    } finally {
      this.#isOpening = false;
    }
    return new Response(null, { status: 101, webSocket: theirs });
  }

  override webSocketMessage(socket: WebSocket, message: string | ArrayBuffer): Promise<void> | undefined {
    if (!this.#line?.isOn(socket)) return undefined;
    this.#hasHeard = true;
    this.#presence.heard();
    this.#keepalives.atWork();
    if (message === "") return undefined;
    const bytes = typeof message === "string" ? encoder.encode(message) : new Uint8Array(message);
    if (bytes.length <= MAX_MESSAGE_BYTES) return this.#ear?.take(bytes);
    this.#conversation?.hangUp();
    this.#close(this.#line, CLOSE.tooLong);
    return undefined;
  }

  override webSocketClose(socket: WebSocket, code: number): Promise<void> {
    return this.#own.activity.during(() => this.#closed(socket, code));
  }

  async #closed(socket: WebSocket, code: number): Promise<void> {
    if (this.#line?.isOn(socket)) this.#ear?.forget();
    answerClose(socket, code);
    if (this.#isReplaced(socket)) return;
    const hasLeft = !LOST_CODES.has(code) && this.#isKnownOn(socket);
    if (!hasLeft && !this.#hasHungUp && this.#resumption.isOn) {
      this.#detach();
      return;
    }
    if (code === VANISHED) await this.#outliveLauncher();
    await this.#end();
    if (this.#hasHeard || !this.#hasHungUp) return;
    await this.#meter?.flush();
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
    if (this.#resumption.isOn) {
      this.#detach();
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
    this.#conversation?.hangUp();
    await scheduler.wait(GUARD_KILLS_WITHIN_MS);
  }

  override alarm(): Promise<void> {
    return this.#own.activity.during(() => this.#wake());
  }

  async #wake(): Promise<void> {
    this.#own.wakeUp.clear();
    if (this.#conversation && !this.#ending && Date.now() < this.#resumption.endsAt) {
      this.#conversation.tick();
      this.#progressed();
      this.#own.wakeUp.by(this.#resumption.endsAt);
    } else if (this.#own.store.isEnding()) await this.#own.departure.run();
    else if (this.#isDetached) this.#own.wakeUp.by(this.#resumption.endsAt);
    else if (this.#resumption.isOn) {
      this.#line?.close(CLOSE.gone);
      await this.#end();
    } else if (!this.#hasClient) await this.#own.store.deleteAll();
  }

  deliver(notice: Notice): Promise<Answer> {
    return this.#own.activity.during(() => this.#deliver(notice));
  }

  async #deliver(notice: Notice): Promise<Answer> {
    if (!this.#conversation && this.#isDetached) return notice.kind === "promoted" ? "noted" : "later";
    this.#keepalives.atWork();
    return (await this.#conversation?.deliver(notice)) ?? "gone";
  }

  lose(loss: Loss): Promise<void> {
    return this.#own.activity.during(async () => {
      this.#operations.lost(loss.key, loss.token);
      if (this.#resumption.isOn && !this.#isOver) this.#losses.remember(loss, Date.now());
      this.#conversation?.lose(loss);
      this.#line?.flush();
    });
  }

  /**
   * Whether a client is connected, is connecting, or may still resume. A session that lost its socket to a fault and
   * cannot be resumed is dead for good.
   */
  isLive(): Promise<boolean> {
    return this.#own.activity.during(() => this.#lives());
  }

  async #lives(): Promise<boolean> {
    if (this.#hasClient || this.#isDetached) return true;
    if (this.#isOver) return false;
    const { store } = this.#own;
    // Its grace period is over, its alarm late. Not awaited: ending it calls the directory, which awaits this answer.
    if (this.#resumption.isOn) this.ctx.waitUntil(this.#end());
    else if (store.keys().length > 0) await store.deleteAll();
    return false;
  }

  get #hasClient(): boolean {
    return !this.#ending && (this.#isOpening || this.#line !== undefined);
  }

  /** The socket is lost, and the client may still resume. */
  get #isDetached(): boolean {
    return !this.#isOver && !this.#line && this.#resumption.isOn && Date.now() < this.#resumption.endsAt;
  }

  /** The client has left, possibly before the object was restarted. */
  get #isOver(): boolean {
    return this.#ending !== undefined || this.#own.store.isEnding();
  }

  /** Whether this is an older socket of the session, not its current or last one. */
  #isReplaced(socket: WebSocket): boolean {
    // When a close wakes the object, its socket is no longer among the open ones: only the event has it.
    this.#entry ??= SessionSocket.entryOf(socket);
    return this.#lastLine !== undefined && !this.#lastLine.isOn(socket);
  }

  /** Whether the client on this socket, the session's last, had authenticated as far as the service requires. */
  #isKnownOn(socket: WebSocket): boolean {
    return this.#conversation?.isKnown ?? SessionSocket.phaseOf(socket, this.#own.store) !== "handshake";
  }

  /** Lists the session in the directory. Returns the reason if a cap forbids it. */
  async #admit(entry: ClientEntry): Promise<string | undefined> {
    this.#isOpening = true;
    const { config, session } = this.#own;
    const directory = directoryOfAddress(this.env, entry.address);
    this.#joined = this.#own.activity.during(() =>
      directory.openSession(session, entry.address, entry.transport, entry.label),
    );
    if (config.maxConnections === 0 && config.maxConnectionsPerIp === 0) {
      this.#joined.catch(logged("directory_unreachable"));
      return undefined;
    }
    const admission = await this.#joined;
    this.#isOpening = admission === "admitted";
    return admission === "admitted" ? undefined : admission;
  }

  /** Makes way for a new socket, unless the secret is wrong or the client is still connected on the old one. */
  #mayResume(secret: string): Promise<string | undefined> {
    const attempt = this.#resuming.then(async () => {
      if (!(await this.#resumption.isRight(secret)) || !(this.#line || this.#isDetached)) return "session_gone";
      // An unauthenticated connection may always be replaced.
      const isTaken = this.#line && this.#conversation?.isKnown && (await this.#presence.isThere(this.#line));
      if (isTaken) return "session_in_use";
      if (this.#ending || !(this.#line || this.#isDetached)) return "session_gone";
      this.#line?.close(CLOSE.replaced);
      this.#loseSocket();
      this.#isOpening = true;
      this.#noteReturn(Date.now());
      return undefined;
    });
    this.#resuming = attempt.catch(() => {});
    return attempt;
  }

  /** Counts at most once per grace period: one client that resumes again and again is no rush. */
  #noteReturn(now: number): void {
    if (now - this.#returnedAt > this.#own.config.resumeGraceMs) noteReturn(now);
    this.#returnedAt = now;
  }

  /** The socket is lost, the session is not: it keeps its locks and places until the grace period ends. */
  #detach(): void {
    this.#loseSocket();
    this.#resumption.keep();
  }

  /**
   * The same, for a session whose client is already back or may be any moment, as after a crash of the service. Nothing
   * is written unless the client stays away.
   */
  #loseSocket(): void {
    this.#presence.lost();
    this.#handshake.end();
    this.#line?.end();
    this.#line = undefined;
    this.#conversation?.detach();
    this.#conversation = undefined;
    this.#resumption.detach(Date.now());
  }

  /**
   * Self-hosted, a session without a client closes its files as soon as nothing is in flight: otherwise clients that
   * come and go would use up all open files. Everything it needs is stored, and the next call wakes it.
   */
  #restSoon(): void {
    if (this.env.SELF_HOSTED === undefined || this.#isAboutToRest || !this.#mayRest) return;
    this.#isAboutToRest = true;
    this.ctx.waitUntil(
      this.#rest().finally(() => {
        this.#isAboutToRest = false;
      }),
    );
  }

  async #rest(): Promise<void> {
    const { activity } = this.#own;
    for (let looks = 1; this.#mayRest; looks++) {
      const { begun } = activity;
      await this.#meter?.flush();
      await settled(this.ctx);
      const isQuiet = this.#meter?.isQuiet !== false && this.ctx.getWebSockets().length === 0;
      if ((isQuiet || looks >= MAX_LOOKS) && activity.begun === begun && this.#mayRest) rest(this.ctx);
    }
  }

  /** No client is connected, nothing is in flight, and everything known is stored. */
  get #mayRest(): boolean {
    const { activity, store, wakeUp } = this.#own;
    if (activity.isBusy || this.#hasClient) return false;
    const isStored = this.#ending !== undefined || this.#resumption.isKept;
    // A departure that continues from the alarm keeps its retry delay in memory.
    return isStored && !store.isEnding() && !wakeUp.isNear(WAKE_UP_IS_NEAR_MS);
  }

  /** The private interface between the conversation and this object. */
  #hostOn(line: SessionSocket): ConversationHost {
    return {
      session: this.#own.session,
      send: (text) => line.send(text),
      close: (code) => this.#close(line, code),
      stats: (scope, asked) => this.#stats(scope, asked),
      query: (key, asked) => this.#own.activity.during(() => this.#query(key, asked)),
      makeResumable: () => this.#makeResumable(line),
      recentLosses: () => this.#losses.at(Date.now()),
      beginsSteal: (tag) => this.#steals.begin(tag),
      count: (happening) => this.#count(happening),
      authenticated: () => {
        this.#handshake.end();
        this.#resumption.attach();
        this.#keepalives.begin();
      },
      progressed: () => this.#progressed(),
      debug: (event, fields) => this.#debug(event, fields),
      now: () => Date.now(),
    };
  }

  #close(line: SessionSocket, code: number): void {
    line.close(code);
    // A client that failed to authenticate never controlled the session and must not be able to end it.
    const isKnown = code !== CLOSE.auth && this.#conversation?.isKnown !== false;
    if (!isKnown && this.#resumption.isOn) {
      this.#detach();
      return;
    }
    this.#hasHungUp = true;
    this.ctx.waitUntil(this.#end());
  }

  async #stats(scope: Scope | undefined, asked: Moment): Promise<string> {
    await this.#joined;
    this.#joinedBy ??= momentNow();
    const moment = Math.max(asked, this.#joinedBy);
    return this.#own.activity.during(() => statsDocument(this.env, { scope }, moment));
  }

  async #query(key: string, asked: Moment): Promise<string> {
    return (await keyDocument(this.env, key, { history: false }, asked)) ?? "null";
  }

  #makeResumable({ entry }: SessionSocket): ReturnType<ConversationHost["makeResumable"]> {
    // Behind a carrier there is no client that could resume its session on another connection.
    const secret = entry.hasWindow ? undefined : this.#resumption.enable(entry.address);
    if (secret === undefined) return undefined;
    const graceSeconds = this.#own.config.resumeGraceMs / 1000;
    return { credential: `${this.#own.session}.${secret}`, graceSeconds };
  }

  #count(happening: Happening): void {
    this.#meter ??= new Meter(this.env, this.#own.session, (promise) => this.ctx.waitUntil(promise));
    if (happening.type === "answered") countAnswer(this.#meter, happening.status);
    else if (happening.type === "protocol_error")
      this.#meter.count("protocol_errors_total", { code: String(happening.code) });
    else this.#meter.count("auth_failures_total", { transport: this.#entry?.transport ?? "ws" });
  }

  #debug(event: string, fields: Record<string, unknown>): void {
    if (this.#own.config.debug) log("debug", event, { session: ownerIdOf(this.#own.session), ...fields });
  }

  /** Saves what a sleep would lose, and arms the read deadline. */
  #progressed(): void {
    const conversation = this.#conversation;
    if (!conversation || this.#ending) return;
    this.#line?.progressed(conversation);
    if (conversation.isKnown) this.#own.wakeUp.by(conversation.readDeadline);
  }

  #open(socket: WebSocket, entry: ClientEntry): void {
    const { authToken, adminToken } = this.#own.config;
    const isKnown = authToken === undefined || entry.isAuthenticated;
    const phase = !isKnown ? "handshake" : (authToken ?? adminToken) === undefined ? "open" : "greeted";
    if (isKnown) this.#resumption.attach();
    const conversation = this.#converse(SessionSocket.open(socket, this.#own.store, entry), {
      phase,
      rights: entry.rights,
      isResumable: this.#resumption.isOn,
      isResumed: this.#resumption.isOn,
      openedAt: Date.now(),
      isWatching: false,
      partial: new Uint8Array(0),
      midFrameSince: 0,
      turns: [],
      waiting: [],
    });
    if (isKnown) this.#keepalives.begin();
    else this.#handshake.begin(conversation);
    this.#debug("session_opened", { transport: entry.transport });
    this.#progressed();
  }

  #restore(socket: WebSocket): void {
    const { line, state } = SessionSocket.restore(socket, this.#own.store);
    const conversation = this.#converse(line, state);
    line.restored(conversation);
    if (!conversation.isKnown) this.#own.wakeUp.by(Math.min(conversation.readDeadline, this.#resumption.endsAt));
  }

  #converse(line: SessionSocket, state: ConversationState): Conversation {
    this.#line = line;
    this.#lastLine = line;
    this.#entry = line.entry;
    const conversation = new Conversation(this.#hostOn(line), this.#operations, this.#own.config, state);
    this.#conversation = conversation;
    const pace = line.entry.hasWindow ? ANSWERS_PER_MS.carrier : ANSWERS_PER_MS.client;
    this.#ear = new PacedInput((piece) => this.#hear(line, conversation, piece), pace);
    return conversation;
  }

  /** Processes a piece of input; an empty one is the end of input. Returns the number of answers sent synchronously. */
  #hear(line: SessionSocket, conversation: Conversation, bytes: Uint8Array): number {
    if (this.#line !== line) return 0;
    const { said } = line;
    line.heard(bytes.length);
    if (bytes.length === 0) conversation.endOfInput();
    else conversation.receive(bytes);
    this.#progressed();
    return line.said - said;
  }

  /** The client has left: gives up its places and, as configured, its holds, and deletes the session. */
  #end(): Promise<void> {
    this.#ending ??= this.#own.activity.during(() => this.#leave());
    return this.#ending;
  }

  async #leave(): Promise<void> {
    this.#debug("session_ended", {});
    this.#resumption.end();
    this.#handshake.end();
    this.#line?.end();
    this.#line = undefined;
    this.#conversation?.hangUp();
    await Promise.all([this.#leaveDirectory(), this.#own.departure.run()]);
  }

  async #leaveDirectory(): Promise<void> {
    await this.#joined.catch(() => {});
    const address = this.#resumption.address ?? this.#entry?.address ?? "";
    await directoryOfAddress(this.env, address).closeSession(this.#own.session).catch(logged("directory_unreachable"));
  }
}
