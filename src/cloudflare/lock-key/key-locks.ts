import { waitUntil } from "cloudflare:workers";
import { logged } from "../../log.ts";
import type { KeyDetail } from "../../reports/stats.ts";
import type { Env } from "../env.ts";
import { checkCallback, checkKey, checkToken, isSeveral, leaseOf, termsOf, wantedOf } from "../locks/arguments.ts";
import type { Keys, LockOptions, LocksOf, RenewOptions } from "../locks/binding.ts";
import type { HeldLock } from "../locks/held-lock.ts";
import { Presence } from "../locks/presence.ts";
import { TokenLocks } from "../locks/token-locks.ts";
import type { OneCallback, OwnLock, OwnLocks, SeveralCallback, WorkLock } from "./api.ts";
import { ownLock } from "./own-lock.ts";
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

  request<Result>(key: string, options: LockOptions | undefined, callback: OneCallback<Result>): Promise<Result>;
  request<Result, const Several extends Keys>(
    keys: Several,
    options: LockOptions | undefined,
    callback: (locks: LocksOf<Several, WorkLock>, signal: AbortSignal) => Result | Promise<Result>,
  ): Promise<Result>;
  async request<Result>(
    key: string | Keys,
    options: LockOptions | undefined,
    callback: OneCallback<Result> | SeveralCallback<Result>,
  ): Promise<Result> {
    const locks = this.#newLocks();
    if (isSeveral(key)) {
      const wanted = wantedOf(key, options);
      checkCallback(callback);
      const work = callback as SeveralCallback<Result>;
      return locks.runAll(wanted, async (held, signal) => work(held.map(workLock), signal));
    }
    checkKey(key);
    const terms = termsOf(options);
    checkCallback(callback);
    const work = callback as OneCallback<Result>;
    const grant = await locks.takeOrThrow(key, terms);
    const presence = new Presence();
    // If this request of the Worker ends before that, the key still has to learn it.
    waitUntil(presence.open(locks.keys, key, grant.request).catch(logged("key_unreachable")));
    try {
      return await locks.run(grant, async (held) => work(workLock(held)));
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
      wait: (wait, signal) => waitForLock(locks.keys, wait, signal),
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
