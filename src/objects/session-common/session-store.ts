import type { RecordName, SessionRecords } from "../../session/effects.ts";

/**
 * What a session keeps in storage: the keys it has used, so that nothing stays behind on them when its client leaves,
 * a few values, and state too large for its socket. Nothing is stored, not even a table, until there is something to
 * keep.
 */
const KEYS = "CREATE TABLE IF NOT EXISTS keys (key TEXT PRIMARY KEY) WITHOUT ROWID";
const SPILL = "state";

/** Keeps a few keys where they cost nothing and outlive a sleep, as the attachment of a socket does. */
export interface KeyShelf {
  /** False if they do not fit: then what was kept before stays. */
  keep(keys: ReadonlySet<string>): boolean;
}

/** Keys that a shelf holds, in UTF-16 units of their names and a little for each. */
const MAX_SHELVED = 4_096;
const PER_KEY = 8;

export class SessionStore implements SessionRecords {
  readonly #storage: DurableObjectStorage;
  #hasTable: boolean | undefined;
  /** The session has ended: nothing may be stored any longer. */
  #isDeleted = false;
  /** Set while the session has a socket and ends with it. */
  #shelf: KeyShelf | undefined;
  #shelved = new Set<string>();

  constructor(storage: DurableObjectStorage) {
    this.#storage = storage;
  }

  /**
   * From now on keys are kept on the shelf, as far as they fit: if the object is lost together with its socket, nobody
   * needs them. `shelved` are those on it already.
   */
  useShelf(shelf: KeyShelf | undefined, shelved: Iterable<string> = []): void {
    if (this.#isDeleted || !this.#mayShelve) return;
    this.#shelf = shelf;
    for (const key of shelved) this.#shelved.add(key);
  }

  /** Stores a key. The first time costs one row, or nothing if it fits on the shelf; later times nothing. */
  storeKey(key: string): void {
    if (this.#isDeleted || this.#shelved.has(key) || this.#shelve(key)) return;
    this.#writeKey(key);
  }

  hasKey(key: string): boolean {
    if (this.#shelved.has(key)) return true;
    if (!this.#tableExists) return false;
    return this.#storage.sql.exec("SELECT 1 FROM keys WHERE key = ?", key).toArray().length > 0;
  }

  keys(): string[] {
    if (!this.#tableExists) return [...this.#shelved];
    const stored = this.#storage.sql.exec<{ key: string }>("SELECT key FROM keys").toArray();
    return [...new Set([...this.#shelved, ...stored.map(({ key }) => key)])];
  }

  forget(keys: readonly string[]): void {
    if (this.#isDeleted) return;
    let isShelfChanged = false;
    for (const key of keys) {
      if (this.#shelved.delete(key)) isShelfChanged = true;
      else if (this.#tableExists) this.#storage.sql.exec("DELETE FROM keys WHERE key = ?", key);
    }
    if (isShelfChanged) this.#shelf?.keep(this.#shelved);
  }

  get(name: RecordName): unknown {
    return this.#storage.kv.get(name);
  }

  put(name: RecordName, value: unknown): void {
    if (this.#isDeleted) return;
    // From here on the keys are needed without the socket.
    if (name === "resumption" || name === "ending") this.#unshelve();
    this.#storage.kv.put(name, value);
  }

  spill(state: unknown): void {
    this.#storage.kv.put(SPILL, state);
  }

  unspill(): void {
    this.#storage.kv.delete(SPILL);
  }

  spilled(): unknown {
    return this.#storage.kv.get(SPILL);
  }

  async deleteAll(): Promise<void> {
    this.#isDeleted = true;
    this.#hasTable = false;
    this.#shelf = undefined;
    this.#shelved.clear();
    // Deleting from an empty database makes the platform write a new one (workerd 2026-11), which is most of the cost
    // of a connection that only asks something.
    if (this.#hasAnything()) await this.#storage.deleteAll();
  }

  get #mayShelve(): boolean {
    return this.get("resumption") === undefined && this.get("ending") === undefined;
  }

  #shelve(key: string): boolean {
    if (!this.#shelf) return false;
    let size = 0;
    for (const each of this.#shelved) size += each.length + PER_KEY;
    if (size + key.length + PER_KEY > MAX_SHELVED) return false;
    this.#shelved.add(key);
    if (this.#shelf.keep(this.#shelved)) return true;
    this.#shelved.delete(key);
    return false;
  }

  #unshelve(): void {
    for (const key of this.#shelved) this.#writeKey(key);
    this.#shelved.clear();
    this.#shelf?.keep(this.#shelved);
    this.#shelf = undefined;
  }

  #writeKey(key: string): void {
    if (!this.#tableExists) this.#storage.sql.exec(KEYS);
    this.#hasTable = true;
    this.#storage.sql.exec("INSERT OR IGNORE INTO keys VALUES (?)", key);
  }

  get #tableExists(): boolean {
    this.#hasTable ??= this.#storage.sql.exec("SELECT 1 FROM sqlite_master WHERE name = 'keys'").toArray().length > 0;
    return this.#hasTable;
  }

  #hasAnything(): boolean {
    return this.#storage.sql.exec("SELECT 1 FROM sqlite_master LIMIT 1").toArray().length > 0;
  }
}
