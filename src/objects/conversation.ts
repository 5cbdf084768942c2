import type { Config } from "../config.ts";
import type { Answer } from "../engine/index.ts";
import { AUTH_FAILURE_PAUSE_MS, authenticateSecret } from "../principal.ts";
import { type Outcome, wireReply, wireReplyOf } from "../protocols/statuses.ts";
import { type Frame, FrameReader } from "../protocols/wire/frames.ts";
import { familyOf, parseRequest, splitTag } from "../protocols/wire/requests.ts";
import { permits, type Scope } from "../scope.ts";
import { Backlog } from "./backlog.ts";
import { CLOSE, type ConversationState, FAILURES, type Host, type Phase } from "./conversation-host.ts";
import type { Loss, Notice } from "./notices.ts";
import type { Fate, KeyRequest, Operations } from "./operations.ts";
import { type Running, RunningRequests } from "./running.ts";

const WEIGHT_OF_REQUEST = 128;

/**
 * One client's side of the protocol: bytes in, lines out. Untagged requests run one at a time in the order sent,
 * tagged ones at once; a request that waits is only remembered, never awaited, so the host may sleep meanwhile.
 */
export class Conversation {
  readonly #host: Host;
  readonly #operations: Operations;
  readonly #config: Config;
  readonly #openedAt: number;
  readonly #reader: FrameReader;
  readonly #backlog: Backlog;
  readonly #running: RunningRequests;
  #phase: Phase;
  #scope: Scope | undefined;
  #isWatching: boolean;
  #midFrameSince: number;
  #revision = 0;
  #isAuthenticating = false;
  #hasInputEnded = false;
  /** Nothing more is read. */
  #isDeaf: boolean;
  /** The handshake has failed; the connection is about to be closed. */
  #isRefused = false;
  #isOver = false;

  constructor(host: Host, operations: Operations, config: Config, state: ConversationState) {
    this.#host = host;
    this.#operations = operations;
    this.#config = config;
    this.#phase = state.phase;
    this.#scope = state.scope;
    this.#openedAt = state.openedAt;
    this.#isWatching = state.isWatching;
    this.#reader = new FrameReader(state.partial);
    this.#midFrameSince = state.midFrameSince;
    this.#backlog = new Backlog(state.turns);
    this.#isDeaf = state.turns.some(({ type }) => type === "failure");
    this.#running = new RunningRequests(state.waiting);
  }

  /** Another number whenever `state` is another. */
  get revision(): number {
    return this.#revision;
  }

  get state(): ConversationState {
    const isBlocked = this.#running.isBlocked;
    return {
      phase: this.#phase,
      scope: this.#scope,
      openedAt: this.#openedAt,
      isWatching: this.#isWatching,
      partial: this.#reader.partial,
      midFrameSince: this.#midFrameSince,
      turns: isBlocked ? this.#backlog.turns : [],
      waiting: this.#running.waiting.map(({ id, key, tag }) => ({ id, key, tag })),
    };
  }

  /** About how much there is to keep over a sleep, in bytes. */
  get weight(): number {
    return this.#backlog.weight + this.#reader.partial.length + this.#running.size * WEIGHT_OF_REQUEST;
  }

  /** Bytes that were received and are not worked on yet. */
  get unconsumed(): number {
    return this.#backlog.bytes + this.#reader.partial.length;
  }

