import { DurableObject } from "cloudflare:workers";
import type { Answer } from "../engine/index.ts";
import { log, logged } from "../log.ts";
import { type Scope, seesKey } from "../scope.ts";
import { countAnswer } from "./answered.ts";
import { BegunSteals } from "./begun-steals.ts";
import { type Belongings, belongingsOf, depart } from "./belongings.ts";
import { Conversation } from "./conversation.ts";
import { CLOSE, type ConversationState, type Happening, type Host } from "./conversation-host.ts";
import { directoryOfAddress } from "./directories.ts";
import type { SessionAdmission } from "./directory.ts";
import { decodeEntry, type Entry, REFUSAL_HEADER, RESUME_HEADER } from "./entry.ts";
import type { Env } from "./env.ts";
import { closeSocket, Line } from "./line.ts";
import { Meter } from "./meter.ts";
import type { Listener, Loss, Notice } from "./notices.ts";
import { Operations } from "./operations.ts";
import { ownerIdOf } from "./owner.ts";
import { Presence } from "./presence.ts";
import { RecentLosses } from "./recent-losses.ts";
import { Resumption } from "./resumption.ts";
import { gatherKey, gatherStats } from "./stats.ts";

const encoder = new TextEncoder();
const KEEPALIVE = { request: "@keepalive ping\n_\n_\n", response: "@keepalive ok\n" };
const MOST_MESSAGE_BYTES = 1_048_576;
/** With these a client has lost its socket, or given it up, but has not left. */
const LOST_CODES: ReadonlySet<number> = new Set([1006, 1012, CLOSE.parted, CLOSE.auth]);

/**
 * One client's session: it lives as long as its socket or, if the client has asked for that, a little longer. While the
 * client waits or idles the object may sleep; whatever it must know then is with the socket, in storage or at the keys.
 * When the client leaves, everything it had is given up. When the object itself is lost with its socket, its holds
 * stay: a fault of ours takes nobody's lock.
 */
