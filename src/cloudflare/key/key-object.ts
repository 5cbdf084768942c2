import { DurableObject } from "cloudflare:workers";
import type { Config } from "../../core/config/config.ts";
import {
  type CommandContext,
  type Fence,
  type KeyEngine,
  type KeyView,
  outcomeWithoutKey,
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
import type { KeyObjectAnswer, KeyObjectCommand, KeyObjectCommandOf } from "../calls/key-calls.ts";
import { LISTENER_HEADER } from "../calls/replies.ts";
import { configOf, type PartialEnv } from "../env.ts";
import { Meter } from "../metrics/meter.ts";
import { isBound } from "../placement.ts";
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
  readonly detail?: boolean;
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
  admitKey: async () => ({ isAdmitted: true }),
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
    this.#listeners = new KeyListeners(ctx, { carryOut: (command) => this.#commands.carryOut(command) });
    this.#rounds = new RoundNews(env, this.#name);
    const counting: Counting = isBound(env, "METRICS")
      ? new Meter(env, (report) => ctx.waitUntil(report))
      : NOT_COUNTED;
    this.#meter = new KeyMeter(counting);
    this.#listing = new KeyListing({
      name: this.#name,
      directory: () => (isBound(env, "DIRECTORY") ? directoryOfKey(env, this.#name) : NOT_LISTED),
      waitUntil: (promise) => ctx.waitUntil(promise),
      count: (result) => counting.count("listings_total", { result }),
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

  /** Carries out one command. */
  async command(command: KeyObjectCommand): Promise<KeyObjectAnswer> {
    return { outcome: await this.#outcomeOf(command) };
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

  /**
   * The key as it is now, or null if it is not in use; with `detail` including its waiters, with `history` including its
   * newest grants. Changes nothing except what is due to expire.
   */
  async describe({ detail = false, history = false }: DescribeOptions = {}): Promise<KeyDescription | null> {
    const view = await this.#commands.carryOut({ type: "describe", detail });
    if (!view) return null;
    return history ? { ...view, history: this.#history.at(this.#clock.now()) } : view;
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
  rememberLabels({ labels }: { readonly labels: Labels }): void {
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

  async #outcomeOf(command: KeyObjectCommand): Promise<KeyObjectAnswer["outcome"]> {
    if (command.type === "prolong") return this.#prolong(command);
    if (command.type === "acquire" && command.command.quorum) this.#rounds.came(command.command.request);
    const outcome = await this.#commands.carryOut(command);
    if (command.type === "renew" && outcome === outcomeWithoutKey(command)) this.#meter.renewedNothing();
    return outcome;
  }

  /** Like `renew`, for a hold that other deployments have agreed to: a majority of them has to keep it for longer. */
  async #prolong({ token, session, leaseMs }: KeyObjectCommandOf<"prolong">): Promise<ProlongOutcome> {
    const askedAt = this.#clock.now();
    const agreed = await this.#commands.carryOut({ type: "agreedHold", token, session });
    if (!agreed) return { status: "not_held" };
    if (!(await this.#rounds.prolong(agreed, leaseMs))) return { status: "kept" };
    const isLonger = await this.#commands.carryOut({ type: "prolongAgreed", token, leaseMs, askedAt });
    return { status: isLonger ? "prolonged" : "not_held" };
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
