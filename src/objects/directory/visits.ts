import { type Fence, fenceFromHex, fenceToHex } from "../../engine/index.ts";
import { log } from "../../log.ts";
import { askKey, type KeyStub } from "../calls/ask-key.ts";
import { configOf, type Env } from "../env.ts";
import type { Retirement } from "../key/key-life.ts";
import { inBatches } from "../pacing/batches.ts";
import type { ListedKeys } from "./listed-keys.ts";

/** Keys that were found in use, and when to look after them again. Of a key used once there is no row. */
const SCHEMA = "CREATE TABLE IF NOT EXISTS visits (key TEXT PRIMARY KEY, at INTEGER NOT NULL) WITHOUT ROWID";

/** The name of the record of keys that are being forgotten. */
const RETIRING = "retiring";
/** The name of the record that says that keys are visited. */
const BEGUN = "visits keys";
const ASKED_AT_ONCE = 4;
/** Keys visited by one alarm; the others follow at once. */
const MAX_VISITS = 256;
/** A key that cannot be reached, or has lost its rows, is not visited sooner. */
const TROUBLED_MS = 600_000;

/** The key and when it was listed. */
type Entry = readonly [key: string, listedAt: number];

interface StoredRetiring {
  /** Hexadecimal: no key that has been forgotten has granted a higher fence. */
  readonly mark: string;
  readonly keys: readonly Entry[];
}

/** The directory whose keys are visited. */
interface Owner {
  readonly env: Env;
  readonly storage: DurableObjectStorage;
  readonly keys: ListedKeys;
  /** The highest fence of forgotten keys, or this one if it is higher. */
  markAbove(fence: Fence): Fence;
}

/**
 * Prunes idle keys: one alarm of the directory instead of one of each key. A key is asked first whether it may be
 * forgotten. If so, it asks the directory again before it grants anything. Then the directory stores that it forgets
 * the key, together with its fence; then the key deletes its rows; then its entry goes. So a listed key without rows
 * has either lost them or is being forgotten, and what is stored here tells which. See ADR 21.
 */
export class KeyVisits {
  readonly #owner: Owner;
  readonly #gcMaxIdleMs: number;
  readonly #gcIntervalMs: number;
  /** When each key is visited next; undefined until it is needed. */
  #due: Map<string, number> | undefined;
  /** Keys that are being forgotten, and when they were listed. */
  readonly #retiring: Map<string, number>;
  readonly #storedMark: Fence;

  constructor(owner: Owner) {
    this.#owner = owner;
    const { gcMaxIdleMs, gcIntervalMs } = configOf(owner.env);
    this.#gcMaxIdleMs = gcMaxIdleMs;
    this.#gcIntervalMs = gcIntervalMs;
    const stored = owner.storage.kv.get<StoredRetiring>(RETIRING);
    this.#retiring = new Map(stored?.keys);
    this.#storedMark = stored ? fenceFromHex(stored.mark) : 0n;
  }

  /** When to begin with the keys that version 0.1.0 has listed; undefined if that was done, or there are none. */
  begin(now: number): number | undefined {
    const { keys, storage } = this.#owner;
    if (storage.kv.get(BEGUN) !== undefined) return undefined;
    storage.sql.exec(SCHEMA);
    storage.kv.put(BEGUN, true);
    return keys.isEmpty ? undefined : this.#inStep(now + this.#gcMaxIdleMs + 1);
  }

  /** The highest fence of forgotten keys that is stored here. */
  get storedMark(): Fence {
    return this.#storedMark;
  }

  /** The key may have deleted its rows, and has not granted anything since it was listed then. */
  isRetiring(key: string, listedAt: number): boolean {
    return this.#retiring.get(key) === listedAt;
  }

  /** When a key that has just been listed is visited. Visits are made together, once per interval. */
  listed(key: string, now: number): number {
    const at = this.#inStep(now + this.#gcMaxIdleMs + 1);
    this.#due?.set(key, at);
    return at;
  }

