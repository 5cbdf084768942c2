import type { AcquiredLock, RenewOptions } from "../locks/binding.ts";
import type { OwnLock, OwnLocks } from "./api.ts";

/** The lock with what can be done to it. */
export function ownLock(lock: AcquiredLock, locks: Pick<OwnLocks, "renew" | "release">): OwnLock {
  return new TokenLock(lock, locks);
}

/** Its data are fields, as those of a plain object: they can be stored or sent, and its token is all it takes. */
class TokenLock implements OwnLock {
  readonly key: string;
  readonly token: string;
  readonly fence: string;
  lease: number;
  expiresAt: number;
  readonly #locks: Pick<OwnLocks, "renew" | "release">;

  constructor({ key, token, fence, lease, expiresAt }: AcquiredLock, locks: Pick<OwnLocks, "renew" | "release">) {
    this.key = key;
    this.token = token;
    this.fence = fence;
    this.lease = lease;
    this.expiresAt = expiresAt;
    this.#locks = locks;
  }

  async renew(options?: RenewOptions): Promise<{ readonly remaining: number } | null> {
    const askedAt = Date.now();
    const lease = options?.lease === undefined ? this.lease : options.lease;
    const renewed = await this.#locks.renew(this.key, this.token, { ...options, lease });
    if (!renewed) return null;
    this.lease = renewed.remaining;
    this.expiresAt = askedAt + renewed.remaining;
    return renewed;
  }

  release(): Promise<boolean> {
    return this.#locks.release(this.key, this.token);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.release();
  }
}
