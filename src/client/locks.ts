import { Client } from "./client.ts";
import type { ChannelOptions } from "./connection/channel.ts";
import type { Status } from "./connection/status.ts";
import type { LockError } from "./errors.ts";
import {
  type AcquireOptions,
  acquire,
  type LockOptions,
  type RequestOptions,
  type WaitOptions,
} from "./locks/acquire.ts";
import { type Lock, whileHeld } from "./locks/lock.ts";
import { read } from "./locks/read.ts";
import { Semaphore } from "./locks/semaphore.ts";
import { isSeveral, type Keys, type LocksOf, requestSeveral, type SeveralOptions } from "./locks/several.ts";
import { enqueue, type Ticket } from "./locks/ticket.ts";
import { argumentsOf, check, checkCall } from "./options.ts";
import { type ReadyOptions, ready } from "./ready.ts";
import type { KeyReport, Stats } from "./report.ts";

type OneCallback<Result> = (lock: Lock) => Result | Promise<Result>;
type SeveralCallback<Result> = (locks: Lock[], signal: AbortSignal) => Result | Promise<Result>;

/**
 * A client of the service: one connection, one session, any number of locks. Made by `connect`.
 *
 * Methods that take options or a key reject with a `TypeError` or `RangeError` if one is invalid. Methods that ask the
 * service reject with an `AuthError` if the token is refused or does not cover the key, and with a `ConnectionError` if
 * the session ends before the answer, or the client is closed.
 */
export class Locks implements AsyncDisposable {
  readonly #client: Client;
  readonly #isSticky: boolean | undefined;
  #resolveClosed: () => void = () => {};
  #closing: Promise<void> | undefined;
  /** Resolves when the client is closed. Never rejects. */
  readonly closed: Promise<void>;

  /** @internal */
  constructor(options: ChannelOptions, isSticky?: boolean) {
    this.#client = new Client(options);
    this.#isSticky = isSticky;
    this.closed = new Promise((resolve) => {
      this.#resolveClosed = resolve;
    });
  }