  /** When somebody has to be visited next; Infinity if no key is listed. */
  next(): number {
    let next = Number.POSITIVE_INFINITY;
    for (const at of this.#plan().values()) if (at < next) next = at;
    return next;
  }

  /** Visits the keys that are due, and forgets those that are idle. Returns how many it has forgotten. */
  async make(now: number): Promise<number> {
    const due: string[] = [];
    for (const [key, at] of this.#plan()) if (at <= now && due.length < MAX_VISITS) due.push(key);
    const retired: Entry[] = [];
    let highest = 0n;
    await inBatches(due, ASKED_AT_ONCE, async (key) => {
      const listedAt = this.#owner.keys.listedAt(key);
      if (listedAt === undefined) {
        this.#due?.delete(key);
        return;
      }
      const fence = await this.#retire(key, listedAt, now);
      if (fence === undefined) return;
      retired.push([key, listedAt]);
      if (fence > highest) highest = fence;
    });
    return retired.length > 0 ? this.#forget(retired, highest) : 0;
  }

  /** The last fence of the key if it may be forgotten. */
  async #retire(key: string, listedAt: number, now: number): Promise<Fence | undefined> {
    const answer = await this.#ask(key, (object) => object.retire(listedAt) as Promise<Retirement>);
    if (answer?.status === "retired") return answer.fence;
    // Its rows were deleted before its entry was: the entry is all that is left.
    if (answer?.status === "empty" && this.isRetiring(key, listedAt)) return 0n;
    this.#visitAgain(key, answer?.status === "kept" ? answer.until : now + TROUBLED_MS);
    return undefined;
  }

  async #forget(retired: readonly Entry[], highest: Fence): Promise<number> {
    const { keys } = this.#owner;
    for (const [key, listedAt] of this.#retiring) if (keys.listedAt(key) !== listedAt) this.#retiring.delete(key);
    for (const [key, listedAt] of retired) this.#retiring.set(key, listedAt);
    // Durable before any key is told to delete its rows.
    this.#storeRetiring(highest);
    const gone: Entry[] = [];
    let hasStayed = false;
    await inBatches(retired, ASKED_AT_ONCE, async ([key, listedAt]) => {
      const isForgotten = await this.#ask(key, (object) => object.forgetRetired());
      if (isForgotten) gone.push([key, listedAt]);
      else this.#visitAgain(key, Date.now() + this.#gcMaxIdleMs);
      // Without an answer it may have deleted its rows.
      if (isForgotten !== false || !this.isRetiring(key, listedAt)) return;
      this.#retiring.delete(key);
      hasStayed = true;
    });
    for (const [key, listedAt] of gone) if (keys.removeEntry(key, listedAt)) this.#forgetVisit(key);
    // A key that has stayed may grant something: from then on the loss of its rows must be noticed.
    if (hasStayed) this.#storeRetiring(highest);
    return gone.length;
  }

  #storeRetiring(fence: Fence): void {
    const mark = fenceToHex(this.#owner.markAbove(fence));
    this.#owner.storage.kv.put(RETIRING, { mark, keys: [...this.#retiring] } satisfies StoredRetiring);
  }

  async #ask<Answer>(key: string, ask: (object: KeyStub) => Promise<Answer>): Promise<Answer | undefined> {
    try {
      return await askKey(this.#owner.env, key, ask);
    } catch (error) {
      log("warn", "key_unreachable", { key, error: String(error) });
      return undefined;
    }
  }

  #visitAgain(key: string, at: number): void {
    const time = this.#inStep(at);
    this.#plan().set(key, time);
    this.#owner.storage.sql.exec(SCHEMA);
    this.#owner.storage.sql.exec("INSERT OR REPLACE INTO visits VALUES (?, ?)", key, time);
  }

  #forgetVisit(key: string): void {
    this.#due?.delete(key);
    if (this.#hasTable) this.#owner.storage.sql.exec("DELETE FROM visits WHERE key = ?", key);
  }

  #inStep(time: number): number {
    return Math.ceil(time / this.#gcIntervalMs) * this.#gcIntervalMs;
  }

  #plan(): Map<string, number> {
    if (this.#due) return this.#due;
    this.#due = new Map();
    for (const [key, listedAt] of this.#owner.keys.entries())
      this.#due.set(key, this.#inStep(listedAt + this.#gcMaxIdleMs + 1));
    if (this.#hasTable) {
      for (const { key, at } of this.#owner.storage.sql.exec<{ key: string; at: number }>("SELECT key, at FROM visits"))
        if (this.#due.has(key)) this.#due.set(key, at);
    }
    return this.#due;
  }

  get #hasTable(): boolean {
    const query = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'visits'";
    return this.#owner.storage.sql.exec(query).toArray().length > 0;
  }
}
