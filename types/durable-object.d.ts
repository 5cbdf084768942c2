/** `holdfast/durable-object`: locks from one class in your own Worker. docs/workers.md describes it. */
import { DurableObject } from "cloudflare:workers";

/** The object of a key. Export it from your Worker, and bind it in wrangler.toml. */
export class LockKey extends DurableObject<unknown> {
  constructor(ctx: DurableObjectState, env: unknown);
}

/** Times are in milliseconds. */
export interface RenewOptions {
  /** How long the lock is kept without a renewal. Default: 33,000, or that of the service. */
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

/** A holder of a key. */
export interface HolderDetail {
  owner_conn_id: number;
  protocol?: string;
  label?: string;
  fence: string;
  since: string;
  held_s: number;
  lease_s: number;
  lease_expires_in_s: number;
}

/** A waiter for a key; position 1 is next. */
export interface WaiterDetail {
  position: number;
  owner_conn_id: number;
  protocol?: string;
  label?: string;
  since: string;
  waited_s: number;
  timeout_in_s?: number;
}

/** A key and its members. */
export interface KeyDetail {
  key: string;
  kind: "lock" | "semaphore";
  limit: number;
  holders: number;
  waiters: number;
  idle_s?: number;
  held_by: HolderDetail[];
  queue: WaiterDetail[];
}

export interface OwnLocks {
  /**
   * Runs the callback while holding the lock, and resolves with its result. The lock is renewed while the callback runs, and
   * released when it ends or when this request of the Worker does.
   */
  request<Result>(
    key: string,
    options: LockOptions | undefined,
    callback: (lock: WorkLock) => Result | Promise<Result>,
  ): Promise<Result>;
  /**
   * The same for several keys: all or none, taken one after another in the order of their bytes. One timeout is for all of
   * them. The callback gets a lock for each, in the order given, and a signal that aborts when one of them is lost.
   */
  request<Result, const Several extends Keys>(
    keys: Several,
    options: LockOptions | undefined,
    callback: (locks: LocksOf<Several, WorkLock>, signal: AbortSignal) => Result | Promise<Result>,
  ): Promise<Result>;
  /** Resolves once the lock is held, or with null if it was not granted in time. */
  acquire(key: string, options?: LockOptions): Promise<OwnLock | null>;
  /** Restarts the lease. Null if the token is not held. */
  renew(key: string, token: string, options?: RenewOptions): Promise<{ readonly remaining: number } | null>;
  /** False if the token is not held (any more). */
  release(key: string, token: string): Promise<boolean>;
  /** The key and its members, or null if it is not in use. */
  describe(key: string): Promise<KeyDetail | null>;
}

export interface LocksOptions {
  /** Where a key is placed that is used for the first time: `weur`, `enam`, … Default: near its first user. */
  readonly locationHint?: string | undefined;
}

/** The locks behind a namespace of `LockKey`, or behind a service binding with `entrypoint = "Locks"`. */
export function locks(binding: object | undefined, options?: LocksOptions): OwnLocks;
