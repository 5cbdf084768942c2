import type { Locks } from "../locks.ts";
import { argumentsOf, type Call, checkOwn } from "../options.ts";
import type { KeyReport } from "../report.ts";
import type { AcquireOptions, LockOptions, RequestOptions, WaitOptions } from "./acquire.ts";
import type { Lock } from "./lock.ts";
import type { Ticket } from "./ticket.ts";

type Without<Options> = Omit<Options, "limit">;

/** One key with its limit. A mutex is a semaphore of one slot. */
export class Semaphore {
  /** The key. */
  readonly key: string;
  /** How many may hold it at a time. */
  readonly limit: number;
  readonly #locks: Locks;

  /** @internal */
  constructor(locks: Locks, key: string, limit: number) {
    this.#locks = locks;
    this.key = key;
    this.limit = limit;
  }

  /** As `Locks.request`: settles as the callback does, or rejects with a `LockLostError`, once the slot is released. */
  request<Result>(callback: (lock: Lock) => Result | Promise<Result>): Promise<Result>;
  request<Result>(
    options: Without<RequestOptions> | undefined,
    callback: (lock: Lock) => Result | Promise<Result>,
  ): Promise<Result>;
  async request<Result>(...[first, second]: [unknown, ((lock: Lock) => Result | Promise<Result>)?]): Promise<Result> {
    const [options, callback] = argumentsOf<object, typeof second>(first, second);
    const all = this.#with("request", options);
    return this.#locks.request(this.key, all, callback as NonNullable<typeof second>);
  }

  /** As `Locks.acquire`: resolves once a slot is held. */
  async acquire(options: Without<AcquireOptions> = {}): Promise<Lock> {
    return this.#locks.acquire(this.key, this.#with("acquire", options));
  }

  /** As `Locks.tryAcquire`: resolves with a slot, or with null if none is free. */
  async tryAcquire(options: Without<Omit<AcquireOptions, "timeout">> = {}): Promise<Lock | null> {
    return this.#locks.tryAcquire(this.key, this.#with("tryAcquire", options));
  }

  /** As `Locks.enqueue`: resolves with a place in the queue. */
  async enqueue(options: Without<LockOptions & Pick<WaitOptions, "signal">> = {}): Promise<Ticket> {
    return this.#locks.enqueue(this.key, this.#with("enqueue", options));
  }

  /** As `Locks.query`: resolves with the holders and waiters of the key. */
  query(): Promise<KeyReport | null> {
    return this.#locks.query(this.key);
  }

  /** The options with the limit, which they may not contain. */
  #with<Options extends object>(call: Call, options: Options): Options & { limit: number } {
    checkOwn(call, options);
    return { ...options, limit: this.limit };
  }
}
