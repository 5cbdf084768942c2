import { rmSync, statSync } from "node:fs";
import { DatabaseSync, type StatementSync } from "node:sqlite";
import type { StoredKey } from "../../core/engine/index.ts";
import { storedKeyFrom } from "../../core/key/row-codec.ts";
import { DiskRoom } from "./disk-room.ts";
import { decodeHead, decodeSlot, decodeWaiter } from "./encoding.ts";
import { CopyReader, makeCopyFile, removeUnfinishedCopies } from "./snapshot.ts";
import type { Contents, Rows, SnapshotOutcome, Store, StoredRecords } from "./store.ts";

/** "HOLD": says that the file is ours. */
const APPLICATION_ID = 0x484f4c44;
const LAYOUT_VERSION = 2;

/**
 * No secondary index: names are looked up in memory. A lock is one row under an integer id; further slots and waiters
 * have rows of their own, so that no change rewrites a long queue.
 */
const SCHEMA = `
  CREATE TABLE keys (id INTEGER PRIMARY KEY, name TEXT NOT NULL, head TEXT NOT NULL);
  CREATE TABLE slots (key INTEGER, slot INTEGER, data TEXT NOT NULL, PRIMARY KEY (key, slot)) WITHOUT ROWID;
  CREATE TABLE waiters (key INTEGER, place INTEGER, data TEXT NOT NULL, PRIMARY KEY (key, place)) WITHOUT ROWID;
  CREATE TABLE lapsed (key INTEGER, session TEXT, at INTEGER NOT NULL, PRIMARY KEY (key, session)) WITHOUT ROWID;
  CREATE TABLE sessions (id INTEGER PRIMARY KEY, name TEXT NOT NULL, data TEXT NOT NULL);
  CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
  PRAGMA application_id = ${APPLICATION_ID};
  PRAGMA user_version = ${LAYOUT_VERSION};
`;

/** Pages of the database kept in memory, in KiB. */
const CACHE_KIB = 8_192;
/** SQLite's primary result codes, in the low byte of an extended one. */
const BUSY = 5;
const NOT_A_DATABASE = 26;
const CORRUPT = 11;
const FULL = 13;
/** SQLite starts the log over once it has 1,000 pages, and the commit that is under way then may be long. */
const LOG_PAGES = 1_500;
const LOG_BYTES = LOG_PAGES * 4_096;
const MEMORY = ":memory:";

export interface StoreOptions {
  /** For tests: the disk is full when the database has so many pages. */
  readonly maxPages?: number;
}

/** The file cannot be opened as a store. `why` completes the sentence "the file …". */
export class UnusableStoreError extends Error {
  override readonly name = "UnusableStoreError";
  readonly isInUse: boolean;

  constructor(why: string, { isInUse = false }: { readonly isInUse?: boolean } = {}) {
    super(why);
    this.isInUse = isInUse;
  }
}

interface Part {
  readonly key: number;
  readonly data: string;
}

interface Lapse {
  readonly key: number;
  readonly session: string;
  readonly at: number;
}

interface DatabaseFile {
  readonly path: string;
  readonly log: string;
  readonly room: DiskRoom;
}

/** One SQLite file, locked for this process from the first statement on. */
export class SqliteStore implements Store {
  readonly isVolatile = false;
  readonly #database: DatabaseSync;
  readonly #room: DiskRoom | undefined;
  readonly #begin: StatementSync;
  readonly #commit: StatementSync;
  readonly #rollback: StatementSync;
  readonly #path: string | undefined;
  readonly #logPath: string | undefined;
  readonly #rows: Rows;
  readonly #read: Reading;
  /** The copy that is being read. */
  #copy: CopyReader | undefined;

  /** Throws an `UnusableStoreError` if another process has the file, or if it is not a store of this version. */
  static open(path: string, { maxPages }: StoreOptions = {}): SqliteStore {
    const database = new DatabaseSync(path);
    try {
      configure(database);
      const file = path === MEMORY ? undefined : { path, log: `${path}-wal`, room: new DiskRoom(path, LOG_BYTES) };
      if (file) {
        removeUnfinishedCopies(path);
        growLog(database, file.log);
      }
      if (maxPages !== undefined) database.exec(`PRAGMA max_page_count = ${maxPages}`);
      return new SqliteStore(database, file);
    } catch (error) {
      database.close();
      throw explained(error);
    }
  }

  private constructor(database: DatabaseSync, file: DatabaseFile | undefined) {
    this.#database = database;
    this.#room = file?.room;
    this.#path = file?.path;
    this.#logPath = file?.log;
    this.#begin = database.prepare("BEGIN IMMEDIATE");
    this.#commit = database.prepare("COMMIT");
    this.#rollback = database.prepare("ROLLBACK");
    this.#rows = rowsOf(database);
    this.#read = readingFrom(database);
  }

