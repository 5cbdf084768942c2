/** The service binding as callers see it. This file imports nothing that runs: a Worker may import its types. */
import type { KeyDetail } from "../../reports/stats.ts";

/** Times are in milliseconds. */
export interface RenewOptions {
  /** How long the lock is kept without a renewal. Default: that of the service. */
  readonly lease?: number | undefined;
}

export interface LockOptions extends RenewOptions {
  /** How long to wait for the lock, at most 60,000. 0 does not wait. Default: 10,000. */
  readonly timeout?: number | undefined;
  /** How many may hold the key at a time. Default: 1, a lock. */
  readonly limit?: number | undefined;
  /** Shown to people beside the key, 1 to 64 printable characters. Default: `worker`. */
  readonly label?: string | undefined;
}

/** One of several keys. Its own options win over those of the request. */
export interface KeyOptions extends Omit<LockOptions, "timeout"> {
  readonly key: string;
}

/** The keys of a request, in any order. */
export type Keys = readonly (string | KeyOptions)[];

/** A lock for each key, in the order of the keys. */
export type LocksOf<Several extends Keys, Lock> = { [Index in keyof Several]: Lock };

/** A lock. Its token is all it takes to renew and release it. */
export interface AcquiredLock {
  readonly key: string;
  readonly token: string;
  /** 16 hex digits, increasing as text with every grant of the key. */
  readonly fence: string;
  readonly lease: number;
  /** By the clock of the Worker: the lock is held at least until then. */
  readonly expiresAt: number;
}

/** The lock inside the callback of `request`. Each property is read with `await`. */
export interface RequestedLock {
  readonly key: Promise<string>;
  readonly token: Promise<string>;
  readonly fence: Promise<string>;
  /** Moves on with every renewal. */
  readonly expiresAt: Promise<number>;
  /** False once the lock is known to be lost, or its lease has ended without a renewal. */
  isHeld(): Promise<boolean>;
}

/** It stands for an `AbortSignal`, which cannot be sent between Workers (workerd 2026-11). */
export type Lost = () => Promise<string | null>;

/** What a binding with `entrypoint = "Locks"` offers. */
export interface LocksBinding {
  /**
   * Runs the callback while holding the lock, and resolves with its result. The lock is renewed while the callback runs, and
   * released when it ends or when the caller goes away.
   */
  request<Result>(
    key: string,
    options: LockOptions | undefined,
    callback: (lock: RequestedLock) => Result | Promise<Result>,
  ): Promise<Result>;
  /**
   * The same for several keys: all or none, taken one after another in the order of their bytes. One timeout is for all of
   * them. The callback gets a lock for each, and a function that resolves with a message when one of them is lost, and
   * with null once the callback has ended.
   */
  request<Result, const Several extends Keys>(
    keys: Several,
    options: LockOptions | undefined,
    callback: (locks: LocksOf<Several, RequestedLock>, lost: Lost) => Result | Promise<Result>,
  ): Promise<Result>;
  /** Resolves once the lock is held, or with null if it was not granted in time. */
  acquire(key: string, options?: LockOptions): Promise<AcquiredLock | null>;
  /** Restarts the lease. Null if the token is not held. */
  renew(key: string, token: string, options?: RenewOptions): Promise<{ readonly remaining: number } | null>;
  /** False if the token is not held (any more). */
  release(key: string, token: string): Promise<boolean>;
  /** The document of `GET /v1/keys/{key}`, or null if there is no such key. */
  describe(key: string): Promise<KeyDetail | null>;
}

/** `props` of a binding restrict it. */
export interface LocksProps {
  /** Exact keys, or prefixes if they end in `*`. Default: all keys. */
  readonly keys?: readonly string[];
  /** Only `describe` is allowed. */
  readonly readOnly?: boolean;
}
