import { type Fence, fenceFromHex, fenceToHex } from "../../core/engine/index.ts";
import { randomHex } from "../../core/hex.ts";
import { log } from "../../log.ts";
import { configOf, type Env } from "../env.ts";
import type { Retirement } from "../key/key-life.ts";
import type { KeyObject } from "../key/key-object.ts";
import { inBatches } from "../pacing/batches.ts";
import { keyObject } from "../placement.ts";
import type { ListedKeys } from "./listed-keys.ts";

/** The name of the record of keys that are being forgotten. */
const RETIRING = "retiring";
const ASKED_AT_ONCE = 4;
/** Keys visited at a time; the others follow at once. */
const MAX_VISITS = 256;
/** A key in use is visited at least this often, unless idle keys are kept for longer. */
const MAX_PAUSE_MS = 3_600_000;
/** The age of a key grows by this factor from visit to visit. */
const GROWTH = 3;
/** A key that asked to be listed longer ago may have been forgotten since, whatever is stored here. */
const MAX_UNDER_WAY_MS = 60_000;

interface StoredRetiring {
  /** Hexadecimal: no key that has been forgotten has granted a higher fence. */
  readonly mark: string;
  /** When keys were told last to delete their rows. */
  readonly partedAt: number;
  /** With the times at which they were listed. */
  readonly keys: readonly (readonly [key: string, listedAt: number])[];
}

/** A key that has agreed to be forgotten. */
interface Agreement {
  readonly key: string;
  readonly listedAt: number;
  readonly question: string;
}

/** The directory whose keys are visited. */
interface VisitedDirectory {
  readonly env: Env;
  readonly storage: DurableObjectStorage;
  readonly keys: ListedKeys;
}

/**
 * Prunes idle keys: one alarm of the directory instead of one of each key. A key is asked first whether it may be
 * forgotten. If so, it joins the directory again before it grants anything. Then the directory stores that it forgets
 * the key, together with its fence; then the key deletes its rows; then its entry goes. So a listed key without rows
 * has either lost them or is being forgotten, and what is stored here tells which. See ADR 21.
 *
 * When a key is visited follows from when it was listed, so nothing is stored about it.
 */
export class KeyVisits {
  readonly #directory: VisitedDirectory;
  readonly #gcMaxIdleMs: number;
  readonly #gcIntervalMs: number;
  readonly #maxPauseMs: number;
  /** When each key is visited next; undefined until it is needed. */
  #due: Map<string, number> | undefined;
  /** Keys that are being forgotten, and when they were listed. */
  readonly #retiring: Map<string, number>;
  #mark: Fence;
  /** By this object's clock, but it never falls. */
  #partedAt: number;
  /** The last question that each key is being asked, unless it has joined since. */
  readonly #asked = new Map<string, string>();
  #madeEarlyAt = Number.NEGATIVE_INFINITY;

  constructor(directory: VisitedDirectory) {
    this.#directory = directory;
    const { gcMaxIdleMs, gcIntervalMs } = configOf(directory.env);
    this.#gcMaxIdleMs = gcMaxIdleMs;
    this.#gcIntervalMs = gcIntervalMs;
    this.#maxPauseMs = Math.max(MAX_PAUSE_MS, gcMaxIdleMs);
    const stored = directory.storage.kv.get<StoredRetiring>(RETIRING);
    this.#retiring = new Map(stored?.keys);
    this.#partedAt = stored?.partedAt ?? 0;
    this.#mark = fenceFromHex(stored?.mark ?? "0");
  }

  /** No key that has been forgotten, or is being, has granted a higher fence. */
  get mark(): Fence {
    return this.#mark;
  }