  load(): Contents {
    const all = (sql: string) => this.#database.prepare(sql).all();
    const slots = byKey(all("SELECT key, data FROM slots ORDER BY key, slot") as unknown as Part[]);
    const waiters = byKey(all("SELECT key, data FROM waiters ORDER BY key, place") as unknown as Part[]);
    const lapsed = byKey(all("SELECT key, session, at FROM lapsed ORDER BY key, at") as unknown as Lapse[]);
    const keys = all("SELECT id, name, head FROM keys") as unknown as { id: number; name: string; head: string }[];
    const sessions = all("SELECT id, name, data FROM sessions") as unknown as {
      id: number;
      name: string;
      data: string;
    }[];
    const values = all("SELECT name, value FROM meta") as unknown as { name: string; value: string }[];
    return {
      keys: keys.map(({ id, name, head }) => ({
        id,
        name,
        key: assembled(head, slots.get(id) ?? [], waiters.get(id) ?? [], lapsed.get(id) ?? []),
      })),
      sessions: sessions.map(({ id, name, data }) => ({ id, name, records: JSON.parse(data) as StoredRecords })),
      values: new Map(values.map(({ name, value }) => [name, value])),
    };
  }

  loadKey(id: number): StoredKey | undefined {
    this.#assertStored();
    const { key, slots, waiters, lapsed } = this.#read;
    const row = key.get(id) as { head: string } | undefined;
    if (!row) return undefined;
    return assembled(
      row.head,
      slots.all(id) as unknown as Part[],
      waiters.all(id) as unknown as Part[],
      lapsed.all(id) as unknown as Lapse[],
    );
  }

  loadSession(id: number): StoredRecords | undefined {
    this.#assertStored();
    const row = this.#read.session.get(id) as { data: string } | undefined;
    return row && (JSON.parse(row.data) as StoredRecords);
  }

