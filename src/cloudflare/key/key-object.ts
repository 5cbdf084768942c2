import { DurableObject } from "cloudflare:workers";
import type { Config } from "../../core/config/config.ts";
import {
  type AcquireCommand,
  type AcquireOutcome,
  type CancelOptions,
  type ClaimCommand,
  type ClaimOutcome,
  type CommandContext,
  type CurrentHold,
  type EnqueueCommand,
  type EnqueueOutcome,
  type Fence,
  type FenceOutcome,
  type HoldSelector,
  type KeyEngine,
  type KeyView,
  type PickUpOutcome,
  perform,
  type RefreshCommand,
  type RefreshOutcome,
  type RelayAnswer,
  type RelayQuestion,
  type ReleaseOutcome,
  type RemoveOutcome,
  type RenewOutcome,
  type RoundStep,
  type StealOutcome,
  type WaitCommand,
  type WaitOutcome,
} from "../../core/engine/index.ts";
import { randomHex } from "../../core/hex.ts";
import { KeyClock } from "../../core/key/clock.ts";
import { History, type HistoryView, type Labels, MAX_GRANTS } from "../../core/key/history.ts";
import { KeyMeter } from "../../core/key/meter.ts";
import type { Counting } from "../../core/metrics/tally.ts";
import type { ProlongOutcome } from "../../core/session/key-calls.ts";
import { log, logged } from "../../log.ts";
import { WakeUp } from "../alarms/wake-up.ts";
import { NO_CLOSE } from "../calls/closing.ts";
import { directoryOfKey } from "../calls/directories.ts";
import { LISTENER_HEADER } from "../calls/replies.ts";
import { configOf, type PartialEnv } from "../env.ts";
import { Meter } from "../metrics/meter.ts";
import { KeyCommands } from "./key-commands.ts";
import { type KeyDirectory, KeyListing } from "./key-listing.ts";
import { KeyNews } from "./key-news.ts";
import { KeyListeners } from "./listeners.ts";
import { RoundNews } from "./rounds.ts";
import { KeyStore } from "./rows.ts";

/** A key's current state, optionally with its history. */
export interface KeyDescription extends KeyView {
  readonly history?: HistoryView;
}

/** How much detail to return about a key. */
interface DescribeOptions {
  readonly detail: boolean;
  readonly history?: boolean;
}

/** What the directory hears of a key: its state, or that it is not in use. */
export type KeyState =
  | { readonly status: "used"; readonly view: KeyView }
  /** It has not been used for a while, and gives up its entry in the directory: it is listed again when it is used. */
  | { readonly status: "idle"; readonly fence: Fence }
  /** Nothing is stored. */
  | { readonly status: "absent" }
  /** It is being listed. */
  | { readonly status: "pending" };

/** Where nothing collects what keys count. */
const NOT_COUNTED: Counting = { count: () => {}, observe: () => {} };

/** Where no directory lists keys. */
const NOT_LISTED: KeyDirectory = {
  listKey: async () => {},
  admitKey: async () => true,
  unlistKey: async () => {},
};

/** We retry a failed alarm ourselves after this time; the platform gives up after six tries. */
const ALARM_RETRY_MS = 2_000;

/**
 * The only authority for one key. Every answer that changes something is stored before it is sent: the rows are written
 * in the same synchronous step as the decision, and the platform holds the answer back until they are durable.
 */
export class KeyObject extends DurableObject<PartialEnv> {
  readonly #config: Config;
  readonly #store: KeyStore;
  readonly #listing: KeyListing;
  readonly #clock = new KeyClock(() => Date.now());
  readonly #wakeUp: WakeUp;
  readonly #meter: KeyMeter;
  readonly #history = new History();
  readonly #listeners: KeyListeners;
  readonly #news: KeyNews;
  readonly #rounds: RoundNews;
  readonly #commands: KeyCommands;

