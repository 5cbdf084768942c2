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
import { enqueue, type Ticket } from "./locks/ticket.ts";
import { argumentsOf, check, checkCall } from "./options.ts";
import { type ReadyOptions, ready } from "./ready.ts";
import type { KeyReport, Stats } from "./report.ts";

/**
 * A client of the service: one connection, one session, any number of locks. Made by `connect`.
 *
 * Whatever takes options or a key rejects with a `TypeError` or `RangeError` if one breaks its rule. Whatever asks the service rejects
 * with an `AuthError` if the token is refused or does not cover the key, and with a `ConnectionError` if the session ends before the answer,
 * or the client is closed.
 */
export class Locks implements AsyncDisposable {
  readonly #client: Client;
  readonly #isSticky: boolean | undefined;
  #tellClosed: () => void = () => {};
  #closing: Promise<void> | undefined;
  /** Resolves when the client is closed. Never rejects. */
  readonly closed: Promise<void>;

  /** @internal */
  constructor(options: ChannelOptions, isSticky?: boolean) {
    this.#client = new Client(options);
    this.#isSticky = isSticky;
    this.closed = new Promise((resolve) => {
      this.#tellClosed = resolve;
    });
  }

  /**
   * Resolves once there is a connection; at once if there is one. Rejects with a `ConnectionError` when the time is over, whose `cause`
   * is why there is none; with an `AuthError` when the service refuses the token; with the signal's reason when that aborts.
   */
  ready(options: ReadyOptions = {}): Promise<void> {
    return ready(this.#client, options);
  }

  /**
   * Runs the callback while the lock is held and settles as it does, after the lock is given back. Rejects with a `LockLostError` if the
   * lock was lost before the callback ended, unless the callback threw: its own error wins. Nothing stops the callback but itself: it
   * listens to `lock.signal`. Rejects like `acquire`, without calling back, if the lock is not granted.
   */
  request<Result>(key: string, callback: (lock: Lock) => Result | Promise<Result>): Promise<Result>;
  request<Result>(
    key: string,
    options: RequestOptions | undefined,
    callback: (lock: Lock) => Result | Promise<Result>,
  ): Promise<Result>;
  async request<Result>(
    key: string,
    first: RequestOptions | undefined | ((lock: Lock) => Result | Promise<Result>),
    second?: (lock: Lock) => Result | Promise<Result>,
  ): Promise<Result> {
    const [options, run] = argumentsOf<RequestOptions, (lock: Lock) => Result | Promise<Result>>(first, second);
    check("request", "callback", run);
    checkCall("request", key, options);
    const { sticky = this.#isSticky, steal } = options;
    // A lock that was stolen is not kept.
    if (sticky && !steal) return this.#client.stays.request(key, options, run);
    const lock = await acquire(this.#client, key, options);
    return whileHeld(lock, run);
  }

  /**
   * Resolves once the lock is held; the caller gives it back. Rejects with an `AcquireTimeoutError` when the time is over; with the signal's
   * reason when that aborts; with a `LimitMismatchError` if the key is in use with another limit; with a `CapacityError` if there is no room
   * for the key or another waiter; with a `DrainingError` if the service takes no new work; with a `LockLostError` if the grant lapsed
   * before it could be handed over. What was granted to a call that rejects is given back.
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

  /** Resolves with a place in the queue, to be waited for later. Rejects like `acquire`, and with a `ProtocolError` if this client has a place there already. */
  enqueue(key: string, options: LockOptions & Pick<WaitOptions, "signal"> = {}): Promise<Ticket> {
    return enqueue(this.#client, key, options);
  }

  /**
   * Resolves with who holds the key and who waits for it, or with null if nobody has used it for a while. Tokens are not shown. Rejects with a
   * `ConnectionError` if nobody answers within ten seconds.
   */
  async query(key: string): Promise<KeyReport | null> {
    check("query", "key", key);
    return read(this.#client, { command: "query", key });
  }

  /** Resolves with all keys of the service, as far as this client may see them. Rejects with a `ConnectionError` if nobody answers within ten seconds. */
  stats(): Promise<Stats> {
    return read(this.#client, { command: "stats" });
  }

  /** How the connection fares now. */
  get status(): Status {
    return this.#client.status.now;
  }

  /**
   * Every `status`, as it comes: how it is now, then each change, until the client is closed. Nothing comes before the first attempt to connect
   * has ended. Never throws; may be read by several, and left at any time.
   */
  statuses(): AsyncIterableIterator<Status> {
    return this.#client.status.read();
  }

  /** Why there is no connection, as far as the platform tells; undefined while there is one, before the first attempt, and once closed. */
  get problem(): unknown {
    return this.#client.isReady ? undefined : this.#client.problem;
  }

  /** The calls of this client for one key with one slot. Throws a `TypeError` for what cannot be a key. */
  mutex(key: string): Semaphore {
    check("mutex", "key", key);
    return new Semaphore(this, key, 1);
  }

  /** The calls of this client for one key with so many slots. Throws a `TypeError` or `RangeError` for what cannot be a key or a limit. */
  semaphore(key: string, limit: number): Semaphore {
    check("semaphore", "key", key);
    check("semaphore", "limit", limit);
    return new Semaphore(this, key, limit);
  }

  /**
   * Leaves the service. Whatever this client holds or waits for is given up at once: locks are lost as `disconnected`,
   * everything under way rejects. Resolves when the service knows, after five seconds at the latest; never rejects.
   */
  close(): Promise<void> {
    this.#closing ??= this.#client.close().then(this.#tellClosed);
    return this.#closing;
  }

  /** As `close`, at the end of an `await using` block. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}
