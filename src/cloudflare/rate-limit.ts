import { DurableObject } from "cloudflare:workers";
import { Bucket, type BucketLevel, type RateLimit, type Take } from "../core/rate-limit.ts";
import type { Env } from "./env.ts";

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
  #bucket: Bucket;
  /** The alarm has been set since the object started. */
  #isWatched = false;

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env);
    this.#bucket = new Bucket(ctx.storage.kv.get<BucketLevel>(STORED_AS));
  }

  /** Takes one token if there is one. A burst of 0 means a burst as large as the rate. */
  take({ rate, burst }: RateLimit): Take {
    const limit = { rate, burst };
    const take = this.#bucket.take(limit, Date.now());
    const { last } = this.#bucket;
    if (take.isAllowed && last && this.#bucket.msUntilFull(limit) > REMEMBERED_MS) this.#store(last);
    return take;
  }

  /** Drops a bucket unused for ten minutes, and everything stored. */
  override async alarm(): Promise<void> {
    this.#isWatched = false;
    const idleSince = this.#bucket.last?.at ?? 0;
    if (Date.now() - idleSince < DROPPED_AFTER_MS) {
      this.#watch(idleSince);
      return;
    }
    this.#bucket = new Bucket();
    await this.ctx.storage.deleteAll();
  }

  /** Does not wait for the disk: a bucket lost in a crash only allows a few more requests once. */
  #store(bucket: BucketLevel): void {
    void this.ctx.storage.put(STORED_AS, bucket, { allowUnconfirmed: true });
    if (!this.#isWatched) this.#watch(bucket.at);
  }

  #watch(idleSince: number): void {
    this.#isWatched = true;
    void this.ctx.storage.setAlarm(idleSince + DROPPED_AFTER_MS, { allowUnconfirmed: true });
  }
}
