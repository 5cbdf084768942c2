/** How many requests an address may make: `burst` at once and `rate` a second on average. */
export interface RateLimit {
  readonly rate: number;
  /** 0 means as many as the rate. */
  readonly burst: number;
}

/** A bucket at some moment. Tokens are counted in thousandths, so a rate per second is a whole number per ms. */
export interface BucketLevel {
  readonly level: number;
  readonly at: number;
}

export type Take = { readonly isAllowed: true } | { readonly isAllowed: false; readonly retryAfterS: number };

const TOKEN = 1000;

/** The token bucket of one address. A new one is full. A refused request takes no token. */
export class Bucket {
  #last: BucketLevel | undefined;

  constructor(last?: BucketLevel) {
    this.#last = last;
  }

  /** The level after the last request; undefined if there was none. */
  get last(): BucketLevel | undefined {
    return this.#last;
  }

  /** Takes one token if there is one. */
  take({ rate, burst }: RateLimit, now: number): Take {
    const full = fullLevel({ rate, burst });
    const { level, at } = this.#last ?? { level: full, at: now };
    const filled = Math.min(full, level + Math.max(0, now - at) * rate);
    const isAllowed = filled >= TOKEN;
    this.#last = { level: isAllowed ? filled - TOKEN : filled, at: now };
    return isAllowed
      ? { isAllowed }
      : { isAllowed, retryAfterS: Math.max(1, Math.ceil((TOKEN - filled) / (rate * 1000))) };
  }

  /** How long after the last request the bucket is full again. One that is full may be forgotten. */
  msUntilFull(limit: RateLimit): number {
    return this.#last ? (fullLevel(limit) - this.#last.level) / limit.rate : 0;
  }
}

function fullLevel({ rate, burst }: RateLimit): number {
  return (burst || rate) * TOKEN;
}
