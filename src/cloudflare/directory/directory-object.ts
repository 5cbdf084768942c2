import { DurableObject } from "cloudflare:workers";
import { hash } from "../../core/hash.ts";
import { randomHex } from "../../core/hex.ts";
import { kindOf, type SessionKind, type Transport } from "../../core/session-counts.ts";
import { kindOfSession } from "../../core/session-names.ts";
import { logged } from "../../log.ts";
import { WakeUp } from "../alarms/wake-up.ts";
import { ledgerOf } from "../calls/directories.ts";
import { configOf, type Env } from "../env.ts";
import type { KeyEntry, NewListing } from "../key/key-listing.ts";
import { Gathering } from "./gathering.ts";
import { LateListings } from "./late-listings.ts";
import { type CapRequest, type Counted, type Holding, Ledger, type ShardTally, type Verdict } from "./ledger.ts";
import { type DescribedKeys, ListedKeys, type Range } from "./listed-keys.ts";
import { type ListedSession, ListedSessions } from "./listed-sessions.ts";

export type { Transport } from "../../core/session-counts.ts";
export type { ListedKey } from "./listed-keys.ts";

export type SessionRefusal = "max_connections" | "max_connections_per_ip" | "max_sessions" | "max_sessions_per_ip";
export type SessionAdmission = "admitted" | SessionRefusal;

/** A session that the directory is to list. */
type NewEntry = Omit<ListedSession, "label"> & { readonly label?: string | undefined };

/** Some of a shard's keys, in key order. */
export interface ShardListing {
  readonly keys: string[];
}

/** What a shard counts. */
export interface ShardCounts {
  readonly keys: number;
  readonly sessions: Record<Transport, number>;
  /** Keys that were listed late in the last minute. */
  readonly late: number;
  /** Sessions that were woken to see whether they are alive. */
  readonly probed: number;
}

/** Probing wakes sleeping sessions, which is billed, so it is done rarely. */
const PROBE_EVERY_MS = 3_600_000;
/** An alarm that fires within this time of a probe's turn begins it: when the last one was is not stored. */
const TURN_LASTS_MS = 60_000;
/** Sessions that one report may probe on one shard: a report wakes a hundred objects at most, sessions and keys. */
const PROBED_BY_REPORT = { max: 4, withinMs: 2_000 };
/** A client waits for these before it is refused: they find some of the dead sessions each time, others the next. */
const PROBED_BEFORE_REFUSAL = { max: 32, withinMs: 2_000 };
/** A round over all sessions goes on with each alarm, for which the platform gives 15 minutes. */
const PROBED_BY_ALARM = { max: 200, withinMs: 60_000 };
const NEXT_PART_AFTER_MS = 5_000;
/** Stored while a round is under way: the last session it got to. A restart does not begin it again. */
const ROUND = "probed_up_to";

/** Keys that are asked for their places at a time before one is refused, and how many places are enough. */
const ASKED_FOR_ROOM = { max: 256, enough: 16, withinMs: 2_000 };

/** Refusals for a full service and for an address that has reached its cap. */
const REFUSALS = {
  connections: { total: "max_connections", perAddress: "max_connections_per_ip" },
  httpSessions: { total: "max_sessions", perAddress: "max_sessions_per_ip" },
} as const;

/**
 * One shard of the service's bookkeeping: which keys and sessions exist, for reports and caps. Without a cap, it hears of
 * them after their clients have been answered.
 */