  commit(write: (rows: Rows) => void): void {
    this.#begin.run();
    try {
      write(this.#rows);
      this.#commit.run();
    } catch (error) {
      // SQLite has rolled back by itself after some faults, a full disk among them.
      if (this.#database.isTransaction) this.#rollback.run();
      if (codeOf(error) === FULL) this.#room?.useReserve();
      throw error;
    }
  }

  hasRoom(): boolean {
    return this.#room?.isEnough() ?? true;
  }

  logBytes(): number | undefined {
    return this.#logPath === undefined ? undefined : statSync(this.#logPath, { throwIfNoEntry: false })?.size;
  }

  /**
   * Copies what is committed, through this connection: opening and closing the file anywhere else in the process would
   * drop the lock on it. Takes about 150 ms for 100,000 keys, in which nothing else happens.
   */
  snapshot(): SnapshotOutcome {
    if (this.#copy) return { status: "under_way" };
    if (!this.#path || !this.#room) throw new Error("there is no file to copy");
    this.#assertStored();
    const { page_count } = this.#database.prepare("PRAGMA page_count").get() as { page_count: number };
    const { page_size } = this.#database.prepare("PRAGMA page_size").get() as { page_size: number };
    if (!this.#room.isEnoughFor(page_count * page_size)) return { status: "no_room" };
    const path = makeCopyFile(this.#path, String(process.pid));
    try {
      this.#database.prepare("VACUUM INTO ?").run(path);
      this.#copy = new CopyReader(path, () => {
        this.#copy = undefined;
      });
      return this.#copy;
    } catch (error) {
      rmSync(path, { force: true });
      if (codeOf(error) === FULL) return { status: "no_room" };
      throw error;
    }
  }

  close(): void {
    this.#copy?.close();
    this.#database.close();
  }

  /** What a transaction that could not be rolled back has changed must not be taken for stored. */
  #assertStored(): void {
    if (this.#database.isTransaction) throw new Error("a failed transaction is still open");
  }
}

function configure(database: DatabaseSync): void {
  // In this order: a log opened after the file is locked needs no shared memory, and no other process can open the file.
  database.exec("PRAGMA locking_mode = EXCLUSIVE");
  const { application_id } = database.prepare("PRAGMA application_id").get() as { application_id: number };
  const { user_version } = database.prepare("PRAGMA user_version").get() as { user_version: number };
  const { tables } = database.prepare("SELECT count(*) AS tables FROM sqlite_master").get() as { tables: number };
  const isNew = tables === 0 && application_id === 0 && user_version === 0;
  if (!isNew && application_id !== APPLICATION_ID) throw new UnusableStoreError("is not a database of holdfast");
  if (!isNew && user_version !== LAYOUT_VERSION)
    throw new UnusableStoreError(`has layout ${user_version}, and this version reads only layout ${LAYOUT_VERSION}`);
  database.exec(`
    PRAGMA journal_mode = WAL;
    PRAGMA synchronous = FULL;
    PRAGMA fullfsync = ON;
    PRAGMA cache_size = -${CACHE_KIB};
    BEGIN IMMEDIATE;
  `);
  if (isNew) database.exec(SCHEMA);
  database.exec("COMMIT");
}

/**
 * Grows the log to its usual size, so that later commits find their room when the disk is full: releases and renewals
 * change pages that are there. The file keeps its size when the log starts over.
 */
function growLog(database: DatabaseSync, log: string): void {
  if ((statSync(log, { throwIfNoEntry: false })?.size ?? 0) < LOG_BYTES) {
    // What is written here need not be durable. The checkpoint has to be.
    database.exec("PRAGMA synchronous = OFF; PRAGMA wal_autocheckpoint = 0");
    const write = database.prepare("INSERT OR REPLACE INTO meta VALUES ('log', ?)");
    try {
      for (let page = 0; page < LOG_PAGES; page += 1) write.run(String(page));
    } catch (error) {
      // On a full disk everything can still be read.
      if (codeOf(error) !== FULL) throw error;
    }
    database.exec("PRAGMA synchronous = FULL; PRAGMA wal_autocheckpoint = 1000");
  }
  database.exec("PRAGMA wal_checkpoint(PASSIVE)");
}

function codeOf(error: unknown): number {
  return ((error as { readonly errcode?: number }).errcode ?? 0) & 0xff;
}

function explained(error: unknown): unknown {
  const code = codeOf(error);
  if (code === BUSY) return new UnusableStoreError("is in use by another server", { isInUse: true });
  if (code === NOT_A_DATABASE) return new UnusableStoreError("is not a database");
  if (code === CORRUPT) return new UnusableStoreError("is damaged");
  return error;
}

function rowsOf(database: DatabaseSync): Rows {
  const key = database.prepare("INSERT INTO keys VALUES (?, ?, ?) ON CONFLICT (id) DO UPDATE SET head = excluded.head");
  const slot = database.prepare("INSERT OR REPLACE INTO slots VALUES (?, ?, ?)");
  const waiter = database.prepare("INSERT OR REPLACE INTO waiters VALUES (?, ?, ?)");
  const withoutWaiter = database.prepare("DELETE FROM waiters WHERE key = ? AND place = ?");
  const lapse = database.prepare("INSERT OR REPLACE INTO lapsed VALUES (?, ?, ?)");
  const withoutLapse = database.prepare("DELETE FROM lapsed WHERE key = ? AND session = ?");
  const session = database.prepare(
    "INSERT INTO sessions VALUES (?, ?, ?) ON CONFLICT (id) DO UPDATE SET data = excluded.data",
  );
  const withoutSession = database.prepare("DELETE FROM sessions WHERE id = ?");
  const value = database.prepare("INSERT OR REPLACE INTO meta VALUES (?, ?)");
  const withoutKeys = database.prepare("DELETE FROM keys WHERE id BETWEEN ? AND ?");
  const withoutParts = [
    "DELETE FROM slots WHERE key = ?",
    "DELETE FROM waiters WHERE key = ?",
    "DELETE FROM lapsed WHERE key = ?",
  ].map((sql) => database.prepare(sql));
  return {
    putKey: (id, name, head) => void key.run(id, name, head),
    deleteKeys: (first, last) => void withoutKeys.run(first, last),
    deleteParts: (id) => {
      for (const statement of withoutParts) statement.run(id);
    },
    putSlot: (id, index, data) => void slot.run(id, index, data),
    putWaiter: (id, place, data) => void waiter.run(id, place, data),
    deleteWaiter: (id, place) => void withoutWaiter.run(id, place),
    putLapse: (id, name, at) => void lapse.run(id, name, at),
    deleteLapse: (id, name) => void withoutLapse.run(id, name),
    putSession: (id, name, data) => void session.run(id, name, data),
    deleteSession: (id) => void withoutSession.run(id),
    putValue: (name, text) => void value.run(name, text),
  };
}

/** Prepared once: a report reads thousands of keys, and preparing takes longer than reading. */
type Reading = Readonly<Record<"key" | "slots" | "waiters" | "lapsed" | "session", StatementSync>>;

function readingFrom(database: DatabaseSync): Reading {
  return {
    key: database.prepare("SELECT head FROM keys WHERE id = ?"),
    slots: database.prepare("SELECT key, data FROM slots WHERE key = ? ORDER BY slot"),
    waiters: database.prepare("SELECT key, data FROM waiters WHERE key = ? ORDER BY place"),
    lapsed: database.prepare("SELECT session, at FROM lapsed WHERE key = ? ORDER BY at"),
    session: database.prepare("SELECT data FROM sessions WHERE id = ?"),
  };
}

function assembled(
  head: string,
  slots: readonly Part[],
  waiters: readonly Part[],
  lapsed: readonly Lapse[],
): StoredKey {
  const { limit, fence, at, slot } = decodeHead(head);
  const others = slots.map(({ data }) => decodeSlot(data));
  return storedKeyFrom({
    limit,
    fence,
    lastActivity: at,
    slots: slot ? [slot, ...others] : others,
    waiters: waiters.map(({ data }) => decodeWaiter(data)),
    lapsed: lapsed.map(({ session, at: lapsedAt }) => [session, lapsedAt] as const),
  });
}

function byKey<Row extends { readonly key: number }>(rows: readonly Row[]): Map<number, Row[]> {
  const groups = new Map<number, Row[]>();
  for (const row of rows) {
    const group = groups.get(row.key);
    if (group) group.push(row);
    else groups.set(row.key, [row]);
  }
  return groups;
}
