import type { Principal } from "../../auth/principal.ts";
import type { NoticeAnswer } from "../../engine/index.ts";
import { type Outcome, wireReply } from "../../protocols/statuses.ts";
import { type Frame, FrameReader } from "../../protocols/wire/frames.ts";
import { parseRequest, splitTag, type Watched } from "../../protocols/wire/requests.ts";
import type { SessionContext } from "../context.ts";
import type { Loss, Notice, ReportRequest } from "../effects.ts";
import type { KeyRequest } from "../key-calls.ts";
import { newRequest, type TrackedRequest } from "../request-table.ts";
import type { Requests } from "../requests.ts";
import { allows, rightsOf } from "../rights.ts";
import type { ConversationHost, SocketConversation } from "../socket-conversation.ts";
import { Backlog } from "./backlog.ts";
import { Handshake } from "./handshake.ts";
import {
  CLOSE,
  type ClientState,
  type ConversationState,
  FAILURES,
  isTold,
  isWatched,
  STATE_VERSION,
} from "./protocol.ts";
import { Replies } from "./replies.ts";
import { RequestNames } from "./request-names.ts";

/**
 * One client's side of the wire protocol: bytes in, lines out. Untagged requests run one at a time in the order sent,
 * tagged ones concurrently.
 */
export class Conversation implements SocketConversation {
  readonly #host: ConversationHost;
  readonly #context: SessionContext;
  readonly #requests: Requests;
  readonly #replies: Replies;
  readonly #handshake: Handshake;
  readonly #reader: FrameReader;
  readonly #backlog: Backlog;
  readonly #names: RequestNames;
  #standing: ClientState;
  #midFrameSince: number;
  #revision = 0;
  #isRunning = false;
  #hasInputEnded = false;
  /** Nothing more is read. */
  #isInputClosed: boolean;
  /** The handshake has failed; the connection is about to be closed. */
  #isRefused = false;
  #isOver = false;

  constructor(host: ConversationHost, state: ConversationState) {
    this.#host = host;
    this.#context = host.context;
    this.#requests = host.requests;
    this.#replies = new Replies(host.context);
    this.#handshake = new Handshake(host.context);
    this.#names = new RequestNames(host.context);
    const { version: _, partial, midFrameSince, turns, waiting, ...standing } = state;
    this.#standing = standing;
    this.#reader = new FrameReader(partial);
    this.#midFrameSince = midFrameSince;
    this.#backlog = new Backlog(turns);
    this.#isInputClosed = turns.some(({ type }) => type === "failure");
    for (const each of waiting)
      this.#requests.table.add(newRequest({ ...each, type: "acquire", state: "waiting", isQueued: true }));
    this.#requests.attach(this);
  }

  /** The client has authenticated, if authentication is required. */
  get isKnown(): boolean {
    return this.#standing.phase !== "handshake";
  }

  /** Changes whenever `state` changes. */
  get revision(): number {
    return this.#revision + this.#requests.table.revision;
  }

  get state(): ConversationState {
    const { isBlocked, waiting } = this.#requests.table;
    return {
      ...this.#standing,
      version: STATE_VERSION,
      partial: this.#reader.partial,
      midFrameSince: this.#midFrameSince,
      turns: isBlocked ? this.#backlog.entries : [],
      waiting,
    };
  }

  /** Approximate size of the state to keep during sleep, in bytes. */
  get weight(): number {
    return this.#backlog.weight + this.#reader.partialLength + this.#requests.table.weight;
  }

  /** Bytes received but not yet processed. */
  get unconsumed(): number {
    return this.#backlog.bytes + this.#reader.partialLength;
  }

  get backlogBytes(): number {
    return this.#backlog.bytes;
  }