  /** Whether a key that asked something then may have been forgotten since. */
  isLate(askedAt: number): boolean {
    return askedAt < Math.max(this.#partedAt, Date.now() - MAX_UNDER_WAY_MS);
  }

  /** A key that asks with this time is in time, until the next keys are forgotten. The key's own clock does not matter. */
  get inTime(): number {
    return Math.max(this.#partedAt, Date.now());
  }

  /** A key was refused, and deletes what it has stored. Not written down: refusing must not cost a row. */
  refused(): void {
    // It may have asked in this very millisecond.
    this.#part(Date.now() + 1);
  }

  /** A key was given up. */
  struck(): void {
    this.#part();
    this.#storeRetiring([...this.#retiring]);
  }

  /** The key may have deleted its rows, and has not granted anything since it was listed. */
  isRetiring(key: string): boolean {
    const listedAt = this.#retiring.get(key);
    return listedAt !== undefined && listedAt === this.#directory.keys.listedAt(key);
  }

  /** The key has joined, and may grant something. Returns when it is visited next. */
  joined(key: string, listedAt: number): number {
    this.#asked.delete(key);
    this.#spare(key, listedAt);
    const at = this.#nextVisit(listedAt, Date.now());
    this.#due?.set(key, at);
    return at;
  }

  /** When some key has to be visited next; Infinity if none is listed. */
  next(now: number): number {
    let next = Number.POSITIVE_INFINITY;
    for (const at of this.#plan(now).values()) if (at < next) next = at;
    return next;
  }

  /** Visits the keys that are due, and forgets those that are idle. Returns how many it has forgotten. */
  make(now: number): Promise<number> {
    const due: string[] = [];
    for (const [key, at] of this.#plan(now)) if (at <= now && due.length < MAX_VISITS) due.push(key);
    return this.#visit(due, now);
  }

  /** Visits keys that are not due, in turn: no more keys may be listed, and some may be idle. */
  async makeEarly(now: number): Promise<void> {
    if (now - this.#madeEarlyAt < this.#gcMaxIdleMs) return;
    this.#madeEarlyAt = now;
    await this.#visit([...this.#plan(now).keys()].slice(0, MAX_VISITS), now);
  }

  async #visit(keys: readonly string[], now: number): Promise<number> {
    const agreements: Agreement[] = [];
    await inBatches(keys, ASKED_AT_ONCE, async (key) => {
      const listedAt = this.#directory.keys.listedAt(key);
      // Deleted first: the order of the plan is that of the last visits.
      this.#due?.delete(key);
      if (listedAt === undefined) return;
      this.#due?.set(key, this.#nextVisit(listedAt, now));
      const agreement = { key, listedAt, question: randomHex(16) };
      if (await this.#agrees(agreement)) agreements.push(agreement);
    });
    // Some may have joined again meanwhile.
    const standing = agreements.filter(({ key }) => this.isRetiring(key));
    return standing.length > 0 ? this.#forget(standing) : 0;
  }

  /** Asks a key whether it may be forgotten. */
  async #agrees({ key, listedAt, question }: Agreement): Promise<boolean> {
    this.#asked.set(key, question);
    const answer = await this.#ask(key, (object) => object.retire(listedAt, question) as Promise<Retirement>);
    // If it has joined since it was asked, this answer may be older than that.
    if (this.#asked.get(key) !== question) return false;
    this.#asked.delete(key);
    if (answer?.status === "kept") {
      this.#spare(key, listedAt);
      this.#putOff(key, answer.until);
    }
    // Its rows were deleted before its entry was: the entry is all that is left.
    if (answer?.status !== "retired") return answer?.status === "empty" && this.isRetiring(key);
    this.#mark = higher(this.#mark, answer.fence);
    this.#retiring.set(key, listedAt);
    return true;
  }

  async #forget(agreements: readonly Agreement[]): Promise<number> {
    for (const key of this.#retiring.keys()) if (!this.isRetiring(key)) this.#retiring.delete(key);
    this.#part();
    // Durable before any key is told to delete its rows.
    this.#storeRetiring([...this.#retiring]);
    const gone: Agreement[] = [];
    await inBatches(agreements, ASKED_AT_ONCE, async (agreement) => {
      const { key, question } = agreement;
      // Without an answer it may have deleted its rows: the next visit tells.
      if (await this.#ask(key, (object) => object.forgetRetired(question))) gone.push(agreement);
      else this.#due?.set(key, this.#inStep(Date.now() + this.#gcMaxIdleMs));
    });
    for (const { key, listedAt } of gone)
      if (this.isRetiring(key) && this.#directory.keys.removeEntry(key, listedAt)) this.#due?.delete(key);
    return gone.length;
  }

  /** From now on some key may delete what it has stored: whatever it has asked before is late. */
  #part(at = Date.now()): void {
    this.#partedAt = Math.max(this.#partedAt + 1, at);
  }

  /** The key is in use: from now on the loss of its rows must be noticed. */
  #spare(key: string, listedAt: number): void {
    const others = [...this.#retiring].filter(([other]) => other !== key);
    // Stored first: if that fails, it must be tried again.
    if (this.#retiring.get(key) === listedAt) this.#storeRetiring(others);
    this.#retiring.delete(key);
  }

  /** The key is held until then: there is no use in asking before. It may be given back sooner. */
  #putOff(key: string, until: number): void {
    const at = this.#inStep(Math.min(until + this.#gcMaxIdleMs, Date.now() + this.#maxPauseMs));
    if (at > (this.#due?.get(key) ?? at)) this.#due?.set(key, at);
  }

  #storeRetiring(keys: StoredRetiring["keys"]): void {
    const stored: StoredRetiring = { mark: fenceToHex(this.#mark), partedAt: this.#partedAt, keys };
    this.#directory.storage.kv.put(RETIRING, stored);
  }

  async #ask<Answer>(
    key: string,
    ask: (object: DurableObjectStub<KeyObject>) => Promise<Answer>,
  ): Promise<Answer | undefined> {
    try {
      return await ask(keyObject(this.#directory.env, key));
    } catch (error) {
      log("warn", "key_unreachable", { key, error: String(error) });
      return undefined;
    }
  }

  /** Visits that should have been made a short while ago are due: an alarm may be late. */
  #plan(now: number): Map<string, number> {
    if (this.#due) return this.#due;
    this.#due = new Map();
    for (const [key, listedAt] of this.#directory.keys.entries())
      this.#due.set(key, this.#nextVisit(listedAt, now - this.#gcMaxIdleMs));
    return this.#due;
  }

  /**
   * When a key is visited after `since`. At the first visit it has been idle for long enough if it was used no longer
   * than that. Later visits are less and less frequent.
   */
  #nextVisit(listedAt: number, since: number): number {
    // The clock may have been set back.
    const from = Math.min(listedAt, since);
    let age = 2 * this.#gcMaxIdleMs + 1;
    while (from + age <= since && (GROWTH - 1) * age < this.#maxPauseMs) age *= GROWTH;
    const missed = Math.max(0, Math.floor((since - from - age) / this.#maxPauseMs) + 1);
    return this.#inStep(from + age + missed * this.#maxPauseMs);
  }

  /** Visits are made together, once per interval. */
  #inStep(time: number): number {
    return Math.ceil(time / this.#gcIntervalMs) * this.#gcIntervalMs;
  }
}

const higher = (one: Fence, other: Fence) => (one > other ? one : other);
