import type { Config } from "../config.ts";
import type { Answer } from "../engine/index.ts";
import { wireReply } from "../protocols/statuses.ts";
import { type Frame, FrameReader } from "../protocols/wire/frames.ts";
import { parseRequest, splitTag } from "../protocols/wire/requests.ts";
import { sameSecret } from "../secrets.ts";
import { Backlog, type Turn } from "./backlog.ts";
import type { Loss, Notice } from "./notices.ts";
import type { KeyRequest, Operations, Reply } from "./operations.ts";
import { type Running, RunningRequests, type Waiting } from "./running.ts";

/** WebSocket close codes of the protocol. */
export const CLOSE = { done: 1000, tooLong: 1009, auth: 4401, deadline: 4408, backlog: 4413 } as const;

const AUTH_FAILURE_PAUSE_MS = 100;
const WEIGHT_OF_REQUEST = 128;

/** What a conversation needs from the object that hosts it. */
export interface Host {
  send(line: string): void;
  /** The conversation is over: closes the connection and ends the session. */
  close(code: number): void;
  stats(): Promise<string>;
  /** The client has shown the token. */
  authenticated(): void;
  /** Something has happened outside a call from the host: what must outlive its memory may have changed. */
  progressed(): void;
  debug(event: string, fields: Record<string, unknown>): void;
  now(): number;
}

/** `handshake`: the first frame must be `auth`; `greeted`: it may be, the upgrade has shown the token already. */
type Phase = "handshake" | "greeted" | "open";

/** All that must outlive hibernation. Requests under way are not part of it: they keep the object awake. */
export interface ConversationState {
  readonly phase: Phase;
  readonly openedAt: number;
  readonly isWatching: boolean;
  readonly partial: Uint8Array;
  readonly midFrameSince: number;
  readonly turns: readonly Turn[];
  readonly waiting: readonly Waiting[];
}

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
    return this.unconsumed + this.#running.size * WEIGHT_OF_REQUEST;
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
      else this.#fail(CLOSE.tooLong);
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
    if (this.#reader.isDropping && !isBlocked && !this.#isDeaf) this.#fail(CLOSE.tooLong);
    else this.#closeIfDone();
  }

  /** Time has passed; the read deadline may have. */
  tick(): void {
    if (this.#host.now() < this.readDeadline) return;
    if (this.#phase === "handshake") this.#refuse();
    else this.#fail(CLOSE.deadline);
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
    let line: string | undefined;
    try {
      line = await this.#operations.pickUp(key, id);
    } catch (error) {
      // The key may have counted it as picked up, and will then not call again.
      void this.#chase(key, id);
      throw error;
    }
    if (this.#isOver) void this.#operations.withdraw(key, id);
    if (line === undefined || this.#isOver) return "gone";
    this.#finish(id, line);
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
  #fail(code: number): void {
    if (this.#phase === "handshake") {
      this.#refuse();
      return;
    }
    this.#isDeaf = true;
    this.#backlog.push({ type: "failure", code });
    this.#runTurns();
  }

  #checkBacklog(): void {
    if (this.#backlog.isTooLong(this.#running)) this.#close(CLOSE.backlog);
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
    else this.#say(undefined, wireReply("error"));
  }

  #startTagged(tag: string, command: string, frame: Frame): void {
    if (this.#running.isTagFree(tag)) this.#start(tag, command, frame);
    else this.#say(tag, wireReply("error"));
  }

  #start(tag: string | undefined, command: string, frame: Frame): void {
    const parsed = parseRequest(command, frame);
    if (!parsed.ok) {
      this.#host.debug("protocol_error", { code: parsed.code });
      this.#say(tag, wireReply("error"));
    } else if (parsed.request.type === "auth") this.#say(tag, wireReply("error"));
    else if (parsed.request.type === "ping") this.#say(tag, wireReply("ok"));
    else if (parsed.request.type === "watch") {
      this.#isWatching = true;
      this.#revision += 1;
      this.#say(tag, wireReply("ok"));
    } else if (parsed.request.type === "stats") {
      this.#run(tag, undefined, async () => ({ type: "reply", line: wireReply("ok", await this.#host.stats()) }));
    } else this.#runOnKey(tag, parsed.request);
  }

  #runOnKey(tag: string | undefined, request: KeyRequest): void {
    const mayWait = !this.#hasInputEnded;
    this.#run(tag, request.key, (id) =>
      this.#operations.perform(request, id, { mayWait, isWanted: () => this.#isWanted(id) }),
    );
  }

  /** Runs something that takes time. Its turn, or its tag, is taken until it is answered. */
  #run(tag: string | undefined, key: string | undefined, perform: (id: string) => Promise<Reply>): void {
    const { id } = this.#running.begin(key, tag);
    perform(id).then(
      (reply) => this.#settle(id, reply),
      () => this.#finish(id, wireReply("error")),
    );
  }

  #settle(id: string, reply: Reply): void {
    const running = this.#running.get(id);
    // A notice may have overtaken the answer: then all is said.
    if (!running) return;
    if (this.#isOver) {
      this.#drop(running);
      return;
    }
    if (reply.type === "reply") this.#finish(id, reply.line);
    else if (reply.type === "waiting" && !this.#hasInputEnded) {
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

  #finish(id: string, line: string): void {
    const running = this.#running.get(id);
    if (!running || this.#isOver) return;
    this.#forget(running);
    this.#say(running.tag, line);
    if (running.tag === undefined) this.#runTurns();
    else this.#closeIfDone();
    this.#host.progressed();
  }

  #isWanted(id: string): boolean {
    return !this.#isOver && this.#running.get(id) !== undefined;
  }

  async #chase(key: string, id: string): Promise<void> {
    const line = await this.#operations.chase(key, id, () => this.#isWanted(id));
    this.#finish(id, line);
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

  #say(tag: string | undefined, line: string): void {
    if (!this.#isOver) this.#host.send(tag === undefined ? `${line}\n` : `@${tag} ${line}\n`);
  }

  async #authenticate(frame: Frame): Promise<void> {
    this.#isAuthenticating = true;
    const parsed = parseRequest("auth", frame);
    const token = parsed.ok && parsed.request.type === "auth" ? parsed.request.token : frame.arg;
    const isRight = await sameSecret(token, this.#config.authToken ?? "");
    this.#isAuthenticating = false;
    if (this.#isOver) return;
    if (isRight) {
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
    this.#say(undefined, wireReply("auth"));
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
