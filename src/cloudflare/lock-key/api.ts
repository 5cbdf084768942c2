/** What `locks()` offers. types/durable-object.d.ts tells it to users. */

import type { KeyDetail } from "../../reports/stats.ts";
import type { AcquiredLock, Keys, LockOptions, LocksOf, RenewOptions } from "../locks/binding.ts";

/** A lock of `acquire`. It outlives the request that took it, until it is released or its lease ends. */
export interface OwnLock extends AcquiredLock, AsyncDisposable {
  /** Restarts the lease, which moves `expiresAt`. Null if the lock is not held any more. */
  renew(options?: RenewOptions): Promise<{ readonly remaining: number } | null>;
  /** False if it is not held any more. */
  release(): Promise<boolean>;
}

/** The lock inside the callback of `request`. */
export interface WorkLock {
  readonly key: string;
  readonly token: string;
  readonly fence: string;
  /** Moves on with every renewal. Over a service binding it is the service that knows: read it with `await`. */
  readonly expiresAt: number | Promise<number>;
  /** False once the lock is known to be lost, or its lease has ended without a renewal. */
  isHeld(): boolean | Promise<boolean>;
}

export type OneCallback<Result> = (lock: WorkLock) => Result | Promise<Result>;
export type SeveralCallback<Result> = (locks: WorkLock[], signal: AbortSignal) => Result | Promise<Result>;

export interface OwnLocks {
  request<Result>(
    key: string,
    options: LockOptions | undefined,
    callback: (lock: WorkLock) => Result | Promise<Result>,
  ): Promise<Result>;
  request<Result, const Several extends Keys>(
    keys: Several,
    options: LockOptions | undefined,
    callback: (locks: LocksOf<Several, WorkLock>, signal: AbortSignal) => Result | Promise<Result>,
  ): Promise<Result>;
  acquire(key: string, options?: LockOptions): Promise<OwnLock | null>;
  renew(key: string, token: string, options?: RenewOptions): Promise<{ readonly remaining: number } | null>;
  release(key: string, token: string): Promise<boolean>;
  describe(key: string): Promise<KeyDetail | null>;
}
