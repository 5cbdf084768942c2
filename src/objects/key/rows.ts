import {
  type Changes,
  type Fence,
  fenceFromHex,
  fenceToHex,
  type Quorum,
  type Round,
  Slot,
  type StoredKey,
  Waiter,
} from "../../engine/index.ts";
import { decodeSessionless, encodeSessionless } from "./sessionless-row.ts";

/**
 * A key's rows. Slots are updated in place, so an uncontended cycle writes two rows: one when the slot is taken, one
 * when it is freed. A waiter's row lives from joining until its session has answered. There are no indexes: every row
 * written is billed, and a key is read whole when its object wakes.
 *
 * `sessionless` was added after the other columns: tables without it get it with the first row that needs it.
 */
const SCHEMA = `
  CREATE TABLE IF NOT EXISTS key (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    slot_limit INTEGER NOT NULL,
    fence TEXT NOT NULL,
    founded_at INTEGER NOT NULL,
    is_listed INTEGER NOT NULL
  );
  CREATE TABLE IF NOT EXISTS slots (
    slot INTEGER PRIMARY KEY,
    token TEXT NOT NULL,
    session TEXT NOT NULL,
    request TEXT NOT NULL,
    lease_s INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    since INTEGER NOT NULL,
    place INTEGER NOT NULL,
    flags INTEGER NOT NULL,
    sessionless TEXT
  );
  CREATE TABLE IF NOT EXISTS waiters (
    place INTEGER PRIMARY KEY,
    session TEXT NOT NULL,
    request TEXT NOT NULL,
    wait_request TEXT,
    is_enqueued INTEGER NOT NULL,
    lease_s INTEGER NOT NULL,
    joined_at INTEGER NOT NULL,
    deadline INTEGER,
    outcome TEXT,
    sessionless TEXT
  );
  CREATE TABLE IF NOT EXISTS lapsed (
    session TEXT PRIMARY KEY,
    at INTEGER NOT NULL
  ) WITHOUT ROWID;
`;

const SLOT_COLUMNS = "slot, token, session, request, lease_s, expires_at, since, place, flags";
const WAITER_COLUMNS = "place, session, request, wait_request, is_enqueued, lease_s, joined_at, deadline, outcome";

const HELD = 1;
const REPORTED = 2;
const RECORD = 4;
/** The token may have been handed over. Slots of version 0.1.0 do not have this. */
const OFFERED = 64;
/** Of slots whose holder needs a quorum. */
const ROUNDS: Readonly<Record<Round, number>> = { open: 8, fenced: 16, agreed: 32 };
/** Of slots whose holder wants to be told when somebody else wants the key. */
const ASKS_WANTED = 128;
/** Of slots whose token the client had before it sent its `wait`. */
const WAS_KNOWN = 256;

/** Values of `is_enqueued`. */
const WAITS = 0;
const ENQUEUED = 1;
const QUORUMS: Readonly<Record<Quorum, number>> = { once: 2, until_agreed: 3 };
/** Added to it for a waiter that wants to be told, once it holds a slot. */
const WILL_ASK_WANTED = 4;

type SlotRow = {
  slot: number;
  token: string;
  session: string;
  request: string;
  lease_s: number;
  expires_at: number;
  since: number;
  place: number;
  flags: number;
  sessionless?: string | null;
};

type WaiterRow = {
  place: number;
  session: string;
  request: string;
  wait_request: string | null;
  is_enqueued: number;
  lease_s: number;
  joined_at: number;
  deadline: number | null;
  outcome: string | null;
  sessionless?: string | null;
};

type KeyRow = { slot_limit: number; fence: string; founded_at: number; is_listed: number };

/** Values of `is_listed`. */
const UNLISTED = 0;
const LISTED = 1;
/** The directory is being asked to list the key. If there is a slot, it has: nothing is granted before. */
const ASKING = 2;

export interface LoadedKey {
  readonly key: StoredKey;
  /** The directory knows of this key. */
  readonly isListed: boolean;
  readonly foundedAt: number;
}

export interface StoredFounding {
  readonly limit: number;
  readonly fence: Fence;
  readonly foundedAt: number;
}

/** Writes the engine's changes and reads them back after a restart. */
export class KeyStore {
  readonly #storage: DurableObjectStorage;
  readonly #sql: SqlStorage;
  /** Slots that have a row. */
  readonly #stored = new Set<number>();
  /** The tables have the column `sessionless`. */
  #hasSessionless = false;

  constructor(storage: DurableObjectStorage) {
    this.#storage = storage;
    this.#sql = storage.sql;
  }

