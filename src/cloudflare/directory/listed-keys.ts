import { type Fence, fenceFromHex, fenceToHex, type KeyView } from "../../core/engine/index.ts";
import { log } from "../../log.ts";
import type { Env } from "../env.ts";
import type { KeyObject, Unused, Yielded } from "../key/key-object.ts";
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

/** The first `limit` keys that begin with `prefix` and sort after `after`, in the order of their UTF-8 bytes. */
export interface Range {
  readonly prefix: string;
  readonly after: string;
  readonly limit: number;
}

const SCHEMA = `
  CREATE TABLE IF NOT EXISTS keys (key TEXT PRIMARY KEY, fence TEXT NOT NULL) WITHOUT ROWID;
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
  /** The last key that was asked for its place. */
  #askedForRoom = "";
  readonly #turns = new Turns({ width: MAX_ASKED_AT_ONCE, perPause: MAX_ASKED_AT_ONCE });

  constructor(env: Env, sql: SqlStorage) {
    this.#env = env;
    this.#sql = sql;
    sql.exec(SCHEMA);
  }

  /** Lists a key. A message that is older than what is known of the key changes nothing. */
  add(key: string, fence: Fence): void {
    const [hex, known] = [fenceToHex(fence), this.#fenceOf(key)];
    if (known !== undefined && known >= hex) return;
    if (known === undefined) this.#sample?.add(key);
    this.#sql.exec("INSERT OR REPLACE INTO keys VALUES (?, ?)", key, hex);
  }

  /** Removes a key, unless it has been listed by a later message. */
  remove(key: string, fence: Fence): void {
    const { rowsWritten } = this.#sql.exec("DELETE FROM keys WHERE key = ? AND fence <= ?", key, fenceToHex(fence));
    if (rowsWritten > 0) this.#sample?.remove(key);
  }

  has(key: string): boolean {
    return this.#fenceOf(key) !== undefined;
  }

  #fenceOf(key: string): string | undefined {
    return this.#sql.exec<{ fence: string }>("SELECT fence FROM keys WHERE key = ?", key).toArray()[0]?.fence;
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
      const state = await this.#ask(key, (object) => object.state({ detail }) as Promise<KeyView | Unused>);
      if (state === undefined) described.unreachable.push(key);
      // Without `detail`, return only the first holder to keep pages small.
      else if (typeof state === "object")
        described.keys.push({ ...state, key, holders: detail ? state.holders : state.holders.slice(0, 1) });
    });
    return described;
  }

  /** Has keys give up their places if they are idle; at most `max` of them, others each time. */
  async makeRoom(max: number): Promise<void> {
    const keys = this.inRange({ prefix: "", after: this.#askedForRoom, limit: max });
    this.#askedForRoom = keys.length === max ? (keys.at(-1) ?? "") : "";
    await inBatches(keys, MAX_ASKED_AT_ONCE, async (key) => {
      const yielded = await this.#ask(key, (object) => object.yieldPlace() as Promise<Yielded>);
      if (yielded?.status === "idle") this.remove(key, yielded.fence);
    });
  }

  /** Asks a key, and drops its entry if it knows nothing of it. Undefined if the key does not answer. */
  async #ask<Answer extends object | string>(
    key: string,
    ask: (object: DurableObjectStub<KeyObject>) => Promise<Answer>,
  ): Promise<Answer | undefined> {
    const fence = this.#fenceOf(key);
    try {
      const answer = await this.#turns.run(() => ask(keyObject(this.#env, key)));
      const isAbsent = answer === "absent" || (typeof answer === "object" && isStatus(answer, "absent"));
      if (isAbsent && fence !== undefined) this.remove(key, fenceFromHex(fence));
      return answer;
    } catch (error) {
      logUnreachable(key, error);
      return undefined;
    }
  }
}

const isStatus = (answer: object, status: string) => "status" in answer && answer.status === status;

function logUnreachable(key: string, error: unknown): void {
  log("warn", "key_unreachable", { key, error: String(error) });
}
