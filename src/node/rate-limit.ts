import type { Config } from "../core/config/config.ts";
import { Bucket } from "../core/rate-limit.ts";

/** Addresses that are remembered. Beyond this, the least recently seen are forgotten and start with a full bucket. */
const MAX_ADDRESSES = 100_000;

/** How many requests each address may make. */
export class RateLimiter {
  readonly #limit: { readonly rate: number; readonly burst: number };
  /** The address that was seen longest ago comes first. */
  readonly #buckets = new Map<string, Bucket>();

  constructor({ httpRateLimitPerIp: rate, httpRateLimitBurst: burst }: Config) {
    this.#limit = { rate, burst };
  }

  /** Whole seconds after which this address may ask again; undefined if it may now. */
  retryAfter(address: string, now: number): number | undefined {
    if (this.#limit.rate === 0) return undefined;
    const bucket = this.#buckets.get(address) ?? new Bucket();
    this.#buckets.delete(address);
    this.#buckets.set(address, bucket);
    const [oldest = ""] = this.#buckets.keys();
    if (this.#buckets.size > MAX_ADDRESSES) this.#buckets.delete(oldest);
    const take = bucket.take(this.#limit, now);
    return take.isAllowed ? undefined : take.retryAfterS;
  }
}