  /** The rows show that something was granted, so the directory has listed this key at least once. */
  get hasGranted(): boolean {
    return this.#stored.size > 0;
  }

  /** The key as stored, or undefined if it does not exist. Reading creates nothing. */
  load(): LoadedKey | undefined {
    this.#stored.clear();
    if (!this.#hasTables()) return undefined;
    const [row] = this.#sql.exec<KeyRow>("SELECT slot_limit, fence, founded_at, is_listed FROM key").toArray();
    if (!row) return undefined;
    const promoted = new Map<number, Slot>();
    const slots: Slot[] = [];
    const rows = this.#sql.exec<SlotRow>("SELECT * FROM slots ORDER BY slot");
    this.#hasSessionless = rows.columnNames.includes("sessionless");
    for (const stored of rows) {
      const slot = slotFrom(stored);
      slots.push(slot);
      this.#stored.add(slot.index);
      if (slot.isHeld && stored.place > 0) promoted.set(stored.place, slot);
    }
    const waiters: Waiter[] = [];
    for (const stored of this.#sql.exec<WaiterRow>("SELECT * FROM waiters ORDER BY place")) {
      waiters.push(waiterFrom(stored, promoted.get(stored.place)));
    }
    const lapsed = this.#sql
      .exec<{ session: string; at: number }>("SELECT session, at FROM lapsed ORDER BY at")
      .toArray()
      .map(({ session, at }) => [session, at] as const);
    const fence = fenceFromHex(row.fence);
    const key = { limit: row.slot_limit, fence, lastActivity: row.founded_at, slots, waiters, lapsed };
    const isListed = row.is_listed === LISTED || (row.is_listed === ASKING && this.hasGranted);
    return { key, isListed, foundedAt: row.founded_at };
  }

  /**
   * Records that the key is about to be listed for the first time. This is durable before the directory is asked, so a
   * listed key without a row has lost it. The first grant completes the founding: its slot holds the fence.
   */
  begin(founding: StoredFounding): void {
    const isNew = !this.#hasTables();
    this.#sql.exec(SCHEMA);
    if (isNew) this.#hasSessionless = true;
    this.#writeKey(founding, ASKING);
  }

  /** Records that the key is listed again. It never again grants a fence up to `fence`. */
  relist(founding: StoredFounding): void {
    this.#writeKey(founding, LISTED);
  }

  /** Records that the directory is about to forget this key, so that the next use asks it again. */
  unlist(): void {
    this.#sql.exec("UPDATE key SET is_listed = ?", UNLISTED);
  }

  /** Writes all changes of one command, or none of them. */
  write(changes: Changes): void {
    const statements = changes.slots.size + changes.waiters.size + changes.lapsed.size + (changes.limit ? 1 : 0);
    if (statements === 0) return;
    if (statements === 1) this.#writeAll(changes);
    else this.#storage.transactionSync(() => this.#writeAll(changes));
  }

  #writeKey({ limit, fence, foundedAt }: StoredFounding, isListed: number): void {
    this.#sql.exec("INSERT OR REPLACE INTO key VALUES (1, ?, ?, ?, ?)", limit, fenceToHex(fence), foundedAt, isListed);
  }

