import { type Changes, fenceToHex, type Slot, type StoredKey, type Waiter } from "../../core/engine/index.ts";
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
import type { KeyRows, LoadedKey } from "./key-commands.ts";

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
    last_activity INTEGER NOT NULL,
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

type KeyRow = { slot_limit: number; fence: string; last_activity: number; is_listed: number };

/** The name of the compact record. */
const COMPACT = "key";

/**
 * Writes the engine's changes and reads them back after a restart. A key is one record until it has waiters or a second
 * slot, and has tables from then on.
 */
export class KeyStore implements KeyRows {
  readonly #storage: DurableObjectStorage;
  readonly #sql: SqlStorage;
  /** Set while the key is stored as one record, or is about to be. */
  #compact: CompactRecord | undefined;
  #isStored = false;
  /** As it will be stored with the next write. */
  #isListed = false;
  /** As the rows say. */
  #wasListed = false;
  /** Slots that have a row. */
  readonly #stored = new Set<number>();

  constructor(storage: DurableObjectStorage) {
    this.#storage = storage;
    this.#sql = storage.sql;
  }

  /** False if nothing is stored. */
  get isStored(): boolean {
    return this.#isStored;
  }

  /** The key as stored, or undefined if it does not exist. Reading creates nothing. */
  load(): LoadedKey | undefined {
    this.#forget();
    if (!this.#hasTables()) return this.#loadCompact();
    const rows = this.#sql.exec<SlotRow>("SELECT * FROM slots ORDER BY slot");
    checkLayout("slots", rows.columnNames, SLOT_COLUMNS);
    const [row] = this.#sql.exec<KeyRow>("SELECT slot_limit, fence, last_activity, is_listed FROM key").toArray();
    if (!row) return undefined;
    this.#isStored = true;
    this.#wasListed = row.is_listed !== 0;
    this.#isListed = this.#wasListed;
    const slots = rows.toArray();
    for (const { slot } of slots) this.#stored.add(slot);
    const waiting = this.#sql.exec<WaiterRow>("SELECT * FROM waiters ORDER BY place");
    checkLayout("waiters", waiting.columnNames, WAITER_COLUMNS);
    const waiters = waiting.toArray();
    const lapsed = this.#sql
      .exec<{ session: string; at: number }>("SELECT session, at FROM lapsed ORDER BY at")
      .toArray()
      .map(({ session, at }) => [session, at] as const);
    const { slot_limit: limit, fence, last_activity: lastActivity } = row;
    const key = storedKeyFrom({ limit, fence, lastActivity, slots, waiters, lapsed });
    return { key, isListed: this.#isListed };
  }

  #loadCompact(): LoadedKey | undefined {
    const text = this.#storage.kv.get<string>(COMPACT);
    if (text === undefined) return undefined;
    this.#compact = decodeCompact(text);
    this.#isStored = true;
    const { limit, fence, lastActivity, isListed, slot } = this.#compact;
    this.#wasListed = isListed;
    this.#isListed = isListed;
    const key = storedKeyFrom({ limit, fence, lastActivity, slots: slot ? [slot] : [], waiters: [], lapsed: [] });
    return { key, isListed };
  }

  /** A key begins to exist. It is stored with the first change. */
  found({ limit, fence, lastActivity }: Pick<StoredKey, "limit" | "fence" | "lastActivity">): void {
    this.#compact = { limit, fence: fenceToHex(fence), lastActivity, isListed: this.#isListed, slot: null };
  }

  /** The next write says whether the key is listed; or a write of its own does, at once. */
  record(isListed: boolean, when?: "at_once"): void {
    this.#isListed = isListed;
    if (this.#compact) this.#compact = { ...this.#compact, isListed };
    if (!when || !this.#isStored || isListed === this.#wasListed) return;
    if (this.#compact) this.#writeCompact(this.#compact);
    else this.#writeListed();
  }

  /** The one slot that has changed, if the key can stay one record. */
  #compactSlot({ slots, waiters, lapsed, limit }: Changes): Slot | undefined {
    const [slot, ...others] = slots;
    const isMore = others.length + waiters.size + lapsed.size > 0 || limit !== undefined;
    return slot?.index === 0 && !isMore ? slot : undefined;
  }

  /** Writes all changes of one command, or none of them. */
  write(changes: Changes): void {
    const statements = changes.slots.size + changes.waiters.size + changes.lapsed.size + (changes.limit ? 1 : 0);
    if (statements === 0) return;
    const slot = this.#compact && this.#compactSlot(changes);
    if (this.#compact && slot) this.#writeCompact({ ...this.#compact, slot: slotRow(slot) });
    else if (statements === 1 && !this.#compact && this.#isListed === this.#wasListed) this.#writeAll(changes);
    else
      this.#storage.transactionSync(() => {
        if (this.#compact) this.#makeTables(this.#compact);
        else if (this.#isListed !== this.#wasListed) this.#writeListed();
        this.#writeAll(changes);
      });
    this.#isStored = true;
  }

  #writeListed(): void {
    this.#sql.exec("UPDATE key SET is_listed = ?", Number(this.#isListed));
    this.#wasListed = this.#isListed;
  }

  #writeCompact(record: CompactRecord): void {
    this.#storage.kv.put(COMPACT, encodeCompact(record));
    this.#compact = record;
    this.#wasListed = record.isListed;
  }

  #makeTables({ limit, fence, lastActivity, isListed, slot }: CompactRecord): void {
    this.#sql.exec(SCHEMA);
    this.#sql.exec("INSERT OR REPLACE INTO key VALUES (1, ?, ?, ?, ?)", limit, fence, lastActivity, Number(isListed));
    this.#wasListed = isListed;
    if (slot) this.#writeSlot(slotFrom(slot));
    this.#storage.kv.delete(COMPACT);
    this.#compact = undefined;
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
    this.#isStored = false;
    this.#isListed = false;
    this.#wasListed = false;
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
