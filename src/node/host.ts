import type { Config } from "../core/config/config.ts";
import { type CommandContext, FenceExhaustedError, type KeyEvent, type NoticeEvent } from "../core/engine/index.ts";
import { KeyMeter } from "../core/key/meter.ts";
import { countHappening, isCounted } from "../core/metrics/count.ts";
import { versionName } from "../core/protocols/godistlock/relay.ts";
import type { SessionConfig, SessionOrigin } from "../core/session/context.ts";
import type { Happening, ReportRequest, SessionRecords } from "../core/session/effects.ts";
import type { KeyCall, KeyOutcome } from "../core/session/key-calls.ts";
import type { Transport } from "../core/session-counts.ts";
import { sessionlessProtocolOf } from "../core/session-names.ts";
import type { Log } from "../log.ts";
import type { ReportAsker } from "../reports/report-queue.ts";
import type { MeterReading } from "../service.ts";
import { VERSION } from "../version.ts";
import { Batch } from "./batch.ts";
import { Claims } from "./claims.ts";
import { KeyNames } from "./directory.ts";
import { Histories } from "./histories.ts";
import { Inputs } from "./input.ts";
import { type Key, Keys } from "./keys.ts";
import { Metrics } from "./metrics.ts";
import type { Runtime } from "./runtime.ts";
import type { Session } from "./session.ts";
import type { SessionHost } from "./session-host.ts";
import { type LostSession, Sessions } from "./sessions.ts";
import { MeasuredStore } from "./store/measured.ts";
import type { Rows, SnapshotOutcome, Store } from "./store/store.ts";
import { type Timed, Timers } from "./timers.ts";

/** After a failed commit, another one is tried this often. */
const TRY_AGAIN_MS = 1_000;
/** How often the room on the disk is looked at. */
const LOOK_FOR_ROOM_MS = 100;
/** Written to find out whether commits work again. */
const PROBE = "probe";

export interface HostParts {
  readonly config: Config;
  readonly store: Store;
  readonly runtime: Runtime;
  readonly log: Log;
  /** What the service cannot go on after, such as a file that can no longer be read. */
  readonly failed: (error: unknown) => void;
}

/** Deployments that agree on locks by majority, as far as keys and sessions are concerned. */
export interface GroupLink {
  /** A round begins or is over. */
  tell(key: string, event: Extract<KeyEvent, { readonly type: "round" | "round_over" }>): void;
  prolong(key: string, ask: Extract<KeyCall, { readonly type: "prolong" }>): Promise<KeyOutcome>;
}

/**
 * All keys and sessions of the process, and the batch in which everything happens. It stores, tells and sets timers; what
 * is to be done is decided by the engines of keys and the state machines of sessions.
 */
export class NodeHost implements SessionHost {
  readonly config: Config;
  readonly log: Log;
  readonly batch: Batch;
  readonly inputs: Inputs;
  readonly keys: Keys;
  readonly sessions: Sessions;
  readonly claims: Claims;
  readonly metrics: Metrics;
  readonly histories: Histories;
  readonly names: KeyNames;
  readonly runtime: Runtime;
  /** Makes reports for clients on sockets. */
  reports: (ask: ReportRequest, asker: ReportAsker) => Promise<string> = () => Promise.reject(new Error("none"));
  group: GroupLink | undefined;
  readonly #store: Store;
  readonly #timers: Timers;
  readonly #keyMeter: KeyMeter;
  readonly #sessionConfig: SessionConfig;
  readonly #failed: (error: unknown) => void;
  readonly #context: { now: number } & Omit<CommandContext, "now">;
  /** Sessions that were lost, with nothing stored of them: they are to leave their keys. */
  readonly #gone = new Map<string, LostSession>();
  /** What a key has to tell, until the session that has called it is answered. */
  #news: (() => void)[] | undefined;
  /** The session whose command has thrown in this batch. */
  #broken: Session | undefined;
  #isWell = true;
  #hasRoom = true;
  #lookedAt = Number.NEGATIVE_INFINITY;
  #isTryPlanned = false;
  #isRecovering = false;
  #isStopped = false;