export class DirectoryObject extends DurableObject<Env> {
  readonly #caps: Readonly<Record<Counted, number>>;
  readonly #capsPerAddress: Readonly<Record<SessionKind, number>>;
  readonly #keys: ListedKeys;
  readonly #sessions: ListedSessions;
  readonly #ledger: Ledger;
  /** Claims that the ledger has been asked for and that are not listed yet. */
  readonly #claims: Partial<Record<Counted, string>> = {};
  /** The ledger instance that asked last. */
  #ledgerLife: string | undefined;
  readonly #turns: Partial<Record<Counted, Promise<unknown>>> = {};
  readonly #wakeUp: WakeUp;
  readonly #late = new LateListings();
  /** The next alarm begins a round over all sessions. */
  #isRoundDue = false;
  /** Places that were given up since all keys were last asked. */
  #roomMade = 0;
  #allUsedAt = Number.NEGATIVE_INFINITY;
  /** Batches openings and closings of connections if no cap counts them; flushed before sessions are read. */
  readonly #gathering = new Gathering();

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env);
    const { maxLocks, maxConnections, maxConnectionsPerIp, httpMaxSessions, httpMaxSessionsPerIp } = configOf(env);
    this.#caps = { keys: maxLocks, connections: maxConnections, httpSessions: httpMaxSessions };
    this.#capsPerAddress = { connections: maxConnectionsPerIp, httpSessions: httpMaxSessionsPerIp };
    this.#keys = new ListedKeys(env, ctx.storage.sql);
    this.#sessions = new ListedSessions(env, ctx.storage.sql);
    this.#ledger = new Ledger(env);
    this.#wakeUp = new WakeUp(ctx.storage);
    ctx.blockConcurrencyWhile(() => this.#wakeUp.recall());
  }

  /** Lists a key that has granted something; `fence` is its last. Whether there is a cap does not matter any more. */
  async listKey({ key, fence, lateMs = 0 }: NewListing): Promise<void> {
    if (lateMs > 0) this.#late.note();
    this.#keys.add(key, fence);
    await this.#settle("keys");
  }

  /** Lists a key if the cap on keys allows it; `fence` is that of its next grant. */
  async admitKey({ key, fence }: KeyEntry): Promise<{ readonly isAdmitted: boolean }> {
    return this.#inTurn("keys", async () => {
      if (!this.#keys.has(key)) return { isAdmitted: await this.#admit("keys", () => this.#keys.admit(key, fence)) };
      this.#keys.admit(key, fence);
      return { isAdmitted: true };
    });
  }

  /** Removes a key whose last fence this is, unless it has been listed since. */
  async unlistKey({ key, fence }: KeyEntry): Promise<void> {
    this.#keys.remove(key, fence);
    await this.#settle("keys");
  }

  /**
   * Lists a session unless a cap forbids it: checks the cap of the whole service first, then that of its address. Caps
   * hold under concurrency, and a refused session leaves nothing behind. Before a refusal, some dead sessions are removed.
   */
  async openSession({
    session,
    address,
    transport,
    label = "",
  }: NewEntry): Promise<{ readonly status: SessionAdmission }> {
    const kind = kindOf(transport);
    if (this.#mayGather(kind)) {
      await this.#listSoon({ session, address, transport, label });
      return { status: "admitted" };
    }
    const status: SessionAdmission = await this.#inTurn(kind, async () => {
      if (this.#sessions.has(session)) return "admitted";
      const words = REFUSALS[kind];
      if (this.#isCrowded(kind, address)) await this.#sessions.strikeSome(PROBED_BEFORE_REFUSAL, { kind, address });
      if (this.#isCrowded(kind, address)) return (await this.#isServiceFull(kind)) ? words.total : words.perAddress;
      // Between checking the address and listing, only serialised tasks may run.
      const isAdmitted = await this.#admit(kind, () => this.#sessions.add({ session, address, transport, label }));
      return isAdmitted ? "admitted" : words.total;
    });
    if (status === "admitted") this.#watchSessions();
    return { status };
  }

  /** Removes a session. Its place is free once this resolves. */
  async closeSession({ session }: { readonly session: string }): Promise<void> {
    if (this.#mayGather(kindOfSession(session))) {
      await this.#gathering.add(() => this.#sessions.remove(session));
      return;
    }
    const kind = this.#sessions.remove(session);
    if (kind) await this.#settle(kind);
  }

  /** Changes the label of a listed session; an empty label removes it. */
  relabel({ session, label }: Pick<ListedSession, "session" | "label">): void {
    this.#gathering.finish();
    this.#sessions.relabel(session, label);
  }

  /** The labels of those of these sessions that this shard lists and that have one. */
  labelsOf({ sessions }: { readonly sessions: readonly string[] }): { readonly labels: Record<string, string> } {
    this.#gathering.finish();
    return { labels: this.#sessions.labelsOf(sessions) };
  }

  /** Removes sessions that were lost together with their sockets: once an hour, a part of them with each alarm. */
  override async alarm(): Promise<void> {
    this.#wakeUp.clear();
    this.#gathering.finish();
    const isUnderWay = await this.#probeNext().catch((error) => {
      logged("sessions_not_probed")(error);
      return true;
    });
    if (isUnderWay) this.#wakeUp.by(Date.now() + NEXT_PART_AFTER_MS);
    else if (this.#sessions.count() > 0) this.#watchSessions();
  }

  list(range: Range): ShardListing {
    return { keys: this.#keys.inRange(range) };
  }

  /** Counts without reading a table. Removes a few of the sessions that ended without notice; `alarm` finds the others. */
  async census(): Promise<ShardCounts> {
    this.#gathering.finish();
    const probed = await this.#sessions.strikeSome(PROBED_BY_REPORT);
    // After a restart, the first report begins a round.
    if (this.#sessions.hasUnseen) this.#beginRound();
    this.#gathering.finish();
    return { keys: this.#keys.count(), sessions: this.#sessions.countByTransport(), late: this.#late.count(), probed };
  }

  /** The current state of at most `max` keys drawn at random. */
  async describeSome({ max }: { readonly max: number }): Promise<DescribedKeys & { readonly asked: number }> {
    const keys = this.#keys.sample(max);
    return { ...(await this.#keys.describe(keys, { detail: false })), asked: keys.length };
  }

  /** The current state of these keys, asked one by one. Keys that do not exist are left out. */
  describe({ keys, detail }: { readonly keys: readonly string[]; readonly detail: boolean }): Promise<DescribedKeys> {
    return this.#keys.describe(keys, { detail });
  }

  /** Answers only if storage works. */
  ping(): void {
    this.#keys.has("");
  }

  /** Counts. A ledger that asks identifies itself, and from then on earlier instances are ignored. */
  tally({ ledger }: { readonly ledger?: string } = {}): ShardTally {
    this.#gathering.finish();
    if (ledger !== undefined) this.#ledgerLife = ledger;
    const counts = {
      keys: this.#count("keys"),
      connections: this.#count("connections"),
      httpSessions: this.#count("httpSessions"),
    };
    return { shard: this.#name, counts, claims: { ...this.#claims } };
  }

  /** Removes some of what ended without notice, then counts. */
  async repair({ ledger, counted }: { readonly ledger: string; readonly counted: Counted }): Promise<ShardTally> {
    if (counted === "keys") await this.#makeRoom();
    else await this.#sessions.strikeSome(PROBED_BEFORE_REFUSAL, { kind: counted });
    return this.tally({ ledger });
  }

  claim(claim: CapRequest): Promise<Verdict> {
    return this.#ledger.claim(claim);
  }

  async isFull(holding: Holding): Promise<{ readonly isFull: boolean }> {
    return { isFull: await this.#ledger.isFull(holding) };
  }

  settle(holding: Holding): Promise<void> {
    return this.#ledger.settle(holding);
  }

  /** HTTP clients wait for the answer, and caps need exact counts; connections without a cap need neither. */
  #mayGather(kind: SessionKind): boolean {
    return kind === "connections" && this.#caps.connections === 0 && this.#capsPerAddress.connections === 0;
  }

  async #listSoon(listed: ListedSession): Promise<void> {
    await this.#gathering.add(() => {
      if (!this.#sessions.has(listed.session)) this.#sessions.add(listed);
    });
    this.#watchSessions();
  }

  get #name(): string {
    return this.ctx.id.name as string;
  }

  /** Runs `list` if one more stays within the cap of the whole service, or if there is no cap. */
  async #admit(counted: Counted, list: () => void): Promise<boolean> {
    if (this.#caps[counted] === 0) {
      list();
      return true;
    }
    try {
      for (;;) {
        const id = randomHex(16);
        this.#claims[counted] = id;
        const { isGranted, ledger } = await ledgerOf(this.env).claim({ ...this.#holding(counted), id });
        if (this.#ledgerLife !== undefined && ledger !== this.#ledgerLife) continue;
        if (isGranted) list();
        return isGranted;
      }
    } finally {
      delete this.#claims[counted];
    }
  }

  async #settle(counted: Counted): Promise<void> {
    if (this.#caps[counted] === 0) return;
    await this.#inTurn(counted, () => ledgerOf(this.env).settle(this.#holding(counted))).catch(
      logged("ledger_unreachable"),
    );
  }

  async #isServiceFull(kind: SessionKind): Promise<boolean> {
    return this.#caps[kind] > 0 && (await ledgerOf(this.env).isFull(this.#holding(kind))).isFull;
  }

  #isCrowded(kind: SessionKind, address: string): boolean {
    const cap = this.#capsPerAddress[kind];
    return cap > 0 && this.#sessions.count({ kind, address }) >= cap;
  }

  #holding(counted: Counted): Holding {
    return { shard: this.#name, counted, has: this.#count(counted), cap: this.#caps[counted] };
  }

  #count(counted: Counted): number {
    return counted === "keys" ? this.#keys.count() : this.#sessions.count({ kind: counted });
  }

  /** If there is a cap, a shard makes one call to the ledger at a time, so that no count overtakes a newer one. */
  #inTurn<Result>(counted: Counted, task: () => Promise<Result>): Promise<Result> {
    if (this.#caps[counted] === 0) return task();
    const turn = (this.#turns[counted] ?? Promise.resolve()).then(task);
    this.#turns[counted] = turn.catch(() => {});
    return turn;
  }

  /** Has the next alarm begin a round over all sessions, unless one is under way. */
  #beginRound(): void {
    if (this.#isRoundDue) return;
    this.#isRoundDue = true;
    this.#wakeUp.by(Date.now() + NEXT_PART_AFTER_MS);
  }

  /** The next part of a round, if one is due or under way. True if more of it is left. Where it got to is stored only then. */
  async #probeNext(): Promise<boolean> {
    const { kv } = this.ctx.storage;
    const upTo = kv.get<string>(ROUND);
    if (upTo === undefined && !this.#isRoundDue && !this.#isTurn) return false;
    const last = await this.#sessions.strikeNext(upTo ?? "", PROBED_BY_ALARM);
    this.#isRoundDue = false;
    if (last !== undefined) kv.put(ROUND, last);
    else if (upTo !== undefined) kv.delete(ROUND);
    return last !== undefined;
  }

  /** Asking wakes sleeping keys. Once all were asked and none was idle, none can be before `GC_MAX_IDLE_S` is over. */
  async #makeRoom(): Promise<void> {
    const now = Date.now();
    if (now - this.#allUsedAt < configOf(this.env).gcMaxIdleMs) return;
    const { freed, isRound } = await this.#keys.makeRoom(ASKED_FOR_ROOM);
    this.#roomMade += freed;
    if (!isRound) return;
    if (this.#roomMade === 0) this.#allUsedAt = now;
    this.#roomMade = 0;
  }

  #watchSessions(): void {
    this.#wakeUp.by(this.#nextProbe);
  }

  get #isTurn(): boolean {
    return this.#nextProbe - PROBE_EVERY_MS + TURN_LASTS_MS > Date.now();
  }

  /** Each shard has its own minute of the hour. */
  get #nextProbe(): number {
    const turn = hash(this.#name) % PROBE_EVERY_MS;
    return (Math.floor((Date.now() - turn) / PROBE_EVERY_MS) + 1) * PROBE_EVERY_MS + turn;
  }
}