  /** When the client must have sent more; Infinity while it owes nothing. */
  get readDeadline(): number {
    const { readTimeoutMs } = this.#config;
    if (this.#isDeaf || this.#hasInputEnded || this.#isAuthenticating) return Number.POSITIVE_INFINITY;
    if (this.#phase === "handshake") return this.#openedAt + readTimeoutMs;
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

  /** The client will send nothing more: what can be answered at once is, then the conversation is over. */
  endOfInput(): void {
    if (this.#isOver || this.#isRefused || this.#hasInputEnded) return;
    this.#hasInputEnded = true;
    if (this.#phase === "handshake" && !this.#isAuthenticating) {
      this.#refuse();
      return;
    }
    const { isBlocked } = this.#running;
    if (isBlocked) this.#backlog.clear();
    for (const waiting of this.#running.waiting) this.#drop(waiting);
    if (this.#reader.isDropping && !isBlocked && !this.#isDeaf) this.#fail("tooLong");
    else {
      if (this.#reader.isMidFrame) this.#failed("endOfInput");
      this.#closeIfDone();
    }
  }

  /** Time has passed; the read deadline may have. */
  tick(): void {
    if (this.#host.now() < this.readDeadline) return;
    if (this.#phase === "handshake") this.#refuse();
    else this.#fail("deadline");
  }

  /** A key has news about a request that waits, or did. */
  async deliver({ key, request: id, kind }: Notice): Promise<Answer> {
    if (this.#isOver) return "gone";
    if (kind === "promoted") return "noted";
    if (!this.#running.get(id)) return "gone";
    if (kind !== "granted") {
      this.#finish(id, this.#operations.giveUp(key, id, kind));
      return "taken";
    }
    let outcome: Outcome | undefined;
    try {
      outcome = await this.#operations.pickUp(key, id);
    } catch (error) {
      // The key may have counted it as picked up, and will then not call again.
      void this.#chase(key, id);
      throw error;
    }
    if (this.#isOver) void this.#operations.withdraw(key, id);
    if (!outcome || this.#isOver) return "gone";
    this.#finish(id, outcome);
    return "taken";
  }

  lose({ key, token, reason }: Loss): void {
    this.#operations.lost(key, token);
    if (this.#isWatching && !this.#isOver) this.#host.send(`! lost ${key} ${token} ${reason}\n`);
  }

  /** The connection is gone: nothing is said any more. */
  hangUp(): void {
    this.#isDeaf = true;
    this.#isOver = true;
    this.#backlog.clear();
  }

  #take(frame: Frame): void {
    if (this.#phase === "open" && frame.command[0] === 0x40) {
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

  /** A framing failure takes its turn behind what was complete before it. */
  #fail(failure: "tooLong" | "deadline"): void {
    if (this.#phase === "handshake") {
      this.#refuse();
      return;
    }
    this.#failed(failure);
    this.#isDeaf = true;
    this.#backlog.push({ type: "failure", code: CLOSE[failure] });
    this.#runTurns();
  }

  #failed(failure: keyof typeof FAILURES): void {
    this.#host.count({ type: "protocol_error", code: FAILURES[failure] });
  }

  #checkBacklog(): void {
    if (!this.#backlog.isTooLong(this.#running) || this.#isOver) return;
    this.#failed("backlog");
    this.#close(CLOSE.backlog);
  }

  #runTurns(): void {
    while (!this.#running.current && !this.#isAuthenticating && !this.#isOver) {
      const turn = this.#backlog.next();
      if (!turn) break;
      if (turn.type === "failure") {
        this.#host.send(`${wireReply("error")}\n`);
        this.#close(turn.code);
      } else this.#startTurn(turn.frame);
    }
    this.#closeIfDone();
  }

  #startTurn(frame: Frame): void {
    const tagged = splitTag(frame.command);
    if (this.#phase !== "open") {
      const isAuth = tagged?.tag === undefined && tagged?.command === "auth";
      if (isAuth) {
        void this.#authenticate(frame);
        return;
      }
      if (this.#phase === "handshake") {
        this.#refuse();
        return;
      }
      this.#enter("open");
    }
    if (tagged?.tag !== undefined) this.#startTagged(tagged.tag, tagged.command, frame);
    else if (tagged) this.#start(undefined, tagged.command, frame);
    else this.#refuseRequest(undefined, FAILURES.unknown);
  }

  #startTagged(tag: string, command: string, frame: Frame): void {
    if (this.#running.isTagFree(tag)) this.#start(tag, command, frame);
    else this.#refuseRequest(tag, FAILURES.tag);
  }

  #start(tag: string | undefined, command: string, frame: Frame): void {
    const parsed = parseRequest(command, frame);
    if (!parsed.ok) this.#refuseRequest(tag, parsed.code);
    else if (parsed.request.type === "auth") this.#refuseRequest(tag, FAILURES.unknown);
    else if (parsed.request.type === "ping") this.#say(tag, wireReply("ok"));
    else if (parsed.request.type === "watch") {
      this.#isWatching = true;
      this.#revision += 1;
      this.#say(tag, wireReply("ok"));
    } else if (!this.#isAllowed(command, parsed.request)) this.#answer(tag, { status: "auth" });
    else if (parsed.request.type === "stats") {
      this.#run(tag, undefined, async () => {
        const document = await this.#host.stats(this.#scope);
        return { type: "answered", outcome: { status: "ok", document } };
      });
    } else this.#runOnKey(tag, parsed.request);
  }

  #refuseRequest(tag: string | undefined, code: number): void {
    this.#host.count({ type: "protocol_error", code });
    this.#host.debug("protocol_error", { code });
    this.#say(tag, wireReply("error"));
  }

  /** A ticket that has run out still lets its client give back what it holds. */
  #isAllowed(command: string, request: KeyRequest | { readonly type: "stats" }): boolean {
    const scope = this.#scope;
    if (!scope) return true;
    const isOver = scope.expiresAt <= this.#host.now();
    if (request.type === "stats") return !isOver && scope.operations.includes("stats");
    return permits(scope, familyOf(command), request.key) && (!isOver || request.type === "release");
  }

  #runOnKey(tag: string | undefined, request: KeyRequest): void {
    const mayWait = !this.#hasInputEnded;
    this.#run(tag, request.key, (id) =>
      this.#operations.perform(request, id, { mayWait, isWanted: () => this.#isWanted(id) }),
    );
  }

  /** Runs something that takes time. Its turn, or its tag, is taken until it is answered. */
  #run(tag: string | undefined, key: string | undefined, perform: (id: string) => Promise<Fate>): void {
    const { id } = this.#running.begin(key, tag);
    perform(id).then(
      (fate) => this.#settle(id, fate),
      () => this.#finish(id, { status: "error" }),
    );
  }

  #settle(id: string, fate: Fate): void {
    const running = this.#running.get(id);
    // A notice may have overtaken the answer: then all is said.
    if (!running) return;
    if (this.#isOver) {
      this.#drop(running);
      return;
    }
    if (fate.type === "answered") this.#finish(id, fate.outcome);
    else if (fate.type === "waiting" && !this.#hasInputEnded) {
      running.isWaiting = true;
      this.#revision += 1;
      if (running.tag === undefined) this.#checkBacklog();
      this.#host.progressed();
    } else {
      if (running.tag === undefined) this.#backlog.clear();
      this.#drop(running);
      this.#closeIfDone();
    }
  }

  #finish(id: string, outcome: Outcome): void {
    const running = this.#running.get(id);
    if (!running || this.#isOver) return;
    this.#forget(running);
    this.#answer(running.tag, outcome);
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

  /** Withdraws a request that nobody waits for any more. */
  #drop(running: Running): void {
    this.#forget(running);
    if (running.key !== undefined) void this.#operations.withdraw(running.key, running.id);
  }

  #forget(running: Running): void {
    this.#running.end(running);
    if (running.tag === undefined && this.#reader.isMidFrame) this.#midFrameSince = this.#host.now();
    if (running.isWaiting) this.#revision += 1;
  }

  #answer(tag: string | undefined, outcome: Outcome): void {
    this.#host.count({ type: "answered", status: outcome.status });
    this.#say(tag, wireReplyOf(outcome));
  }

  #say(tag: string | undefined, line: string): void {
    if (!this.#isOver) this.#host.send(tag === undefined ? `${line}\n` : `@${tag} ${line}\n`);
  }

  async #authenticate(frame: Frame): Promise<void> {
    this.#isAuthenticating = true;
    const parsed = parseRequest("auth", frame);
    const token = parsed.ok && parsed.request.type === "auth" ? parsed.request.token : frame.arg;
    const principal = await authenticateSecret(this.#config, token);
    this.#isAuthenticating = false;
    if (this.#isOver) return;
    if (principal && principal.type !== "open") {
      this.#scope = principal.type === "ticket" ? principal.scope : undefined;
      this.#enter("open");
      this.#host.authenticated();
      this.#say(undefined, wireReply("ok"));
      this.#runTurns();
    } else this.#refuse();
    this.#host.progressed();
  }

  #enter(phase: Phase): void {
    this.#phase = phase;
    this.#revision += 1;
  }

  /** The handshake has failed: says so, lets the client wait a little, and hangs up. Nothing is executed. */
  #refuse(): void {
    this.#isDeaf = true;
    this.#isRefused = true;
    this.#backlog.clear();
    this.#host.count({ type: "auth_failed" });
    this.#answer(undefined, { status: "auth" });
    setTimeout(() => this.#close(CLOSE.auth), AUTH_FAILURE_PAUSE_MS);
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
