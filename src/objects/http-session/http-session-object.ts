import { DurableObject } from "cloudflare:workers";
import type { Answer } from "../../engine/index.ts";
import { logged } from "../../log.ts";
import type { Outcome } from "../../protocols/statuses.ts";
import { Activity } from "../awake/activity.ts";
import { bookWakeUp, isLimited, noteIdle, noteNotIdle, roomToIdle } from "../awake/awake-sessions.ts";
import { rest, settled, WAKE_UP_IS_NEAR_MS } from "../awake/resting.ts";
import { answerClose } from "../calls/closing.ts";
import { directoryOfAddress } from "../calls/directories.ts";
import type { Listener, Loss, Notice } from "../calls/notices.ts";
import type { Reply } from "../calls/replies.ts";
import type { SessionAdmission } from "../directory/directory-object.ts";
import type { Env } from "../env.ts";
import { countAnswer } from "../metrics/count-answer.ts";
import { Meter } from "../metrics/meter.ts";
import { type Circumstances, type Fate, type KeyRequest, Operations } from "../session-common/operations.ts";
import { type SessionParts, sessionPartsOf } from "../session-common/session-parts.ts";
import { HttpLifetime } from "./lifetime.ts";
import { type Poll, Polls } from "./polls.ts";

/** A request of an HTTP client, with the client's label. */
export interface Ask {
  /** Unique; used to withdraw the request. */
  readonly id: string;
  readonly request: KeyRequest;
  readonly label: string | undefined;
  /** What the client has released at its keys since the last request. */
  readonly released?: readonly Released[];
}

/** A hold that the client has released at its key. */
export interface Released {
  readonly key: string;
  readonly token: string;
}

/** Carries an `Ask` to `fetch`. */
export const ASK_HEADER = "X-Holdfast-Ask";
export const encodeAsk = (ask: Ask) => encodeURIComponent(JSON.stringify(ask));

/** If cleanup takes longer, the object has died, and its alarm starts over. */
const CLEANUP_TAKES_AT_MOST_MS = 2_000;
/** However long the idle time, a dead session is ended within this time. */
const LONGEST_DEAD_MS = 30_000;
const GONE: Reply = { type: "gone" };

/** A request in flight to its key. */
type UnderWay = Pick<KeyRequest, "type" | "key"> & { readonly done: Promise<unknown> };

/**
 * One HTTP client's session. It is stored, so it survives sleep and restarts with everything it holds and waits for. It
 * ends when its client says so, or has been silent for twice the idle time with no request in flight. Its requests run
 * concurrently, those on one key in the order of their arrival.
 */
