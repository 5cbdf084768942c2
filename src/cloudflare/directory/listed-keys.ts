import type { Fence, KeyView } from "../../core/engine/index.ts";
import { log } from "../../log.ts";
import type { Env } from "../env.ts";
import { inBatches } from "../pacing/batches.ts";
import { Turns } from "../pacing/turns.ts";
import { keyObject } from "../placement.ts";
import { KeySample } from "./key-sample.ts";

export interface ListedKey extends KeyView {
  readonly key: string;
}

/** The current state of keys, and the keys that did not answer. */
export interface DescribedKeys {
  readonly keys: ListedKey[];
  readonly unreachable: string[];
}

/** One founding of a key. */
export interface Founding {
  /** By the key's clock. The same value in the key's rows and in the list identifies the founding. */
  readonly foundedAt: number | undefined;
  /** The key's rows show that it has granted something. */
  readonly hasGranted: boolean;
  /** Set if the key has stored its first grant, which is announced only once the key is listed. */
  readonly firstFence?: Fence | undefined;
}

/** The first `limit` keys that begin with `prefix` and sort after `after`, in the order of their UTF-8 bytes. */
export interface Range {
  readonly prefix: string;
  readonly after: string;
  readonly limit: number;
}

const SCHEMA = `
  CREATE TABLE IF NOT EXISTS keys (key TEXT PRIMARY KEY, listed_at INTEGER NOT NULL) WITHOUT ROWID;
`;

/** Keys that the whole shard asks concurrently: a long listing must not starve other work on the machine. */
const MAX_ASKED_AT_ONCE = 4;
/** No key of at most 256 bytes sorts after this one. */
const LAST_KEY = "\u{10ffff}".repeat(64);

/** The keys that a shard of the directory lists. */
export class ListedKeys {
  readonly #env: Env;
  readonly #sql: SqlStorage;
  /** Undefined until a count or a sample is asked for. */
  #sample: KeySample | undefined;
  readonly #turns = new Turns({ width: MAX_ASKED_AT_ONCE, perPause: MAX_ASKED_AT_ONCE });

  constructor(env: Env, sql: SqlStorage) {
    this.#env = env;
    this.#sql = sql;
    sql.exec(SCHEMA);
  }

  add(key: string, listedAt: number): void {
    if (this.listedAt(key) === listedAt) return;
    if (this.#sample && !this.has(key)) this.#sample.add(key);
    this.#sql.exec("INSERT OR REPLACE INTO keys VALUES (?, ?)", key, listedAt);
  }

  remove(key: string): void {
    const { rowsWritten } = this.#sql.exec("DELETE FROM keys WHERE key = ?", key);
    if (rowsWritten > 0) this.#sample?.remove(key);
  }

  /** Removes the key if it is still listed by this founding. */
  removeEntry(key: string, listedAt: number): boolean {
    const { rowsWritten } = this.#sql.exec("DELETE FROM keys WHERE key = ? AND listed_at = ?", key, listedAt);
    if (rowsWritten > 0) this.#sample?.remove(key);
    return rowsWritten > 0;
  }

  /** All keys, and when they were listed. */
  *entries(): Iterable<readonly [key: string, listedAt: number]> {
    for (const { key, at } of this.#sql.exec<{ key: string; at: number }>("SELECT key, listed_at AS at FROM keys"))
      yield [key, at];
  }

  has(key: string): boolean {
    return this.listedAt(key) !== undefined;
  }

  listedAt(key: string): number | undefined {
    return this.#sql.exec<{ at: number }>("SELECT listed_at AS at FROM keys WHERE key = ?", key).toArray()[0]?.at;
  }

  /**
   * Whether the key is listed by a founding other than this one. If it has granted nothing since, it existed before and
   * has lost its rows.
   */
  hasAnother(key: string, { foundedAt, hasGranted }: Founding): boolean {
    const listedAt = this.listedAt(key);
    return !hasGranted && listedAt !== undefined && listedAt !== foundedAt;
  }

  get isEmpty(): boolean {
    return this.#sql.exec("SELECT 1 FROM keys LIMIT 1").toArray().length === 0;
  }

  count(): number {
    return this.#counted.count;
  }

  /** At most `max` keys, drawn at random. */
  sample(max: number): string[] {
    return this.#counted.sample(max);
  }

  /** Reads the table only if it has not been counted since the shard woke. */
  get #counted(): KeySample {
    if (!this.#sample || this.#sample.isWornOut) this.#sample = new KeySample(this.#names());
    return this.#sample;
  }

  *#names(): Generator<string> {
    for (const { key } of this.#sql.exec<{ key: string }>("SELECT key FROM keys")) yield key;
  }

  /** Uses only comparisons, because SQLite's text functions and patterns stop at U+0000, which a key may contain. */
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

  async describe(keys: readonly string[], { detail }: { readonly detail: boolean }): Promise<DescribedKeys> {
    const described: DescribedKeys = { keys: [], unreachable: [] };
    await inBatches(keys, MAX_ASKED_AT_ONCE, async (key) => {
      try {
        const view = await this.#turns.run<KeyView | null>(() =>
          keyObject(this.#env, key).describe({ detail, listedAt: this.listedAt(key) }),
        );
        // Without `detail`, return only the first holder to keep pages small.
        if (view) described.keys.push({ ...view, key, holders: detail ? view.holders : view.holders.slice(0, 1) });
      } catch (error) {
        logUnreachable(key, error);
        described.unreachable.push(key);
      }
    });
    return described;
  }
}

function logUnreachable(key: string, error: unknown): void {
  log("warn", "key_unreachable", { key, error: String(error) });
}
