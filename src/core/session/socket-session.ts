import type { Principal } from "../auth/principal.ts";
import { SessionContext, type SessionOrigin } from "./context.ts";
import type { Loss, Notice, Want } from "./effects.ts";
import { GodistlockConversation } from "./godistlock/conversation.ts";
import { GODISTLOCK_STATE_VERSION } from "./godistlock/protocol.ts";
import { Holdings } from "./holdings.ts";
import { Leaving } from "./leaving.ts";
import { RequestTable } from "./request-table.ts";
import { Requests } from "./requests.ts";
import { Resumption } from "./resumption.ts";
import type { Rights } from "./rights.ts";
import type { ConversationHost, SocketConversation, SocketState } from "./socket-conversation.ts";
import type { Timer } from "./timers.ts";
import { Conversation } from "./wire/conversation.ts";
import { CLOSE, STATE_VERSION } from "./wire/protocol.ts";

/** What is spoken on a socket. */
export type SocketProtocol = "dflockd" | "godistlock";

/** A client on a new socket. */
export interface SocketClient {
  /** dflockd's if absent. */
  readonly protocol?: SocketProtocol;
  readonly isAuthenticated: boolean;
  readonly rights: Rights;
  /** The address of a client that may resume its session on another socket. */
  readonly resumableFrom: string | undefined;
}

/** A socket that ended without a close frame. */
export const VANISHED = 1006;
/** Close codes with which a client has lost or given up its socket, but has not left. */
const LOST_CODES: ReadonlySet<number> = new Set([VANISHED, 1012, CLOSE.parted, CLOSE.auth]);
/** A handshake completed within this time sets no alarm: a timer is free, an alarm costs a write. */
const HANDSHAKE_SOON_MS = 2_000;
/** Asks the client to send anything at all. */
export const PROBE = "! present";
const MAX_PROBE_MS = 2_000;
/** The host opens the socket of a client that may resume at once. */
const MAX_OPENING_MS = 1_000;
/** The client on the new socket needs most of the grace period itself. */
const PROBE_PART_OF_GRACE = 1 / 4;

/**
 * One client's session on a socket, as a state machine: what happens comes in as commands, what the host has to do goes
 * out as effects. The session lives as long as its socket or, if the client has asked for that, a little longer. When
 * the client leaves, everything it had is given up. When the object itself is lost with its socket, its holds stay: a
 * fault of ours must not release a client's lock.
 */
export class SocketSession {
  readonly context: SessionContext;
  readonly requests: Requests;
  readonly resumption: Resumption;
  readonly #leaving: Leaving;
  #conversation: SocketConversation | undefined;
  #handshakeTimer: Timer | undefined;
  #isOpening = false;
  /** The server closed first. */
  #hasHungUp = false;
  #isOver: boolean;
  /** Clients that want to resume, oldest first. The first may be waiting for the old client to be heard. */
  readonly #attempts: number[] = [];
  #probeTimer: Timer | undefined;
  #openingTimer: Timer | undefined;

  /** A session whose object starts without a socket has lost it, if it is a session at all. */
  constructor(origin: SessionOrigin) {
    this.context = new SessionContext(origin);
    const holdings = new Holdings(this.context);
    this.requests = new Requests(this.context, holdings, new RequestTable());
    this.resumption = new Resumption(this.context);
    this.#leaving = new Leaving(this.context, holdings);
    this.#isOver = this.isEnding;
  }

  /** The conversation on the current socket. */
  get conversation(): SocketConversation | undefined {
    return this.#conversation;
  }

  get hasHungUp(): boolean {
    return this.#hasHungUp;
  }

  /** A client is connected, or is connecting. */
  get hasClient(): boolean {
    return !this.#isOver && (this.#isOpening || this.#conversation !== undefined);
  }

  /** The socket is lost, and the client may still resume. */
  get isDetached(): boolean {
    const mayResume = this.#isOpening || this.context.now < this.resumption.endsAt;
    return !this.isOver && !this.#conversation && this.resumption.isOn && mayResume;
  }

  /** The client has left, possibly before the object was restarted. */
  get isOver(): boolean {
    return this.#isOver;
  }

  /** Something is in flight or about to be retried. */
  get isBusy(): boolean {
    return this.context.callsInFlight > 0 || this.requests.table.isAnyWithdrawing;
  }

  /** Keys are being left. */
  get isLeaving(): boolean {
    return this.#leaving.isUnderWay;
  }

  /** The client has left before all keys know. Without this mark, a lost socket counts as our fault. */
  get isEnding(): boolean {
    return this.context.records.get("ending") === true;
  }

  /** The client on the current socket is being asked whether it is still there. */
  get isProbing(): boolean {
    return this.#probeTimer !== undefined;
  }

