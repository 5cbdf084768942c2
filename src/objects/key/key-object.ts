import { DurableObject } from "cloudflare:workers";
import type { Config } from "../../config.ts";
import {
  type AcquireCommand,
  type AcquireOutcome,
  type Answer,
  type ClaimCommand,
  type ClaimOutcome,
  type CommandContext,
  type CurrentHold,
  type EnqueueCommand,
  type EnqueueOutcome,
  FenceExhaustedError,
  type HoldSelector,
  KeyEngine,
  type KeyEvent,
  type KeyView,
  type PickUpOutcome,
  type RefreshCommand,
  type RefreshOutcome,
  type Refusal,
  type RelayAnswer,
  type RelayQuestion,
  type ReleaseOutcome,
  type RemoveOutcome,
  type RenewOutcome,
  type RoundEvent,
  type StealOutcome,
  type WaitCommand,
  type WaitOutcome,
} from "../../engine/index.ts";
import { randomHex } from "../../hex.ts";
import { log } from "../../log.ts";
import type { FenceOutcome, ProlongOutcome } from "../../session/key-calls.ts";
import { Activity } from "../awake/activity.ts";
import { bookWakeUp, isWithinLimit, noteAwake, restOne } from "../awake/awake-keys.ts";
import { isLimited } from "../awake/awake-sessions.ts";
import { rest, settled, WAKE_UP_IS_NEAR_MS } from "../awake/resting.ts";
import { WakeUp } from "../awake/wake-up.ts";
import { NO_CLOSE } from "../calls/closing.ts";
import { directoryOfKey, type Labels } from "../calls/directories.ts";
import { logUnreadable } from "../calls/key-file.ts";
import { LISTENER_HEADER } from "../calls/replies.ts";
import { sessionlessProtocolOf, sessionObject } from "../calls/session-names.ts";
import type { Founding } from "../directory/directory-object.ts";
import { configOf, type Env } from "../env.ts";
import { Meter } from "../metrics/meter.ts";
import { Turns } from "../pacing/turns.ts";
import { KeyClock } from "./clock.ts";
import { History, type HistoryView, MAX_GRANTS } from "./history.ts";
import { KeyListeners } from "./listeners.ts";
import { KeyMeter } from "./meter.ts";
import { RelayCalls, RoundOwners, type RoundStep, takeRoundStep } from "./rounds.ts";
import { KeyStore } from "./rows.ts";

/** A key's current state, optionally with its history. */
export interface KeyDescription extends KeyView {
  readonly history?: HistoryView;
}

/** How much detail to return about a key. */
interface Closeness {
  readonly detail: boolean;
  readonly history?: boolean;
}

type Decision<Outcome> = (engine: KeyEngine, context: CommandContext) => Outcome;

/** How many sessions are notified concurrently. */
const TELLS = { width: 8, perPause: 8 };
const TURN_TAKES_AT_MOST_MS = 250;
/** We retry a failed alarm ourselves after this time; the platform gives up after six tries. */
const ALARM_RETRY_MS = 2_000;

/**
 * The only authority for one key. Every answer that changes something is stored before it is sent: the rows are written
 * in the same synchronous step as the decision, and the platform holds the answer back until they are durable.
 */
