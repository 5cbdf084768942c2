import { DurableObject } from "cloudflare:workers";
import type { NoticeAnswer } from "../../engine/index.ts";
import { log, logged } from "../../log.ts";
import type { Outcome } from "../../protocols/statuses.ts";
import type { Effect, Loss, Notice } from "../../session/effects.ts";
import { PolledSession } from "../../session/polled-session.ts";
import { Activity } from "../awake/activity.ts";
import { bookWakeUp, roomToIdle } from "../awake/awake-sessions.ts";
import { answerClose } from "../calls/closing.ts";
import { directoryOfAddress } from "../calls/directories.ts";
import type { Listener } from "../calls/notices.ts";
import { POLL_CLOSE, type Reply } from "../calls/replies.ts";
import type { SessionAdmission } from "../directory/directory-object.ts";
import type { Env } from "../env.ts";
import { countAnswer } from "../metrics/count-answer.ts";
import { Meter } from "../metrics/meter.ts";
import { type SessionParts, sessionPartsOf } from "../session-common/session-parts.ts";
import { SessionRunner } from "../session-common/session-runner.ts";
import { type Ask, type Performed, POLL_HEADER, type Polled, type Released } from "./asks.ts";
import { IdleLimit } from "./idle-limit.ts";
import { Polls } from "./polls.ts";

const GONE: Reply = { type: "gone" };

/** What becomes of a request or a poll: a reply, or the Worker's end of the poll. */
type Result = Performed | Polled | { readonly type: "parked"; readonly socket: WebSocket };