  /** A client is connecting. */
  opening(isOpening: boolean): void {
    this.context.timers.stop(this.#openingTimer);
    this.#isOpening = isOpening;
    if (!isOpening) this.#nextAttempt();
  }

  opened(client: SocketClient): void {
    const isKnown = this.context.config.authToken === undefined || client.isAuthenticated;
    // The client is there, for the first time or again.
    if (isKnown) this.resumption.attach();
    const conversation = this.#converse(client, this.#beginning(client, isKnown));
    if (isKnown) this.context.emit({ type: "known" });
    else this.#watchHandshake(conversation);
    this.opening(false);
  }

  #beginning({ protocol, rights }: SocketClient, isKnown: boolean): SocketState {
    const { authToken, adminToken } = this.context.config;
    const openedAt = this.context.now;
    const partial = new Uint8Array(0);
    if (protocol === "godistlock") {
      const phase = isKnown ? "open" : "handshake";
      const begun = { phase, rights, openedAt, partial, midLineSince: 0, holds: [], parked: [] } as const;
      return { ...begun, protocol, version: GODISTLOCK_STATE_VERSION };
    }
    const { isOn } = this.resumption;
    return {
      version: STATE_VERSION,
      phase: !isKnown ? "handshake" : (authToken ?? adminToken) === undefined ? "open" : "greeted",
      rights,
      isResumable: isOn,
      isResumed: isOn,
      openedAt,
      watches: "nothing",
      partial,
      midFrameSince: 0,
      turns: [],
      waiting: [],
    };
  }

  /** The object has started again, and the socket has outlived that. */
  restored(client: Pick<SocketClient, "resumableFrom">, state: SocketState): void {
    const conversation = this.#converse(client, state);
    if (conversation.isKnown) return;
    this.context.emit({ type: "wake", by: Math.min(conversation.readDeadline, this.resumption.endsAt) });
  }

  received(bytes: Uint8Array): void {
    this.heard();
    if (bytes.length === 0) this.#conversation?.endOfInput();
    else this.#conversation?.receive(bytes);
  }

