import {
  type Changes,
  type Fence,
  fenceToHex,
  type Slot,
  type StoredKey,
  type Waiter,
} from "../../core/engine/index.ts";
import { type CompactRecord, decodeCompact, encodeCompact, slotRow } from "../../core/key/compact-record.ts";
import {
  enqueuedOf,
  flagsOf,
  releasesOf,
  type SlotRow,
  slotFrom,
  storedKeyFrom,
  type WaiterRow,
} from "../../core/key/row-codec.ts";
import { encodeSessionless } from "../../core/key/sessionless-row.ts";

/**
 * A key's rows. Slots are updated in place, so an uncontended cycle writes two rows: one when the slot is taken, one
 * when it is freed. A waiter's row lives from joining until its session has answered. There are no indexes: every row
 * written is billed, and a key is read whole when its object wakes.
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
    releases TEXT,
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

const SLOT_COLUMNS = "slot, token, session, request, lease_s, expires_at, since, place, flags, releases, sessionless";
const WAITER_COLUMNS =
  "place, session, request, wait_request, is_enqueued, lease_s, joined_at, deadline, outcome, sessionless";

type KeyRow = { slot_limit: number; fence: string; founded_at: number; is_listed: number };

/** Values of `is_listed`. */
const LISTED = 1;
/** The directory is being asked to list the key. Nothing is granted before it does, so a slot shows that it has. */
const ASKING = 2;
/** It is being asked, and the first grant is stored already. The next write after its answer says `LISTED`. */
const UNCONFIRMED = 3;

/** The name of the compact record. */
const COMPACT = "key";

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

/**
 * Writes the engine's changes and reads them back after a restart. A key is one record until it has waiters or a second
 * slot, and has tables from then on.
 */
export class KeyStore {
  readonly #storage: DurableObjectStorage;
  readonly #sql: SqlStorage;
  /** Set while the key is stored as one record, or is about to be. */
  #compact: CompactRecord | undefined;
  /** The next command stores that the key is listed, even if it changes nothing. */
  #owesConfirmation = false;
  /** As in the table `key`. */
  #isListed = ASKING;
  /** Slots that have a row. */
  readonly #stored = new Set<number>();

  constructor(storage: DurableObjectStorage) {
    this.#storage = storage;
    this.#sql = storage.sql;
  }