/** Hosts the session of one HTTP client: `PolledSession` decides, this object stores, calls and answers. */
export class HttpSessionObject extends DurableObject<Env> implements Listener {
  readonly #own: SessionParts;
  readonly #session: PolledSession;
  readonly #runner: SessionRunner;
  readonly #polls: Polls;
  readonly #meter: Meter;
  readonly #idleLimit: IdleLimit;
  /** Those who wait for what becomes of a request, by its id. */
  readonly #results = new Map<string, (result: Result) => void>();
  /** Those who wait for a withdrawal, by request. */
  readonly #withdrawals = new Map<string, (() => void)[]>();
  #ending: Promise<void> | undefined;
  /** The directory is being asked to admit the session. */
  #isOpening = false;

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env);
    const whenIdle = () => this.#idleLimit.idle({ isOver: this.#session.isOver && !this.#session.isEnding });
    this.#own = sessionPartsOf(ctx, env, new Activity(whenIdle), (time) => bookWakeUp(env, time));
    this.#polls = new Polls(ctx);
    this.#meter = new Meter(env, (promise) => ctx.waitUntil(promise));
    this.#session = new PolledSession(this.#own.origin, this.#polls.all);
    const isIdle = () => !this.#own.activity.isBusy && !this.#session.isBusy && !this.#polls.isAnyOpen;
    this.#idleLimit = new IdleLimit({ ctx, env, meter: this.#meter, ...this.#own }, isIdle);
    const handle = (effect: Effect) => this.#handle(effect);
    this.#runner = new SessionRunner(this.#session, { ...this.#own, handle, progressed: () => {} });
    if (this.#session.hasBegun) ctx.blockConcurrencyWhile(() => this.#own.wakeUp.recall());
  }

  /** Opens the session unless a cap forbids it; a refused session leaves nothing behind. */
  open(address: string, label: string | undefined): Promise<SessionAdmission> {
    return this.#idleLimit.atWork(() => this.#open(address, label));
  }

  async #open(address: string, label: string | undefined): Promise<SessionAdmission> {
    if (!(await roomToIdle(this.env))) return "max_sessions";
    this.#isOpening = true;
    try {
      const directory = directoryOfAddress(this.env, address);
      const admission = await directory.openSession(this.#own.session, address, "http", label);
      if (admission === "admitted") this.#runner.run(() => this.#session.open(address, label));
      return admission;
    } finally {
      this.#isOpening = false;
    }
  }

  /** Records that the client is alive. False if there is no such session. */
  touch(): Promise<boolean> {
    return this.#idleLimit.atWork(() => this.#saw(undefined));
  }

  /** Notes that the client is alive, and what it has released. */
  released(released: readonly Released[]): Promise<boolean> {
    return this.#idleLimit.atWork(() => this.#saw(undefined, released));
  }

  /** Ends the session: once this resolves, everything it held is free. False if there was no session. */
  end(released?: readonly Released[]): Promise<boolean> {
    return this.#idleLimit.atWork(async () => {
      // If two calls race, the first one ends the session.
      if (!(await this.#saw(undefined, released)) || this.#session.isOver) return false;
      this.#runner.run(() => this.#session.end());
      await this.#ending;
      return true;
    });
  }

  /** Performs a request. One that has to wait for long goes on after this has returned: the client polls for it. */
  perform({ id, request, label, released }: Ask): Promise<Performed> {
    return this.#idleLimit.atWork(async () => {
      if (!(await this.#saw(label, released)) || this.#session.isOver) return GONE;
      if (this.#session.context.callsInFlight === 0) this.#own.keys.clientWaited();
      return (await this.#resultOf(id, () => this.#session.begin(id, request))) as Performed;
    });
  }

  /** Polls for a request that waits: the response is the answer as JSON, or the socket of a long poll. */
  override fetch({ headers }: Request): Promise<Response> {
    return this.#idleLimit.atWork(async () => {
      const id = headers.get(POLL_HEADER) ?? "";
      if (!(await this.#saw(undefined)) || this.#session.isOver) return Response.json(GONE);
      const result = await this.#resultOf(id, () => this.#session.poll(id));
      if (result.type !== "parked") return Response.json(result);
      return new Response(null, { status: 101, webSocket: result.socket });
    });
  }

  #resultOf(id: string, command: () => void): Promise<Result> {
    const { promise, resolve } = Promise.withResolvers<Result>();
    this.#results.set(id, resolve);
    this.#runner.run(command);
    return promise;
  }

  /** Withdraws a request whose answer did not reach the client. */
  withdraw(key: string, id: string): Promise<void> {
    return this.#idleLimit.atWork(async () => {
      const { promise, resolve } = Promise.withResolvers<void>();
      this.#withdrawals.set(id, [...(this.#withdrawals.get(id) ?? []), resolve]);
      this.#runner.run(() => this.#session.withdraw(id, key));
      await promise;
    });
  }

  override webSocketClose(socket: WebSocket, code: number): Promise<void> {
    answerClose(socket, code);
    return this.#idleLimit.atWork(async () => this.#pollClosed(socket, code));
  }

  override webSocketError(socket: WebSocket): Promise<void> {
    return this.#idleLimit.atWork(async () => this.#pollClosed(socket, 1006));
  }

  override alarm(): Promise<void> {
    return this.#idleLimit.atWork(async () => {
      this.#own.wakeUp.clear();
      await this.#ending;
      this.#runner.run(() => this.#session.wake());
      await this.#ending;
    });
  }

  deliver(notice: Notice): Promise<NoticeAnswer> {
    const isThere = () => !this.#polls.isClosing(notice.request);
    return this.#idleLimit.atWork(() =>
      this.#runner.notice((number) => this.#session.notice(number, notice, isThere())),
    );
  }

  lose(loss: Loss): Promise<void> {
    return this.#idleLimit.atWork(async () => this.#runner.run(() => this.#session.lose(loss)));
  }

  /** Nothing in this protocol asks for it. */
  async want(): Promise<void> {}

  isLive(): Promise<boolean> {
    return this.#idleLimit.atWork(async () => this.#isOpening || !this.#runner.run(() => this.#session.endIfSilent()));
  }

  /**
   * Closes the object's files now instead of after a minute or two, unless it is busy. Rejects with `isResting` if it
   * did, as does every call that arrives too late. Everything stored stays, and the next call wakes the object.
   */
  rest(): Promise<void> {
    return this.#idleLimit.rest();
  }

  #handle(effect: Effect): void {
    switch (effect.type) {
      case "reply":
        this.#resolve(effect.id, this.#replyOf(effect.outcome));
        break;
      case "park": {
        const { id, key, wait } = effect;
        this.#resolve(id, { type: "parked", socket: this.#polls.open({ id, key, type: wait }) });
        break;
      }
      case "tell":
        if (effect.outcome === "gone") this.#polls.dismiss(effect.id);
        else if (this.#polls.answer(effect.id, effect.outcome)) countAnswer(this.#meter, effect.outcome.status);
        break;
      case "withdrawn":
        for (const resolve of this.#withdrawals.get(effect.id) ?? []) resolve();
        this.#withdrawals.delete(effect.id);
        break;
      case "relabel": {
        const directory = directoryOfAddress(this.env, this.#session.address);
        const relabel = this.#own.activity.during(() => directory.relabel(this.#own.session, effect.label));
        this.ctx.waitUntil(relabel.catch(logged("directory_unreachable")));
        break;
      }
      case "ended":
        this.#ending = this.#own.activity.during(() => this.#leave());
        this.ctx.waitUntil(this.#ending);
        break;
      case "log":
        if (effect.level !== "debug") log(effect.level, effect.event, { ...effect.fields });
    }
  }

  #resolve(id: string, result: Result): void {
    this.#results.get(id)?.(result);
    this.#results.delete(id);
  }

  #replyOf(outcome: Outcome | "gone" | "waits" | "lost"): Result {
    if (typeof outcome === "string") return { type: outcome };
    countAnswer(this.#meter, outcome.status);
    return { type: "answered", outcome };
  }

  /** Records that the client is alive, and what it has released; or ends the session if its time is up. */
  async #saw(label: string | undefined, released: readonly Released[] = []): Promise<boolean> {
    const wasOver = this.#session.isOver;
    const isThere = this.#runner.run(() => {
      for (const { key, token } of released) this.#session.released(key, token);
      return this.#session.saw(label);
    });
    if (!isThere && !wasOver) await this.#ending;
    return isThere;
  }

  #pollClosed(socket: WebSocket, code: number): void {
    const parked = this.#polls.closed(socket);
    this.#runner.run(() => this.#session.pollClosed(parked, code === POLL_CLOSE.delivered));
  }

  /** Resolves when the keys have been left, and the session is no longer listed. */
  async #leave(): Promise<void> {
    const directory = directoryOfAddress(this.env, this.#session.address);
    await Promise.all([
      directory.closeSession(this.#own.session).catch(logged("directory_unreachable")),
      this.#runner.hasLeft(),
    ]);
  }
}
