/** Where the records of a session are stored. */
export class SessionRows {
  readonly #storage: DurableObjectStorage;
  /** Undefined until it is known. */
  #hasTable: boolean | undefined;

  constructor(storage: DurableObjectStorage) {
    this.#storage = storage;
  }

  get(name: string): unknown {
    return this.#storage.kv.get(name);
  }

  put(name: string, value: unknown): void {
    this.#storage.kv.put(name, value);
  }

  delete(name: string): void {
    this.#storage.kv.delete(name);
  }

  /** Keys that the session has used. */
  keys(): string[] {
    if (!this.#isTableThere) return [];
    return this.#storage.sql
      .exec<{ key: string }>("SELECT key FROM keys")
      .toArray()
      .map(({ key }) => key);
  }

  hasKey(key: string): boolean {
    return this.#isTableThere && this.#storage.sql.exec("SELECT 1 FROM keys WHERE key = ?", key).toArray().length > 0;
  }

  addKey(key: string): void {
    // Created when it is first needed: an empty table costs rows too.
    if (!this.#isTableThere) this.#storage.sql.exec("CREATE TABLE keys (key TEXT PRIMARY KEY) WITHOUT ROWID");
    this.#hasTable = true;
    this.#storage.sql.exec("INSERT OR IGNORE INTO keys VALUES (?)", key);
  }

  removeKey(key: string): void {
    if (this.#isTableThere) this.#storage.sql.exec("DELETE FROM keys WHERE key = ?", key);
  }

  /** Deletes everything the session has stored. */
  async deleteAll(): Promise<void> {
    this.#hasTable = false;
    // Deleting from an empty database makes the platform write a new one (workerd 2026-11).
    if (this.#exists("SELECT 1 FROM sqlite_master LIMIT 1")) await this.#storage.deleteAll();
  }

  get #isTableThere(): boolean {
    this.#hasTable ??= this.#exists("SELECT 1 FROM sqlite_master WHERE name = 'keys'");
    return this.#hasTable;
  }

  #exists(query: string): boolean {
    return this.#storage.sql.exec(query).toArray().length > 0;
  }
}
