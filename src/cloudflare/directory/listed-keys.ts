import { type Fence, fenceFromHex, fenceToHex, type KeyView } from "../../core/engine/index.ts";
import { log } from "../../log.ts";
import type { Env } from "../env.ts";
import type { KeyState } from "../key/key-object.ts";
import { inBatches } from "../pacing/batches.ts";
import { Turns } from "../pacing/turns.ts";
import { within } from "../pacing/within.ts";
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

/** How long a search for keys that give up their entries may go on. */
interface RoomLimits {
  readonly max: number;
  readonly enough: number;
  /** After this time no further key is asked. */
  readonly withinMs: number;
}

const SCHEMA = `
  CREATE TABLE IF NOT EXISTS keys (key TEXT PRIMARY KEY, fence TEXT NOT NULL) WITHOUT ROWID;
`;

/** Keys that the whole shard asks concurrently: a long listing must not starve other work on the machine. */
const MAX_ASKED_AT_ONCE = 4;
/** A key that does not answer in this time counts as unreachable. */
const ANSWERS_WITHIN_MS = 5_000;
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

  /**
   * Lists a key that relies on its entry from now on. What was seen of the key before may not remove it, even if the fence is
   * no newer: a request whose answer was lost may have made the entry, and the clock may have been set back since.
   */
  admit(key: string, fence: Fence): void {
    const known = this.#fenceOf(key);
    const seen = known === undefined ? 0n : fenceFromHex(known);
    this.add(key, fence > seen ? fence : seen + 1n);
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
      const state = await this.#ask(key, detail);
      if (state === undefined) described.unreachable.push(key);
      if (state?.status !== "used") return;
      const { view } = state;
      // Without `detail`, return only the first holder to keep pages small.
      described.keys.push({ ...view, key, holders: detail ? view.holders : view.holders.slice(0, 1) });
    });
    return described;
  }

  /**
   * Asks at most `max` keys, others each time, until `enough` of them have given up their entries or the time is over.
   * Returns how many.
   */
  async makeRoom({
    max,
    enough,
    withinMs,
  }: RoomLimits): Promise<{ readonly freed: number; readonly isRound: boolean }> {
    const begunAt = Date.now();
    const before = this.count();
    const keys = this.inRange({ prefix: "", after: this.#askedForRoom, limit: max });
    let freed = 0;
    let last = "";
    await inBatches(keys, MAX_ASKED_AT_ONCE, async (key) => {
      if (freed >= enough || Date.now() - begunAt >= withinMs) return;
      last = key;
      await this.#ask(key, false);
      freed = before - this.count();
    });
    const isRound = keys.length < max && last === (keys.at(-1) ?? "");
    this.#askedForRoom = isRound ? "" : last;
    return { freed, isRound };
  }

  /** Asks a key. The entry of one that is not in use goes. Undefined if the key does not answer. */
  async #ask(key: string, detail: boolean): Promise<KeyState | undefined> {
    const known = this.#fenceOf(key);
    try {
      const state = await this.#turns.run(() =>
        within(ANSWERS_WITHIN_MS, keyObject(this.#env, key).state({ detail }) as Promise<KeyState>),
      );
      if (!state) throw new Error(`no answer within ${ANSWERS_WITHIN_MS} ms`);
      if (state.status === "idle") this.remove(key, state.fence);
      // Its entry may be newer by now.
      if (state.status === "absent" && known !== undefined) this.remove(key, fenceFromHex(known));
      return state;
    } catch (error) {
      logUnreachable(key, error);
      return undefined;
    }
  }
}

function logUnreachable(key: string, error: unknown): void {
  log("warn", "key_unreachable", { key, error: String(error) });
}
