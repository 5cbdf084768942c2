import { DurableObject } from "cloudflare:workers";
import type { Config } from "../config.ts";
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
  type ReleaseOutcome,
  type RemoveOutcome,
  type RenewOutcome,
  type StealOutcome,
  type WaitCommand,
  type WaitOutcome,
} from "../engine/index.ts";
import { randomHex } from "../hex.ts";
import { log } from "../log.ts";
import { Activity } from "./activity.ts";
import { bookWakeUp, isWithinLimit, noteAwake, restOne } from "./awake-keys.ts";
import { isLimited } from "./awake-sessions.ts";
import { directoryOfKey, type Labels } from "./directories.ts";
import type { Founding } from "./directory.ts";
import { configOf, type Env } from "./env.ts";
import { History, type HistoryView, MOST_GRANTS } from "./history.ts";
import { KeyClock } from "./key-clock.ts";
import { logUnreadable } from "./key-file.ts";
import { KeyListeners, LISTENER_HEADER } from "./key-listeners.ts";
import { KeyMeter } from "./key-meter.ts";
import { NO_CLOSE } from "./line.ts";
import { Meter } from "./meter.ts";
import { sessionlessProtocolOf, sessionObject } from "./owner.ts";
import { rest, settled, WAKE_UP_IS_NEAR_MS } from "./resting.ts";
import { KeyStore } from "./store.ts";
import { Turns } from "./turns.ts";
import { WakeUp } from "./wake-up.ts";

/** A key as it stands, and what led there. */
export interface KeyDescription extends KeyView {
  readonly history?: HistoryView;
}

/** How closely to look at a key. */
interface Closeness {
  readonly detail: boolean;
  readonly history?: boolean;
}

type Decision<Outcome> = (engine: KeyEngine, moment: CommandContext) => Outcome;

/** Sessions that are told something at a time. */
const TELLS = { width: 8, perPause: 8 };
const TURN_TAKES_AT_MOST_MS = 250;
/** A failed alarm run is repeated by ourselves after this time; the platform would give up after six tries. */
const ALARM_RETRY_MS = 2_000;

/**
 * The only authority for one key. Every answer that changes something is stored before it is given: the rows are
 * written in the same synchronous step as the decision, and the platform holds the answer back until they are durable.
 */
