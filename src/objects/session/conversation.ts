import { AUTH_FAILURE_PAUSE_MS } from "../../auth/principal.ts";
import type { Config } from "../../config.ts";
import type { Answer } from "../../engine/index.ts";
import { type Outcome, wireReply } from "../../protocols/statuses.ts";
import { type Frame, FrameReader } from "../../protocols/wire/frames.ts";
import { parseRequest, splitTag } from "../../protocols/wire/requests.ts";
import type { Loss, Notice } from "../calls/notices.ts";
import type { Fate, KeyRequest, Operations } from "../session-common/operations.ts";
import { Backlog } from "./backlog.ts";
import { CLOSE, type ConversationHost, type ConversationState, FAILURES, type Standing } from "./conversation-host.ts";
import { answerImmediately, type ImmediateRequest, isImmediate, tellLoss } from "./immediate-requests.ts";
import { mustWait, patienceFor, ReturnTurns } from "./paced-returns.ts";
import { RepeatedRequests } from "./repeated-requests.ts";
import { Replies } from "./replies.ts";
import { type ReportRequest, Reports } from "./report-requests.ts";
import { allows, principalShown, rightsOf, wrongCredential } from "./rights.ts";
import { type RunningRequest, RunningRequests } from "./running-requests.ts";

/**
 * One client's side of the protocol: bytes in, lines out. Untagged requests run one at a time in the order sent, tagged
 * ones concurrently. A waiting request is only recorded, never awaited, so the host may sleep meanwhile.
 */
export class Conversation {
  readonly #host: ConversationHost;
  readonly #voice: Replies;
  readonly #operations: Operations;
  readonly #config: Config;
  readonly #reader: FrameReader;
  readonly #backlog: Backlog;
  readonly #running: RunningRequests;
  readonly #repeats: RepeatedRequests;
  readonly #reports: Reports;
  readonly #turns = new ReturnTurns();
  #standing: Standing;
  #midFrameSince: number;
  #revision = 0;
  #isAuthenticating = false;
  #hasInputEnded = false;
  /** Nothing more is read. */
  #isDeaf: boolean;
  /** The handshake has failed; the connection is about to be closed. */
  #isRefused = false;
  #isOver = false;
  /** The connection was lost and may be replaced: requests in flight stay as they are. */
  #isDetached = false;

  constructor(host: ConversationHost, operations: Operations, config: Config, state: ConversationState) {
    this.#host = host;
    this.#voice = new Replies(host);
    this.#operations = operations;
    this.#config = config;
    const { partial, midFrameSince, turns, waiting, ...standing } = state;
    this.#standing = standing;
    this.#reader = new FrameReader(partial);
    this.#midFrameSince = midFrameSince;
    this.#backlog = new Backlog(turns);
    this.#isDeaf = turns.some(({ type }) => type === "failure");
    this.#running = new RunningRequests(waiting);
    this.#repeats = new RepeatedRequests(host, config);
    this.#reports = new Reports(host);
  }

  /** The client has authenticated, if authentication is required. */
  get isKnown(): boolean {
    return this.#standing.phase !== "handshake";
  }

  /** A request is being executed, as opposed to waiting. */
  get isAtWork(): boolean {
    return this.#running.size > this.#running.waiting.length;
  }

  /** Changes whenever `state` changes. */
  get revision(): number {
    return this.#revision;
  }

  get state(): ConversationState {
    const isBlocked = this.#running.isBlocked;
    return {
      ...this.#standing,
      partial: this.#reader.partial,
      midFrameSince: this.#midFrameSince,
      turns: isBlocked ? this.#backlog.turns : [],
      waiting: this.#running.waiting.map(({ id, key, tag }) => ({ id, key, tag })),
    };
  }

  /** Approximate size of the state to keep during sleep, in bytes. */
  get weight(): number {
    return this.#backlog.weight + this.#reader.partial.length + this.#running.weight;
  }

  /** Bytes received but not yet processed. */
  get unconsumed(): number {
    return this.#backlog.bytes + this.#reader.partial.length;
  }