export class SessionObject extends DurableObject<Env> implements Listener {
  readonly #own: Belongings;
  readonly #operations: Operations;
  readonly #resumption: Resumption;
  readonly #losses: RecentLosses;
  readonly #steals: BegunSteals;
  readonly #presence: Presence;
  #line: Line | undefined;
  /** The newest line there was, also when it is lost. */
  #lastLine: Line | undefined;
  #entry: Entry | undefined;
  #conversation: Conversation | undefined;
  #joined: Promise<SessionAdmission> = Promise.resolve("admitted");
  #isOpening = false;
  /** Attempts to take the session up take turns. */
  #resuming: Promise<unknown> = Promise.resolve();
  /** A message has come in this life of the object. */
  #hasHeard = false;
  /** The first to close was the server. */
  #hasHungUp = false;
  /** Set once the client has left. */
  #ending: Promise<void> | undefined;
  #meter: Meter | undefined;

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env);
    this.#own = belongingsOf(ctx, env);
    this.#operations = new Operations(this.#own);
    const { resumeGraceMs } = this.#own.config;
    this.#resumption = new Resumption(ctx.storage, resumeGraceMs);
    this.#losses = new RecentLosses(ctx.storage, resumeGraceMs);
    this.#steals = new BegunSteals(ctx.storage);
    this.#presence = new Presence(resumeGraceMs);
    const [socket] = ctx.getWebSockets();
    if (socket) this.#restore(socket);
    else if (this.#resumption.isOn && !this.#own.store.isEnding()) this.#detach();
  }

  /** Opens the session on a WebSocket, or takes it up again. A refusal is a 503 that says why in a header. */
  override async fetch({ headers }: Request): Promise<Response> {
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

  override webSocketMessage(socket: WebSocket, message: string | ArrayBuffer): void {
    const conversation = this.#conversation;
    if (!conversation || !this.#line?.isOn(socket)) return;
    this.#hasHeard = true;
    this.#presence.heard();
    if (typeof message === "string") {
      if (message !== "") this.#receive(conversation, encoder.encode(message));
    } else if (message.byteLength === 0) conversation.endOfInput();
    else this.#receive(conversation, new Uint8Array(message));
    this.#progressed();
  }

  override async webSocketClose(socket: WebSocket, code: number): Promise<void> {
    // Hibernatable sockets do not answer a close by themselves (workerd 2026-11).
    closeSocket(socket, code);
    if (this.#isReplaced(socket)) return;
    const hasLeft = !LOST_CODES.has(code) && this.#isKnownOn(socket);
    if (!hasLeft && !this.#hasHungUp && this.#resumption.isOn) {
      this.#detach();
      return;
    }
    await this.#end();
    if (this.#hasHeard || !this.#hasHungUp) return;
    // A socket on which no message ever came keeps its TCP connection when the server closes first (workerd 2026-11).
    // Nothing is left of the session here: dropping the object drops the connection.
    await this.ctx.storage.sync();
    this.ctx.abort("session over");
  }

  override async webSocketError(socket: WebSocket): Promise<void> {
    if (this.#isReplaced(socket)) return;
    if (this.#resumption.isOn) this.#detach();
    else await this.#end();
  }

  override async alarm(): Promise<void> {
    this.#own.wakeUp.clear();
    if (this.#conversation && !this.#ending && Date.now() < this.#resumption.endsAt) {
      this.#conversation.tick();
      this.#progressed();
    } else if (this.#own.store.isEnding()) await depart(this.#own);
    else if (this.#isDetached) this.#own.wakeUp.by(this.#resumption.endsAt);
    else if (this.#resumption.isOn) {
      this.#line?.close(CLOSE.gone);
      await this.#end();
    } else if (!this.#hasClient) await this.#own.store.deleteAll();
  }

  async deliver(notice: Notice): Promise<Answer> {
    if (!this.#conversation && this.#isDetached) return notice.kind === "promoted" ? "noted" : "later";
    return (await this.#conversation?.deliver(notice)) ?? "gone";
  }

  async lose(loss: Loss): Promise<void> {
    this.#operations.lost(loss.key, loss.token);
    if (this.#resumption.isOn && !this.#isOver) this.#losses.remember(loss, Date.now());
    this.#conversation?.lose(loss);
    this.#line?.flush();
  }

  /**
   * Whether a client is, is about to be, or may soon be connected again. A session that lost its socket to a fault and
   * cannot be taken up is dead for good.
   */
  async isLive(): Promise<boolean> {
    if (this.#hasClient || this.#isDetached) return true;
    const { store } = this.#own;
    if (!this.#ending && !store.isEnding() && store.keys().length > 0) await store.deleteAll();
    return false;
  }

  get #hasClient(): boolean {
    return !this.#ending && (this.#isOpening || this.#line !== undefined);
  }

  /** The socket is lost, and the time in which the client may come back is not over. */
  get #isDetached(): boolean {
    return !this.#isOver && !this.#line && this.#resumption.isOn && Date.now() < this.#resumption.endsAt;
  }

  /** The client has left, in this life of the object or in an earlier one. */
  get #isOver(): boolean {
    return this.#ending !== undefined || this.#own.store.isEnding();
  }

  /** Another socket of the session is lost, not the one it speaks on or spoke on last. */
  #isReplaced(socket: WebSocket): boolean {
    // A close that wakes the object finds its socket no longer among the open ones: only the event has it.
    this.#entry ??= Line.entryOf(socket);
    return this.#lastLine !== undefined && !this.#lastLine.isOn(socket);
  }

  /** Whether whoever was on this socket, the session's last, had shown what the service asks for. */
  #isKnownOn(socket: WebSocket): boolean {
    return this.#conversation?.isKnown ?? Line.phaseOf(socket, this.#own.store) !== "handshake";
  }

  /** Lists the session in the directory; why it may not be, if a cap forbids it. */
  async #admit(entry: Entry): Promise<string | undefined> {
    this.#isOpening = true;
    const { config, session } = this.#own;
    const directory = directoryOfAddress(this.env, entry.address);
    this.#joined = directory.openSession(session, entry.address, entry.transport, entry.label);
    if (config.maxConnections === 0 && config.maxConnectionsPerIp === 0) {
      this.#joined.catch(logged("directory_unreachable"));
      return undefined;
    }
    const admission = await this.#joined;
    this.#isOpening = admission === "admitted";
    return admission === "admitted" ? undefined : admission;
  }

  /** Makes way for a new socket, unless the secret is wrong or the client is still there on the old one. */
  #mayResume(secret: string): Promise<string | undefined> {
    const attempt = this.#resuming.then(async () => {
      if (!(await this.#resumption.isRight(secret)) || !(this.#line || this.#isDetached)) return "session_gone";
      // Who has not shown the token yet is nobody, and makes way.
      const isTaken = this.#line && this.#conversation?.isKnown && (await this.#presence.isThere(this.#line));
      if (isTaken) return "session_in_use";
      if (this.#ending || !(this.#line || this.#isDetached)) return "session_gone";
      this.#line?.close(CLOSE.replaced);
      this.#detach();
      this.#isOpening = true;
      return undefined;
    });
    this.#resuming = attempt.catch(() => {});
    return attempt;
  }

  /** The socket is lost, the session is not: until its time is over, it keeps its locks and places. */
  #detach(): void {
    this.#presence.lost();
    this.#line?.end();
    this.#line = undefined;
    this.#conversation?.detach();
    this.#conversation = undefined;
    this.#resumption.detach(Date.now());
    this.#own.wakeUp.by(this.#resumption.endsAt);
  }

  /** What the conversation may ask of this object; nobody else can. */
  #hostOn(line: Line): Host {
    return {
      session: this.#own.session,
      send: (text) => line.send(text),
      close: (code) => this.#close(line, code),
      stats: (scope) => this.#stats(scope),
      query: async (key) => JSON.stringify((await gatherKey(this.env, key)) ?? null),
      makeResumable: () => this.#makeResumable(line),
      recentLosses: () => this.#losses.at(Date.now()),
      beginsSteal: (tag) => this.#steals.begin(tag),
      count: (happening) => this.#count(happening),
      authenticated: () => {
        this.#resumption.attach();
        this.#answerKeepalives();
      },
      progressed: () => this.#progressed(),
      debug: (event, fields) => this.#debug(event, fields),
      now: () => Date.now(),
    };
  }

  #close(line: Line, code: number): void {
    line.close(code);
    // Whoever could not show who he is has not got hold of the session, and must not be able to end it.
    const isKnown = code !== CLOSE.auth && this.#conversation?.isKnown !== false;
    if (!isKnown && this.#resumption.isOn) {
      this.#detach();
      return;
    }
    this.#hasHungUp = true;
    this.ctx.waitUntil(this.#end());
  }

  async #stats(scope: Scope | undefined): Promise<string> {
    await this.#joined;
    return JSON.stringify(await gatherStats(this.env, scope && { sees: (key) => seesKey(scope, key) }));
  }

  #makeResumable({ entry }: Line): ReturnType<Host["makeResumable"]> {
    // Behind a carrier there is no client that could ask for its session on another connection.
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

  #answerKeepalives(): void {
    // The platform answers this frame itself: not before the client may be answered at all.
    this.ctx.setWebSocketAutoResponse(new WebSocketRequestResponsePair(KEEPALIVE.request, KEEPALIVE.response));
  }

  #debug(event: string, fields: Record<string, unknown>): void {
    if (this.#own.config.debug) log("debug", event, { session: ownerIdOf(this.#own.session), ...fields });
  }

  /** Keeps what a sleep would lose, and arms the read deadline. */
  #progressed(): void {
    const conversation = this.#conversation;
    if (!conversation || this.#ending) return;
    this.#line?.progressed(conversation);
    this.#own.wakeUp.by(Math.min(conversation.readDeadline, this.#resumption.endsAt));
  }

  #open(socket: WebSocket, entry: Entry): void {
    const { authToken, adminToken } = this.#own.config;
    const isKnown = authToken === undefined || entry.isAuthenticated;
    const phase = !isKnown ? "handshake" : (authToken ?? adminToken) === undefined ? "open" : "greeted";
    if (isKnown) this.#resumption.attach();
    this.#converse(Line.open(socket, this.#own.store, entry), {
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
    if (phase !== "handshake") this.#answerKeepalives();
    this.#debug("session_opened", { transport: entry.transport });
    this.#progressed();
  }

  #restore(socket: WebSocket): void {
    const { line, state } = Line.restore(socket, this.#own.store);
    line.restored(this.#converse(line, state));
  }

  #converse(line: Line, state: ConversationState): Conversation {
    this.#line = line;
    this.#lastLine = line;
    this.#entry = line.entry;
    this.#conversation = new Conversation(this.#hostOn(line), this.#operations, this.#own.config, state);
    return this.#conversation;
  }

  #receive(conversation: Conversation, bytes: Uint8Array): void {
    if (bytes.length > MOST_MESSAGE_BYTES) {
      conversation.hangUp();
      if (this.#line) this.#close(this.#line, CLOSE.tooLong);
      return;
    }
    this.#line?.heard(bytes.length);
    conversation.receive(bytes);
  }

  /** The client has left: its places and, as configured, its holds are given up, and it is remembered no more. */
  #end(): Promise<void> {
    this.#ending ??= this.#leave();
    return this.#ending;
  }

  async #leave(): Promise<void> {
    this.#debug("session_ended", {});
    this.#line?.end();
    this.#line = undefined;
    this.#conversation?.hangUp();
    await Promise.all([this.#leaveDirectory(), depart(this.#own)]);
  }

  async #leaveDirectory(): Promise<void> {
    await this.#joined.catch(() => {});
    const address = this.#resumption.address ?? this.#entry?.address ?? "";
    await directoryOfAddress(this.env, address).closeSession(this.#own.session).catch(logged("directory_unreachable"));
  }
}