export class KeyObject extends DurableObject<Env> {
  readonly #config: Config;
  readonly #store: KeyStore;
  /** Undefined while the key does not exist. */
  #engine: KeyEngine | undefined;
  #isListed = false;
  /** Set whenever `#engine` is. */
  #foundedAt: number | undefined;
  readonly #clock = new KeyClock();
  readonly #wakeUp: WakeUp;
  readonly #meter: KeyMeter;
  readonly #history = new History();
  readonly #activity = new Activity();
  readonly #listeners: KeyListeners;
  readonly #turns = new Turns(TELLS);
  readonly #relay: RelayCalls;
  readonly #roundOwners = new RoundOwners();
  /** The key is being founded or pruned: everything else waits until this is done. */
  #transition: Promise<void> | undefined;

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env);
    this.#config = configOf(env);
    this.#store = new KeyStore(ctx.storage);
    this.#wakeUp = new WakeUp(ctx.storage, (time) => bookWakeUp(env, time));
    this.#listeners = new KeyListeners(ctx, this);
    this.#relay = new RelayCalls(env, this.#name);
    this.#meter = new KeyMeter(new Meter(env, this.#name, (report) => ctx.waitUntil(report)));
    noteAwake(env, this.#name);
    ctx.blockConcurrencyWhile(async () => {
      this.#load();
      if (!this.#engine) return;
      this.#history.recall(this.#engine.newestHolds(MAX_GRANTS));
      await this.#wakeUp.recall();
      // A founding cut short by a crash has set no alarm that would prune the key if it stays unused.
      if (!this.#isListed) this.#wakeUp.by(this.#nextWake(this.#engine));
    });
  }

  acquire(command: AcquireCommand): Promise<AcquireOutcome> {
    if (command.quorum) this.#roundOwners.came(command.request);
    return this.#useFounded(command.limit, (engine, context) => engine.acquire(command, context));
  }

  enqueue(command: EnqueueCommand): Promise<EnqueueOutcome> {
    return this.#useFounded(command.limit, (engine, context) => engine.enqueue(command, context));
  }

  wait(command: WaitCommand): Promise<WaitOutcome> {
    return this.#useUnlessLost({ status: "not_enqueued" }, (engine, context) => engine.wait(command, context));
  }

  release(token: string, session: string): Promise<ReleaseOutcome> {
    return this.#useUnlessLost({ status: "not_held" }, (engine, context) => engine.release(token, session, context));
  }

  giveBack(token: string, session: string): Promise<ReleaseOutcome> {
    return this.#useUnlessLost({ status: "not_held" }, (engine, context) => engine.giveBack(token, session, context));
  }

  async renew(token: string, leaseSeconds: number): Promise<RenewOutcome> {
    const outcome = await this.#useUnlessLost(undefined, (engine, context) =>
      engine.renew(token, leaseSeconds, context),
    );
    if (outcome) return outcome;
    this.#meter.renewedNothing();
    return { status: "not_held" };
  }

  /**
   * Takes a hold away from its session, notifies the session, and grants the slot to the next waiter in the same step.
   * `fence` is the first half of the hold's token.
   */
  steal(fence: string): Promise<StealOutcome> {
    return this.#useUnlessLost({ status: "not_held" }, (engine, context) => engine.steal(fence, context));
  }

  /** Takes the lock for a holder without a session. One that waits needs a listener: see `fetch`. */
  claim(command: ClaimCommand): Promise<ClaimOutcome> {
    return this.#useFounded(1, (engine, context) => engine.claim(command, context));
  }

  /** The outcome of a claim that was answered `queued`. */
  collect(request: string): Promise<ClaimOutcome> {
    return this.#use<ClaimOutcome>({ status: "lease_expired" }, (engine, context) => engine.collect(request, context));
  }

  /** The hold with the highest fence, or null if the key is free. Changes nothing except what is due to expire. */
  current(): Promise<CurrentHold | null> {
    return this.#useUnlessLost<CurrentHold | null>(null, (engine, context) => engine.current(context) ?? null);
  }

  refresh(command: RefreshCommand): Promise<RefreshOutcome> {
    return this.#useUnlessLost({ status: "not_held" }, (engine, context) => engine.refresh(command, context));
  }

  remove(selector: HoldSelector): Promise<RemoveOutcome> {
    return this.#useUnlessLost({ status: "not_held" }, (engine, context) => engine.remove(selector, context));
  }

  /** What the relay of another deployment asks. Null if the key can hold nothing for it. Only a proposal creates it. */
  async relay(question: RelayQuestion): Promise<RelayAnswer | null> {
    const ask = (engine: KeyEngine, context: CommandContext) => engine.relays.ask(question, context);
    if (question.type !== "propose") return this.#useUnlessLost({ status: "not_held", floor: 0n }, ask);
    const answer = await this.#useFounded(1, ask);
    return "floor" in answer ? answer : null;
  }

  /** A step of a round for a request that needs a quorum. False or undefined if the key has given the round up. */
  round(step: RoundStep): Promise<bigint | boolean | undefined> {
    return this.#use<bigint | boolean | undefined>(false, (engine, context) => takeRoundStep(engine, step, context));
  }

  /** Like `renew`, for a hold that other deployments have agreed to: a majority of them has to keep it for longer. */
  async prolong(token: string, session: string, leaseMs: number): Promise<ProlongOutcome> {
    const askedAt = this.#clock.now();
    const agreed = await this.#use(undefined, (engine, context) => engine.rounds.agreed(token, session, context));
    if (!agreed) return { status: "not_held" };
    if (!(await this.#relay.prolong(agreed, leaseMs))) return { status: "kept" };
    const isLonger = await this.#use(false, (engine, context) =>
      engine.rounds.prolong(token, leaseMs, askedAt, context),
    );
    return { status: isLonger ? "prolonged" : "not_held" };
  }

  fenceOfHolder(): Promise<FenceOutcome> {
    return this.#useUnlessLost<FenceOutcome>({ status: "free" }, (engine, context) => {
      const fence = engine.relays.fenceOfHolder(context);
      return fence === undefined ? { status: "free" } : { status: "held", fence };
    });
  }

  /**
   * Opens the socket of a claim that may wait. The claim is the first message on it, and its outcome the only answer.
   */
  override async fetch({ headers }: Request): Promise<Response> {
    const webSocket = this.#listeners.open(headers.get(LISTENER_HEADER) ?? "");
    return new Response(null, { status: 101, webSocket });
  }

  override webSocketMessage(socket: WebSocket, message: string | ArrayBuffer): Promise<void> {
    return this.#listeners.heard(socket, message);
  }

  override webSocketClose(socket: WebSocket, code: number): Promise<void> {
    return this.#listeners.closed(socket, code);
  }

  override webSocketError(socket: WebSocket): Promise<void> {
    return this.#listeners.closed(socket, NO_CLOSE);
  }

  pickUp(request: string): Promise<PickUpOutcome> {
    return this.#use({ status: "unknown" }, (engine, context) => engine.pickUp(request, context));
  }

  cancel(request: string): Promise<void> {
    return this.#use(undefined, (engine, context) => engine.cancel(request, context));
  }

  leave(session: string, options: { keepsReported: boolean }): Promise<void> {
    return this.#use(undefined, (engine, context) => engine.leave(session, options, context));
  }

  /**
   * The key as it is now, or null if it does not exist; with `detail` including its waiters, with `history` including
   * its newest grants. Changes nothing except what is due to expire.
   */
  async describe({ detail, history = false }: Closeness = { detail: false }): Promise<KeyDescription | null> {
    const view = await this.#useUnlessLost<KeyView | null>(null, (engine, context) => {
      engine.tick(context);
      return engine.isPrunable(context) ? null : engine.view({ detail });
    });
    return view && history ? { ...view, history: this.#history.at(this.#clock.now()) } : view;
  }

  /** Lets a key that has lost its rows be founded again. Returns false and changes nothing if its rows are intact. */
  async giveUp(): Promise<boolean> {
    while (this.#transition) await this.#transition;
    if (this.#exists) return false;
    let hasGivenUp = false;
    await this.#inTransition(async () => {
      hasGivenUp = await directoryOfKey(this.env, this.#name).strikeLost(this.#name, this.#founding);
    });
    return hasGivenUp;
  }

  /** Stores the labels of sessions in the history: the sessions may be gone the next time it is viewed. */
  rememberLabels(labels: Labels): void {
    this.#history.remember(labels);
  }

  /**
   * Whether the founding that the directory noted at `listedAt` was cut off before anything was granted: if so, the
   * directory may remove the key. A key with nothing stored is not unfounded: it has lost its rows. This never waits,
   * because the key may itself be waiting for the directory that asks.
   */
  isUnfounded(listedAt: number): boolean {
    return !this.#exists && this.#foundedAt === listedAt && this.#transition === undefined;
  }

  /**
   * Closes the object's files now instead of after a minute or two, unless it is busy. Rejects with `isResting` if it
   * did, as does every call that arrives too late. Rows and alarm stay; the history is lost.
   */
  async rest(): Promise<void> {
    const { begun } = this.#activity;
    await this.#meter.flush();
    await settled(this.ctx);
    const isUnused = !this.#activity.isBusy && this.#activity.begun === begun && !this.#transition;
    // Resting would disconnect claims that wait here.
    const isIdle = isUnused && !this.#listeners.areThere;
    if (isIdle && this.#meter.isQuiet && !this.#wakeUp.isNear(WAKE_UP_IS_NEAR_MS)) rest(this.ctx);
  }

  override alarm(): Promise<void> {
    return this.#activity.during(async () => {
      await this.#wake();
      // An alarm wakes the key without making room for it first.
      if (!isWithinLimit(this.env)) await restOne(this.env);
    });
  }

  async #wake(): Promise<void> {
    this.#wakeUp.clear();
    try {
      await this.#use(undefined, (engine, context) => engine.tick(context));
      const engine = this.#engine;
      if (engine?.isPrunable(this.#context()) && !engine.hasNews && !this.#transition) await this.#prune(engine);
    } catch (error) {
      log("error", "key_alarm_failed", { error: String(error) });
      this.#wakeUp.set(Date.now() + ALARM_RETRY_MS);
    }
  }

  get #name(): string {
    // Objects of this class are only ever addressed by name.
    return this.ctx.id.name as string;
  }

  #context(): CommandContext {
    const { fenceFloor, maxWaiters, gcMaxIdleMs } = this.#config;
    return { now: this.#clock.now(), salt: randomSalt, fenceFloor, maxWaiters, gcMaxIdleMs };
  }

  /** Loads the stored state, discarding memory. If it is unreadable, the object and its requests fail. */
  #load(): void {
    try {
      const stored = this.#store.load();
      this.#engine = stored && new KeyEngine(stored.key);
      this.#isListed = stored?.isListed ?? false;
      this.#foundedAt = stored?.foundedAt;
    } catch (error) {
      logUnreadable(this.env, this.#name, error);
      throw error;
    }
  }

  /** Discards memory and continues from the stored state. If that cannot be read, the object restarts. */
  #reload(): void {
    try {
      this.#load();
    } catch (error) {
      this.ctx.abort(`key unreadable: ${error}`);
      throw error;
    }
  }

  /** False if nothing is stored, or only that the key is being founded: then it has no holders or waiters. */
  get #exists(): boolean {
    return this.#isListed || this.#store.hasGranted;
  }

  get #founding(): Founding {
    return { foundedAt: this.#foundedAt, hasGranted: this.#store.hasGranted };
  }

  /** Runs a command on a key that exists; returns `missing` for one that does not. */
  #use<Outcome>(missing: Outcome, decide: Decision<Outcome>): Promise<Outcome> {
    return this.#atWork(async () => {
      while (this.#transition) await this.#transition;
      return this.#engine && this.#exists ? this.#run(this.#engine, decide) : missing;
    });
  }

  /** Like `#use`, but throws for a key that has existed and lost its rows: `missing` might be wrong. */
  #useUnlessLost<Outcome>(missing: Outcome, decide: Decision<Outcome>): Promise<Outcome> {
    return this.#atWork(async () => {
      while (this.#transition) await this.#transition;
      if (!this.#exists) {
        const isLost = await directoryOfKey(this.env, this.#name).listsAnother(this.#name, this.#founding);
        if (isLost && !this.#exists && !this.#transition) throw this.#lostRows();
      }
      return this.#use(missing, decide);
    });
  }

  /**
   * Runs a command on the key, founding it with `limit` first if needed and if the cap on keys allows it. Refuses if no
   * fences are left to grant.
   */
  #useFounded<Outcome>(
    limit: number,
    decide: Decision<Outcome>,
  ): Promise<Outcome | Refusal<"max_locks" | "fence_persistence">> {
    return this.#atWork(async () => {
      for (;;) {
        while (this.#transition) await this.#transition;
        if (this.#engine && this.#isListed) return this.#runUnlessExhausted(this.#engine, decide);
        await this.#inTransition(() => this.#found(limit));
        if (!this.#isListed) return { status: "max_locks" };
      }
    });
  }

  #atWork<Result>(task: () => Promise<Result>): Promise<Result> {
    noteAwake(this.env, this.#name);
    return this.#activity.during(task);
  }

  /** Runs a change of the key's existence that involves other objects, holding back everything else. */
  #inTransition(change: () => Promise<void>): Promise<void> {
    const transition = change().finally(() => {
      this.#transition = undefined;
    });
    this.#transition = transition.catch(() => {});
    return transition;
  }

  /**
   * Has the directory list the key. The key's own row is stored before the directory is asked, and both record
   * `foundedAt`. So if the directory lists the key with a different `foundedAt`, the key has lost its rows. It may be
   * held, so nothing is granted until an operator gives it up.
   */
  async #found(limit: number): Promise<void> {
    const isNew = !this.#store.hasGranted;
    const engine = (!isNew && this.#engine) || this.#begin(limit);
    if (!isNew) this.#foundedAt = Date.now();
    const foundedAt = this.#foundedAt as number;
    try {
      const directory = directoryOfKey(this.env, this.#name);
      const admission = await directory.joinKey(this.#name, engine.lastFence, this.#founding);
      if (admission.isAdmitted) {
        engine.raiseFence(admission.fence);
        if (!isNew) this.#store.relist({ limit: engine.limit, fence: engine.lastFence, foundedAt });
        this.#isListed = true;
      } else if (admission.hasLostRows) throw this.#lostRows();
      else if (isNew) await this.#forget();
    } catch (error) {
      // Prune the key in time, like any other unused key.
      this.#wakeUp.by(this.#nextWake(engine));
      throw error;
    }
  }

  /** A key that has granted nothing yet takes the limit of the first request. */
  #begin(limit: number): KeyEngine {
    const foundedAt = this.#foundedAt ?? Date.now();
    const fence = this.#engine?.lastFence ?? 0n;
    if (this.#engine?.limit !== limit) this.#store.begin({ limit, fence, foundedAt });
    this.#foundedAt = foundedAt;
    this.#engine = new KeyEngine({ limit, fence, lastActivity: foundedAt, slots: [], waiters: [], lapsed: [] });
    return this.#engine;
  }

  #lostRows(): Error {
    const error = new Error("the key is listed, but its stored rows are gone");
    logUnreadable(this.env, this.#name, error);
    return error;
  }

  /** Prunes an idle key. The directory has stored its fence durably before the first row is deleted. */
  #prune(engine: KeyEngine): Promise<void> {
    return this.#inTransition(async () => {
      this.#isListed = false;
      this.#store.unlist();
      await directoryOfKey(this.env, this.#name).leaveKey(this.#name, engine.lastFence, this.#founding);
      await this.#forget();
      this.#meter.pruned();
    });
  }

  async #forget(): Promise<void> {
    this.#engine = undefined;
    this.#foundedAt = undefined;
    this.#history.forget();
    this.#wakeUp.clear();
    await this.#store.deleteAll();
  }

  #runUnlessExhausted<Outcome>(engine: KeyEngine, decide: Decision<Outcome>): Outcome | Refusal<"fence_persistence"> {
    try {
      return this.#run(engine, decide);
    } catch (error) {
      if (error instanceof FenceExhaustedError) return { status: "fence_persistence" };
      throw error;
    }
  }

  /**
   * Runs one command: decide, store, then answer. If either step fails, memory is discarded along with the answer: half
   * a decision must not be stored. Running out of fences is a regular decision and is stored.
   */
  #run<Outcome>(engine: KeyEngine, decide: Decision<Outcome>): Outcome {
    let outcome: Outcome;
    try {
      outcome = decide(engine, this.#context());
    } catch (error) {
      if (error instanceof FenceExhaustedError) this.#commit(engine);
      else this.#reload();
      throw error;
    }
    this.#commit(engine);
    return outcome;
  }

  #commit(engine: KeyEngine): void {
    try {
      this.#store.write(engine.takeChanges());
      this.#wakeUp.by(this.#nextWake(engine));
    } catch (error) {
      this.#reload();
      throw error;
    }
    const observations = engine.takeObservations();
    this.#meter.countAll(observations, engine.limit);
    this.#history.note(observations);
    for (const event of engine.takeEvents())
      this.ctx.waitUntil(this.#activity.during(() => this.#tellInTurn(engine, event)));
  }

  /** By the machine's clock, which alarms use. */
  #nextWake(engine: KeyEngine): number {
    const { gcMaxIdleMs, gcIntervalMs } = this.#config;
    return this.#clock.toWall(engine.nextWake({ gcMaxIdleMs, graceMs: gcIntervalMs / 2 }));
  }

  /** If open files are limited, many sessions are not woken at once. A slow session delays others only briefly. */
  async #tellInTurn(engine: KeyEngine, event: KeyEvent): Promise<void> {
    if (!isLimited(this.env)) return this.#tell(engine, event);
    let told: Promise<void> | undefined;
    await this.#turns.run(() => {
      told = this.#tell(engine, event);
      return within(TURN_TAKES_AT_MOST_MS, told);
    });
    return told;
  }

  /** Notifies a session, or a listener of this key. A notice that gets no answer is repeated from the alarm. */
  async #tell(engine: KeyEngine, event: KeyEvent): Promise<void> {
    const key = this.#name;
    try {
      if (event.type === "round" || event.type === "round_over") {
        await this.#tellRelay(engine, event);
        return;
      }
      if (sessionlessProtocolOf(event.session)) {
        if (event.type === "notice") this.#tellListener(engine, event.request);
        return;
      }
      const session = sessionObject(this.env, event.session);
      if (event.type === "lost") {
        await session.lose({ key, token: event.token, reason: event.reason });
        return;
      }
      const { request, kind, hasPlace, refusal } = event;
      const more = { ...(hasPlace && { hasPlace }), ...(refusal && { refusal }) };
      const answer = await session.deliver({ key, request, kind, ...more });
      this.#meter.answered(answer);
      if (this.#engine === engine) this.#run(engine, (_, context) => engine.answer(request, answer, context));
    } catch (error) {
      log("warn", "session_unreachable", { error: String(error) });
    }
  }

  /** A round whose session is gone is withdrawn instead: nobody waits behind a client that was lost in a crash. */
  async #tellRelay(engine: KeyEngine, event: RoundEvent): Promise<void> {
    const { session, request, type } = event;
    if (type === "round_over") this.#roundOwners.over(request);
    else if (this.#roundOwners.isDoubtful(request) && !(await sessionObject(this.env, session).isLive())) {
      if (this.#engine === engine) this.#run(engine, (_, context) => engine.cancel(request, context));
      return;
    }
    await this.#relay.tell(event);
  }

  /** Answers a claim's listener. A claim without one leaves the queue, unless the listener may still reconnect. */
  #tellListener(engine: KeyEngine, request: string): void {
    const isWaiting = this.#listeners.isWaiting(request);
    const answer: Answer = isWaiting ? "taken" : this.#listeners.mayReturn ? "later" : "gone";
    const outcome = isWaiting && this.#run(engine, (_, context) => engine.collect(request, context));
    if (outcome) this.#listeners.answer(request, outcome);
    this.#meter.answered(answer);
    this.#run(engine, (_, context) => engine.answer(request, answer, context));
  }
}

/** Resolves when the task is done or the time has passed. */
async function within(ms: number, task: Promise<void>): Promise<void> {
  const late = Promise.withResolvers<void>();
  const timer = setTimeout(late.resolve, ms);
  await Promise.race([task, late.promise]);
  clearTimeout(timer);
}

const randomSalt = () => randomHex(8);