  /** When the client must have sent more; Infinity while nothing is expected of it. */
  get readDeadline(): number {
    const { readTimeoutMs } = this.#config;
    if (this.#isDeaf || this.#hasInputEnded || this.#isAuthenticating) return Number.POSITIVE_INFINITY;
    if (this.#standing.phase === "handshake") return this.#standing.openedAt + readTimeoutMs;
    if (this.#running.current || !this.#reader.isMidFrame) return Number.POSITIVE_INFINITY;
    return this.#midFrameSince + readTimeoutMs;
  }

  receive(bytes: Uint8Array): void {
    const wasMidFrame = this.#reader.isMidFrame;
    const wasBlocked = this.#running.isBlocked;
    let completed = 0;
    for (const event of this.#isDeaf || this.#hasInputEnded ? [] : this.#reader.read(bytes)) {
      completed += 1;
      if (event.type === "frame") this.#take(event.frame);
      else this.#fail("tooLong");
      if (this.#isDeaf) break;
    }
    if (this.#reader.isMidFrame && (!wasMidFrame || completed > 0)) this.#midFrameSince = this.#host.now();
    if (wasMidFrame || this.#reader.isMidFrame || wasBlocked) this.#revision += 1;
  }

  /** The client will send nothing more: answers what can be answered immediately, then ends the conversation. */
  endOfInput(): void {
    if (this.#isOver || this.#isRefused || this.#hasInputEnded) return;
    this.#hasInputEnded = true;
    if (this.#standing.phase === "handshake" && !this.#isAuthenticating) {
      void this.#refuse();
      return;
    }
    const { isBlocked } = this.#running;
    if (isBlocked) this.#backlog.clear();
    for (const waiting of this.#running.waiting) this.#drop(waiting);
    if (this.#reader.isDropping && !isBlocked && !this.#isDeaf) this.#fail("tooLong");
    else {
      if (this.#reader.isMidFrame) this.#voice.failed("endOfInput");
      this.#closeIfDone();
    }
  }

  /** Checks the read deadline. */
  tick(): void {
    if (this.#host.now() >= this.readDeadline) this.#fail("deadline");
  }

  /** Handles a key's notice about a request that waits, or did. */
  async deliver({ key, request: id, kind }: Notice): Promise<Answer> {
    if (this.#isOver) return "gone";
    if (kind === "promoted") return "noted";
    if (!this.#running.get(id)) return this.#repeats.mayComeAgain(this.#standing, id) ? "later" : "gone";
    if (kind !== "granted") {
      this.#finish(id, this.#operations.giveUp(key, id, kind));
      return "taken";
    }
    let outcome: Outcome | undefined;
    try {
      outcome = await this.#operations.pickUp(key, id);
    } catch (error) {
      // The key may have recorded the pick-up and will then not notify again.
      void this.#chase(key, id);
      throw error;
    }
    if (this.#isOver && !this.#isDetached) void this.#operations.withdraw(key, id);
    if (!outcome || this.#isOver) return "gone";
    this.#finish(id, outcome);
    return "taken";
  }

  lose(loss: Loss): void {
    if (this.#standing.isWatching) tellLoss(this.#voice, loss);
  }

  /** The connection is gone: nothing more is sent. */
  hangUp(): void {
    this.#isDeaf = true;
    this.#isOver = true;
    this.#voice.hush();
    this.#backlog.clear();
  }

  /** The connection is gone, but the client may resume on another one and repeat requests it got no answer to. */
  detach(): void {
    this.hangUp();
    this.#isDetached = true;
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
    this.#runTurns();
    this.#checkBacklog();
  }

  /** A framing failure is answered after the requests that were complete before it. */
  #fail(failure: "tooLong" | "deadline"): void {
    if (this.#standing.phase === "handshake") {
      void this.#refuse();
      return;
    }
    this.#voice.failed(failure);
    this.#isDeaf = true;
    this.#backlog.push({ type: "failure", code: CLOSE[failure] });
    this.#runTurns();
  }

  #checkBacklog(): void {
    if (!this.#backlog.isTooLong(this.#running) || this.#isOver) return;
    this.#voice.failed("backlog");
    this.#close(CLOSE.backlog);
  }

  #runTurns(): void {
    while (!this.#running.current && !this.#isAuthenticating && !this.#isOver) {
      const turn = this.#backlog.next();
      if (!turn) break;
      if (turn.type === "failure") {
        this.#voice.say(undefined, wireReply("error"));
        this.#close(turn.code);
      } else this.#startTurn(turn.frame);
    }
    this.#closeIfDone();
  }

  #startTurn(frame: Frame): void {
    const tagged = splitTag(frame.command);
    if (this.#standing.phase !== "open") {
      const isAuth = tagged?.tag === undefined && tagged?.command === "auth";
      if (isAuth || this.#standing.phase === "handshake") {
        if (isAuth) void this.#authenticate(frame);
        else void this.#refuse();
        return;
      }
      this.#stand({ phase: "open" });
    }
    if (tagged?.tag !== undefined) this.#startTagged(tagged.tag, tagged.command, frame);
    else if (tagged) this.#start(undefined, tagged.command, frame);
    else this.#voice.refuse(undefined, FAILURES.unknown);
  }

  #startTagged(tag: string, command: string, frame: Frame): void {
    if (this.#running.isTagFree(tag)) this.#start(tag, command, frame);
    else this.#voice.refuse(tag, FAILURES.tag);
  }

  #start(tag: string | undefined, command: string, frame: Frame): void {
    const parsed = parseRequest(command, frame);
    if (!parsed.ok) this.#voice.refuse(tag, parsed.code);
    else if (isImmediate(parsed.request)) this.#answerImmediately(tag, parsed.request);
    else if (parsed.request.type === "cancel") this.#cancel(tag, parsed.request.tag);
    else if (this.#repeats.isTagSpent(this.#standing, tag, parsed.request)) this.#voice.refuse(tag, FAILURES.tag);
    else if (!allows(this.#standing.rights, command, parsed.request, this.#host.now()))
      this.#voice.answer(tag, { status: "auth" });
    else if (parsed.request.type === "stats" || parsed.request.type === "query") this.#report(tag, parsed.request);
    else this.#runOnKey(tag, parsed.request);
  }

  #answerImmediately(tag: string | undefined, request: ImmediateRequest): void {
    const change = answerImmediately(tag, request, { voice: this.#voice, host: this.#host, standing: this.#standing });
    if (change) this.#stand(change);
  }

  #report(tag: string | undefined, request: ReportRequest): void {
    const { scope } = this.#standing.rights;
    this.#run(tag, undefined, (id) => this.#reports.answer(request, scope, () => this.#isWanted(id)));
  }

  /** Withdraws a request of this client. If it has already been answered, there is nothing to withdraw. */
  #cancel(tag: string | undefined, target: string): void {
    const running = this.#running.tagged(target);
    if (running) {
      this.#drop(running);
      this.#voice.answer(target, { status: "cancelled" });
    }
    this.#voice.ok(tag);
  }

  #runOnKey(tag: string | undefined, request: KeyRequest): void {
    const hasBegun = this.#repeats.isBegunSteal(this.#standing, tag, request);
    const circumstances = { mayWait: !this.#hasInputEnded, isAbandoned: () => !this.#isDetached, hasBegun };
    this.#run(tag, request.key, async (id) => {
      const isWanted = () => this.#isWanted(id);
      const perform = () => this.#operations.perform(request, id, { ...circumstances, isWanted });
      if (!this.#turns.isWaiting(request.key) && !this.#isAmongMany()) return perform();
      const patienceMs = patienceFor(request, this.#config.defaultLeaseSeconds * 1_000);
      return this.#turns.run(request.key, patienceMs, async () => (isWanted() ? perform() : { type: "dropped" }));
    });
  }

  /** The session has just been resumed, and so have many others. */
  #isAmongMany(): boolean {
    const { isResumed, openedAt } = this.#standing;
    const now = this.#host.now();
    return isResumed && now - openedAt < this.#config.resumeGraceMs && mustWait(now);
  }

  /** Runs something that takes time. Its turn, or its tag, is taken until it is answered. */
  #run(tag: string | undefined, key: string | undefined, perform: (id: string) => Promise<Fate>): void {
    const { id } = this.#running.begin(key, tag, this.#repeats.idOf(this.#standing, tag));
    perform(id).then(
      (fate) => this.#settle(id, fate),
      () => this.#finish(id, { status: "error" }),
    );
  }

  #settle(id: string, fate: Fate): void {
    const running = this.#running.get(id);
    // A notice may have overtaken the answer: then the client has been answered already.
    if (!running) return;
    if (this.#isOver) {
      if (!this.#isDetached) this.#drop(running);
      return;
    }
    if (fate.type === "answered") this.#finish(id, fate.outcome);
    else if (fate.type === "waiting" && !this.#hasInputEnded) {
      running.isWaiting = true;
      this.#revision += 1;
      if (this.#standing.isResumed) void this.#lookAgain(running);
      if (running.tag === undefined) this.#checkBacklog();
      this.#host.progressed();
    } else {
      if (running.tag === undefined) this.#backlog.clear();
      this.#drop(running);
      this.#closeIfDone();
    }
  }

  /** A repeated request may have been granted while its client was away. */
  async #lookAgain({ key, id }: RunningRequest): Promise<void> {
    if (key === undefined) return;
    const outcome = await this.#operations.pickUp(key, id).catch(() => undefined);
    if (outcome) this.#finish(id, outcome);
  }

  #finish(id: string, outcome: Outcome): void {
    const running = this.#running.get(id);
    if (!running || this.#isOver) return;
    this.#forget(running);
    this.#voice.answer(running.tag, outcome);
    if (running.tag === undefined) this.#runTurns();
    else this.#closeIfDone();
    this.#host.progressed();
  }

  #isWanted(id: string): boolean {
    return !this.#isOver && this.#running.get(id) !== undefined;
  }

  async #chase(key: string, id: string): Promise<void> {
    const outcome = await this.#operations.chase(key, id, () => this.#isWanted(id));
    if (!this.#isWanted(id)) return;
    this.#finish(id, outcome ?? { status: "unavailable" });
    if (!outcome) await this.#operations.withdraw(key, id);
  }

  /** Withdraws a request whose answer is no longer needed. */
  #drop(running: RunningRequest): void {
    this.#forget(running);
    if (running.key !== undefined) void this.#operations.withdraw(running.key, running.id);
  }

  #forget(running: RunningRequest): void {
    this.#running.end(running);
    if (running.tag === undefined && this.#reader.isMidFrame) this.#midFrameSince = this.#host.now();
    if (running.isWaiting) this.#revision += 1;
  }

  async #authenticate(frame: Frame): Promise<void> {
    this.#isAuthenticating = true;
    const principal = await principalShown(this.#config, frame);
    // On an open service only the admin token can be shown: this was a wrong one.
    if (principal?.type === "open") await wrongCredential(this.#host);
    this.#isAuthenticating = false;
    if (this.#isOver) return;
    if (!principal) void this.#refuse();
    else {
      const isOpen = principal.type === "open";
      this.#stand(isOpen ? { phase: "open" } : { rights: rightsOf(principal), phase: "open" });
      if (!isOpen) this.#host.authenticated();
      if (isOpen) this.#voice.refuse(undefined, FAILURES.unknown);
      else this.#voice.ok(undefined);
      this.#runTurns();
    }
    this.#host.progressed();
  }

  #stand(change: Partial<Standing>): void {
    this.#standing = { ...this.#standing, ...change };
    this.#revision += 1;
  }

  /** Refuses a failed handshake: answers after a pause, and closes after another. Nothing is executed. */
  async #refuse(): Promise<void> {
    this.#isDeaf = true;
    this.#isRefused = true;
    this.#backlog.clear();
    await wrongCredential(this.#host);
    if (this.#isOver) return;
    this.#voice.answer(undefined, { status: "auth" });
    this.#host.progressed();
    await scheduler.wait(AUTH_FAILURE_PAUSE_MS);
    this.#close(CLOSE.auth);
  }

  #closeIfDone(): void {
    if (!this.#hasInputEnded || this.#isRefused || this.#isAuthenticating) return;
    if (this.#running.size === 0 && this.#backlog.isEmpty) this.#close(CLOSE.done);
  }

  #close(code: number): void {
    if (this.#isOver) return;
    this.hangUp();
    this.#host.close(code);
  }
}
