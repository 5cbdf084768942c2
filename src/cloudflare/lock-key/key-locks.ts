import { waitUntil } from "cloudflare:workers";
import { logged } from "../../log.ts";
import type { KeyDetail } from "../../reports/stats.ts";
import type { Env } from "../env.ts";
import { checkCallback, checkKey, checkToken, leaseOf, termsOf } from "../locks/arguments.ts";
import type { LockOptions, RenewOptions } from "../locks/binding.ts";
import type { HeldLock } from "../locks/held-lock.ts";
import { TokenLocks } from "../locks/token-locks.ts";
import type { OwnLock, OwnLocks, WorkLock } from "./api.ts";
import { ownLock } from "./own-lock.ts";
import { Presence } from "./presence.ts";
import { faultOfKey } from "./setup.ts";
import { waitForLock } from "./waiting.ts";

/** Locks behind a namespace of `LockKey`, in the Worker that uses them. */
export class KeyLocks implements OwnLocks {
  readonly #locks: TokenLocks;

  /** `env` binds `KEY`, and names a location if the keys want one. */
  constructor(env: Pick<Env, "KEY"> & { readonly LOCATION_HINTS?: string }) {
    this.#locks = new TokenLocks(env, {
      waitUntil,
      wait: (wait) => waitForLock(this.#locks.keys, wait),
      faultIn: faultOfKey,
    });
  }

  async request<Result>(
    key: string,
    options: LockOptions | undefined,
    callback: (lock: WorkLock) => Result | Promise<Result>,
  ): Promise<Result> {
    checkKey(key);
    const terms = termsOf(options);
    checkCallback(callback);
    const grant = await this.#locks.takeOrThrow(key, terms);
    const presence = new Presence();
    // If this request of the Worker ends before that, the key still has to learn it.
    waitUntil(presence.open(this.#locks.keys, key, grant.request).catch(logged("key_unreachable")));
    try {
      return await this.#locks.run(grant, async (held) => callback(workLock(held)));
    } finally {
      presence.end();
    }
  }

  async acquire(key: string, options?: LockOptions): Promise<OwnLock | null> {
    checkKey(key);
    const grant = await this.#locks.take(key, termsOf(options));
    return grant ? ownLock(grant.lock, this) : null;
  }

  async renew(key: string, token: string, options?: RenewOptions): Promise<{ readonly remaining: number } | null> {
    checkKey(key);
    checkToken(token);
    return this.#locks.renew(key, token, leaseOf(options));
  }

  async release(key: string, token: string): Promise<boolean> {
    checkKey(key);
    checkToken(token);
    return this.#locks.release(key, token);
  }

  async describe(key: string): Promise<KeyDetail | null> {
    checkKey(key);
    return this.#locks.describe(key);
  }
}

function workLock(held: HeldLock): WorkLock {
  const { key, token, fence } = held.acquired;
  return {
    key,
    token,
    fence,
    get expiresAt() {
      return held.expiresAt;
    },
    isHeld: () => held.isHeld,
  };
}