  /** When the client must have sent more; Infinity while nothing is expected of it. */
  get readDeadline(): number {
    const { readTimeoutMs } = this.#context.config;
    if (this.#isInputClosed || this.#hasInputEnded || this.#handshake.isUnderWay) return Number.POSITIVE_INFINITY;
    if (this.#standing.phase === "handshake") return this.#standing.openedAt + readTimeoutMs;
    if (this.#requests.table.current || !this.#reader.isMidFrame) return Number.POSITIVE_INFINITY;
    return this.#midFrameSince + readTimeoutMs;
  }

  receive(bytes: Uint8Array): void {
    const wasMidFrame = this.#reader.isMidFrame;
    const wasBlocked = this.#requests.table.isBlocked;
    let completed = 0;
    for (const event of this.#isInputClosed || this.#hasInputEnded ? [] : this.#reader.read(bytes)) {
      completed += 1;
      if (event.type === "frame") this.#take(event.frame);
      else this.#fail("tooLong");
      if (this.#isInputClosed) break;
    }
    if (this.#reader.isMidFrame && (!wasMidFrame || completed > 0)) this.#midFrameSince = this.#context.now;
    if (wasMidFrame || this.#reader.isMidFrame || wasBlocked) this.#revision += 1;
  }

  /** The client will send nothing more: answers what can be answered immediately, then ends the conversation. */
  endOfInput(): void {
    if (this.#isOver || this.#isRefused || this.#hasInputEnded) return;
    this.#hasInputEnded = true;
    if (this.#standing.phase === "handshake" && !this.#handshake.isUnderWay) {
      this.#refuse();
      return;
    }
    const { table } = this.#requests;
    const { isBlocked } = table;
    if (isBlocked) this.#backlog.clear();
    for (const { id } of table.waiting) {
      const entry = table.get(id);
      if (entry) this.#drop(entry);
    }
    if (this.#reader.isDropping && !isBlocked && !this.#isInputClosed) this.#fail("tooLong");
    else {
      if (this.#reader.isMidFrame) this.#replies.failed("endOfInput");
      this.#closeIfDone();
    }
  }

  /** Checks the read deadline. */
  tick(): void {
    if (this.#context.now >= this.readDeadline) this.#fail("deadline");
  }

  lose(loss: Loss): void {
    if (isTold(this.#standing, loss)) this.#replies.lost(loss);
  }

  /** Sends a line that belongs to no request. */
  push(line: string): void {
    this.#replies.say(undefined, line);
  }

  /** The connection is gone: nothing more is sent. */
  hangUp(): void {
    this.#isInputClosed = true;
    this.#isOver = true;
    this.#replies.stop();
    this.#backlog.clear();
  }

  authenticated(principal: Principal | undefined): void {
    this.#handshake.authenticated(principal);
  }

  answered(entry: TrackedRequest, outcome: Outcome): void {
    if (this.#isOver) return;
    this.#ended(entry);
    this.#replies.answer(entry.tag, outcome, entry);
    if (entry.tag === undefined) this.#runBacklog();
    else this.#closeIfDone();
  }

  waits(entry: TrackedRequest): void {
    if (this.#isOver) return;
    if (this.#hasInputEnded) {
      this.#drop(entry);
      this.dropped(entry);
      return;
    }
    if (this.#standing.isResumed) this.#requests.lookAgain(entry);
    if (entry.tag === undefined) this.#checkBacklog();
  }

  dropped(entry: TrackedRequest): void {
    if (this.#isOver) return;
    if (entry.tag === undefined) this.#backlog.clear();
    this.#closeIfDone();
  }

  mayRepeat(request: string): boolean {
    return this.#standing.isResumed && this.#names.isOfTag(request);
  }

  /** A resumed client may still repeat the request. It has the grace period to do so. */
  unknown({ request }: Notice): NoticeAnswer {
    const { config, now } = this.#context;
    const mayComeAgain = now < this.#standing.openedAt + config.resumeGraceMs && this.mayRepeat(request);
    return mayComeAgain ? "later" : "gone";
  }

  #take(frame: Frame): void {
    if (this.#standing.phase === "open" && frame.command[0] === 0x40) {
      const tagged = splitTag(frame.command);
      if (tagged?.tag !== undefined) {
        this.#startTagged(tagged.tag, tagged.command, frame);
        return;
      }
    }
    this.#backlog.push({ type: "frame", frame });
    this.#runBacklog();
    this.#checkBacklog();
  }

  /** A framing failure is answered after the requests that were complete before it. */
  #fail(failure: "tooLong" | "deadline"): void {
    if (this.#standing.phase === "handshake") {
      this.#refuse();
      return;
    }
    this.#replies.failed(failure);
    this.#isInputClosed = true;
    this.#backlog.push({ type: "failure", code: CLOSE[failure] });
    this.#runBacklog();
  }

  #checkBacklog(): void {
    if (!this.#backlog.isTooLong(this.#requests.table) || this.#isOver) return;
    this.#replies.failed("backlog");
    this.#close(CLOSE.backlog);
  }

  #runBacklog(): void {
    // A request may be answered while it is started: the loop that started it goes on.
    if (this.#isRunning) return;
    this.#isRunning = true;
    while (!this.#requests.table.current && !this.#handshake.isUnderWay && !this.#isOver) {
      const next = this.#backlog.next();
      if (!next) break;
      if (next.type === "failure") {
        this.#replies.say(undefined, wireReply("error"));
        this.#close(next.code);
      } else this.#startUntagged(next.frame);
    }
    this.#isRunning = false;
    this.#closeIfDone();
  }

  #startUntagged(frame: Frame): void {
    const tagged = splitTag(frame.command);
    if (this.#standing.phase !== "open") {
      const isAuth = tagged?.tag === undefined && tagged?.command === "auth";
      if (isAuth || this.#standing.phase === "handshake") {
        if (isAuth) this.#handshake.begin(frame, (principal) => this.#introduced(principal));
        else this.#refuse();
        return;
      }
      this.#stand({ phase: "open" });
    }
    if (tagged?.tag !== undefined) this.#startTagged(tagged.tag, tagged.command, frame);
    else if (tagged) this.#start(undefined, tagged.command, frame);
    else this.#replies.refuse(undefined, FAILURES.unknown);
  }

  #startTagged(tag: string, command: string, frame: Frame): void {
    if (this.#requests.table.isTagFree(tag)) this.#start(tag, command, frame);
    else this.#replies.refuse(tag, FAILURES.tag);
  }

  #start(tag: string | undefined, command: string, frame: Frame): void {
    const parsed = parseRequest(command, frame);
    if (!parsed.ok) {
      this.#replies.refuse(tag, parsed.code);
      return;
    }
    const { request } = parsed;
    switch (request.type) {
      case "auth":
        this.#replies.refuse(tag, FAILURES.unknown);
        return;
      case "ping":
        this.#replies.ok(tag);
        return;
      case "watch":
        this.#watch(tag, request.what);
        return;
      case "resume":
        this.#makeResumable(tag);
        return;
      case "cancel":
        this.#cancel(tag, request.tag);
        return;
    }
    const isSpent = this.#standing.isResumable && tag !== undefined && this.#names.isSpent(tag, request);
    if (isSpent) this.#replies.refuse(tag, FAILURES.tag);
    else if (!allows(this.#standing.rights, command, request, this.#context.now))
      this.#replies.answer(tag, { status: "auth" });
    else if (request.type === "stats" || request.type === "query") this.#report(tag, request);
    else this.#runOnKey(tag, request);
  }

  #watch(tag: string | undefined, what: Watched): void {
    this.#replies.ok(tag);
    const before = this.#standing;
    // Who is told of all losses is told of those that others cause.
    if (before.watches === "lost" || before.watches === what) return;
    this.#stand({ watches: what });
    if (!before.isResumed) return;
    for (const loss of this.#host.resumption.recentLosses())
      if (isTold(this.#standing, loss) && !isTold(before, loss)) this.#replies.lost(loss);
  }

  #makeResumable(tag: string | undefined): void {
    const { resumption, resumableFrom } = this.#host;
    const credential = resumableFrom === undefined ? undefined : resumption.enable(resumableFrom);
    if (credential === undefined) this.#replies.say(tag, wireReply("error"));
    else {
      this.#replies.say(tag, wireReply("ok", credential, this.#context.config.resumeGraceMs / 1000));
      this.#stand({ isResumable: true });
    }
  }

  /** Withdraws a request of this client. If it has already been answered, there is nothing to withdraw. */
  #cancel(tag: string | undefined, target: string): void {
    const entry = this.#requests.table.tagged(target);
    const id = this.#names.next();
    this.#requests.beginReport(id, tag);
    const done = () => this.#requests.reported(id, { status: "ok" });
    if (entry) this.#requests.cancel(entry, done);
    else done();
  }

  #report(tag: string | undefined, ask: ReportRequest): void {
    const id = this.#names.next();
    this.#requests.beginReport(id, tag);
    this.#context.emit({ type: "report", id, ask, scope: this.#standing.rights.scope });
  }

  #runOnKey(tag: string | undefined, request: KeyRequest): void {
    const { isResumable } = this.#standing;
    // A request that may be repeated on another socket has the same id there.
    const mayComeAgain = isResumable && tag !== undefined;
    const id = mayComeAgain ? this.#idOf(tag, request) : this.#names.next();
    const isSteal = request.type === "acquire" && request.steals === true;
    const hasBegun = isSteal && mayComeAgain && !this.#host.resumption.beginsSteal(tag);
    const circumstances = { mayWait: !this.#hasInputEnded, hasBegun, isWatched: isWatched(this.#standing) };
    const renews = request.type === "renew" ? request.token : undefined;
    this.#requests.begin(newRequest({ id, key: request.key, type: request.type, tag, renews }), request, circumstances);
  }

  #idOf(tag: string, { type }: KeyRequest): string {
    return type === "release" ? this.#names.ofRelease(tag) : this.#names.ofTag(tag);
  }

  /** Withdraws a request whose answer is no longer needed. */
  #drop(entry: TrackedRequest): void {
    this.#requests.drop(entry);
    this.#ended(entry);
  }

  /** The client can now send the rest of a frame that it has begun behind this request. */
  #ended({ tag }: TrackedRequest): void {
    if (tag === undefined && this.#reader.isMidFrame) this.#midFrameSince = this.#context.now;
  }

  #introduced(principal: Principal | undefined): void {
    if (this.#isOver) return;
    if (!principal) {
      this.#refuse();
      return;
    }
    const isOpen = principal.type === "open";
    this.#stand(isOpen ? { phase: "open" } : { rights: rightsOf(principal), phase: "open" });
    if (!isOpen) this.#host.known();
    if (isOpen) this.#replies.refuse(undefined, FAILURES.unknown);
    else this.#replies.ok(undefined);
    this.#runBacklog();
  }

  #stand(change: Partial<ClientState>): void {
    const wasWatched = isWatched(this.#standing);
    this.#standing = { ...this.#standing, ...change };
    if (!wasWatched && isWatched(this.#standing)) this.#requests.watch();
    this.#revision += 1;
  }

  /** Refuses a failed handshake. Nothing is executed. */
  #refuse(): void {
    this.#isInputClosed = true;
    this.#isRefused = true;
    this.#backlog.clear();
    const answer = () => !this.#isOver && this.#replies.answer(undefined, { status: "auth" });
    this.#handshake.refuse(answer, () => this.#close(CLOSE.auth));
  }

  #closeIfDone(): void {
    if (!this.#hasInputEnded || this.#isRefused || this.#handshake.isUnderWay) return;
    if (this.#requests.table.size === 0 && this.#backlog.isEmpty) this.#close(CLOSE.done);
  }

  #close(code: number): void {
    if (this.#isOver) return;
    this.hangUp();
    this.#host.close(code);
  }
}