  constructor({ config, store, runtime, log, failed }: HostParts) {
    this.config = config;
    this.log = log;
    this.runtime = runtime;
    this.#failed = failed;
    this.#sessionConfig = { ...config, version: versionName(VERSION) };
    const { fenceFloor, maxWaiters, gcMaxIdleMs } = config;
    const salt = () => runtime.randomHex(8);
    this.#context = { now: 0, salt, fenceFloor, maxWaiters, gcMaxIdleMs };
    this.batch = new Batch(
      {
        commit: () => this.#commit(),
        takeBack: (error) => this.#takeBack(error),
        untold: (error) => this.log("error", "step_failed", { error: String(error) }),
      },
      (settle, arrived) => runtime.whenQuiet(settle, arrived),
      () => runtime.elapsed(),
    );
    this.inputs = new Inputs(this.batch);
    this.#timers = new Timers(runtime, (command) => this.batch.enter(command));
    this.metrics = new Metrics(runtime.now(), (ms) => this.after(ms, () => this.#storeMetrics()));
    this.#store = store.isVolatile ? store : new MeasuredStore(store, this.metrics, () => runtime.elapsed());
    this.#keyMeter = new KeyMeter(this.metrics);
    this.keys = new Keys({
      store,
      context: () => this.#commandContext(),
      maxLocks: config.maxLocks,
      gcMaxIdleMs,
      graceMs: config.gcIntervalMs / 2,
      schedule: (key) => this.#timers.schedule(key),
      created: (key) => this.names.added(key.name),
      tell: (key, event) => this.#tell(key, event),
      observed: (key, observations) => {
        const { limit } = key.engine;
        this.batch.afterwards(() => {
          this.#keyMeter.countAll(observations, limit);
          this.histories.note(key, observations);
        });
      },
      pruned: (key) =>
        this.batch.afterwards(() => {
          this.#keyMeter.pruned();
          if (!this.keys.get(key.name)) this.names.removed();
        }),
    });
    this.names = new KeyNames(this.keys);
    this.sessions = new Sessions(this, store, (bytes) => runtime.randomHex(bytes));
    this.histories = new Histories((session) => this.sessions.labelOf(session));
    this.claims = new Claims({
      batch: this.batch,
      keys: this.keys,
      randomHex: (bytes) => runtime.randomHex(bytes),
      now: () => this.now(),
      isWell: () => this.isWell,
      answered: (answer) => this.#keyMeter.answered(answer),
    });
  }

  /** Whether the last commit worked, and the next ones will. While they do not, nothing new is taken on. */
  get isWell(): boolean {
    if (this.runtime.elapsed() >= this.#lookedAt + LOOK_FOR_ROOM_MS) this.#lookForRoom();
    return this.#isWell && this.#hasRoom;
  }

  /** Continues from what is stored. Clients have lost their connections; those that can resume have the grace for it. */
  load(): void {
    const { keys, sessions, values } = this.#store.load();
    this.keys.load(keys, values);
    this.metrics.load(values);
    this.histories.recall(this.keys);
    for (const { name } of this.keys) this.names.added(name);
    const keysOf = this.#keysBySession(this.keys);
    for (const { id, name, records } of sessions) {
      this.sessions.restore(id, name, records, keysOf.get(name) ?? []);
      keysOf.delete(name);
    }
    for (const name of keysOf.keys()) this.#gone.set(name, { name, hasLeft: false });
    this.batch.enter(() => this.#recover());
    this.batch.settle();
  }

  /** Stores what is left to be stored, and answers what has arrived. */
  finish(): void {
    if (this.#isWell) this.batch.enter(() => this.metrics.storeNow());
    this.batch.settle();
  }

  stop(): void {
    this.#isStopped = true;
    this.#timers.pause();
    this.batch.stop();
  }

  now(): number {
    return this.runtime.now();
  }

  after(ms: number, callback: () => void): void {
    this.runtime.after(ms, () => {
      if (!this.#isStopped) callback();
    });
  }

  originOf(session: string, records: SessionRecords): SessionOrigin {
    const config = this.#sessionConfig;
    const random = () => this.runtime.randomHex(16);
    return { session, config, records, random, isStorageWell: () => this.isWell, now: this.now() };
  }

  schedule(subject: Timed): void {
    this.#timers.schedule(subject);
  }

  touched(session: Session): void {
    this.sessions.touched(session);
  }

  broke(session: Session): void {
    this.#broken = session;
  }

  changed(session: Session): void {
    this.sessions.changed(session);
  }

  unlisted(session: Session): void {
    this.sessions.unlisted(session);
  }

  ended(session: Session): void {
    this.sessions.ended(session);
  }

  callKey(
    _session: Session,
    key: string,
    ask: KeyCall,
    answered: (outcome: KeyOutcome) => void,
    failed: (error: string) => void,
  ): void {
    if (ask.type === "prolong") {
      const prolonged = this.group?.prolong(key, ask) ?? Promise.resolve({ status: "not_held" } as const);
      prolonged.then(
        (outcome) => this.batch.enter(() => answered(outcome)),
        (error) => this.batch.enter(() => failed(String(error))),
      );
      return;
    }
    this.#news = [];
    try {
      const outcome = this.keys.ask(key, withoutNeedlessId(ask)) as KeyOutcome;
      if (ask.type === "renew" && !this.keys.get(key)) this.batch.afterwards(() => this.#keyMeter.renewedNothing());
      this.batch.enter(() => answered(outcome));
    } catch (error) {
      if (!(error instanceof FenceExhaustedError)) throw error;
      this.batch.enter(() => failed(String(error)));
    } finally {
      const news = this.#news;
      this.#news = undefined;
      for (const command of news) this.batch.enter(command);
    }
  }

  leaseEnd(key: string, token: string): number | undefined {
    return this.keys.get(key)?.leaseEnd(token);
  }

  report(ask: ReportRequest, asker: ReportAsker): Promise<string> {
    return this.reports(ask, asker);
  }

  count(happening: Happening, transport: Transport): void {
    if (isCounted(happening)) this.batch.afterwards(() => countHappening(this.metrics, happening, transport));
  }

  /** The size of the log that commits go to; undefined if there is none. */
  get logBytes(): number | undefined {
    return this.#store.logBytes();
  }

  /** Copies what is stored, not what the batch under way has changed. Undefined if nothing is stored. */
  snapshot(): SnapshotOutcome | undefined {
    return this.#store.snapshot?.();
  }

  /** The sums that were counted so far, once they are stored. Rejects while nothing can be. */
  readMetrics(): Promise<MeterReading> {
    // A commit that fails would take back what others have done in its batch.
    if (!this.#isWell) return Promise.reject(new Error("nothing can be stored"));
    return this.batch.ask(() => this.metrics.readToReport());
  }

  #lookForRoom(): void {
    this.#lookedAt = this.runtime.elapsed();
    const hadRoom = this.#hasRoom;
    this.#hasRoom = this.#store.hasRoom();
    if (hadRoom !== this.#hasRoom) this.log("warn", this.#hasRoom ? "disk_has_room_again" : "disk_almost_full");
  }

  #commandContext(): CommandContext {
    this.#context.now = this.runtime.now();
    return this.#context;
  }

  /** Stores the sums on their own, so that no batch fails because of them. Not in a batch. */
  #storeMetrics(): void {
    const { metrics } = this;
    // They are about to be reported, once the batch has stored them.
    if (metrics.hasChanges) return;
    if (!this.#isWell) {
      metrics.storeLater();
      return;
    }
    const isClean = this.#isClean;
    metrics.storeNow();
    // Otherwise they are part of the next commit.
    if (isClean && metrics.hasChanges && this.#commitAlone((rows) => metrics.write(rows))) metrics.committed();
  }

  /** Whether the batch has changed nothing so far. */
  get #isClean(): boolean {
    return !this.keys.hasChanges && !this.sessions.hasChanges && !this.metrics.hasChanges;
  }

  /** One commit beside the batches. If it fails, false, and nothing else is stored until one works. */
  #commitAlone(write: (rows: Rows) => void): boolean {
    try {
      this.#store.commit(write);
      return true;
    } catch (error) {
      this.log("error", "commit_failed", { error: String(error) });
      this.#isWell = false;
      this.metrics.takeBack();
      // What is due would fail, too.
      this.#timers.pause();
      this.#tryLater();
      return false;
    }
  }

  /** For each session the keys on which it has something. */
  #keysBySession(keys: Iterable<Key>): Map<string, string[]> {
    const keysOf = new Map<string, string[]>();
    for (const { name, sessions } of keys)
      for (const session of sessions) {
        const names = keysOf.get(session);
        if (names) names.push(name);
        else keysOf.set(session, [name]);
      }
    return keysOf;
  }

  /** Brings what a key has to tell to whom it concerns, after the answer of the same command. */
  #tell(key: Key, event: KeyEvent): void {
    if (event.type === "round" || event.type === "round_over") this.group?.tell(key.name, event);
    else if (sessionlessProtocolOf(event.session)) {
      if (event.type === "notice") this.#enterNews(() => this.claims.tell(key, event));
    } else
      this.#enterNews(() => {
        const session = this.sessions.get(event.session);
        if (event.type === "lost") session?.lose({ key: key.name, token: event.token, reason: event.reason });
        else if (event.type === "wanted") session?.want({ key: key.name, token: event.token });
        else this.#notify(key, event, session);
      });
  }

  #enterNews(command: () => void): void {
    if (this.#news) this.#news.push(command);
    else this.batch.enter(command);
  }

  #notify(key: Key, event: NoticeEvent, session: Session | undefined): void {
    const { type: _, session: __, ...notice } = event;
    const { offer } = event;
    const answer = (said: "taken" | "noted" | "gone" | "later") => {
      // Its client was told that it is too late.
      const isLate = said === "taken" && offer && (this.leaseEnd(key.name, offer.token) ?? 0) <= this.now();
      const answer = isLate ? "gone" : said;
      this.batch.afterwards(() => this.#keyMeter.answered(answer));
      if (!key.isDeleted) this.keys.answer(key, event.request, answer, offer?.token);
    };
    // A session that is not there was lost in a crash. Its client may have the grant that it was offered before.
    if (session) session.notice({ key: key.name, ...notice }, answer);
    else answer(event.mayBeTold ? "taken" : "gone");
  }

  /** The session was lost: its places go, and its holds stay if its client has their tokens, unless that has left. */
  #leave({ name: session, hasLeft }: LostSession, key: string): void {
    const keepsReported = !(hasLeft && this.config.autoRelease);
    if (sessionlessProtocolOf(session) !== "relay") this.keys.ask(key, { type: "leave", session, keepsReported });
  }

