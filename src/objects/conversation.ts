import type { Config } from "../config.ts";
import type { Answer } from "../engine/index.ts";
import { wireReply } from "../protocols/statuses.ts";
import { type Frame, FrameReader } from "../protocols/wire/frames.ts";
import { parseRequest, splitTag } from "../protocols/wire/requests.ts";
import { sameSecret } from "../secrets.ts";
import type { Loss, Notice } from "./notices.ts";
import type { KeyRequest, Operations, Reply } from "./operations.ts";

/** WebSocket close codes of the protocol. */
export const CLOSE = { done: 1000, tooLong: 1009, failed: 1011, auth: 4401, deadline: 4408, backlog: 4413 } as const;

const MOST_TAGS = 1_024;
/** Complete requests that may pile up behind one that waits, in bytes. */
const BACKLOG_BEHIND_WAIT = 65_536;
/** The same behind one that is merely under way; more than a carrier's window, so that only a flood meets it. */
const BACKLOG = 262_144;
const AUTH_FAILURE_PAUSE_MS = 100;

/** What a conversation needs from the object that hosts it. */
export interface Host {
  send(line: string): void;
  /** The conversation is over: closes the connection and ends the session. */
  close(code: number): void;
  /** A key is about to be used: the session must remember it for its own end. */
  touch(key: string): void;
  stats(): Promise<string>;
  /** The client has shown the token. */
  authenticated(): void;
  /** Something has happened outside a call from the host: what must outlive its memory may have changed. */
  progressed(): void;
  now(): number;
}

interface Running {
  readonly key: string | undefined;
  readonly tag: string | undefined;
  isWaiting: boolean;
}

