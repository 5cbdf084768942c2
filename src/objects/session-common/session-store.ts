import type { RecordName, SessionRecords } from "../../session/effects.ts";

/**
 * What a session keeps in storage: the keys it has used, so that nothing stays behind on them when its client leaves,
 * a few values, and state too large for its socket. Nothing is stored, not even a table, until there is something to
 * keep.
 */
const KEYS = "CREATE TABLE IF NOT EXISTS keys (key TEXT PRIMARY KEY) WITHOUT ROWID";
const SPILL = "state";

export class SessionStore implements SessionRecords {
  readonly #storage: DurableObjectStorage;
  #hasTable: boolean | undefined;
  /** The session has ended: nothing may be stored any longer. */
  #isDeleted = false;

  constructor(storage: DurableObjectStorage) {
    this.#storage = storage;
  }

  /** Stores a key; the first time costs one row, later times nothing. */
  storeKey(key: string): void {
    if (this.#isDeleted) return;
    if (!this.#tableExists) this.#storage.sql.exec(KEYS);
    this.#hasTable = true;
    this.#storage.sql.exec("INSERT OR IGNORE INTO keys VALUES (?)", key);
  }

  hasKey(key: string): boolean {
    if (!this.#tableExists) return false;
    return this.#storage.sql.exec("SELECT 1 FROM keys WHERE key = ?", key).toArray().length > 0;
  }

  keys(): string[] {
    if (!this.#tableExists) return [];
    return this.#storage.sql
      .exec<{ key: string }>("SELECT key FROM keys")
      .toArray()
      .map(({ key }) => key);
  }

  forget(keys: readonly string[]): void {
    if (this.#isDeleted) return;
    for (const key of keys) this.#storage.sql.exec("DELETE FROM keys WHERE key = ?", key);
  }

  get(name: RecordName): unknown {
    return this.#storage.kv.get(name);
  }

  put(name: RecordName, value: unknown): void {
    if (!this.#isDeleted) this.#storage.kv.put(name, value);
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
    // Deleting from an empty database makes the platform write a new one (workerd 2026-11), which is most of the cost
    // of a connection that only asks something.
    if (this.#hasAnything()) await this.#storage.deleteAll();
  }

  get #tableExists(): boolean {
    this.#hasTable ??= this.#storage.sql.exec("SELECT 1 FROM sqlite_master WHERE name = 'keys'").toArray().length > 0;
    return this.#hasTable;
  }

  #hasAnything(): boolean {
    return this.#storage.sql.exec("SELECT 1 FROM sqlite_master LIMIT 1").toArray().length > 0;
  }
}
