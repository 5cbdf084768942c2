import { DurableObject } from "cloudflare:workers";
import type { Env } from "./env.ts";

export type Take = { readonly isAllowed: true } | { readonly isAllowed: false; readonly retryAfterS: number };

/** A bucket at some moment. Tokens are counted in thousandths, so that a rate per second is a whole number per ms. */
interface Bucket {
  readonly level: number;
  readonly at: number;
}

const TOKEN = 1000;
const STORED_AS = "bucket";
/**
 * An object that is idle keeps its memory for 10 s. A bucket that is full again well before that needs no row: losing
 * it then loses nothing.
 */
const REMEMBERED_MS = 5_000;
const DROPPED_AFTER_MS = 600_000;

/**
 * The token bucket of one client address: `burst` requests at once, `rate` a second in the long run, a refused one
 * takes nothing. A bucket that is new or forgotten is full. After a crash of its object it may have up to five seconds'
 * worth of tokens too many; what takes longer to fill is stored.
 */
export class RateLimitObject extends DurableObject<Env> {
  #bucket: Bucket | undefined;
  /** The alarm is set, as far as this life of the object knows. */
  #isWatched = false;

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env);
    this.#bucket = ctx.storage.kv.get<Bucket>(STORED_AS);
  }

  /** Takes one token if there is one. A burst of 0 is as large as the rate. */
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

  /** Drops a bucket that nobody has asked for in ten minutes, and with it everything that is stored. */
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

  /** The answer does not wait for the disk: a bucket lost in a crash only makes the service generous for once. */
  #store(bucket: Bucket): void {
    void this.ctx.storage.put(STORED_AS, bucket, { allowUnconfirmed: true });
    if (!this.#isWatched) this.#watch(bucket.at);
  }

  #watch(idleSince: number): void {
    this.#isWatched = true;
    void this.ctx.storage.setAlarm(idleSince + DROPPED_AFTER_MS, { allowUnconfirmed: true });
  }
}
