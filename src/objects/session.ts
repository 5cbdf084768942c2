import { DurableObject } from "cloudflare:workers";
import type { Answer } from "../engine/index.ts";
import { log, logged } from "../log.ts";
import { type Scope, seesKey } from "../scope.ts";
import { ReceiveWindow } from "../transports/window.ts";
import { countAnswer } from "./answered.ts";
import { type Belongings, belongingsOf, depart } from "./belongings.ts";
import { Conversation } from "./conversation.ts";
import { CLOSE, type ConversationState, type Happening, type Host } from "./conversation-host.ts";
import { directoryOfAddress } from "./directories.ts";
import type { SessionAdmission, Transport } from "./directory.ts";
import type { Env } from "./env.ts";
import { Meter } from "./meter.ts";
import type { Listener, Loss, Notice } from "./notices.ts";
import { Operations } from "./operations.ts";
import { ownerIdOf } from "./owner.ts";
import { gatherStats } from "./stats.ts";

/** How a client came in. It travels in this header of the upgrade, which only the Worker writes. */
export interface Entry {
  readonly transport: Transport;
  readonly address: string;
  /** The upgrade has shown who the client is. */
  readonly isAuthenticated: boolean;
  /** What the ticket shown at the upgrade allows; undefined = everything. */
  readonly scope?: Scope | undefined;
  /** A name the client has given itself, for others to see. */
  readonly label?: string | undefined;
  /** The carrier wants to be told how much of its input has been consumed. */
  readonly hasWindow: boolean;
}
export const ENTRY_HEADER = "X-Holdfast-Entry";
/** Headers hold nothing but Latin letters; labels and keys may. */
export const encodeEntry = (entry: Entry) => encodeURIComponent(JSON.stringify(entry));
/** On a refused upgrade: why. */
export const REFUSAL_HEADER = "X-Holdfast-Refusal";

const encoder = new TextEncoder();
const KEEPALIVE = { request: "@keepalive ping\n_\n_\n", response: "@keepalive ok\n" };
const MOST_MESSAGE_BYTES = 1_048_576;
/** What is no larger is kept for a sleep at once; more, at most so often. */
const LIGHT_BYTES = 2_048;
const SAVE_EVERY_MS = 250;
/** What is kept with the socket while the object sleeps. Without `state` it is to be found in storage. */
interface Attachment {
  /** Without what a ticket allows: that is in the state, and may be too much for a socket. */
  readonly entry: Omit<Entry, "scope">;
  readonly state: ConversationState | undefined;
}

/**
 * One client's session: it lives as long as its socket. While the client waits or idles the object may sleep; whatever
 * it must know then is with the socket, in storage or at the keys. When the client leaves, everything it had is given
 * up. When the object itself is lost with its socket, its holds stay: a fault of ours takes nobody's lock.
 */
