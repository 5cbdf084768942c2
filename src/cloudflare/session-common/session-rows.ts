/** Where the records of a session are stored. */
export interface SessionRows {
  get(name: string): unknown;
  put(name: string, value: unknown): void;
  delete(name: string): void;
  /** Keys that the session has used. */
  keys(): string[];
  hasKey(key: string): boolean;
  addKey(key: string): void;
  removeKey(key: string): void;
  /** Deletes everything the session has stored. */
  deleteAll(): Promise<void>;
}

/** A table that is created when it is first needed: an empty one costs rows too. */
class Table {
  readonly #sql: SqlStorage;
  readonly #name: string;
  readonly #definition: string;
  #isThere: boolean | undefined;

  constructor(sql: SqlStorage, name: string, definition: string) {
    this.#sql = sql;
    this.#name = name;
    this.#definition = definition;
  }

  get isThere(): boolean {
    this.#isThere ??= this.#sql.exec("SELECT 1 FROM sqlite_master WHERE name = ?", this.#name).toArray().length > 0;
    return this.#isThere;
  }

  create(): void {
    if (!this.isThere) this.#sql.exec(`CREATE TABLE ${this.#name} ${this.#definition}`);
    this.#isThere = true;
  }

  /** Everything in the object was deleted. */
  dropped(): void {
    this.#isThere = false;
  }
}

/** Whether anything was ever stored. Deleting from an empty database makes the platform write a new one (workerd 2026-11). */
function hasAnything(sql: SqlStorage): boolean {
  return sql.exec("SELECT 1 FROM sqlite_master LIMIT 1").toArray().length > 0;
}

/** The records of a session in an object of its own. */
export class OwnRows implements SessionRows {
  readonly #storage: DurableObjectStorage;
  readonly #keys: Table;

  constructor(storage: DurableObjectStorage) {
    this.#storage = storage;
    this.#keys = new Table(storage.sql, "keys", "(key TEXT PRIMARY KEY) WITHOUT ROWID");
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

  keys(): string[] {
    if (!this.#keys.isThere) return [];
    return this.#storage.sql
      .exec<{ key: string }>("SELECT key FROM keys")
      .toArray()
      .map(({ key }) => key);
  }

  hasKey(key: string): boolean {
    return this.#keys.isThere && this.#storage.sql.exec("SELECT 1 FROM keys WHERE key = ?", key).toArray().length > 0;
  }

  addKey(key: string): void {
    this.#keys.create();
    this.#storage.sql.exec("INSERT OR IGNORE INTO keys VALUES (?)", key);
  }

  removeKey(key: string): void {
    if (this.#keys.isThere) this.#storage.sql.exec("DELETE FROM keys WHERE key = ?", key);
  }

  async deleteAll(): Promise<void> {
    this.#keys.dropped();
    if (hasAnything(this.#storage.sql)) await this.#storage.deleteAll();
  }
}

/** The records of all sessions that share an object. */
export class SharedRows {
  readonly #storage: DurableObjectStorage;
  readonly #keys: Table;
  readonly #deletedWith: (session: string) => void;

  /** `deletedWith` is told when everything in the object was deleted, its alarm included, since this session was the last. */
  constructor(storage: DurableObjectStorage, deletedWith: (session: string) => void) {
    this.#storage = storage;
    this.#keys = new Table(
      storage.sql,
      "session_keys",
      "(session TEXT, key TEXT, PRIMARY KEY (session, key)) WITHOUT ROWID",
    );
    this.#deletedWith = deletedWith;
  }

  /** The sessions that have stored something. */
  sessions(): Set<string> {
    const names = Array.from(this.#storage.kv.list(), ([name]) => name.slice(0, name.indexOf("/")));
    const rows = this.#keys.isThere
      ? this.#storage.sql.exec<{ session: string }>("SELECT DISTINCT session FROM session_keys").toArray()
      : [];
    return new Set([...names, ...rows.map(({ session }) => session)]);
  }

  of(session: string): SessionRows {
    const { sql, kv } = this.#storage;
    const keys = this.#keys;
    const nameOf = (name: string) => `${session}/${name}`;
    return {
      get: (name) => kv.get(nameOf(name)),
      put: (name, value) => kv.put(nameOf(name), value),
      delete: (name) => void kv.delete(nameOf(name)),
      keys: () => {
        if (!keys.isThere) return [];
        const rows = sql.exec<{ key: string }>("SELECT key FROM session_keys WHERE session = ?", session).toArray();
        return rows.map(({ key }) => key);
      },
      hasKey: (key) =>
        keys.isThere &&
        sql.exec("SELECT 1 FROM session_keys WHERE session = ? AND key = ?", session, key).toArray().length > 0,
      addKey: (key) => {
        keys.create();
        sql.exec("INSERT OR IGNORE INTO session_keys VALUES (?, ?)", session, key);
      },
      removeKey: (key) => {
        if (keys.isThere) sql.exec("DELETE FROM session_keys WHERE session = ? AND key = ?", session, key);
      },
      deleteAll: () => this.#deleteAllOf(session),
    };
  }

  /** A file without rows is not enough: only one without tables is swept away. */
  async #deleteAllOf(session: string): Promise<void> {
    const { sql, kv } = this.#storage;
    if (!hasAnything(sql)) return;
    for (const [name] of [...kv.list({ prefix: `${session}/` })]) kv.delete(name);
    if (this.#keys.isThere) sql.exec("DELETE FROM session_keys WHERE session = ?", session);
    if (this.sessions().size > 0) return;
    this.#keys.dropped();
    const deleted = this.#storage.deleteAll();
    this.#deletedWith(session);
    await deleted;
  }
}