  constructor(ctx: DurableObjectState, env: PartialEnv) {
    super(ctx, env);
    this.#config = configOf(env);
    this.#store = new KeyStore(ctx.storage);
    this.#wakeUp = new WakeUp(ctx.storage);
    this.#listeners = new KeyListeners(ctx, this);
    this.#rounds = new RoundNews(env, this.#name);
    this.#meter = new KeyMeter(env.METRICS ? new Meter(env, (report) => ctx.waitUntil(report)) : NOT_COUNTED);
    this.#listing = new KeyListing({
      name: this.#name,
      directory: () => (env.DIRECTORY ? directoryOfKey(env, this.#name) : NOT_LISTED),
      waitUntil: (promise) => ctx.waitUntil(promise),
      failed: logged("directory_unreachable"),
      now: () => Date.now(),
      wakeBy: (time) => this.#wakeUp.by(time),
      record: (isListed, when) => this.#store.record(isListed, when),
    });
    this.#news = new KeyNews({
      env,
      name: this.#name,
      listeners: this.#listeners,
      meter: this.#meter,
      rounds: this.#rounds,
      run: (engine, decide) => (this.#commands.engine === engine ? this.#commands.run(engine, decide) : undefined),
    });
    this.#commands = new KeyCommands({
      name: this.#name,
      store: this.#store,
      listing: this.#listing,
      isCapped: this.#config.maxLocks > 0,
      context: () => this.#context(),
      wakeBy: (time) => this.#wakeUp.by(this.#clock.toWall(time)),
      stored: (engine) => this.#tell(engine),
      forget: () => {
        this.#history.clear();
        this.#wakeUp.clear();
      },
      restart: (why) => ctx.abort(why),
    });
    ctx.blockConcurrencyWhile(async () => {
      this.#commands.load();
      const { engine } = this.#commands;
      if (!engine) return;
      this.#history.recall(engine.newestHolds(MAX_GRANTS));
      await this.#wakeUp.recall();
    });
  }

  acquire(command: AcquireCommand): Promise<AcquireOutcome> {
    if (command.quorum) this.#rounds.came(command.request);
    return this.#commands.useOrFound(command.limit, (engine, context) => engine.acquire(command, context));
  }

  enqueue(command: EnqueueCommand): Promise<EnqueueOutcome> {
    return this.#commands.useOrFound(command.limit, (engine, context) => engine.enqueue(command, context));
  }

  wait(command: WaitCommand): Promise<WaitOutcome> {
    return this.#commands.use({ status: "not_enqueued" }, (engine, context) => engine.wait(command, context));
  }

  /** `id` names the call: the same one again, because its answer was lost, gets the same answer. */
  release(token: string, session: string, id?: string): Promise<ReleaseOutcome> {
    return this.#commands.use<ReleaseOutcome>({ status: "not_held" }, (engine, context) =>
      engine.release(token, session, context, id),
    );
  }

  giveBack(token: string, session: string, id?: string): Promise<ReleaseOutcome> {
    return this.#commands.use<ReleaseOutcome>({ status: "not_held" }, (engine, context) =>
      engine.giveBack(token, session, context, id),
    );
  }

  async renew(token: string, leaseSeconds: number, isWatched = false): Promise<RenewOutcome> {
    const missing: RenewOutcome = { status: "not_held" };
    const outcome = await this.#commands.use(missing, (engine, context) =>
      engine.renew(token, leaseSeconds, context, isWatched),
    );
    if (outcome === missing) this.#meter.renewedNothing();
    return outcome;
  }

  /**
   * Takes a hold away from its session, notifies the session, and grants the slot to the next waiter in the same step.
   * `fence` is the first half of the hold's token.
   */
  steal(fence: string): Promise<StealOutcome> {
    return this.#commands.use({ status: "not_held" }, (engine, context) => engine.steal(fence, context));
  }

  /** Takes a slot for a holder without a session. One that waits needs a listener: see `fetch`. */
  claim(command: ClaimCommand): Promise<ClaimOutcome> {
    return this.#commands.useOrFound(command.limit ?? 1, (engine, context) => engine.claim(command, context));
  }

  /** The outcome of a claim that was answered `queued`. */
  collect(request: string): Promise<ClaimOutcome> {
    return this.#commands.use<ClaimOutcome>({ status: "lease_expired" }, (engine, context) =>
      engine.collect(request, context),
    );
  }

  /** The hold with the highest fence, or null if the key is free. Changes nothing except what is due to expire. */
  current(): Promise<CurrentHold | null> {
    return this.#commands.use<CurrentHold | null>(null, (engine, context) => engine.current(context) ?? null);
  }

  refresh(command: RefreshCommand): Promise<RefreshOutcome> {
    return this.#commands.use({ status: "not_held" }, (engine, context) => engine.refresh(command, context));
  }

  /** `id` as in `release`. */
  remove(selector: HoldSelector, id?: string): Promise<RemoveOutcome> {
    return this.#commands.use<RemoveOutcome>({ status: "not_held" }, (engine, context) =>
      engine.remove(selector, context, id),
    );
  }

  /** What the relay of another deployment asks. Null if the key can hold nothing for it. Only a proposal creates it. */
  async relay(question: RelayQuestion): Promise<RelayAnswer | null> {
    const ask = (engine: KeyEngine, context: CommandContext) => engine.relays.ask(question, context);
    if (question.type !== "propose") return this.#commands.use({ status: "not_held", floor: 0n }, ask);
    const answer = await this.#commands.useOrFound(1, ask);
    return "floor" in answer ? answer : null;
  }

  /** A step of a round for a request that needs a quorum. False or undefined if the key has given the round up. */
  round(step: RoundStep): Promise<bigint | boolean | undefined> {
    return this.#commands.use<bigint | boolean | undefined>(false, (engine, context) =>
      perform(engine, { type: "round", step }, context),
    );
  }

  /** Like `renew`, for a hold that other deployments have agreed to: a majority of them has to keep it for longer. */
  async prolong(token: string, session: string, leaseMs: number): Promise<ProlongOutcome> {
    const askedAt = this.#clock.now();
    const agreed = await this.#commands.use(undefined, (engine, context) =>
      engine.rounds.agreed(token, session, context),
    );
    if (!agreed) return { status: "not_held" };
    if (!(await this.#rounds.prolong(agreed, leaseMs))) return { status: "kept" };
    const isLonger = await this.#commands.use(false, (engine, context) =>
      engine.rounds.prolong(token, leaseMs, askedAt, context),
    );
    return { status: isLonger ? "prolonged" : "not_held" };
  }

  fenceOfHolder(): Promise<FenceOutcome> {
    return this.#commands.use<FenceOutcome>({ status: "free" }, (engine, context) => {
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
    return this.#commands.use({ status: "unknown" }, (engine, context) => engine.pickUp(request, context));
  }

  cancel(request: string, options: CancelOptions = {}): Promise<void> {
    return this.#commands.use(undefined, (engine, context) => engine.cancel(request, context, options));
  }

  /** From now on the session hears at once when a lease of its own ends. */
  watch(session: string): Promise<void> {
    return this.#commands.use(undefined, (engine) => engine.watch(session));
  }

  leave(session: string, options: { keepsReported: boolean }): Promise<void> {
    return this.#commands.use(undefined, (engine, context) => engine.leave(session, options, context));
  }

  /**
   * The key as it is now, or null if it is not in use; with `detail` including its waiters, with `history` including its
   * newest grants. Changes nothing except what is due to expire.
   */
  async describe(options: DescribeOptions = { detail: false }): Promise<KeyDescription | null> {
    const { detail, history = false } = options;
    const view = await this.#commands.use<KeyView | null>(null, (engine, context) => {
      engine.tick(context);
      return engine.isPrunable(context) ? null : engine.view({ detail });
    });
    return view && history ? { ...view, history: this.#history.at(this.#clock.now()) } : view;
  }

  /** The key as the directory sees it, which lists it. An idle key gives up its entry, and its place under a cap. */
  state({ detail }: { readonly detail: boolean }): Promise<KeyState> {
    const absent: KeyState = { status: this.#listing.isPending ? "pending" : "absent" };
    return this.#commands.look<KeyState>(absent, (engine, context) => {
      engine.tick(context);
      if (!engine.isPrunable(context)) return { status: "used", view: engine.view({ detail }) };
      if (this.#listing.isPending || engine.hasNews) return { status: "pending" };
      this.#listing.yield();
      return { status: "idle", fence: engine.lastFence };
    });
  }

  /** Stores the labels of sessions in the history: the sessions may be gone the next time it is viewed. */
  rememberLabels(labels: Labels): void {
    this.#history.remember(labels);
  }

  override async alarm(): Promise<void> {
    try {
      await this.#commands.use(undefined, (engine, context) => engine.tick(context));
      // Only now: when the key wakes next follows from whether it can be deleted.
      this.#wakeUp.clear();
      if (await this.#commands.prune()) this.#meter.pruned();
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

  #tell(engine: KeyEngine): void {
    const observations = engine.takeObservations();
    this.#meter.countAll(observations, engine.limit);
    this.#history.note(observations);
    for (const event of engine.takeEvents()) this.ctx.waitUntil(this.#news.tell(engine, event));
  }
}

const randomSalt = () => randomHex(8);
