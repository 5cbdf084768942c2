/**
 * The service's own engine, for one key, behind sockets that are none. What lies between the two is said again here in
 * short, as `src/objects` has it: sessions that outlive their sockets, requests that come again, notices and losses.
 */
import {
  type AcquireOutcome,
  type Answer,
  type CommandContext,
  type Granted,
  type HolderView,
  KeyEngine,
  type KeyEvent,
  type WaitOutcome,
} from "../../../src/engine/index.ts";
import { type Outcome, wireReply, wireReplyOf } from "../../../src/protocols/statuses.ts";
import { FrameReader } from "../../../src/protocols/wire/frames.ts";
import { parseRequest, type Request, splitTag } from "../../../src/protocols/wire/requests.ts";
import type { FakeClock } from "./fake-clock.ts";
import type { FakeSocket, Host } from "./fake-network.ts";

export const GRACE_MS = 10_000;
/** Long enough that nothing which is left behind ends by itself before a test has seen it. */
const LEASE_S = 600;
const IDLE_MS = 60_000;
const LOSS_KEPT_MS = GRACE_MS + 30_000;
const CLOSE = { gone: 4410, replaced: 4411 };
const LOST_CODES = new Set([1006, 4412]);

interface Session {
  readonly name: string;
  socket: FakeSocket | undefined;
  openedAt: number;
  isResumable: boolean;
  isResumed: boolean;
  isWatching: boolean;
  isOver: boolean;
  endsAt: number;
  /** Tags of the requests that wait, on the socket there is. */
  readonly waiting: Set<string>;
  readonly steals: Set<string>;
  losses: { readonly line: string; readonly token: string; readonly at: number }[];
}

export class EngineService implements Host {
  readonly engine: KeyEngine;
  /** Holds that were taken from their holders, as they were, by token. */
  readonly thefts = new Map<string, HolderView>();
  /** Tokens of which their client has read that they are not held, in a push or as the answer to a renewal. */
  readonly told = new Set<string>();
  /** Losses are told to those who are there, and not again. */
  isForgetful = false;
  /** The types of all requests, as they came. */
  readonly requests: Request["type"][] = [];
  readonly #clock: FakeClock;
  readonly #sessions = new Map<string, Session>();
  /** Before the last claim. */
  #holders: readonly HolderView[] = [];

  constructor(clock: FakeClock, limit = 1) {
    this.#clock = clock;
    this.engine = new KeyEngine({ limit, fence: 0n, lastActivity: 0, slots: [], waiters: [], lapsed: [] });
  }