export class HttpSessionObject extends DurableObject<Env> implements Listener {
  readonly #own: SessionParts;
  readonly #operations: Operations;
  readonly #life: HttpLifetime;
  readonly #polls: Polls;
  readonly #meter: Meter;
  readonly #underWay = new Map<string, UnderWay>();
  /** Grants being delivered to their polls. */
  readonly #grants = new Map<string, Promise<Answer>>();
  /** Set once the session has ended, also if it ended before the object was restarted. */
  #isOver: boolean;
  #ending: Promise<void> | undefined;
  /** The directory is being asked to admit the session. */
  #isOpening = false;

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env);
    this.#own = sessionPartsOf(ctx, env, new Activity(() => this.#idle()), (time) => bookWakeUp(env, time));
    this.#operations = new Operations(this.#own);
    this.#life = new HttpLifetime(ctx.storage, this.#own.config.httpSessionIdleMs);
    this.#polls = new Polls(ctx);
    this.#meter = new Meter(env, this.#own.session, (promise) => ctx.waitUntil(promise));
    this.#isOver = !this.#life.hasBegun || this.#own.store.isEnding();
    if (this.#life.hasBegun) ctx.blockConcurrencyWhile(() => this.#own.wakeUp.recall());
  }

  /** Opens the session unless a cap forbids it; a refused session leaves nothing behind. */
  open(address: string, label: string | undefined): Promise<SessionAdmission> {
    return this.#atWork(() => this.#open(address, label));
  }

  async #open(address: string, label: string | undefined): Promise<SessionAdmission> {
    if (!(await roomToIdle(this.env))) return "max_sessions";
    this.#isOpening = true;
    try {
      const directory = directoryOfAddress(this.env, address);
      const admission = await directory.openSession(this.#own.session, address, "http", label);
      if (admission !== "admitted") return admission;
      this.#life.begin(address, label, Date.now());
      this.#isOver = false;
      this.#watch();
      return admission;
    } finally {
      this.#isOpening = false;
    }
  }

  /** Records that the client is alive. False if there is no such session. */
  touch(): Promise<boolean> {
    return this.#atWork(() => this.#saw(undefined));
  }

  /** Notes that the client is alive, and what it has released. */
  released(released: readonly Released[]): Promise<boolean> {
    this.#forget(released);
    return this.touch();
  }

  #forget(released: readonly Released[] = []): void {
    for (const { key, token } of released) this.#operations.lost(key, token);
  }

  /** Ends the session: once this resolves, everything it held is free. False if there was no session. */
  end(released?: readonly Released[]): Promise<boolean> {
    return this.#atWork(async () => {
      this.#forget(released);
      // If two calls race, the first one ends the session.
      if (!(await this.#saw(undefined)) || this.#isOver) return false;
      await this.#end();
      return true;
    });
  }

  /** Performs a request that is answered immediately. */
  perform(ask: Ask): Promise<Reply> {
    return this.#atWork(async () => {
      this.#forget(ask.released);
      if (!(await this.#saw(ask.label)) || this.#isOver) return GONE;
      return this.#track(ask, async () => this.#told(ask, await this.#run(ask)));
    });
  }

  /** Performs a request that may have to wait: the response is the answer as JSON, or the socket of a long poll. */
  override fetch({ headers }: Request): Promise<Response> {
    const ask = JSON.parse(decodeURIComponent(headers.get(ASK_HEADER) ?? "")) as Ask;
    return this.#atWork(() => this.#performOrPoll(ask));
  }

  async #performOrPoll(ask: Ask): Promise<Response> {
    this.#forget(ask.released);
    if (!(await this.#saw(ask.label)) || this.#isOver) return Response.json(GONE);
    return this.#track(ask, async () => {
      const fate = await this.#run(ask);
      if (fate.type !== "waiting" || this.#isOver) return Response.json(await this.#told(ask, fate));
      const { id, request } = ask;
      const type = request.type === "wait" ? "wait" : "acquire";
      return new Response(null, { status: 101, webSocket: this.#polls.open({ id, key: request.key, type }) });
    });
  }

  /** Withdraws a request whose answer did not reach the client. */
  withdraw(key: string, id: string): Promise<void> {
    return this.#atWork(() => this.#operations.withdraw(key, id));
  }

  override webSocketClose(socket: WebSocket, code: number): Promise<void> {
    answerClose(socket, code);
    return this.#atWork(() => this.#finished(socket, code));
  }

  override webSocketError(socket: WebSocket): Promise<void> {
    return this.#atWork(() => this.#finished(socket, 1006));
  }

  override alarm(): Promise<void> {
    return this.#atWork(() => this.#wake());
  }

  async #wake(): Promise<void> {
    this.#own.wakeUp.clear();
    if (this.#isOver) {
      await this.#ending;
      if (this.#own.store.isEnding()) await this.#leave();
    } else if (this.#isSilent) await this.#end();
    else this.#watch();
  }

  deliver(notice: Notice): Promise<Answer> {
    return this.#atWork(() => this.#deliver(notice));
  }

  async #deliver(notice: Notice): Promise<Answer> {
    if (this.#endIfSilent()) return "gone";
    if (notice.kind === "promoted") return "noted";
    // The notice may arrive before the request has been answered: its poll is not open yet then.
    await this.#underWay.get(notice.request)?.done.catch(() => {});
    const poll = this.#polls.find(notice.request);
    // No poll: a restart may have cut off the `wait`. A client that leaves is handled by its poll's close.
    if (!poll) return notice.hasPlace ? "noted" : "gone";
    if (notice.kind === "granted") return this.#grantOnce(poll);
    this.#answer(poll, this.#operations.giveUp(poll.key, poll.id, notice.kind));
    return "taken";
  }

  lose({ key, token }: Loss): Promise<void> {
    return this.#atWork(async () => this.#operations.lost(key, token));
  }

  isLive(): Promise<boolean> {
    return this.#atWork(async () => this.#isOpening || !this.#endIfSilent());
  }

  /**
   * Closes the object's files now instead of after a minute or two, unless it is busy. Rejects with `isResting` if it
   * did, as does every call that arrives too late. Everything stored stays, and the next call wakes the object.
   */
  async rest(): Promise<void> {
    const { begun } = this.#own.activity;
    await this.#meter.flush();
    await settled(this.ctx);
    const { activity, session, wakeUp } = this.#own;
    if (!this.#isIdle) return;
    // The close of a poll may not have been handled yet.
    const isUnused = activity.begun === begun && this.ctx.getWebSockets().length === 0;
    if (isUnused && this.#meter.isQuiet && !wakeUp.isNear(WAKE_UP_IS_NEAR_MS)) {
      noteNotIdle(session);
      rest(this.ctx);
    }
    noteIdle(this.env, session);
  }

  /** Nothing is in flight, and no client is waiting. */
  get #isIdle(): boolean {
    return !this.#own.activity.isBusy && !this.#polls.isAnyOpen;
  }

  /**
   * Runs a task, and makes room for this session among the idle ones before it is answered: so the number of idle
   * sessions is bounded by the limit plus the number of concurrent requests.
   */
  #atWork<Result>(task: () => Promise<Result>): Promise<Result> {
    noteNotIdle(this.#own.session);
    return this.#own.activity.during(async () => {
      try {
        return await task();
      } finally {
        await roomToIdle(this.env);
      }
    });
  }

  /** Called when the last task in flight has ended. */
  #idle(): void {
    if (!isLimited(this.env) || !this.#isIdle) return;
    noteIdle(this.env, this.#own.session);
    // A session that has ended, or was never opened, has no reason to stay awake.
    if (this.#isOver && !this.#own.store.isEnding()) this.ctx.waitUntil(this.rest());
  }

  /** The client has been silent for too long. A client with a request in flight is not silent. */
  get #isSilent(): boolean {
    return this.#life.isOver(Date.now()) && this.#underWay.size === 0 && this.#polls.all.length === 0;
  }

  /** True if the session has ended, including if this call ended it. */
  #endIfSilent(): boolean {
    if (!this.#isOver && this.#isSilent) this.ctx.waitUntil(this.#end());
    return this.#isOver;
  }

  /** Records that the client is alive, or ends the session if its time is up. */
  async #saw(label: string | undefined): Promise<boolean> {
    if (!this.#isOver && this.#isSilent) await this.#end();
    if (this.#isOver) return false;
    this.#life.saw(Date.now());
    this.#watch();
    if (label !== undefined && this.#life.relabel(label)) {
      const directory = directoryOfAddress(this.env, this.#life.address);
      const relabel = this.#own.activity.during(() => directory.relabel(this.#own.session, label));
      this.ctx.waitUntil(relabel.catch(logged("directory_unreachable")));
    }
    return true;
  }

  /** Schedules the next check for a silent client. */
  #watch(): void {
    const pauseMs = Math.min(this.#own.config.httpSessionIdleMs, LONGEST_DEAD_MS);
    this.#own.wakeUp.by(Math.max(this.#life.endsAt, Date.now() + pauseMs));
  }

  /** Runs a request that counts as in flight until it is answered or has become a poll. */
  async #track<Result>({ id, request }: Ask, task: () => Promise<Result>): Promise<Result> {
    const done = task();
    this.#underWay.set(id, { type: request.type, key: request.key, done });
    try {
      return await done;
    } finally {
      this.#underWay.delete(id);
      if (!this.#isOver) this.#life.saw(Date.now());
    }
  }

  #run({ id, request }: Ask): Promise<Fate> {
    const circumstances: Circumstances = { mayWait: true, isWanted: () => !this.#isOver };
    const takesOver = request.type === "wait" && !this.#waitsFor(request.key);
    return this.#operations.perform(request, id, takesOver ? { ...circumstances, takesOver } : circumstances);
  }

  /** Whether a `wait` of this session on the key is in flight already. */
  #waitsFor(key: string): boolean {
    const isOne = (each: Pick<KeyRequest, "type" | "key">) => each.type === "wait" && each.key === key;
    return [...this.#underWay.values()].some(isOne) || this.#polls.all.some(isOne);
  }

  /** The reply to the client. A grant that arrives after the session has ended is withdrawn first. */
  async #told({ id, request }: Ask, fate: Fate): Promise<Reply> {
    if (this.#isOver && mayHold(request)) await this.#operations.withdraw(request.key, id);
    if (this.#isOver || fate.type !== "answered") return GONE;
    countAnswer(this.#meter, fate.outcome.status);
    return fate;
  }

  #answer(poll: Poll, outcome: Outcome): void {
    if (this.#polls.answer(poll, outcome)) countAnswer(this.#meter, outcome.status);
  }

  /** A key may repeat its notice: the grant is picked up only once at a time. */
  #grantOnce(poll: Poll): Promise<Answer> {
    const known = this.#grants.get(poll.id);
    if (known) return known;
    const grant = this.#grant(poll).finally(() => this.#grants.delete(poll.id));
    this.#grants.set(poll.id, grant);
    return grant;
  }

  /**
   * Picks up a grant and answers its poll with it. A poll that closes meanwhile is not answered; handling its close
   * withdraws the request.
   */
  async #grant(poll: Poll): Promise<Answer> {
    const { key, id } = poll;
    let outcome: Outcome | undefined;
    try {
      outcome = await this.#operations.pickUp(key, id);
    } catch (error) {
      // The key may have recorded the pick-up and will then not notify again.
      this.ctx.waitUntil(this.#chase(poll));
      throw error;
    }
    if (outcome && !this.#isOver) {
      this.#answer(poll, outcome);
      return "taken";
    }
    if (outcome) await this.#operations.withdraw(key, id);
    return "gone";
  }

  async #chase(poll: Poll): Promise<void> {
    const isWanted = () => !this.#isOver && this.#polls.isWaiting(poll);
    const outcome = await this.#operations.chase(poll.key, poll.id, isWanted);
    if (!isWanted()) return;
    this.#answer(poll, outcome ?? { status: "unavailable" });
    if (!outcome) await this.#operations.withdraw(poll.key, poll.id);
  }

  /** Handles the end of a poll: withdraws the request if the client never received the outcome. */
  async #finished(socket: WebSocket, code: number): Promise<void> {
    const { poll, isUnheard } = this.#polls.closed(socket, code);
    if (!this.#isOver) {
      this.#life.saw(Date.now());
      this.#watch();
    }
    if (isUnheard) await this.#operations.withdraw(poll.key, poll.id);
  }

  #end(): Promise<void> {
    this.#ending ??= this.#own.activity.during(() => this.#endNow());
    return this.#ending;
  }

  async #endNow(): Promise<void> {
    // From here on the session no longer exists, even if the object dies before cleanup is complete.
    this.#isOver = true;
    this.#own.store.noteEnding();
    this.#own.wakeUp.set(Date.now() + CLEANUP_TAKES_AT_MOST_MS);
    this.#polls.dismissAll();
    await Promise.allSettled([...[...this.#underWay.values()].map(({ done }) => done), ...this.#grants.values()]);
    await this.#leave();
  }

  async #leave(): Promise<void> {
    const directory = directoryOfAddress(this.env, this.#life.address);
    await Promise.all([
      directory.closeSession(this.#own.session).catch(logged("directory_unreachable")),
      this.#own.departure.run(),
    ]);
  }
}

const mayHold = ({ type }: KeyRequest) => type !== "release" && type !== "renew";
