import { type AcquireOptions, acquire, type LockOptions, soon, type WaitOptions } from "./acquire.ts";
import type { Request } from "./calls.ts";
import type { ChannelOptions } from "./channel.ts";
import { Client } from "./client.ts";
import { AcquireTimeoutError, CapacityError, errorOf } from "./errors.ts";
import type { Lock } from "./lock.ts";
import { check, checkOptions } from "./options.ts";
import type { KeyReport, Stats } from "./report.ts";
import { Semaphore } from "./semaphore.ts";
import type { Status } from "./status.ts";
import { enqueue, type Ticket } from "./ticket.ts";

/** A client of the service: one connection, one session, any number of locks. Made by `connect`. */
export class Locks implements AsyncDisposable {
  readonly #client: Client;
  #tellClosed: () => void = () => {};
  #closing: Promise<void> | undefined;
  /** Resolves when the client is closed. */
  readonly closed: Promise<void>;

  /** @internal */
  constructor(options: ChannelOptions) {
    this.#client = new Client(options);
    this.closed = new Promise((resolve) => {
      this.#tellClosed = resolve;
    });
  }

  /**
   * Runs the callback while the lock is held, and settles as it does, after giving the lock back. A callback that is to
   * stop when the lock is lost listens to `lock.signal`.
   */
  request<Result>(key: string, callback: (lock: Lock) => Result | Promise<Result>): Promise<Result>;
  request<Result>(
    key: string,
    options: AcquireOptions | undefined,
    callback: (lock: Lock) => Result | Promise<Result>,
  ): Promise<Result>;
  async request<Result>(
    key: string,
    first: AcquireOptions | undefined | ((lock: Lock) => Result | Promise<Result>),
    second?: (lock: Lock) => Result | Promise<Result>,
  ): Promise<Result> {
    const [options, callback] = typeof first === "function" ? [{}, first] : [first ?? {}, second];
    check("request", "callback", callback);
    const lock = await acquire(this.#client, key, options, "request");
    try {
      return await (callback as (lock: Lock) => Result | Promise<Result>)(lock);
    } finally {
      await lock.release();
    }
  }

  /** Resolves once the lock is held; the caller gives it back. */
  acquire(key: string, options: AcquireOptions = {}): Promise<Lock> {
    return acquire(this.#client, key, options);
  }

  /** Like `acquire`, without waiting: null when somebody else holds it. */
  async tryAcquire(key: string, options: Omit<AcquireOptions, "timeout"> = {}): Promise<Lock | null> {
    checkOptions("tryAcquire", options, "lease limit maxHold signal steal");
    try {
      return await acquire(this.#client, key, { ...options, timeout: 0 }, "tryAcquire");
    } catch (error) {
      // A queue that is full stands before a key that is not free.
      const isTaken = error instanceof CapacityError && error.code === "max_waiters";
      if (isTaken || error instanceof AcquireTimeoutError) return null;
      throw error;
    }
  }

  /** Takes a place in the queue, to be waited for later. */
  enqueue(key: string, options: LockOptions & Pick<WaitOptions, "signal"> = {}): Promise<Ticket> {
    return enqueue(this.#client, key, options);
  }

  /** Who holds the key and who waits for it; null if nobody has used it for a while. Tokens are not shown. */
  async query(key: string): Promise<KeyReport | null> {
    check("query", "key", key);
    return this.#read({ command: "query", key });
  }

  /** All keys of the service, as far as this client may see them. */
  stats(): Promise<Stats> {
    return this.#read({ command: "stats" });
  }

  /** How the connection fares: how it is now, then every change, until the client is closed. */
  status(): AsyncIterableIterator<Status> {
    return this.#client.status.read();
  }

  /** Why there is no connection, as far as the platform tells; undefined while there is one, before the first attempt, and once closed. */
  get problem(): unknown {
    return this.#client.isConnected ? undefined : this.#client.problem;
  }

  mutex(key: string): Semaphore {
    check("mutex", "key", key);
    return new Semaphore(this, key, 1);
  }

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

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async #read<Document>(request: Request): Promise<Document> {
    const { status, rest } = await this.#client.ask(request, soon(this.#client));
    if (status !== "ok") throw errorOf(status, { key: request.key ?? request.command, limit: 1 });
    return JSON.parse(rest) as Document;
  }
}
