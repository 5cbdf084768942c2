import { DurableObject } from "cloudflare:workers";
import type { Config } from "../config.ts";
import {
  type AcquireCommand,
  type AcquireOutcome,
  type EnqueueCommand,
  type EnqueueOutcome,
  FenceExhaustedError,
  KeyEngine,
  type KeyEvent,
  type KeyView,
  type Moment,
  type PickUpOutcome,
  type Refusal,
  type ReleaseOutcome,
  type RenewOutcome,
  type StealOutcome,
  type WaitCommand,
  type WaitOutcome,
} from "../engine/index.ts";
import { randomHex } from "../hex.ts";
import { log } from "../log.ts";
import { directoryOfKey, type Labels } from "./directories.ts";
import { configOf, type Env } from "./env.ts";
import { History, type HistoryView, MOST_GRANTS } from "./history.ts";
import { KeyMeter } from "./key-meter.ts";
import { Meter } from "./meter.ts";
import { sessionObject } from "./owner.ts";
import { KeyStore } from "./store.ts";
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

type Decision<Outcome> = (engine: KeyEngine, moment: Moment) => Outcome;

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
  readonly #wakeUp: WakeUp;
  readonly #meter: KeyMeter;
  readonly #history = new History();
  /** The key is being founded or pruned: everything else waits its turn behind this. */
  #transition: Promise<void> | undefined;

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env);
    this.#config = configOf(env);
    this.#store = new KeyStore(ctx.storage);
    this.#wakeUp = new WakeUp(ctx.storage);
    this.#meter = new KeyMeter(new Meter(env, this.#name, (report) => ctx.waitUntil(report)));
    ctx.blockConcurrencyWhile(async () => {
      this.#load();
      if (!this.#engine) return;
      this.#history.recall(this.#engine.newestHolds(MOST_GRANTS));
      await this.#wakeUp.recall();
    });
  }

  acquire(command: AcquireCommand): Promise<AcquireOutcome> {
    return this.#useFounded(command.limit, (engine, moment) => engine.acquire(command, moment));
  }

  enqueue(command: EnqueueCommand): Promise<EnqueueOutcome> {
    return this.#useFounded(command.limit, (engine, moment) => engine.enqueue(command, moment));
  }

  wait(command: WaitCommand): Promise<WaitOutcome> {
    return this.#use({ status: "not_enqueued" }, (engine, moment) => engine.wait(command, moment));
  }

  release(token: string, session: string): Promise<ReleaseOutcome> {
    return this.#use({ status: "not_held" }, (engine, moment) => engine.release(token, session, moment));
  }

  async renew(token: string, leaseSeconds: number): Promise<RenewOutcome> {
    const outcome = await this.#use(undefined, (engine, moment) => engine.renew(token, leaseSeconds, moment));
    if (outcome) return outcome;
    this.#meter.renewedNothing();
    return { status: "not_held" };
  }

  /**
   * Takes a hold away from its session, which is told so, and gives the slot to the next in line in the same step.
   * `fence` is the first half of the hold's token.
   */
  steal(fence: string): Promise<StealOutcome> {
    return this.#use({ status: "not_held" }, (engine, moment) => engine.steal(fence, moment));
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
    const view = await this.#use<KeyView | null>(null, (engine, moment) => {
      engine.tick(moment);
      return engine.isPrunable(moment) ? null : engine.view({ detail });
    });
    return view && history ? { ...view, history: this.#history.at(Date.now()) } : view;
  }

  /** What sessions in the history were called when somebody last looked: they may be gone by the next time. */
  rememberLabels(labels: Labels): void {
    this.#history.remember(labels);
  }

  /**
   * Whether anything of the key is stored, or about to be. It never waits: the directory asks while the key may be
   * waiting for the directory.
   */
  exists(): boolean {
    return this.#engine !== undefined || this.#transition !== undefined;
  }

  override async alarm(): Promise<void> {
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

  #moment(): Moment {
    const { fenceFloor, maxWaiters, gcMaxIdleMs } = this.#config;
    return { now: Date.now(), salt: randomSalt, fenceFloor, maxWaiters, gcMaxIdleMs };
  }

  #load(): void {
    const stored = this.#store.load();
    this.#engine = stored && new KeyEngine(stored.key);
    this.#isListed = stored?.isListed ?? false;
  }

  /** Runs a command on a key that exists; of one that does not, `missing` is the answer. */
  async #use<Outcome>(missing: Outcome, decide: Decision<Outcome>): Promise<Outcome> {
    while (this.#transition) await this.#transition;
    return this.#engine ? this.#run(this.#engine, decide) : missing;
  }

  /**
   * Runs a command on a key that is founded with `limit` if need be, unless the cap on keys forbids it. When no fence
   * is left nothing can be granted.
   */
  async #useFounded<Outcome>(
    limit: number,
    decide: Decision<Outcome>,
  ): Promise<Outcome | Refusal<"max_locks" | "fence_persistence">> {
    for (;;) {
      while (this.#transition) await this.#transition;
      if (this.#engine && this.#isListed) return this.#runUnlessExhausted(this.#engine, decide);
      await this.#inTransition(() => this.#found(limit));
      if (!this.#isListed) return { status: "max_locks" };
    }
  }

  /** Runs a change of the key's existence that needs other objects, with everything else held back. */
  #inTransition(change: () => Promise<void>): Promise<void> {
    const transition = change().finally(() => {
      this.#transition = undefined;
    });
    this.#transition = transition.catch(() => {});
    return transition;
  }

  async #found(limit: number): Promise<void> {
    const fence = this.#engine?.lastFence ?? 0n;
    const admission = await directoryOfKey(this.env, this.#name).joinKey(this.#name, fence);
    if (!admission.isAdmitted) return;
    const engine = this.#engine ?? new KeyEngine(emptyKey(limit));
    engine.raiseFence(admission.fence);
    this.#store.found({ limit: engine.limit, fence: engine.lastFence, now: Date.now() });
    this.#engine = engine;
    this.#isListed = true;
  }

  /** Forgets an idle key. The directory has its fence, durably, before the first row goes. */
  #prune(engine: KeyEngine): Promise<void> {
    return this.#inTransition(async () => {
      this.#isListed = false;
      this.#store.unlist();
      await directoryOfKey(this.env, this.#name).leaveKey(this.#name, engine.lastFence);
      this.#engine = undefined;
      this.#history.forget();
      this.#wakeUp.clear();
      await this.#store.deleteAll();
      this.#meter.pruned();
    });
  }

  #runUnlessExhausted<Outcome>(engine: KeyEngine, decide: Decision<Outcome>): Outcome | Refusal<"fence_persistence"> {
    try {
      return this.#run(engine, decide);
    } catch (error) {
      if (error instanceof FenceExhaustedError) return { status: "fence_persistence" };
      throw error;
    }
  }

  /** One command: decide, store, and only then speak. If storing fails, memory is thrown away with the answer. */
  #run<Outcome>(engine: KeyEngine, decide: Decision<Outcome>): Outcome {
    try {
      return decide(engine, this.#moment());
    } finally {
      this.#commit(engine);
    }
  }

  #commit(engine: KeyEngine): void {
    try {
      this.#store.write(engine.takeChanges());
      const { gcMaxIdleMs, gcIntervalMs } = this.#config;
      this.#wakeUp.by(engine.nextWake({ gcMaxIdleMs, graceMs: gcIntervalMs / 2 }));
    } catch (error) {
      this.#load();
      throw error;
    }
    const observations = engine.takeObservations();
    this.#meter.countAll(observations, engine.limit);
    this.#history.note(observations);
    for (const event of engine.takeEvents()) this.ctx.waitUntil(this.#tell(engine, event));
  }

  /** Brings news to a session. What gets no answer is repeated from the alarm. */
  async #tell(engine: KeyEngine, event: KeyEvent): Promise<void> {
    const key = this.#name;
    try {
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
}

function emptyKey(limit: number) {
  return { limit, fence: 0n, lastActivity: Date.now(), slots: [], waiters: [], lapsed: [] };
}

const randomSalt = () => randomHex(8);
