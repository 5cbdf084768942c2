import type { KeyView } from "../engine/index.ts";
import { log } from "../log.ts";
import { inBatches } from "./batches.ts";
import type { Env } from "./env.ts";

export interface ListedKey extends KeyView {
  readonly key: string;
}

/** The first `limit` keys that begin with `prefix` and come after `after`, in the order of their UTF-8 bytes. */
export interface Range {
  readonly prefix: string;
  readonly after: string;
  readonly limit: number;
}

const SCHEMA = `
  CREATE TABLE IF NOT EXISTS keys (key TEXT PRIMARY KEY, listed_at INTEGER NOT NULL) WITHOUT ROWID;
`;

/** A key that was listed but never founded (its object died in between) is struck off after this time. */
const FOUNDING_TAKES_AT_MOST_MS = 10_000;
const ASKED_AT_ONCE = 64;
/** No key of at most 256 bytes comes after this one. */
const LAST_KEY = "\u{10ffff}".repeat(64);

/** The keys that a shard of the directory lists. */
export class ListedKeys {
  readonly #env: Env;
  readonly #sql: SqlStorage;
  /** Keys known to exist. */
  readonly #founded = new Set<string>();

  constructor(env: Env, sql: SqlStorage) {
    this.#env = env;
    this.#sql = sql;
    sql.exec(SCHEMA);
  }

  add(key: string): void {
    this.#sql.exec("INSERT OR REPLACE INTO keys VALUES (?, ?)", key, Date.now());
  }

  remove(key: string): void {
    this.#sql.exec("DELETE FROM keys WHERE key = ?", key);
    this.#founded.delete(key);
  }

  has(key: string): boolean {
    return this.#sql.exec("SELECT 1 FROM keys WHERE key = ?", key).toArray().length > 0;
  }

  count(): number {
    return this.#sql.exec<{ n: number }>("SELECT count(*) AS n FROM keys").one().n;
  }

  /** Only comparisons, because SQLite's text functions and patterns stop at U+0000, which a key may contain. */
  inRange({ prefix, after, limit }: Range): string[] {
    return this.#sql
      .exec<{ key: string }>(
        "SELECT key FROM keys WHERE key > ? AND key >= ? AND key <= ? ORDER BY key LIMIT ?",
        after,
        prefix,
        prefix + LAST_KEY,
        limit,
      )
      .toArray()
      .map(({ key }) => key);
  }

  async describe(keys: readonly string[], { detail }: { readonly detail: boolean }): Promise<ListedKey[]> {
    const views = await inBatches(keys, ASKED_AT_ONCE, (key) =>
      this.#env.KEY.getByName(key).describe({ detail }).catch(unreachable(null)),
    );
    return keys.flatMap((key, index) => {
      const view = views[index];
      if (!view) return [];
      // A page of keys may have a hundred holders each: who does not ask for them is spared the freight.
      return [{ ...view, key, holders: detail ? view.holders : view.holders.slice(0, 1) }];
    });
  }

  /** Strikes off keys whose objects know nothing of them. */
  async strikeUnfounded(): Promise<void> {
    const before = Date.now() - FOUNDING_TAKES_AT_MOST_MS;
    const doubtful = this.#sql
      .exec<{ key: string }>("SELECT key FROM keys WHERE listed_at < ?", before)
      .toArray()
      .map(({ key }) => key)
      .filter((key) => !this.#founded.has(key));
    await inBatches(doubtful, ASKED_AT_ONCE, async (key) => {
      const isFounded = await this.#env.KEY.getByName(key).exists().catch(unreachable(true));
      if (isFounded) this.#founded.add(key);
      else this.#sql.exec("DELETE FROM keys WHERE key = ? AND listed_at < ?", key, before);
    });
  }
}

/** Takes `assumed` for the answer of a key that could not be reached. */
function unreachable<Assumed>(assumed: Assumed): (error: unknown) => Assumed {
  return (error) => {
    log("warn", "key_unreachable", { error: String(error) });
    return assumed;
  };
}