  /** The client on the current socket is there. */
  heard(): void {
    if (this.#probeTimer) this.#endProbe("session_in_use");
  }

  authenticated(principal: Principal | undefined): void {
    this.#conversation?.authenticated(principal);
  }

  /** Whether the client is expected to come back after its socket was closed with this code. */
  survives(code: number, isKnown: boolean): boolean {
    const hasLeft = !LOST_CODES.has(code) && isKnown;
    return !hasLeft && !this.#hasHungUp && this.resumption.isOn;
  }

  /** The socket is lost, the session is not: it keeps its locks and places until the grace period ends. */
  detach(): void {
    this.loseSocket();
    this.resumption.keep();
  }

  /**
   * The same, for a session whose client is already back or may be any moment, as after a crash of the service. Nothing
   * is written unless the client stays away.
   */
  loseSocket(): void {
    this.#hangUp();
    this.requests.detach();
    this.context.emit({ type: "detached" });
    this.resumption.detach();
    if (this.#probeTimer) this.#endProbe(undefined);
  }

  /** A client wants to continue the session on a new socket. The answer is a `resumed` effect. */
  resume(attempt: number, hasSecret: boolean): void {
    if (!hasSecret) this.context.emit({ type: "resumed", attempt, refusal: "session_gone" });
    else {
      this.#attempts.push(attempt);
      if (this.#attempts.length === 1 && !this.#isOpening) this.#nextAttempt();
    }
  }

  notice(number: number, notice: Notice): void {
    if (this.#conversation || this.isDetached) this.requests.notice(number, notice);
    else {
      const answer = this.requests.answerWithoutClient(notice, this.#isOver);
      this.context.emit({ type: "answerNotice", notice: number, answer });
    }
  }

  /** A client that is away asks again when it is back: it renews what it holds. */
  want({ key, token }: Want): void {
    this.#conversation?.push(`! wanted ${key} ${token}`);
  }

  lose(loss: Loss): void {
    this.requests.lost(loss.key, loss.token);
    if (this.resumption.isOn && !this.isOver) this.resumption.rememberLoss(loss);
    this.#conversation?.lose(loss);
  }

  /** The alarm has fired. */
  wake(): void {
    const { now } = this.context;
    if (this.#conversation && !this.#isOver && now < this.resumption.endsAt) {
      const conversation = this.#conversation;
      conversation.tick();
      this.context.emit({ type: "wake", by: Math.min(conversation.readDeadline, this.resumption.endsAt) });
    } else if (this.isEnding) this.#leaving.begin();
    // A client that was let in before the grace ended has its time to open its socket.
    else if (this.isDetached)
      this.context.emit({ type: "wake", by: this.#isOpening ? now + MAX_OPENING_MS : this.resumption.endsAt });
    else if (this.resumption.isOn) {
      if (this.#conversation) this.context.emit({ type: "close", code: CLOSE.gone });
      this.end();
    } else if (!this.hasClient) this.context.emit({ type: "left", isAll: true });
  }

  /**
   * Whether a client is connected, is connecting, or may still resume. A session that lost its socket to a fault and
   * cannot be resumed is dead for good: nothing of it stays.
   */
  isLive(): boolean {
    if (this.hasClient || this.isDetached) return true;
    if (this.isOver) return false;
    // Its grace period is over, its alarm late.
    if (this.resumption.isOn) this.end();
    else if (this.context.records.keys().length > 0) this.context.emit({ type: "left", isAll: true });
    return false;
  }

  /** The client has left: gives up its places and, as configured, its holds. */
  end(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.resumption.end();
    this.#hangUp();
    this.requests.end({ keepsOwner: false });
    this.#leaving.begin();
    this.context.emit({ type: "ended" });
    if (this.#probeTimer) this.#endProbe(undefined);
  }

  /** The server closes the socket. */
  close(code: number): void {
    this.context.emit({ type: "close", code });
    // A client that failed to authenticate never controlled the session and must not be able to end it.
    const isKnown = code !== CLOSE.auth && this.#conversation?.isKnown !== false;
    if (!isKnown && this.resumption.isOn) this.detach();
    else {
      this.#hasHungUp = true;
      this.end();
    }
  }

  /** Runs what was planned up to this time. It may be later than `now`: a clock that was set back delays nothing. */
  tick(due: number): void {
    this.context.timers.run(due);
  }

  #converse({ resumableFrom }: Pick<SocketClient, "resumableFrom">, state: SocketState): SocketConversation {
    const { context, requests, resumption } = this;
    const host: ConversationHost = {
      context,
      requests,
      resumption,
      resumableFrom,
      known: () => this.#known(),
      close: (code) => this.close(code),
    };
    this.#conversation = "protocol" in state ? new GodistlockConversation(host, state) : new Conversation(host, state);
    return this.#conversation;
  }

  #known(): void {
    this.#stopHandshakeTimer();
    this.resumption.attach();
    this.context.emit({ type: "known" });
  }

  #hangUp(): void {
    this.#stopHandshakeTimer();
    this.#conversation?.hangUp();
    this.#conversation = undefined;
  }

  #watchHandshake(conversation: SocketConversation): void {
    this.#stopHandshakeTimer();
    const { timers, now } = this.context;
    const { readDeadline } = conversation;
    if (readDeadline === Number.POSITIVE_INFINITY) return;
    this.#handshakeTimer = timers.at(Math.min(now + HANDSHAKE_SOON_MS, readDeadline), () => {
      if (conversation.isKnown) return;
      conversation.tick();
      // If the client was refused just now, the deadline is Infinity, which sets no alarm.
      this.context.emit({ type: "wake", by: conversation.readDeadline });
    });
  }

  #stopHandshakeTimer(): void {
    this.context.timers.stop(this.#handshakeTimer);
    this.#handshakeTimer = undefined;
  }

  /** Lets the next client resume, unless the old one is still there. */
  #nextAttempt(): void {
    const attempt = this.#attempts[0];
    if (attempt === undefined) return;
    const { now, config, timers } = this.context;
    // An unauthenticated connection may always be replaced.
    if (!this.#conversation?.isKnown) this.#makeWay(undefined);
    else {
      this.#conversation.push(PROBE);
      const patienceMs = Math.min(MAX_PROBE_MS, config.resumeGraceMs * PROBE_PART_OF_GRACE);
      this.#probeTimer = timers.at(now + patienceMs, () => this.#endProbe(undefined));
    }
  }

  #endProbe(refusal: string | undefined): void {
    this.context.timers.stop(this.#probeTimer);
    this.#probeTimer = undefined;
    this.#makeWay(refusal);
  }

  /** Answers the first attempt. If it is not refused, the host opens its socket next. */
  #makeWay(refusal: string | undefined): void {
    const attempt = this.#attempts.shift();
    if (attempt === undefined) return;
    const isGone = this.#isOver || !(this.#conversation || this.isDetached);
    const reason = isGone ? "session_gone" : refusal;
    if (reason === undefined) {
      if (this.#conversation) {
        this.context.emit({ type: "close", code: CLOSE.replaced });
        this.loseSocket();
      } else this.resumption.detach();
      this.#isOpening = true;
      // A client that vanished in this moment must not keep the next from resuming.
      this.#openingTimer = this.context.timers.at(this.context.now + MAX_OPENING_MS, () => this.opening(false));
    }
    this.context.emit({ type: "resumed", attempt, refusal: reason });
    if (reason !== undefined) this.#nextAttempt();
  }
}
