import { AUTH_FAILURE_PAUSE_MS, type Principal } from "../../auth/principal.ts";
import type { NoticeAnswer } from "../../engine/index.ts";
import {
  type ClientReply,
  type ClientRequest,
  formatClientReply,
  parseClientRequest,
} from "../../protocols/godistlock/client.ts";
import { CLOSE_CODES, errorLine, type LineFault, NO_NONCE } from "../../protocols/godistlock/errors.ts";
import { LineReader } from "../../protocols/godistlock/lines.ts";
import type { Outcome } from "../../protocols/statuses.ts";
import { godistlockRequests } from "../../session-names.ts";
import type { SessionContext } from "../context.ts";
import type { Loss } from "../effects.ts";
import type { TrackedRequest } from "../request-table.ts";
import type { Requests } from "../requests.ts";
import { allows, type Rights, rightsOf } from "../rights.ts";
import type { ConversationHost, SocketConversation } from "../socket-conversation.ts";
import { ERROR_CODES } from "./faults.ts";
import { GODISTLOCK_STATE_VERSION, type GodistlockPhase, type GodistlockState } from "./protocol.ts";
import { fenceOf, type Given, SessionLocks } from "./session-locks.ts";

/** Lines that have been received and not yet executed. */
const MAX_BACKLOG_BYTES = 65_536;
const DONE = 1000;
const AUTH_REQUIRED: LineFault = { word: "auth-required", nonce: NO_NONCE };

/** A line to execute, or the fault after which nothing more is read. */
type BacklogLine = { readonly line: Uint8Array } | { readonly fault: LineFault };

/**
 * One client's side of the godistlock protocol: bytes in, lines out. Requests are executed one at a time in the order
 * sent. One that has to wait for others is parked, and the next is executed; it is answered when it is ready.
 */
export class GodistlockConversation implements SocketConversation {
  readonly #host: ConversationHost;
  readonly #context: SessionContext;
  readonly #requests: Requests;
  readonly #reader: LineReader;
  readonly #locks: SessionLocks;
  readonly #openedAt: number;
  readonly #idPrefix: string;
  #lastId = 0;
  #phase: GodistlockPhase;
  #rights: Rights;
  #midLineSince: number;
  #backlog: BacklogLine[] = [];
  #backlogBytes = 0;
  /** A request is being carried out that has not been parked. */
  #isBusy = false;
  #isRunning = false;
  /** Nonces of `STATS` by the id of their report. */
  readonly #reports = new Map<string, string>();
  /** The nonce of an `AUTH` whose token is being compared. */
  #authenticating: string | undefined;
  #hasInputEnded = false;
  /** Nothing more is read or executed. */
  #isInputClosed = false;
  #isOver = false;
  #revision = 0;

  constructor(host: ConversationHost, state: GodistlockState) {
    this.#host = host;
    this.#context = host.context;
    this.#requests = host.requests;
    this.#idPrefix = godistlockRequests(host.context.random().slice(0, 16));
    this.#phase = state.phase;
    this.#rights = state.rights;
    this.#openedAt = state.openedAt;
    this.#midLineSince = state.midLineSince;
    this.#reader = new LineReader(state.partial);
    const locksHost = {
      context: this.#context,
      requests: this.#requests,
      isInGroup: this.#context.config.relay !== undefined,
      mayWait: () => !this.#hasInputEnded,
      say: (reply: ClientReply) => this.#say(reply),
      give: (given: Given) => this.#give(given),
      fail: (fault: LineFault) => this.#fail(fault),
      newId: () => this.#newId(),
    };
    this.#locks = new SessionLocks(locksHost, state.holds, state.parked);
    this.#requests.attach(this);
  }

  get isKnown(): boolean {
    return this.#phase !== "handshake";
  }

  get revision(): number {
    return this.#revision + this.#locks.revision;
  }

  get state(): GodistlockState {
    return {
      protocol: "godistlock",
      version: GODISTLOCK_STATE_VERSION,
      phase: this.#phase,
      rights: this.#rights,
      openedAt: this.#openedAt,
      partial: this.#reader.partial,
      midLineSince: this.#midLineSince,
      holds: this.#locks.holds,
      parked: this.#locks.parked,
    };
  }

  get weight(): number {
    return this.#reader.partialLength + 128 * (this.#locks.holds.length + this.#locks.parked.length);
  }