  /**
   * Resolves once there is a connection; at once if there is one. Rejects with a `ConnectionError` after the timeout, whose
   * `cause` says why; with an `AuthError` if the service refuses the token; with the signal's reason if it aborts.
   */
  ready(options: ReadyOptions = {}): Promise<void> {
    return ready(this.#client, options);
  }

  /**
   * Runs the callback while the lock is held and settles as it does, after the lock is released. Rejects with a
   * `LockLostError` if the lock was lost before the callback ended, unless the callback threw: its own error wins. The
   * client cannot stop the callback: let it listen to `lock.signal`. Rejects like `acquire`, without calling back, if the
   * lock is not granted.
   *
   * With several keys, the callback is given a lock for each, in the order given, and a signal that aborts when one of them
   * is lost. They are taken one after another, in the order of their bytes, so that clients which want the same ones never
   * wait for each other. `timeout` and `signal` count for all of them together; if one is not granted, or one is lost
   * meanwhile, those taken before are released.
   */
  request<Result>(key: string, callback: (lock: Lock) => Result | Promise<Result>): Promise<Result>;
  request<Result>(
    key: string,
    options: RequestOptions | undefined,
    callback: (lock: Lock) => Result | Promise<Result>,
  ): Promise<Result>;
  request<Result, const Several extends Keys>(
    keys: Several,
    callback: (locks: LocksOf<Several>, signal: AbortSignal) => Result | Promise<Result>,
  ): Promise<Result>;
  request<Result, const Several extends Keys>(
    keys: Several,
    options: SeveralOptions | undefined,
    callback: (locks: LocksOf<Several>, signal: AbortSignal) => Result | Promise<Result>,
  ): Promise<Result>;
  async request<Result>(
    key: string | Keys,
    first: unknown,
    second?: OneCallback<Result> | SeveralCallback<Result>,
  ): Promise<Result> {
    const [options, callback] = argumentsOf<RequestOptions, typeof second>(first, second);
    check("request", "callback", callback);
    if (isSeveral(key)) return requestSeveral(this.#client, key, options, callback as SeveralCallback<Result>);
    const run = callback as OneCallback<Result>;
    checkCall("request", key, options);
    const { sticky = this.#isSticky, steal } = options;
    // A lock that was stolen is not kept.
    if (sticky && !steal) return this.#client.kept.request(key, options, run);
    const lock = await acquire(this.#client, key, options);
    return whileHeld(lock, run);
  }

  /**
   * Resolves once the lock is held; the caller releases it. Rejects with an `AcquireTimeoutError` after the timeout; with
   * the signal's reason if it aborts; with a `LimitMismatchError` if the key is in use with another limit; with a
   * `CapacityError` if there is no room for the key or another waiter; with a `DrainingError` if the service takes no new
   * work; with a `LockLostError` if the lease ended before the grant arrived. A call that rejects holds nothing.
   */
  async acquire(key: string, options: AcquireOptions = {}): Promise<Lock> {
    checkCall("acquire", key, options);
    return acquire(this.#client, key, options);
  }

  /** Resolves with the lock, or with null if it is taken; does not wait. Rejects like `acquire`, but never with an `AcquireTimeoutError`. */
  async tryAcquire(key: string, options: Omit<AcquireOptions, "timeout"> = {}): Promise<Lock | null> {
    checkCall("tryAcquire", key, options);
    try {
      return await acquire(this.#client, key, { ...options, timeout: 0 });
    } catch (error) {
      // A queue that is full stands before a key that is not free.
      if (/^(timeout|max_waiters)$/.test((error as LockError).code)) return null;
      throw error;
    }
  }

  /** Resolves with a place in the queue, to be waited for later. Rejects like `acquire`, and with a `ProtocolError` if this client is already in the queue. */
  enqueue(key: string, options: LockOptions & Pick<WaitOptions, "signal"> = {}): Promise<Ticket> {
    return enqueue(this.#client, key, options);
  }

  /**
   * Resolves with the holders and waiters of the key, or with null if it has not been used for a while. Tokens are not
   * shown. Rejects with a `ConnectionError` if there is no answer within ten seconds.
   */
  async query(key: string): Promise<KeyReport | null> {
    check("query", "key", key);
    return read(this.#client, { command: "query", key });
  }

  /** Resolves with all keys that this client may see. Rejects with a `ConnectionError` if there is no answer within ten seconds. */
  stats(): Promise<Stats> {
    return read(this.#client, { command: "stats" });
  }

  /** The current state of the connection. */
  get status(): Status {
    return this.#client.status.now;
  }

  /**
   * Yields the current `status`, then each change, until the client is closed. Yields nothing before the first attempt to
   * connect has ended. Never throws; there may be several readers, and each may stop at any time.
   */
  statuses(): AsyncIterableIterator<Status> {
    return this.#client.status.read();
  }

  /** Why there is no connection, if the platform says so; undefined while there is one, before the first attempt, and once closed. */
  get problem(): unknown {
    return this.#client.isReady ? undefined : this.#client.problem;
  }

  /** The methods of this client for one lock. Throws a `TypeError` for an invalid key. */
  mutex(key: string): Semaphore {
    check("mutex", "key", key);
    return new Semaphore(this, key, 1);
  }

  /** The methods of this client for one semaphore. Throws a `TypeError` or `RangeError` for an invalid key or limit. */
  semaphore(key: string, limit: number): Semaphore {
    check("semaphore", "key", key);
    check("semaphore", "limit", limit);
    return new Semaphore(this, key, limit);
  }

  /**
   * Ends the session. Locks are lost as `disconnected`, and pending calls reject. Resolves when the service has confirmed
   * it, after five seconds at the latest; never rejects.
   */
  close(): Promise<void> {
    this.#closing ??= this.#client.close().then(this.#resolveClosed);
    return this.#closing;
  }

  /** As `close`, at the end of an `await using` block. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}