  #commit(): void {
    const { keys, sessions, metrics } = this;
    const hasChanges = keys.hasChanges || sessions.hasChanges || metrics.hasChanges;
    if (hasChanges) {
      this.#store.commit((rows) => {
        keys.write(rows);
        sessions.write(rows);
        metrics.write(rows);
      });
      keys.committed();
      metrics.committed();
    }
    sessions.committed();
    if (this.#isRecovering) this.#gone.clear();
    this.#isRecovering = false;
    if (!this.#isWell && hasChanges) this.#worksAgain();
  }

  /**
   * Nothing of the batch was told to anybody: its keys and sessions continue from what is stored. If nothing is stored, the
   * batch counts, and only the session whose command has thrown starts over.
   */
  #takeBack(error: unknown): boolean {
    this.log("error", "batch_failed", { error: String(error) });
    const broken = this.#broken;
    this.#broken = undefined;
    this.#isRecovering = false;
    // What is due would fail again, and again at once.
    this.#timers.pause();
    if (this.#store.isVolatile) {
      this.#commit();
      if (broken) this.batch.afterwards(() => this.#startOver(broken));
      this.after(TRY_AGAIN_MS, () => this.batch.enter(() => this.#recover()));
      return false;
    }
    this.#isWell = false;
    try {
      this.metrics.takeBack();
      const keysOf = this.#keysBySession(this.keys.takeBack());
      for (const lost of this.sessions.takeBack(
        (session) => new Set([...session.keys, ...(keysOf.get(session.name) ?? [])]),
      ))
        this.#gone.set(lost.name, lost);
    } catch (fault) {
      // What is in memory is not what is stored, and cannot be made so.
      this.stop();
      this.#failed(fault);
      return true;
    }
    this.#tryLater();
    return true;
  }

  /** The session has lost its connection, and continues from its records. Without any, it is gone. */
  #startOver(session: Session): void {
    const lost = this.sessions.startOver(session);
    if (lost) this.#gone.set(lost.name, lost);
  }

  /** Tries a commit that belongs to no client: those that ask at that time lose nothing if it fails. */
  #tryLater(): void {
    if (this.#isTryPlanned) return;
    this.#isTryPlanned = true;
    this.after(TRY_AGAIN_MS, () => {
      this.#isTryPlanned = false;
      if (this.#isWell) return;
      // If there are changes, the commit of their batch is a try.
      if (!this.#isClean) this.#tryLater();
      else if (this.#commitAlone((rows) => rows.putValue(PROBE, String(this.now())))) this.#worksAgain();
    });
  }

  #worksAgain(): void {
    this.log("warn", "storage_works_again");
    this.#isWell = true;
    this.batch.enter(() => this.#recover());
  }

  /** Goes on from what is stored: at the start, and once commits work again. Part of a batch. */
  #recover(): void {
    this.#isRecovering = true;
    this.#timers.resume();
    this.sessions.revive();
    this.claims.withdrawAbandoned();
    if (this.#gone.size === 0) return;
    for (const { name, sessions } of this.keys)
      for (const session of [...sessions]) {
        const lost = this.#gone.get(session);
        if (lost) this.#leave(lost, name);
      }
  }
}

/** Here no answer is lost on its way from a key to a session. Only a client that resumes may ask for one again. */
function withoutNeedlessId<Call extends Exclude<KeyCall, { readonly type: "prolong" }>>(call: Call): Call {
  if (call.type !== "release" || call.id?.startsWith(call.session)) return call;
  const { id: _, ...release } = call;
  return release as Call;
}