  /** When something happens here by itself. */
  get nextWake(): number {
    const ends = [...this.#sessions.values()].map(({ endsAt }) => endsAt);
    return Math.min(this.engine.nextWake({ gcMaxIdleMs: IDLE_MS, graceMs: Number.POSITIVE_INFINITY }), ...ends);
  }

  wake(): void {
    const { now } = this.#moment;
    for (const session of this.#sessions.values()) if (session.endsAt <= now) this.#end(session);
    this.engine.tick(this.#moment);
    this.#spread();
  }

  isOver(session: string): boolean {
    return this.#sessions.get(session)?.isOver !== false;
  }

  opened(socket: FakeSocket, credential: string | undefined): void {
    socket.accept();
    const name = credential?.split(".")[0];
    const session = name === undefined ? this.#begin() : this.#sessions.get(name);
    if (!session || session.isOver) {
      socket.hangUp(CLOSE.gone);
      return;
    }
    session.socket?.hangUp(CLOSE.replaced);
    this.#detach(session);
    Object.assign(session, { socket, openedAt: this.#moment.now, endsAt: Number.POSITIVE_INFINITY });
    session.isResumed = session.isResumable;
  }

  closed(socket: FakeSocket, code: number): void {
    socket.hangUp(code);
    const session = this.#sessionOn(socket);
    if (!session) return;
    if (LOST_CODES.has(code) && session.isResumable) this.#detach(session);
    else this.#end(session);
  }

  received(socket: FakeSocket, text: string): void {
    const session = this.#sessionOn(socket);
    const [event] = new FrameReader().read(new TextEncoder().encode(text));
    if (!session || event?.type !== "frame") return;
    const { tag = "", command = "" } = splitTag(event.frame.command) ?? {};
    const parsed = parseRequest(command, event.frame);
    if (!parsed.ok) throw new Error(`not a request: ${JSON.stringify(text)}`);
    this.requests.push(parsed.request.type);
    this.#perform(session, tag, parsed.request);
    this.#spread();
  }

  #perform(session: Session, tag: string, request: Request): void {
    const say = (line: string, heard = () => {}) => session.socket?.say(`@${tag} ${line}\n`, heard);
    switch (request.type) {
      case "ping":
        say(wireReply("ok"));
        break;
      case "resume":
        session.isResumable = true;
        say(wireReply("ok", `${session.name}.secret`, GRACE_MS / 1000));
        break;
      case "watch":
        say(wireReply("ok"));
        if (session.isResumed && !this.isForgetful) for (const loss of session.losses) this.#tellLoss(session, loss);
        session.isWatching = true;
        break;
      case "cancel":
        if (session.waiting.has(request.tag)) {
          this.engine.cancel(idOf(session, request.tag), this.#moment);
          this.#answer(session, request.tag, { status: "cancelled" });
        }
        say(wireReply("ok"));
        break;
      case "acquire":
      case "enqueue":
      case "wait":
        this.#claim(session, tag, request);
        break;
      case "renew": {
        const outcome = this.engine.renew(request.token, request.leaseSeconds ?? LEASE_S, this.#moment);
        if (outcome.status === "renewed") say(wireReply("ok", outcome.leaseSeconds));
        else say(wireReply("not_held"), () => this.told.add(request.token));
        break;
      }
      case "release": {
        const { status } = this.engine.release(request.token, session.name, this.#moment);
        say(wireReply(status === "released" ? "ok" : "not_held"));
        break;
      }
      default:
        throw new Error(`nobody answers ${request.type} here`);
    }
  }

  #claim(session: Session, tag: string, request: Extract<Request, { type: "acquire" | "enqueue" | "wait" }>): void {
    const [moment, id] = [this.#moment, idOf(session, tag)];
    const by = { session: session.name, request: id };
    if (request.type === "enqueue") {
      const outcome = this.engine.enqueue({ ...by, ...request, leaseSeconds: request.leaseSeconds ?? LEASE_S }, moment);
      this.#answer(session, tag, outcome.status === "granted" ? { ...outcome, status: "acquired" } : outcome);
      return;
    }
    const wish = { ...by, waitMs: request.waitSeconds * 1000, mayWait: true };
    if (request.type === "wait") {
      this.#answerInTime(session, tag, this.engine.wait(wish, moment));
      return;
    }
    const { limit, leaseSeconds = LEASE_S, steals } = request;
    if (steals && session.steals.has(tag)) {
      const outcome = this.engine.pickUp(id, moment);
      this.#answer(session, tag, outcome.status === "granted" ? outcome : { status: "lease_expired" });
      return;
    }
    if (steals) session.steals.add(tag);
    this.#holders = this.engine.view().holders;
    const claim = { ...wish, limit, leaseSeconds, ...(steals && { steals }) };
    this.#answerInTime(session, tag, this.engine.acquire(claim, moment));
  }

  /** Answers a request, at once or when there is something to say. */
  #answerInTime(session: Session, tag: string, outcome: AcquireOutcome | WaitOutcome): void {
    if (outcome.status === "would_wait") throw new Error("everybody may wait");
    session.waiting.add(tag);
    // It may have been granted while its client was away.
    if (outcome.status === "queued") this.#pickUp(session, tag);
    else this.#answer(session, tag, outcome);
  }

  /** Tells a waiting request what has become of it, if anything has. */
  #pickUp(session: Session, tag: string): void {
    const outcome = this.engine.pickUp(idOf(session, tag), this.#moment);
    if (outcome.status === "queued") return;
    const { status } = outcome;
    this.#answer(session, tag, status === "granted" ? outcome : { status: status === "unknown" ? "error" : status });
  }

  #answer(session: Session, tag: string, outcome: Outcome | Granted): void {
    session.waiting.delete(tag);
    const reply = outcome.status === "granted" ? { ...outcome, status: "ok" as const } : outcome;
    session.socket?.say(`@${tag} ${wireReplyOf(reply)}\n`, () => {});
  }

  /** Brings the key's news to its sessions, until there are none. */
  #spread(): void {
    for (let events = this.engine.takeEvents(); events.length > 0; events = this.engine.takeEvents()) {
      for (const event of events) {
        const session = this.#sessions.get(event.session);
        if (event.type === "notice") this.engine.answer(event.request, this.#deliver(session, event), this.#moment);
        else if (session && !session.isOver) this.#lose(session, event);
      }
    }
    this.engine.takeChanges();
    this.engine.takeObservations();
  }

  #deliver(session: Session | undefined, { request, kind }: Extract<KeyEvent, { type: "notice" }>): Answer {
    if (!session || session.isOver) return "gone";
    if (kind === "promoted") return "noted";
    if (!session.socket) return "later";
    const tag = request.slice(session.name.length + 1);
    if (!session.waiting.has(tag))
      return session.isResumed && this.#moment.now < session.openedAt + GRACE_MS ? "later" : "gone";
    if (kind === "granted") this.#pickUp(session, tag);
    else this.#answer(session, tag, { status: kind });
    return "taken";
  }

  #lose(session: Session, { token, reason }: Extract<KeyEvent, { type: "lost" }>): void {
    const { now } = this.#moment;
    const loss = { line: `! lost key ${token} ${reason}\n`, token, at: now };
    const hold = this.#holders.find(({ fence }) => token.startsWith(fence));
    if (reason === "stolen" && hold) this.thefts.set(token, hold);
    session.losses = [...session.losses.filter(({ at }) => at > now - LOSS_KEPT_MS), loss];
    if (session.isWatching) this.#tellLoss(session, loss);
  }

  #tellLoss(session: Session, { line, token }: Session["losses"][number]): void {
    session.socket?.say(line, () => this.told.add(token));
  }

  #begin(): Session {
    const name = `s${this.#sessions.size + 1}`;
    const is = { isResumable: false, isResumed: false, isWatching: false, isOver: false };
    const empty = { waiting: new Set<string>(), steals: new Set<string>(), losses: [] };
    const session = { name, socket: undefined, openedAt: 0, endsAt: Number.POSITIVE_INFINITY, ...is, ...empty };
    this.#sessions.set(name, session);
    return session;
  }

  /** The socket is lost, the session is not: what waits stays in the queue, and is asked for again. */
  #detach(session: Session): void {
    Object.assign(session, { socket: undefined, isWatching: false, endsAt: this.#moment.now + GRACE_MS });
    session.waiting.clear();
  }

  #end(session: Session): void {
    Object.assign(session, { socket: undefined, isOver: true, endsAt: Number.POSITIVE_INFINITY });
    this.engine.leave(session.name, { keepsReported: false }, this.#moment);
    this.#spread();
  }

  #sessionOn(socket: FakeSocket): Session | undefined {
    return [...this.#sessions.values()].find((session) => session.socket === socket);
  }

  get #moment(): CommandContext {
    const limits = { fenceFloor: 0n, maxWaiters: 0, gcMaxIdleMs: IDLE_MS };
    return { now: this.#clock.wall(), salt: () => "5a17".repeat(4), ...limits };
  }
}

const idOf = ({ name }: Session, tag: string) => `${name}.${tag}`;