  #writeAll({ slots, waiters, lapsed, limit }: Changes): void {
    for (const slot of slots) this.#writeSlot(slot);
    for (const waiter of waiters) this.#writeWaiter(waiter);
    for (const [session, at] of lapsed) {
      if (at === undefined) this.#sql.exec("DELETE FROM lapsed WHERE session = ?", session);
      else this.#sql.exec("INSERT OR REPLACE INTO lapsed VALUES (?, ?)", session, at);
    }
    if (limit !== undefined) this.#sql.exec("UPDATE key SET slot_limit = ?", limit);
  }

  #writeSlot(slot: Slot): void {
    if (!slot.isHeld && this.#stored.has(slot.index)) {
      // The previous holder stays in the row until the next grant: clearing it would cost more than ignoring it.
      this.#sql.exec("UPDATE slots SET expires_at = ?, flags = 0 WHERE slot = ?", slot.expiresAt, slot.index);
      return;
    }
    this.#stored.add(slot.index);
    const [more, ...values] = this.#sessionlessColumn(slot);
    this.#sql.exec(
      `INSERT OR REPLACE INTO slots (${SLOT_COLUMNS}${more}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?${more && ", ?"})`,
      slot.index,
      slot.token,
      slot.session,
      slot.request,
      slot.leaseSeconds,
      slot.expiresAt,
      slot.since,
      slot.place,
      flagsOf(slot),
      ...values,
    );
  }

  #writeWaiter(waiter: Waiter): void {
    if (!waiter.isStored) {
      this.#sql.exec("DELETE FROM waiters WHERE place = ?", waiter.place);
      return;
    }
    const [more, ...values] = this.#sessionlessColumn(waiter);
    this.#sql.exec(
      `INSERT OR REPLACE INTO waiters (${WAITER_COLUMNS}${more}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?${more && ", ?"})`,
      waiter.place,
      waiter.session,
      waiter.request,
      waiter.waitRequest ?? null,
      kindOf(waiter) + (waiter.asksWanted ? WILL_ASK_WANTED : 0),
      waiter.leaseSeconds,
      waiter.joinedAt,
      Number.isFinite(waiter.deadline) ? waiter.deadline : null,
      waiter.outcome ?? null,
      ...values,
    );
  }

  /** The extra column that a row needs, and its value; empty for a holder or waiter with a session. */
  #sessionlessColumn({ sessionless }: Pick<Slot, "sessionless">): [column: string, ...values: string[]] {
    if (!sessionless) return [""];
    if (!this.#hasSessionless) {
      this.#sql.exec("ALTER TABLE slots ADD COLUMN sessionless TEXT; ALTER TABLE waiters ADD COLUMN sessionless TEXT");
      this.#hasSessionless = true;
    }
    return [", sessionless", encodeSessionless(sessionless)];
  }

  /** Deletes everything, including the alarm. */
  async deleteAll(): Promise<void> {
    this.#stored.clear();
    await this.#storage.deleteAll();
  }

  #hasTables(): boolean {
    return this.#sql.exec("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'key'").toArray().length > 0;
  }
}

function flagsOf({ isHeld, isReported, isOffered, hasRecord, wasKnown, round, asksWanted }: Slot): number {
  const state = (isHeld ? HELD : 0) | (isReported ? REPORTED : 0) | (isOffered ? OFFERED : 0);
  const phase = (hasRecord ? RECORD : 0) | (wasKnown ? WAS_KNOWN : 0);
  return state | phase | (round ? ROUNDS[round] : 0) | (asksWanted ? ASKS_WANTED : 0);
}

function kindOf({ quorum, isEnqueued }: Waiter): number {
  return quorum ? QUORUMS[quorum] : isEnqueued ? ENQUEUED : WAITS;
}

function slotFrom(row: SlotRow): Slot {
  const slot = new Slot(row.slot);
  slot.isHeld = (row.flags & HELD) !== 0;
  slot.token = row.token;
  slot.session = slot.isHeld ? row.session : "";
  slot.request = slot.isHeld ? row.request : "";
  slot.leaseSeconds = row.lease_s;
  slot.expiresAt = row.expires_at;
  slot.since = row.since;
  slot.place = row.place;
  slot.isReported = (row.flags & REPORTED) !== 0;
  slot.isOffered = (row.flags & OFFERED) !== 0;
  slot.hasRecord = (row.flags & RECORD) !== 0;
  slot.wasKnown = (row.flags & WAS_KNOWN) !== 0;
  slot.round = (Object.keys(ROUNDS) as Round[]).find((round) => (row.flags & ROUNDS[round]) !== 0);
  slot.asksWanted = (row.flags & ASKS_WANTED) !== 0;
  if (slot.isHeld && row.sessionless) slot.sessionless = decodeSessionless(row.sessionless);
  return slot;
}

function waiterFrom(row: WaiterRow, slot: Slot | undefined): Waiter {
  const kind = row.is_enqueued % WILL_ASK_WANTED;
  const waiter = new Waiter({
    place: row.place,
    session: row.session,
    request: row.request,
    isEnqueued: kind === ENQUEUED,
    quorum: (Object.keys(QUORUMS) as Quorum[]).find((quorum) => kind === QUORUMS[quorum]),
    asksWanted: row.is_enqueued >= WILL_ASK_WANTED,
    leaseSeconds: row.lease_s,
    joinedAt: row.joined_at,
    deadline: row.deadline ?? Number.POSITIVE_INFINITY,
    sessionless: row.sessionless ? decodeSessionless(row.sessionless) : undefined,
  });
  waiter.waitRequest = row.wait_request ?? undefined;
  waiter.outcome = row.outcome === "timeout" || row.outcome === "lease_expired" ? row.outcome : undefined;
  waiter.slot = slot;
  return waiter;
}
