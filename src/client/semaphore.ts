import type { AcquireOptions, LockOptions, WaitOptions } from "./acquire.ts";
import type { Lock } from "./lock.ts";
import type { Locks } from "./locks.ts";
import type { KeyReport } from "./report.ts";
import type { Ticket } from "./ticket.ts";

type Without<Options> = Omit<Options, "limit">;

/** One key with its limit. A mutex is a semaphore of one slot. */
export class Semaphore {
  readonly key: string;
  readonly limit: number;
  readonly #locks: Locks;

  /** @internal */
  constructor(locks: Locks, key: string, limit: number) {
    this.#locks = locks;
    this.key = key;
    this.limit = limit;
  }

  /** As `Locks.request`. */
  request<Result>(callback: (lock: Lock) => Result | Promise<Result>): Promise<Result>;
  request<Result>(
    options: Without<AcquireOptions>,
    callback: (lock: Lock) => Result | Promise<Result>,
  ): Promise<Result>;
  request<Result>(...[first, second]: [unknown, ((lock: Lock) => Result | Promise<Result>)?]): Promise<Result> {
    const callback = second ?? (first as (lock: Lock) => Result | Promise<Result>);
    return this.#locks.request(this.key, { ...(second ? (first as object) : {}), limit: this.limit }, callback);
  }

  /** As `Locks.acquire`. */
  acquire(options?: Without<AcquireOptions>): Promise<Lock> {
    return this.#locks.acquire(this.key, { ...options, limit: this.limit });
  }

  /** As `Locks.tryAcquire`. */
  tryAcquire(options?: Without<Omit<AcquireOptions, "timeout">>): Promise<Lock | null> {
    return this.#locks.tryAcquire(this.key, { ...options, limit: this.limit });
  }

  /** As `Locks.enqueue`. */
  enqueue(options?: Without<LockOptions & Pick<WaitOptions, "signal">>): Promise<Ticket> {
    return this.#locks.enqueue(this.key, { ...options, limit: this.limit });
  }

  /** As `Locks.query`. */
  query(): Promise<KeyReport | null> {
    return this.#locks.query(this.key);
  }
}