  get unconsumed(): number {
    return this.#backlogBytes + this.#reader.partialLength;
  }

  get backlogBytes(): number {
    return this.#backlogBytes;
  }

  get readDeadline(): number {
    const { readTimeoutMs } = this.#context.config;
    if (this.#isInputClosed || this.#hasInputEnded || this.#authenticating !== undefined)
      return Number.POSITIVE_INFINITY;
    if (this.#phase === "handshake") return this.#openedAt + readTimeoutMs;
    return this.#reader.isMidLine ? this.#midLineSince + readTimeoutMs : Number.POSITIVE_INFINITY;
  }

  receive(bytes: Uint8Array): void {
    if (this.#isInputClosed || this.#hasInputEnded) return;
    const wasMidLine = this.#reader.isMidLine;
    let completed = 0;
    for (const event of this.#reader.read(bytes)) {
      completed += 1;
      if (event.type === "line") this.#queue({ line: event.line.slice() });
      else this.#queue({ fault: { word: "line-too-long", nonce: NO_NONCE } });
    }
    if (this.#reader.isMidLine && (!wasMidLine || completed > 0)) this.#midLineSince = this.#context.now;
    if (wasMidLine || this.#reader.isMidLine) this.#revision += 1;
    this.#run();
    if (this.#backlogBytes > MAX_BACKLOG_BYTES) this.#close(CLOSE_CODES["line-too-long"]);
  }

  /** Answers what can be answered at once, then ends the conversation. */
  endOfInput(): void {
    if (this.#isOver || this.#isInputClosed || this.#hasInputEnded) return;
    this.#hasInputEnded = true;
    if (this.#phase === "handshake" && this.#authenticating === undefined && this.#backlog.length === 0)
      this.#fail(AUTH_REQUIRED);
    else this.#run();
  }

  tick(): void {
    if (this.#context.now < this.readDeadline) return;
    this.#queue({ fault: this.isKnown ? { word: "read-timeout", nonce: NO_NONCE } : AUTH_REQUIRED });
    this.#run();
  }

  lose({ key, token }: Loss): void {
    this.#locks.lost(key, token);
  }

  /** The protocol has no lines that belong to no request. */
  push(): void {}

  hangUp(): void {
    this.#isInputClosed = true;
    this.#isOver = true;
    this.#backlog = [];
  }

  authenticated(principal: Principal | undefined): void {
    const nonce = this.#authenticating;
    this.#authenticating = undefined;
    if (this.#isOver || nonce === undefined) return;
    if (!principal) {
      this.#fail(AUTH_REQUIRED);
      return;
    }
    if (principal.type !== "open") {
      this.#rights = rightsOf(principal);
      this.#phase = "open";
      this.#revision += 1;
      this.#host.known();
    }
    this.#hello(nonce);
    this.#done();
  }

  answered(entry: TrackedRequest, outcome: Outcome): void {
    if (this.#isOver) return;
    const nonce = this.#reports.get(entry.id);
    if (nonce === undefined) {
      this.#locks.answered(entry, outcome);
      return;
    }
    this.#reports.delete(entry.id);
    if (outcome.document === undefined) this.#fail({ word: "internal", nonce });
    else {
      const counts = JSON.parse(outcome.document) as Record<string, number>;
      for (const [name, value] of Object.entries(counts))
        this.#say({ type: "stats", nonce, name, value: BigInt(value) });
      this.#say({ type: "statsend", nonce });
      this.#done();
    }
  }

  waits(entry: TrackedRequest): void {
    if (this.#isOver) return;
    if (!this.#hasInputEnded) {
      this.#locks.waits(entry);
      return;
    }
    this.#requests.drop(entry);
    this.dropped(entry);
  }

  /** It would have to wait, and the client would not hear of it. */
  dropped(entry: TrackedRequest): void {
    if (this.#isOver) return;
    this.#locks.dropped(entry);
    this.#close(DONE);
  }

  unknown(): NoticeAnswer {
    return "gone";
  }

  #queue(next: BacklogLine): void {
    this.#backlog.push(next);
    if ("line" in next) this.#backlogBytes += next.line.length + 1;
    else this.#isInputClosed = true;
  }

  #run(): void {
    if (this.#isRunning) return;
    this.#isRunning = true;
    while (!this.#isBusy && !this.#isOver) {
      const next = this.#backlog.shift();
      if (!next) break;
      if ("fault" in next) this.#fail(this.isKnown ? next.fault : AUTH_REQUIRED);
      else {
        this.#backlogBytes -= next.line.length + 1;
        this.#isBusy = true;
        this.#execute(next.line);
      }
    }
    this.#isRunning = false;
    if (this.#hasInputEnded && !this.#isBusy && this.#backlog.length === 0) this.#close(DONE);
  }

  /** The next line may be executed. */
  #done(): void {
    this.#isBusy = false;
    this.#run();
  }

  #execute(line: Uint8Array): void {
    const parsed = parseClientRequest(line);
    if (this.#phase === "handshake" && !(parsed.ok && parsed.message.type === "auth")) this.#fail(AUTH_REQUIRED);
    else if (!parsed.ok) this.#fail(parsed.fault);
    else if (!this.#isAllowed(parsed.message)) this.#fail({ word: "forbidden", nonce: parsed.message.nonce });
    else this.#begin(parsed.message);
  }

  #begin(request: ClientRequest): void {
    const { nonce } = request;
    const next = () => this.#done();
    switch (request.type) {
      case "hello":
        this.#hello(nonce);
        this.#done();
        break;
      case "auth":
        this.#authenticating = nonce;
        this.#context.emit({ type: "authenticate", secret: new TextEncoder().encode(request.token.trim()) });
        break;
      case "stats":
        this.#report(nonce);
        break;
      case "on":
      case "try":
        this.#locks.take(request, next);
        break;
      case "refresh":
        this.#locks.refresh(request, next);
        break;
      case "off":
        this.#locks.release(request.lock, next);
        break;
      case "is":
        this.#locks.look(request.lock, nonce, next);
    }
  }

  #isAllowed(request: ClientRequest): boolean {
    const { now } = this.#context;
    if (request.type === "stats") return allows(this.#rights, "stats", { type: "stats" }, now);
    if (!("lock" in request)) return true;
    const { lock: key } = request;
    const isRelease = request.type === "off";
    const use = isRelease
      ? ({ type: "release", key, token: "" } as const)
      : ({ type: "wait", key, waitSeconds: 0 } as const);
    if (allows(this.#rights, "l", use, now)) return true;
    return request.type === "is" && allows(this.#rights, "query", { type: "query", key }, now);
  }

  #report(nonce: string): void {
    const id = this.#newId();
    this.#reports.set(id, nonce);
    this.#requests.beginReport(id, id);
    this.#context.emit({ type: "report", id, ask: { type: "counts" }, scope: this.#rights.scope });
  }

  #hello(nonce: string): void {
    const { serverId, version } = this.#context.config;
    this.#say({ type: "hello", nonce, id: serverId, version });
  }

  #say(reply: ClientReply): void {
    if (!this.#isOver) this.#context.emit({ type: "send", line: formatClientReply(reply) });
  }

  #give({ key, token, nonce, late }: Given): void {
    if (this.#isOver) return;
    const line = formatClientReply({ type: "give", nonce, fence: fenceOf(token) });
    const lateIfOpen = () => {
      if (!this.#isOver) late();
    };
    this.#context.emit({ type: "send", line, grant: { key, token, late: lateIfOpen } });
  }

  /** Tells the client why, and closes the connection: what it has is given up. */
  #fail(fault: LineFault): void {
    if (this.#isOver) return;
    const code = ERROR_CODES[fault.word];
    if (code !== undefined) this.#context.emit({ type: "count", happening: { type: "protocol_error", code } });
    this.#context.emit({ type: "send", line: errorLine(fault) });
    this.#isInputClosed = true;
    this.#backlog = [];
    if (fault.word !== "auth-required") {
      this.#close(CLOSE_CODES[fault.word]);
      return;
    }
    this.#isBusy = true;
    this.#context.emit({ type: "count", happening: { type: "auth_failed" } });
    const close = () => this.#close(CLOSE_CODES["auth-required"]);
    this.#context.timers.at(this.#context.now + AUTH_FAILURE_PAUSE_MS, close);
  }

  #close(code: number): void {
    if (this.#isOver) return;
    this.hangUp();
    this.#host.close(code);
  }

  #newId(): string {
    this.#lastId += 1;
    return `${this.#idPrefix}.${this.#lastId}`;
  }
}
