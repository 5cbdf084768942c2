import type { KeyMemory } from "./holdings.ts";

/**
 * What a session keeps in storage: the keys it has used, so that nothing stays behind on them when its client leaves,
 * and state too large for its socket. Nothing is stored, not even a table, until there is something to keep.
 */
const KEYS = "CREATE TABLE IF NOT EXISTS keys (key TEXT PRIMARY KEY) WITHOUT ROWID";
const SPILL = "state";
const ENDING = "ending";

export class SessionStore implements KeyMemory {
  readonly #storage: DurableObjectStorage;
  /** Keys known to be stored, and whether they were new then. */
  readonly #touched = new Map<string, boolean>();
  #hasTable = false;
  /** The session has ended: nothing may be stored any longer. */
  #isDeleted = false;

  constructor(storage: DurableObjectStorage) {
    this.#storage = storage;
  }

  /** Stores a key; the first time costs one row, later times nothing. */
  touch(key: string): boolean {
    const known = this.#touched.get(key);
    if (known !== undefined || this.#isDeleted) return known ?? true;
    if (!this.#hasTable) {
      this.#storage.sql.exec(KEYS);
      this.#hasTable = true;
    }
    const isNew = this.#storage.sql.exec("INSERT OR IGNORE INTO keys VALUES (?)", key).rowsWritten > 0;
    this.#touched.set(key, isNew);
    return isNew;
  }

  keys(): string[] {
    const hasTable = this.#storage.sql.exec("SELECT 1 FROM sqlite_master WHERE name = 'keys'").toArray().length > 0;
    if (!hasTable) return [];
    return this.#storage.sql
      .exec<{ key: string }>("SELECT key FROM keys")
      .toArray()
      .map(({ key }) => key);
  }

  forget(keys: readonly string[]): void {
    if (this.#isDeleted) return;
    for (const key of keys) {
      this.#storage.sql.exec("DELETE FROM keys WHERE key = ?", key);
      this.#touched.delete(key);
    }
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

  /** Records that the client has left before all keys know. Without this mark, a lost socket counts as our fault. */
  noteEnding(): void {
    this.#storage.kv.put(ENDING, true);
  }

  isEnding(): boolean {
    return this.#storage.kv.get(ENDING) === true;
  }

  async deleteAll(): Promise<void> {
    this.#touched.clear();
    this.#isDeleted = true;
    // Deleting from an empty database makes the platform write a new one (workerd 2026-11), which is most of the cost
    // of a connection that only asks something.
    if (this.#hasAnything()) await this.#storage.deleteAll();
  }

  #hasAnything(): boolean {
    return this.#storage.sql.exec("SELECT 1 FROM sqlite_master LIMIT 1").toArray().length > 0;
  }
}
