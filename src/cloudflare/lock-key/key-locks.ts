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

/** What the keys need of the Worker: `KEY`, and a location if the keys want one. */
type KeyEnv = Pick<Env, "KEY"> & { readonly LOCATION_HINTS?: string };

/** Locks behind a namespace of `LockKey`, in the Worker that uses them. */
export class KeyLocks implements OwnLocks {
  readonly #env: KeyEnv;

  constructor(env: KeyEnv) {
    this.#env = env;
  }

  async request<Result>(
    key: string,
    options: LockOptions | undefined,
    callback: (lock: WorkLock) => Result | Promise<Result>,
  ): Promise<Result> {
    checkKey(key);
    const terms = termsOf(options);
    checkCallback(callback);
    const locks = this.#newLocks();
    const grant = await locks.takeOrThrow(key, terms);
    const presence = new Presence();
    // If this request of the Worker ends before that, the key still has to learn it.
    waitUntil(presence.open(locks.keys, key, grant.request).catch(logged("key_unreachable")));
    try {
      return await locks.run(grant, async (held) => callback(workLock(held)));
    } finally {
      presence.end();
    }
  }

  async acquire(key: string, options?: LockOptions): Promise<OwnLock | null> {
    checkKey(key);
    const grant = await this.#newLocks().take(key, termsOf(options));
    return grant ? ownLock(grant.lock, this) : null;
  }

  async renew(key: string, token: string, options?: RenewOptions): Promise<{ readonly remaining: number } | null> {
    checkKey(key);
    checkToken(token);
    return this.#newLocks().renew(key, token, leaseOf(options));
  }

  async release(key: string, token: string): Promise<boolean> {
    checkKey(key);
    checkToken(token);
    return this.#newLocks().release(key, token);
  }

  async describe(key: string): Promise<KeyDetail | null> {
    checkKey(key);
    return this.#newLocks().describe(key);
  }

  /** For one call: the platform lets no request of a Worker use the stubs of another, and these locks may serve them all. */
  #newLocks(): TokenLocks {
    const locks: TokenLocks = new TokenLocks(this.#env, {
      waitUntil,
      wait: (wait) => waitForLock(locks.keys, wait),
      faultIn: faultOfKey,
    });
    return locks;
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