type Turn = { readonly type: "frame"; readonly frame: Frame } | { readonly type: "failure"; readonly code: number };

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
  readonly waiting: readonly { readonly id: string; readonly key: string; readonly tag: string | undefined }[];
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
  readonly #turns: Turn[];
  readonly #running = new Map<string, Running>();
  readonly #tags = new Map<string, string>();
  /** Ids of this life of the object; ids of an earlier life have another beginning. */
  readonly #idPrefix = crypto.randomUUID().slice(0, 13);
  #lastId = 0;
  #phase: Phase;
  #isWatching: boolean;
  #backlogBytes = 0;
  #midFrameSince: number;
  #answeredAt = 0;
  #current: string | undefined;
  #isAuthenticating = false;
  #hasInputEnded = false;
  /** Nothing more is read. */
  #isDeaf = false;
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
    this.#turns = [...state.turns];
    for (const turn of state.turns) this.#backlogBytes += sizeOf(turn);
    for (const { id, key, tag } of state.waiting) {
      this.#running.set(id, { key, tag, isWaiting: true });
      if (tag === undefined) this.#current = id;
      else this.#tags.set(tag, id);
    }
  }

  get state(): ConversationState {
    const waiting = [...this.#running].flatMap(([id, { key, tag, isWaiting }]) =>
      isWaiting && key !== undefined ? [{ id, key, tag }] : [],
    );
    return {
      phase: this.#phase,
      openedAt: this.#openedAt,
      isWatching: this.#isWatching,
      partial: this.#reader.partial,
      midFrameSince: this.#midFrameSince,
      turns: this.#isBlocked ? this.#turns : [],
      waiting,
    };
  }

  /** Bytes that were received and are not worked on yet. */
  get unconsumed(): number {
    return this.#backlogBytes + this.#reader.partial.length;
  }

  /** When the client must have sent more; Infinity while it owes nothing. */
  get readDeadline(): number {
    const { readTimeoutMs } = this.#config;
    if (this.#isDeaf || this.#hasInputEnded || this.#isAuthenticating) return Number.POSITIVE_INFINITY;
    if (this.#phase === "handshake") return this.#openedAt + readTimeoutMs;
    if (this.#current !== undefined || !this.#reader.isMidFrame) return Number.POSITIVE_INFINITY;
    return Math.max(this.#midFrameSince, this.#answeredAt) + readTimeoutMs;
  }

  receive(bytes: Uint8Array): void {
    const wasMidFrame = this.#reader.isMidFrame;
    let completed = 0;
    for (const event of this.#isDeaf || this.#hasInputEnded ? [] : this.#reader.read(bytes)) {
      completed += 1;
      if (event.type === "frame") this.#take(event.frame);
      else this.#fail(CLOSE.tooLong);
      if (this.#isDeaf) break;
    }
    if (this.#reader.isMidFrame && (!wasMidFrame || completed > 0)) this.#midFrameSince = this.#host.now();
  }

  /** The client will send nothing more: what can be answered at once is, then the conversation is over. */
  endOfInput(): void {
    if (this.#isDeaf || this.#hasInputEnded) return;
    this.#hasInputEnded = true;
    if (this.#phase === "handshake" && !this.#isAuthenticating) {
      this.#refuse();
      return;
    }
    if (this.#isBlocked) this.#dropTurns();
    for (const [id, running] of this.#running) if (running.isWaiting) this.#drop(id, running);
    this.#closeIfDone();
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
    if (!this.#running.has(id)) return "gone";
    const line = kind === "granted" ? await this.#operations.pickUp(key, id) : wireReply(kind);
    if (line === undefined || this.#isOver) return "gone";
    this.#finish(id, line);
    return "taken";
  }

  lose({ key, token, reason }: Loss): void {
    if (this.#isWatching && !this.#isOver) this.#host.send(`! lost ${key} ${token} ${reason}\n`);
  }

  /** The connection is gone: nothing is said any more. */
  hangUp(): void {
    this.#isDeaf = true;
    this.#isOver = true;
    this.#dropTurns();
  }

  /** The current untagged request waits at its key. */
  get #isBlocked(): boolean {
    return this.#current !== undefined && this.#running.get(this.#current)?.isWaiting === true;
  }

  #take(frame: Frame): void {
    if (this.#phase === "open" && frame.command[0] === 0x40) {
      const tagged = splitTag(frame.command);
      if (tagged?.tag !== undefined) {
        this.#startTagged(tagged.tag, tagged.command, frame);
        return;
      }
    }
    this.#turns.push({ type: "frame", frame });
    this.#backlogBytes += frame.size;
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
    this.#turns.push({ type: "failure", code });
    this.#runTurns();
  }

  #checkBacklog(): void {
    if (this.#backlogBytes > (this.#isBlocked ? BACKLOG_BEHIND_WAIT : BACKLOG)) this.#close(CLOSE.backlog);
  }

  #runTurns(): void {
    while (this.#current === undefined && !this.#isAuthenticating && !this.#isOver) {
      const turn = this.#turns.shift();
      if (!turn) break;
      this.#backlogBytes -= sizeOf(turn);
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
      this.#phase = "open";
    }
    if (tagged?.tag !== undefined) this.#startTagged(tagged.tag, tagged.command, frame);
    else if (tagged) this.#start(undefined, tagged.command, frame);
    else this.#say(undefined, wireReply("error"));
  }

  #startTagged(tag: string, command: string, frame: Frame): void {
    if (this.#tags.has(tag) || this.#tags.size >= MOST_TAGS) this.#say(tag, wireReply("error"));
    else this.#start(tag, command, frame);
  }

  #start(tag: string | undefined, command: string, frame: Frame): void {
    const parsed = parseRequest(command, frame);
    if (!parsed.ok || parsed.request.type === "auth") this.#say(tag, wireReply("error"));
    else if (parsed.request.type === "ping") this.#say(tag, wireReply("ok"));
    else if (parsed.request.type === "watch") {
      this.#isWatching = true;
      this.#say(tag, wireReply("ok"));
    } else if (parsed.request.type === "stats") {
      this.#run(tag, undefined, async () => ({ type: "reply", line: wireReply("ok", await this.#host.stats()) }));
    } else this.#runOnKey(tag, parsed.request);
  }

  #runOnKey(tag: string | undefined, request: KeyRequest): void {
    const mayWait = !this.#hasInputEnded;
    this.#run(tag, request.key, async (id) => {
      if (request.type === "acquire" || request.type === "enqueue") this.#host.touch(request.key);
      return this.#operations.perform(request, id, { mayWait });
    });
  }

  /** Runs something that takes time. Its turn, or its tag, is taken until it is answered. */
  #run(tag: string | undefined, key: string | undefined, perform: (id: string) => Promise<Reply>): void {
    const id = `${this.#idPrefix}.${++this.#lastId}`;
    this.#running.set(id, { key, tag, isWaiting: false });
    if (tag === undefined) this.#current = id;
    else this.#tags.set(tag, id);
    perform(id).then(
      (reply) => this.#settle(id, reply),
      () => this.#finish(id, wireReply("error")),
    );
  }

  #settle(id: string, reply: Reply): void {
    const running = this.#running.get(id);
    // A notice may have overtaken the answer: then all is said.
    if (!running || this.#isOver) return;
    if (reply.type === "reply") this.#finish(id, reply.line);
    else if (reply.type === "waiting" && !this.#hasInputEnded) {
      running.isWaiting = true;
      if (running.tag === undefined) this.#checkBacklog();
      this.#host.progressed();
    } else {
      if (running.tag === undefined) this.#dropTurns();
      this.#drop(id, running);
      this.#closeIfDone();
    }
  }

  #finish(id: string, line: string): void {
    const running = this.#running.get(id);
    if (!running || this.#isOver) return;
    this.#forget(id, running);
    this.#say(running.tag, line);
    if (running.tag === undefined) this.#runTurns();
    else this.#closeIfDone();
    this.#host.progressed();
  }

  /** Withdraws a request that nobody waits for any more. */
  #drop(id: string, running: Running): void {
    this.#forget(id, running);
    if (running.key !== undefined) void this.#operations.withdraw(running.key, id).catch(() => {});
  }

  #forget(id: string, { tag }: Running): void {
    this.#running.delete(id);
    if (tag !== undefined) this.#tags.delete(tag);
    else if (this.#current === id) {
      this.#current = undefined;
      this.#answeredAt = this.#host.now();
    }
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
    if (!isRight) {
      this.#refuse();
      return;
    }
    this.#phase = "open";
    this.#host.authenticated();
    this.#say(undefined, wireReply("ok"));
    this.#runTurns();
    this.#host.progressed();
  }

  /** The handshake has failed: says so, lets the client wait a little, and hangs up. Nothing is executed. */
  #refuse(): void {
    this.#isDeaf = true;
    this.#dropTurns();
    this.#say(undefined, wireReply("auth"));
    setTimeout(() => this.#close(CLOSE.auth), AUTH_FAILURE_PAUSE_MS);
  }

  #dropTurns(): void {
    this.#turns.length = 0;
    this.#backlogBytes = 0;
  }

  #closeIfDone(): void {
    if (!this.#hasInputEnded || this.#isDeaf || this.#isAuthenticating) return;
    if (this.#running.size === 0 && this.#turns.length === 0) this.#close(CLOSE.done);
  }

  #close(code: number): void {
    if (this.#isOver) return;
    this.hangUp();
    this.#host.close(code);
  }
}

function sizeOf(turn: Turn): number {
  return turn.type === "frame" ? turn.frame.size : 0;
}
