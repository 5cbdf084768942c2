import { DurableObject } from "cloudflare:workers";
import type { Config } from "../config.ts";
import { type Fence, fenceFromHex, fenceToHex, type KeyView } from "../engine/index.ts";
import { log } from "../log.ts";
import { inBatches } from "./batches.ts";
import { ledgerOf } from "./directories.ts";
import { configOf, type Env } from "./env.ts";
import { type Counted, Ledger, type ShardTally } from "./ledger.ts";

export type KeyAdmission = { readonly isAdmitted: false } | { readonly isAdmitted: true; readonly fence: Fence };
export type SessionAdmission = "admitted" | "max_connections" | "max_connections_per_ip";
export type Transport = "tcp" | "ws";

export interface ListedKey extends KeyView {
  readonly key: string;
}

/** What a shard knows of its part of the service. */
export interface ShardReport {
  readonly sessions: number;
  readonly keys: readonly ListedKey[];
}

const SCHEMA = `
  CREATE TABLE IF NOT EXISTS keys (key TEXT PRIMARY KEY, listed_at INTEGER NOT NULL) WITHOUT ROWID;
  CREATE TABLE IF NOT EXISTS sessions (session TEXT PRIMARY KEY, address TEXT NOT NULL, transport TEXT NOT NULL) WITHOUT ROWID;
  CREATE TABLE IF NOT EXISTS mark (id INTEGER PRIMARY KEY CHECK (id = 1), fence TEXT NOT NULL);
`;

/** A key that was listed but never founded (its object died in between) is struck off after this time. */
const FOUNDING_TAKES_AT_MOST_MS = 10_000;
/** A session is believed to live this long without being asked. */
const BELIEVED_FOR_MS = 60_000;
const ASKED_AT_ONCE = 64;
/** Asking wakes sleeping sessions, which is paid for: rarely. */
const WATCH_EVERY_MS = 3_600_000;

/**
 * One shard of the service's bookkeeping: which keys and sessions exist, and the highest fence of keys that have been
 * forgotten. It takes part when a key or a session begins or ends, never when an existing key is used.
 */