  /** What is stored shows that something was granted, and that the directory has listed this key at least once. */
  get hasGranted(): boolean {
    return !this.isUnconfirmed && (this.#compact ? this.#compact.slot !== null : this.#stored.size > 0);
  }

  /** The first grant is stored, and nothing stored shows that the directory has listed the key. */
  get isUnconfirmed(): boolean {
    return (this.#compact?.isListed ?? this.#isListed) === UNCONFIRMED;
  }

  /** The key as stored, or undefined if it does not exist. Reading creates nothing. */
  load(): LoadedKey | undefined {
    this.#forget();
    if (!this.#hasTables()) return this.#loadCompact();
    const rows = this.#sql.exec<SlotRow>("SELECT * FROM slots ORDER BY slot");
    checkLayout("slots", rows.columnNames, SLOT_COLUMNS);
    const [row] = this.#sql.exec<KeyRow>("SELECT slot_limit, fence, founded_at, is_listed FROM key").toArray();
    if (!row) return undefined;
    this.#isListed = row.is_listed;
    const slots = rows.toArray();
    for (const { slot } of slots) this.#stored.add(slot);
    const waiting = this.#sql.exec<WaiterRow>("SELECT * FROM waiters ORDER BY place");
    checkLayout("waiters", waiting.columnNames, WAITER_COLUMNS);
    const waiters = waiting.toArray();
    const lapsed = this.#sql
      .exec<{ session: string; at: number }>("SELECT session, at FROM lapsed ORDER BY at")
      .toArray()
      .map(({ session, at }) => [session, at] as const);
    const { slot_limit: limit, fence, founded_at: lastActivity } = row;
    const key = storedKeyFrom({ limit, fence, lastActivity, slots, waiters, lapsed });
    return { key, isListed: this.#wasListed(row.is_listed), foundedAt: row.founded_at };
  }

  #loadCompact(): LoadedKey | undefined {
    const text = this.#storage.kv.get<string>(COMPACT);
    if (text === undefined) return undefined;
    this.#compact = decodeCompact(text);
    const { limit, fence, foundedAt, isListed, slot } = this.#compact;
    const slots = slot ? [slot] : [];
    const key = storedKeyFrom({ limit, fence, lastActivity: foundedAt, slots, waiters: [], lapsed: [] });
    return { key, isListed: this.#wasListed(isListed), foundedAt };
  }

  #wasListed(isListed: number): boolean {
    return isListed === LISTED || (isListed === ASKING && this.hasGranted);
  }

  /**
   * Records that the key is about to be listed for the first time, and what it grants once it is. This is durable before
   * the directory is asked, so a listed key without anything stored has lost it.
   */
  begin({ limit, fence, foundedAt }: StoredFounding, slot?: Slot): void {
    const isListed = slot ? UNCONFIRMED : ASKING;
    const hex = fenceToHex(fence);
    if (this.#compact || !this.#hasTables()) {
      this.#writeCompact({ limit, fence: hex, foundedAt, isListed, slot: slot ? slotRow(slot) : null });
      return;
    }
    this.#storage.transactionSync(() => {
      this.#writeKey(limit, hex, foundedAt, isListed);
      for (const index of this.#stored) this.#sql.exec("DELETE FROM slots WHERE slot = ?", index);
      this.#stored.clear();
      if (slot) this.#writeSlot(slot);
    });
  }

  /** The directory lists the key. A record says so with the next write. */
  confirm(): void {
    if (this.#compact) this.#compact = { ...this.#compact, isListed: LISTED };
    else if (this.#isListed === UNCONFIRMED) {
      this.#sql.exec("UPDATE key SET is_listed = ?", LISTED);
      this.#isListed = LISTED;
    }
  }

  /**
   * Like `confirm`, for a key that has slept since it was founded: the next command stores it even if it changes
   * nothing. Otherwise the key would ask the directory at every wake-up.
   */
  confirmSoon(): void {
    this.#owesConfirmation = this.#compact?.isListed === UNCONFIRMED;
    this.confirm();
  }

  /** Whether this command can be stored as the first one of a new key, in one record. */
  isCompact({ slots, waiters, lapsed, limit }: Changes): Slot | undefined {
    const [slot, ...others] = slots;
    const isMore = others.length + waiters.size + lapsed.size > 0 || limit !== undefined;
    return slot?.index === 0 && !isMore ? slot : undefined;
  }

  /** Writes all changes of one command, or none of them. */
  write(changes: Changes): void {
    const statements = changes.slots.size + changes.waiters.size + changes.lapsed.size + (changes.limit ? 1 : 0);
    if (statements === 0) {
      if (this.#owesConfirmation && this.#compact) this.#writeCompact(this.#compact);
      return;
    }
    const slot = this.#compact && this.isCompact(changes);
    if (this.#compact && slot) this.#writeCompact({ ...this.#compact, slot: slotRow(slot) });
    else if (statements === 1 && !this.#compact) this.#writeAll(changes);
    else
      this.#storage.transactionSync(() => {
        if (this.#compact) this.#makeTables(this.#compact);
        this.#writeAll(changes);
      });
  }

  #writeCompact(record: CompactRecord): void {
    this.#storage.kv.put(COMPACT, encodeCompact(record));
    this.#compact = record;
    this.#owesConfirmation = false;
  }

  #makeTables({ limit, fence, foundedAt, isListed, slot }: CompactRecord): void {
    this.#sql.exec(SCHEMA);
    this.#writeKey(limit, fence, foundedAt, isListed);
    if (slot) this.#writeSlot(slotFrom(slot));
    this.#storage.kv.delete(COMPACT);
    this.#compact = undefined;
  }

  #writeKey(limit: number, fence: string, foundedAt: number, isListed: number): void {
    this.#sql.exec("INSERT OR REPLACE INTO key VALUES (1, ?, ?, ?, ?)", limit, fence, foundedAt, isListed);
    this.#isListed = isListed;
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
      const [expiresAt, releases] = [slot.expiresAt, releasesOf(slot)];
      this.#sql.exec(
        "UPDATE slots SET expires_at = ?, flags = 0, releases = ? WHERE slot = ?",
        expiresAt,
        releases,
        slot.index,
      );
      return;
    }
    this.#stored.add(slot.index);
    this.#sql.exec(
      `INSERT OR REPLACE INTO slots (${SLOT_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
      slot.index,
      slot.token,
      slot.session,
      slot.request,
      slot.leaseSeconds,
      slot.expiresAt,
      slot.since,
      slot.place,
      flagsOf(slot),
      releasesOf(slot),
      slot.sessionless ? encodeSessionless(slot.sessionless) : null,
    );
  }

  #writeWaiter(waiter: Waiter): void {
    if (!waiter.isStored) {
      this.#sql.exec("DELETE FROM waiters WHERE place = ?", waiter.place);
      return;
    }
    this.#sql.exec(
      `INSERT OR REPLACE INTO waiters (${WAITER_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
      waiter.place,
      waiter.session,
      waiter.request,
      waiter.waitRequest ?? null,
      enqueuedOf(waiter),
      waiter.leaseSeconds,
      waiter.joinedAt,
      Number.isFinite(waiter.deadline) ? waiter.deadline : null,
      waiter.outcome ?? null,
      waiter.sessionless ? encodeSessionless(waiter.sessionless) : null,
    );
  }

  /** Deletes everything, including the alarm. */
  async deleteAll(): Promise<void> {
    this.#forget();
    await this.#storage.deleteAll();
  }

  #forget(): void {
    this.#stored.clear();
    this.#compact = undefined;
    this.#owesConfirmation = false;
    this.#isListed = ASKING;
  }

  #hasTables(): boolean {
    return this.#sql.exec("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'key'").toArray().length > 0;
  }
}

/** Throws if the table was written by another version. Nothing has been released yet, so no other layout is read. */
function checkLayout(table: string, found: readonly string[], columns: string): void {
  if (found.join(", ") === columns) return;
  throw new Error(
    `table ${table} has the columns ${found.join(", ")}; this version reads ${columns} only: ` +
      "deploy the version that wrote it, or delete the object's data",
  );
}
