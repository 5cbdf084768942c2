import { DurableObject } from "cloudflare:workers";
import type { Env } from "./env.ts";

export type Take = { readonly isAllowed: true } | { readonly isAllowed: false; readonly retryAfterS: number };

/** A bucket at some moment. Tokens are counted in thousandths, so a rate per second is a whole number per ms. */
interface Bucket {
  readonly level: number;
  readonly at: number;
}

const TOKEN = 1000;
const STORED_AS = "bucket";
/** An idle object keeps its memory for 10 s. A bucket that refills well before needs no row: losing it is harmless. */
const REMEMBERED_MS = 5_000;
const DROPPED_AFTER_MS = 600_000;

/**
 * The token bucket of one client address: allows bursts of `burst` requests and `rate` requests a second on average; a
 * refused request takes no token. A new or forgotten bucket is full. After a crash of its object it may have up to five
 * seconds' worth of tokens too many; buckets that take longer to refill are stored.
 */
export class RateLimitObject extends DurableObject<Env> {
  #bucket: Bucket | undefined;
  /** The alarm has been set since the object started. */
  #isWatched = false;

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env);
    this.#bucket = ctx.storage.kv.get<Bucket>(STORED_AS);
  }

  /** Takes one token if there is one. A burst of 0 means a burst as large as the rate. */
  take(rate: number, burst: number): Take {
    const now = Date.now();
    const full = (burst || rate) * TOKEN;
    const { level, at } = this.#bucket ?? { level: full, at: now };
    const filled = Math.min(full, level + Math.max(0, now - at) * rate);
    const isAllowed = filled >= TOKEN;
    this.#bucket = { level: isAllowed ? filled - TOKEN : filled, at: now };
    if (!isAllowed) return { isAllowed, retryAfterS: Math.max(1, Math.ceil((TOKEN - filled) / (rate * 1000))) };
    if (full - this.#bucket.level > REMEMBERED_MS * rate) this.#store(this.#bucket);
    return { isAllowed };
  }

  /** Drops a bucket unused for ten minutes, and everything stored. */
  override async alarm(): Promise<void> {
    this.#isWatched = false;
    const idleSince = this.#bucket?.at ?? 0;
    if (Date.now() - idleSince < DROPPED_AFTER_MS) {
      this.#watch(idleSince);
      return;
    }
    this.#bucket = undefined;
    await this.ctx.storage.deleteAll();
  }

  /** Does not wait for the disk: a bucket lost in a crash only allows a few more requests once. */
  #store(bucket: Bucket): void {
    void this.ctx.storage.put(STORED_AS, bucket, { allowUnconfirmed: true });
    if (!this.#isWatched) this.#watch(bucket.at);
  }

  #watch(idleSince: number): void {
    this.#isWatched = true;
    void this.ctx.storage.setAlarm(idleSince + DROPPED_AFTER_MS, { allowUnconfirmed: true });
  }
}