export class DirectoryObject extends DurableObject<Env> {
  readonly #config: Config;
  readonly #sql: SqlStorage;
  readonly #ledger: Ledger;
  #mark: Fence;
  /** Sessions known to live, and since when; those of an earlier life of this object have to be asked. */
  readonly #believed = new Map<string, number>();
  /** Places that the ledger has been asked for and that are not listed yet. */
  readonly #claimed: Record<Counted, number> = { keys: 0, sessions: 0 };
  /** Keys known to exist. */
  readonly #founded = new Set<string>();
  #isWatching = false;
  #turn: Promise<unknown> = Promise.resolve();

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env);
    this.#config = configOf(env);
    this.#sql = ctx.storage.sql;
    this.#ledger = new Ledger(env);
    this.#sql.exec(SCHEMA);
    const [row] = this.#sql.exec<{ fence: string }>("SELECT fence FROM mark").toArray();
    this.#mark = row ? fenceFromHex(row.fence) : 0n;
  }

  /** Lists a key unless the cap forbids it, and tells the fence above which it may grant. */
  async joinKey(key: string, fence: Fence): Promise<KeyAdmission> {
    this.#raise(fence);
    const list = () => {
      this.#sql.exec("INSERT OR REPLACE INTO keys VALUES (?, ?)", key, Date.now());
    };
    if (this.#lists(key)) list();
    else if (!(await this.#admit("keys", this.#config.maxLocks, list))) return { isAdmitted: false };
    return { isAdmitted: true, fence: this.#mark };
  }

  /** Strikes a key off; its fence is remembered before that is answered. The ledger hears of it later. */
  leaveKey(key: string, fence: Fence): void {
    this.#raise(fence);
    this.#sql.exec("DELETE FROM keys WHERE key = ?", key);
    this.#founded.delete(key);
    this.ctx.waitUntil(this.#settle("keys", this.#config.maxLocks));
  }

  /** Lists a session unless a cap forbids it. Caps hold however many come at the same time. */
  async openSession(session: string, address: string, transport: Transport): Promise<SessionAdmission> {
    const { maxConnections, maxConnectionsPerIp } = this.#config;
    let isOverAddress = false;
    const isAdmitted = await this.#admit("sessions", maxConnections, async () => {
      isOverAddress = maxConnectionsPerIp > 0 && !(await this.#hasRoom(address, maxConnectionsPerIp));
      if (isOverAddress) return;
      this.#sql.exec("INSERT INTO sessions VALUES (?, ?, ?)", session, address, transport);
      this.#believed.set(session, Date.now());
    });
    if (!isAdmitted) return "max_connections";
    if (!isOverAddress) {
      await this.#watchSessions();
      return "admitted";
    }
    this.ctx.waitUntil(this.#settle("sessions", maxConnections));
    return "max_connections_per_ip";
  }

  closeSession(session: string): void {
    this.#sql.exec("DELETE FROM sessions WHERE session = ?", session);
    this.#believed.delete(session);
    this.ctx.waitUntil(this.#settle("sessions", this.#config.maxConnections));
  }

  /** Now and then, sessions that were lost with their sockets are found and struck off. */
  override async alarm(): Promise<void> {
    this.#isWatching = false;
    await this.#strikeDeadSessions();
    if (this.#count("sessions") > 0) await this.#watchSessions();
  }

  /** The keys of this shard as they stand now, asked one by one, and the number of its live sessions. */
  async report(limit: number): Promise<ShardReport> {
    await this.#strikeDeadSessions();
    const names = this.#sql
      .exec<{ key: string }>("SELECT key FROM keys ORDER BY key LIMIT ?", limit)
      .toArray()
      .map(({ key }) => key);
    const views = await inBatches(names, ASKED_AT_ONCE, (key) =>
      this.env.KEY.getByName(key).describe().catch(unreachable(null)),
    );
    const keys = names.flatMap((key, index) => {
      const view = views[index];
      return view ? [{ key, ...view }] : [];
    });
    return { sessions: this.#count("sessions"), keys };
  }

  tally(): ShardTally {
    const { keys, sessions } = this.#claimed;
    return { shard: this.#name, keys: this.#count("keys") + keys, sessions: this.#count("sessions") + sessions };
  }

  /** Strikes off what ended without a word, then counts. */
  async repair(): Promise<ShardTally> {
    await this.#strikeDeadSessions();
    await this.#strikeUnfoundedKeys();
    return this.tally();
  }

  claim(shard: string, counted: Counted, has: number, cap: number): Promise<boolean> {
    return this.#ledger.claim(shard, counted, has, cap);
  }

  settle(shard: string, counted: Counted, count: number): void {
    this.#ledger.settle(shard, counted, count);
  }

  get #name(): string {
    return this.ctx.id.name as string;
  }

  /** Runs `list` if one more stays within the cap of the whole service. */
  async #admit(counted: Counted, cap: number, list: () => void | Promise<void>): Promise<boolean> {
    if (cap === 0) {
      await list();
      return true;
    }
    return this.#inTurn(async () => {
      this.#claimed[counted] += 1;
      try {
        if (!(await ledgerOf(this.env).claim(this.#name, counted, this.#count(counted), cap))) return false;
        await list();
        return true;
      } finally {
        this.#claimed[counted] -= 1;
      }
    });
  }

  #settle(counted: Counted, cap: number): Promise<void> {
    if (cap === 0) return Promise.resolve();
    return this.#inTurn(() => ledgerOf(this.env).settle(this.#name, counted, this.#count(counted)));
  }

  /** Shards speak to the ledger one call at a time, so that no count overtakes a newer one. */
  #inTurn<Result>(task: () => Promise<Result>): Promise<Result> {
    const turn = this.#turn.then(task);
    this.#turn = turn.catch(() => {});
    return turn;
  }

  #raise(fence: Fence): void {
    if (fence <= this.#mark) return;
    this.#mark = fence;
    this.#sql.exec("INSERT OR REPLACE INTO mark VALUES (1, ?)", fenceToHex(fence));
  }

  #lists(key: string): boolean {
    return this.#sql.exec("SELECT 1 FROM keys WHERE key = ?", key).toArray().length > 0;
  }

  #count(counted: Counted): number {
    return this.#sql.exec<{ n: number }>(`SELECT count(*) AS n FROM ${counted}`).one().n;
  }

  /** Whether an address may have one more session; before that is denied, dead ones are struck off. */
  async #hasRoom(address: string, cap: number): Promise<boolean> {
    const count = () =>
      this.#sql.exec<{ n: number }>("SELECT count(*) AS n FROM sessions WHERE address = ?", address).one().n;
    if (count() >= cap) await this.#strikeDeadSessions();
    return count() < cap;
  }

  async #strikeDeadSessions(): Promise<void> {
    const since = Date.now() - BELIEVED_FOR_MS;
    const doubtful = this.#sql
      .exec<{ session: string }>("SELECT session FROM sessions")
      .toArray()
      .map(({ session }) => session)
      .filter((session) => (this.#believed.get(session) ?? 0) < since);
    await inBatches(doubtful, ASKED_AT_ONCE, async (session) => {
      const isLive = await this.env.SESSION.getByName(session).isLive().catch(unreachable(true));
      if (isLive) this.#believed.set(session, Date.now());
      else this.#sql.exec("DELETE FROM sessions WHERE session = ?", session);
    });
  }

  async #strikeUnfoundedKeys(): Promise<void> {
    const before = Date.now() - FOUNDING_TAKES_AT_MOST_MS;
    const doubtful = this.#sql
      .exec<{ key: string }>("SELECT key FROM keys WHERE listed_at < ?", before)
      .toArray()
      .map(({ key }) => key)
      .filter((key) => !this.#founded.has(key));
    await inBatches(doubtful, ASKED_AT_ONCE, async (key) => {
      const isFounded = await this.env.KEY.getByName(key).exists().catch(unreachable(true));
      if (isFounded) this.#founded.add(key);
      else this.#sql.exec("DELETE FROM keys WHERE key = ? AND listed_at < ?", key, before);
    });
  }

  async #watchSessions(): Promise<void> {
    if (this.#isWatching) return;
    this.#isWatching = true;
    if ((await this.ctx.storage.getAlarm()) === null) await this.ctx.storage.setAlarm(Date.now() + WATCH_EVERY_MS);
  }
}

/** Takes `assumed` for the answer of an object that could not be reached. */
function unreachable<Assumed>(assumed: Assumed): (error: unknown) => Assumed {
  return (error) => {
    log("warn", "object_unreachable", { error: String(error) });
    return assumed;
  };
}