export class SessionObject extends DurableObject<Env> implements Listener {
  readonly #own: Belongings;
  #socket: WebSocket | undefined;
  #entry: Entry | undefined;
  #conversation: Conversation | undefined;
  readonly #window = new ReceiveWindow();
  /** Lines for a carrier, to be sent when the event at hand is done. */
  #unsent: string[] = [];
  #received = 0;
  #acknowledged = 0;
  #savedRevision: number | undefined;
  #isSpilled = false;
  #joined: Promise<SessionAdmission> = Promise.resolve("admitted");
  #isOpening = false;
  /** A message has come in this life of the object. */
  #hasHeard = false;
  /** The first to close was the server. */
  #hasHungUp = false;
  /** Set once the client has left. */
  #ending: Promise<void> | undefined;
  #meter: Meter | undefined;
  #saveTimer: ReturnType<typeof setTimeout> | undefined;

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env);
    this.#own = belongingsOf(ctx, env);
    const [socket] = ctx.getWebSockets();
    if (socket) this.#restore(socket);
  }

  /** Opens the session on a WebSocket. Answers 503 with the reason if a cap forbids it. */
  override async fetch(request: Request): Promise<Response> {
    const entry = JSON.parse(decodeURIComponent(request.headers.get(ENTRY_HEADER) ?? "")) as Entry;
    this.#isOpening = true;
    const isCapped = this.#own.config.maxConnections > 0 || this.#own.config.maxConnectionsPerIp > 0;
    this.#joined = directoryOfAddress(this.env, entry.address).openSession(
      this.#own.session,
      entry.address,
      entry.transport,
      entry.label,
    );
    if (isCapped) {
      const admission = await this.#joined;
      this.#isOpening = admission === "admitted";
      if (admission !== "admitted")
        return new Response(null, { status: 503, headers: { [REFUSAL_HEADER]: admission } });
    } else this.#joined.catch(logged("directory_unreachable"));
    const { 0: theirs, 1: ours } = new WebSocketPair();
    try {
      this.ctx.acceptWebSocket(ours);
      this.#open(ours, entry);
    } finally {
      this.#isOpening = false;
    }
    return new Response(null, { status: 101, webSocket: theirs });
  }

  override webSocketMessage(_socket: WebSocket, message: string | ArrayBuffer): void {
    const conversation = this.#conversation;
    if (!conversation) return;
    this.#hasHeard = true;
    if (typeof message === "string") {
      if (message !== "") this.#receive(conversation, encoder.encode(message));
    } else if (message.byteLength === 0) conversation.endOfInput();
    else this.#receive(conversation, new Uint8Array(message));
    this.#progressed();
  }

  override async webSocketClose(socket: WebSocket, code: number): Promise<void> {
    this.#recallEntry(socket);
    // Hibernatable sockets do not answer a close by themselves (workerd 2026-11).
    closeSocket(socket, code);
    await this.#end();
    if (this.#hasHeard || !this.#hasHungUp) return;
    // A socket on which no message ever came keeps its TCP connection when the server closes first (workerd 2026-11).
    // Nothing is left of the session here: dropping the object drops the connection.
    await this.ctx.storage.sync();
    this.ctx.abort("session over");
  }

  override async webSocketError(socket: WebSocket): Promise<void> {
    this.#recallEntry(socket);
    await this.#end();
  }

  override async alarm(): Promise<void> {
    this.#own.wakeUp.clear();
    if (this.#conversation && !this.#ending) {
      this.#conversation.tick();
      this.#progressed();
    } else if (this.#own.store.isEnding()) await depart(this.#own);
    else if (!this.#hasClient) await this.#own.store.deleteAll();
  }

  async deliver(notice: Notice): Promise<Answer> {
    return (await this.#conversation?.deliver(notice)) ?? "gone";
  }

  async lose(loss: Loss): Promise<void> {
    this.#conversation?.lose(loss);
    this.#flush();
  }

  /** Whether a client is, or is about to be, connected. A session that lost its socket to a fault is dead for good. */
  async isLive(): Promise<boolean> {
    if (this.#hasClient) return true;
    if (!this.#ending && !this.#own.store.isEnding() && this.#own.store.keys().length > 0)
      await this.#own.store.deleteAll();
    return false;
  }

  get #hasClient(): boolean {
    return !this.#ending && (this.#isOpening || this.#socket !== undefined);
  }

  /** What the conversation may ask of this object; nobody else can. */
  get #host(): Host {
    return {
      send: (line) => this.#send(line),
      close: (code) => this.#close(code),
      stats: (scope) => this.#stats(scope),
      count: (happening) => this.#count(happening),
      authenticated: () => this.#answerKeepalives(),
      progressed: () => this.#progressed(),
      debug: (event, fields) => this.#debug(event, fields),
      now: () => Date.now(),
    };
  }

  /** Sends one line. A client gets each in a frame of its own; a carrier, which only wants the bytes, as few as possible. */
  #send(line: string): void {
    if (this.#entry?.hasWindow) this.#unsent.push(line);
    else this.#socket?.send(line);
  }

  #close(code: number): void {
    this.#hasHungUp = true;
    this.#flush();
    if (this.#socket) closeSocket(this.#socket, code);
    this.ctx.waitUntil(this.#end());
  }

  async #stats(scope: Scope | undefined): Promise<string> {
    await this.#joined;
    return JSON.stringify(await gatherStats(this.env, scope && { sees: (key) => seesKey(scope, key) }));
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

  /** Keeps what a sleep would lose, arms the read deadline, and tells the carrier how far we are. */
  #progressed(): void {
    const conversation = this.#conversation;
    if (!conversation || this.#ending) return;
    this.#flush();
    if (conversation.revision !== this.#savedRevision) this.#saveInTime(conversation);
    this.#own.wakeUp.by(conversation.readDeadline);
    if (!this.#entry?.hasWindow) return;
    const consumed = this.#received - conversation.unconsumed;
    const frame = this.#window.consumed(consumed - this.#acknowledged);
    this.#acknowledged = consumed;
    if (frame) this.#socket?.send(frame);
  }

  #open(socket: WebSocket, entry: Entry): void {
    const needsToken = this.#own.config.authToken !== undefined;
    const phase = !needsToken ? "open" : entry.isAuthenticated ? "greeted" : "handshake";
    this.#entry = entry;
    this.#converse(socket, {
      phase,
      scope: entry.scope,
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
    const { entry, state } = socket.deserializeAttachment() as Attachment;
    this.#entry = entry;
    this.#isSpilled = state === undefined;
    this.#converse(socket, state ?? (this.#own.store.spilled() as ConversationState));
    this.#savedRevision = this.#conversation?.revision;
    this.#acknowledged = -(this.#conversation?.unconsumed ?? 0);
  }

  /** A close that wakes the object finds its socket no longer among the open ones: only the event has it. */
  #recallEntry(socket: WebSocket): void {
    this.#entry ??= (socket.deserializeAttachment() as Attachment | null)?.entry;
  }

  #converse(socket: WebSocket, state: ConversationState): void {
    this.#socket = socket;
    const operations = new Operations(this.#own);
    this.#conversation = new Conversation(this.#host, operations, this.#own.config, state);
  }

  #flush(): void {
    if (this.#unsent.length === 0) return;
    this.#socket?.send(this.#unsent.join(""));
    this.#unsent = [];
  }

  #receive(conversation: Conversation, bytes: Uint8Array): void {
    if (bytes.length > MOST_MESSAGE_BYTES) {
      conversation.hangUp();
      this.#close(CLOSE.tooLong);
      return;
    }
    this.#received += bytes.length;
    conversation.receive(bytes);
  }

  #save({ state, revision }: Conversation): void {
    this.#savedRevision = revision;
    const { scope: _, ...entry } = this.#entry as Entry;
    try {
      this.#socket?.serializeAttachment({ entry, state } satisfies Attachment);
      if (this.#isSpilled) this.#own.store.unspill();
      this.#isSpilled = false;
    } catch {
      // More than 16 KiB do not fit a socket.
      this.#own.store.spill(state);
      if (!this.#isSpilled) this.#socket?.serializeAttachment({ entry, state: undefined } satisfies Attachment);
      this.#isSpilled = true;
    }
  }

  /**
   * Saves at once what is small. A long backlog is not written again with every message behind it: the pending timer
   * keeps the object awake until it is saved, and what is lost in a crash is lost with the socket.
   */
  #saveInTime(conversation: Conversation): void {
    if (conversation.weight <= LIGHT_BYTES) this.#save(conversation);
    else {
      this.#saveTimer ??= setTimeout(() => {
        this.#saveTimer = undefined;
        if (!this.#ending) this.#save(conversation);
      }, SAVE_EVERY_MS);
    }
  }

  /** The client has left: its places and, as configured, its holds are given up, and it is remembered no more. */
  #end(): Promise<void> {
    this.#ending ??= this.#leave();
    return this.#ending;
  }

  async #leave(): Promise<void> {
    this.#debug("session_ended", {});
    this.#socket = undefined;
    this.#conversation?.hangUp();
    await Promise.all([this.#leaveDirectory(), depart(this.#own)]);
  }

  async #leaveDirectory(): Promise<void> {
    await this.#joined.catch(() => {});
    const directory = directoryOfAddress(this.env, this.#entry?.address ?? "");
    await directory.closeSession(this.#own.session).catch(logged("directory_unreachable"));
  }
}

function closeSocket(socket: WebSocket, code: number): void {
  const isReserved = code < 1000 || code === 1004 || code === 1005 || code === 1006 || code === 1015;
  try {
    socket.close(isReserved ? CLOSE.done : code);
  } catch {
    // Already closed: there is nobody left to tell.
  }
}