export class KeyObject extends DurableObject<Env> {
  readonly #config: Config;
  readonly #store: KeyStore;
  /** Undefined while the key does not exist. */
  #engine: KeyEngine | undefined;
  #isListed = false;
  /** Goes with `#engine`. */
  #foundedAt: number | undefined;
  readonly #clock = new KeyClock();
  readonly #wakeUp: WakeUp;
  readonly #meter: KeyMeter;
  readonly #history = new History();
  readonly #activity = new Activity();
  readonly #listeners: KeyListeners;
  readonly #turns = new Turns(TELLS);
  /** The key is being founded or pruned: everything else waits its turn behind this. */
  #transition: Promise<void> | undefined;

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env);
    this.#config = configOf(env);
    this.#store = new KeyStore(ctx.storage);
    this.#wakeUp = new WakeUp(ctx.storage, (time) => bookWakeUp(env, time));
    this.#listeners = new KeyListeners(ctx, this);
    this.#meter = new KeyMeter(new Meter(env, this.#name, (report) => ctx.waitUntil(report)));
    noteAwake(env, this.#name);
    ctx.blockConcurrencyWhile(async () => {
      this.#load();
      if (!this.#engine) return;
      this.#history.recall(this.#engine.newestHolds(MOST_GRANTS));
      await this.#wakeUp.recall();
      // A founding that a crash cut short has no alarm that would end the key if nobody uses it.
      if (!this.#isListed) this.#wakeUp.by(this.#nextWake(this.#engine));
    });
  }

  acquire(command: AcquireCommand): Promise<AcquireOutcome> {
    return this.#useFounded(command.limit, (engine, moment) => engine.acquire(command, moment));
  }

  enqueue(command: EnqueueCommand): Promise<EnqueueOutcome> {
    return this.#useFounded(command.limit, (engine, moment) => engine.enqueue(command, moment));
  }

  wait(command: WaitCommand): Promise<WaitOutcome> {
    return this.#useUnlessLost({ status: "not_enqueued" }, (engine, moment) => engine.wait(command, moment));
  }

  release(token: string, session: string): Promise<ReleaseOutcome> {
    return this.#useUnlessLost({ status: "not_held" }, (engine, moment) => engine.release(token, session, moment));
  }

  async renew(token: string, leaseSeconds: number): Promise<RenewOutcome> {
    const outcome = await this.#useUnlessLost(undefined, (engine, moment) => engine.renew(token, leaseSeconds, moment));
    if (outcome) return outcome;
    this.#meter.renewedNothing();
    return { status: "not_held" };
  }

  /**
   * Takes a hold away from its session, which is told so, and gives the slot to the next in line in the same step.
   * `fence` is the first half of the hold's token.
   */
  steal(fence: string): Promise<StealOutcome> {
    return this.#useUnlessLost({ status: "not_held" }, (engine, moment) => engine.steal(fence, moment));
  }

  /** Takes the lock for a holder without a session. One that waits needs a listener: see `fetch`. */
  claim(command: ClaimCommand): Promise<ClaimOutcome> {
    return this.#useFounded(1, (engine, moment) => engine.claim(command, moment));
  }

  /** What became of a claim that was told `queued`. */
  collect(request: string): Promise<ClaimOutcome> {
    return this.#use<ClaimOutcome>({ status: "lease_expired" }, (engine, moment) => engine.collect(request, moment));
  }

  /** The hold with the highest fence, or null if nobody holds the key. Asking changes nothing but what time has changed. */
  current(): Promise<CurrentHold | null> {
    return this.#useUnlessLost<CurrentHold | null>(null, (engine, moment) => engine.current(moment) ?? null);
  }

  refresh(command: RefreshCommand): Promise<RefreshOutcome> {
    return this.#useUnlessLost({ status: "not_held" }, (engine, moment) => engine.refresh(command, moment));
  }

  remove(selector: HoldSelector): Promise<RemoveOutcome> {
    return this.#useUnlessLost({ status: "not_held" }, (engine, moment) => engine.remove(selector, moment));
  }

  /** Opens the socket of a claim that may wait. The claim is its first message, and its end the only answer. */
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
    return this.#use({ status: "unknown" }, (engine, moment) => engine.pickUp(request, moment));
  }

  cancel(request: string): Promise<void> {
    return this.#use(undefined, (engine, moment) => engine.cancel(request, moment));
  }

  leave(session: string, options: { keepsReported: boolean }): Promise<void> {
    return this.#use(undefined, (engine, moment) => engine.leave(session, options, moment));
  }

  /**
   * The key as it stands now, with `detail` also who waits, with `history` also its newest grants, or null if it does
   * not exist. Asking changes nothing but what time has changed.
   */
  async describe({ detail, history = false }: Closeness = { detail: false }): Promise<KeyDescription | null> {
    const view = await this.#useUnlessLost<KeyView | null>(null, (engine, moment) => {
      engine.tick(moment);
      return engine.isPrunable(moment) ? null : engine.view({ detail });
    });
    return view && history ? { ...view, history: this.#history.at(this.#clock.now()) } : view;
  }

  /** Lets the key be founded again if it has lost its rows; false, and nothing changes, if it has not. */
  async giveUp(): Promise<boolean> {
    while (this.#transition) await this.#transition;
    if (this.#exists) return false;
    let hasGivenUp = false;
    await this.#inTransition(async () => {
      hasGivenUp = await directoryOfKey(this.env, this.#name).strikeLost(this.#name, this.#founding);
    });
    return hasGivenUp;
  }

  /** What sessions in the history were called when somebody last looked: they may be gone by the next time. */
  rememberLabels(labels: Labels): void {
    this.#history.remember(labels);
  }

  /**
   * Whether the founding that the directory noted at `listedAt` was cut off before anything was granted: then the key
   * may be struck off. A key of which nothing is stored is not unfounded: it has lost its rows. This never waits: the
   * directory asks while the key may be waiting for the directory.
   */
  isUnfounded(listedAt: number): boolean {
    return !this.#exists && this.#foundedAt === listedAt && this.#transition === undefined;
  }

  /**
   * Closes the object's files now instead of after a minute or two, unless it is at work. It rejects, `isResting`, if
   * that was done, as does every call that comes too late. Rows and alarm stay; the history does not.
   */
  async rest(): Promise<void> {
    const { begun } = this.#activity;
    await this.#meter.flush();
    await settled(this.ctx);
    const isUnused = !this.#activity.isBusy && this.#activity.begun === begun && !this.#transition;
    // Rest would cut off who waits here.
    const isIdle = isUnused && !this.#listeners.areThere;
    if (isIdle && this.#meter.isQuiet && !this.#wakeUp.isNear(WAKE_UP_IS_NEAR_MS)) rest(this.ctx);
  }

  override alarm(): Promise<void> {
    return this.#activity.during(async () => {
      await this.#wake();
      // Nobody has made room for a key that wakes by itself.
      if (!isWithinLimit(this.env)) await restOne(this.env);
    });
  }

  async #wake(): Promise<void> {
    this.#wakeUp.clear();
    try {
      await this.#use(undefined, (engine, moment) => engine.tick(moment));
      const engine = this.#engine;
      if (engine?.isPrunable(this.#moment()) && !engine.hasNews && !this.#transition) await this.#prune(engine);
    } catch (error) {
      log("error", "key_alarm_failed", { error: String(error) });
      this.#wakeUp.set(Date.now() + ALARM_RETRY_MS);
    }
  }

  get #name(): string {
    // Objects of this class are only ever addressed by name.
    return this.ctx.id.name as string;
  }

  #moment(): CommandContext {
    const { fenceFloor, maxWaiters, gcMaxIdleMs } = this.#config;
    return { now: this.#clock.now(), salt: randomSalt, fenceFloor, maxWaiters, gcMaxIdleMs };
  }

  /** Takes what is stored for the truth. What cannot be read is nobody's: the object fails, and so do its requests. */
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

  /** Throws memory away and goes on from what is stored. If that cannot be read either, the object starts again. */
  #reload(): void {
    try {
      this.#load();
    } catch (error) {
      this.ctx.abort(`key unreadable: ${error}`);
      throw error;
    }
  }

  /** Somebody may hold it or wait. Otherwise nothing is stored but, at most, that it is being founded. */
  get #exists(): boolean {
    return this.#isListed || this.#store.hasGranted;
  }

  get #founding(): Founding {
    return { foundedAt: this.#foundedAt, hasGranted: this.#store.hasGranted };
  }

  /** Runs a command on a key that exists; of one that does not, `missing` is the answer. */
  #use<Outcome>(missing: Outcome, decide: Decision<Outcome>): Promise<Outcome> {
    return this.#atWork(async () => {
      while (this.#transition) await this.#transition;
      return this.#engine && this.#exists ? this.#run(this.#engine, decide) : missing;
    });
  }

  /** The same, but a key that has existed and lost its rows gives no answer: `missing` might be wrong. */
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
   * Runs a command on a key that is founded with `limit` if need be, unless the cap on keys forbids it. When no fence
   * is left nothing can be granted.
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

  /** Runs a change of the key's existence that needs other objects, with everything else held back. */
  #inTransition(change: () => Promise<void>): Promise<void> {
    const transition = change().finally(() => {
      this.#transition = undefined;
    });
    this.#transition = transition.catch(() => {});
    return transition;
  }

  /**
   * Has the directory list the key. The key's own row is stored before the directory is asked, and `foundedAt` is in
   * both: so a key that is listed, but not by the founding its row tells of, has lost what it had stored. Somebody may
   * hold it, and nothing is granted until an operator gives it up.
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
      // It is forgotten in time, like any key that nobody uses.
      this.#wakeUp.by(this.#nextWake(engine));
      throw error;
    }
  }

  /** A key that has granted nothing yet takes the limit of whoever comes first. */
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

  /** Forgets an idle key. The directory has its fence, durably, before the first row goes. */
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
   * One command: decide, store, and only then speak. If either fails, memory is thrown away with the answer: what was
   * decided halfway must not be stored. Running out of fences is a decision like any other.
   */
  #run<Outcome>(engine: KeyEngine, decide: Decision<Outcome>): Outcome {
    let outcome: Outcome;
    try {
      outcome = decide(engine, this.#moment());
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

  /** By the machine's clock, like the alarm. */
  #nextWake(engine: KeyEngine): number {
    const { gcMaxIdleMs, gcIntervalMs } = this.#config;
    return this.#clock.toWall(engine.nextWake({ gcMaxIdleMs, graceMs: gcIntervalMs / 2 }));
  }

  /** Where open files are few, news for many sessions do not wake them all at once. A slow one holds up the others for a moment only. */
  async #tellInTurn(engine: KeyEngine, event: KeyEvent): Promise<void> {
    if (!isLimited(this.env)) return this.#tell(engine, event);
    let told: Promise<void> | undefined;
    await this.#turns.run(() => {
      told = this.#tell(engine, event);
      return within(TURN_TAKES_AT_MOST_MS, told);
    });
    return told;
  }

  /** Brings news to a session, or to who listens here. What gets no answer is repeated from the alarm. */
  async #tell(engine: KeyEngine, event: KeyEvent): Promise<void> {
    const key = this.#name;
    try {
      if (sessionlessProtocolOf(event.session)) {
        if (event.type === "notice") this.#tellListener(engine, event.request);
        return;
      }
      const session = sessionObject(this.env, event.session);
      if (event.type === "lost") {
        await session.lose({ key, token: event.token, reason: event.reason });
        return;
      }
      const { request, kind, hasPlace } = event;
      const answer = await session.deliver({ key, request, kind, ...(hasPlace && { hasPlace }) });
      this.#meter.answered(answer);
      if (this.#engine === engine) this.#run(engine, (_, moment) => engine.answer(request, answer, moment));
    } catch (error) {
      log("warn", "session_unreachable", { error: String(error) });
    }
  }

  /** A claim without a listener has left the queue. */
  #tellListener(engine: KeyEngine, request: string): void {
    const isWaiting = this.#listeners.isWaiting(request);
    const answer: Answer = isWaiting ? "taken" : this.#listeners.mayReturn ? "later" : "gone";
    const outcome = isWaiting && this.#run(engine, (_, moment) => engine.collect(request, moment));
    if (outcome) this.#listeners.answer(request, outcome);
    this.#meter.answered(answer);
    this.#run(engine, (_, moment) => engine.answer(request, answer, moment));
  }
}

/** Resolves when the task is done, or so much time is over. */
async function within(ms: number, task: Promise<void>): Promise<void> {
  const late = Promise.withResolvers<void>();
  const timer = setTimeout(late.resolve, ms);
  await Promise.race([task, late.promise]);
  clearTimeout(timer);
}

const randomSalt = () => randomHex(8);
