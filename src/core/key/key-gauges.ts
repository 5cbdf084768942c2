import type { KeyView } from "../engine/index.ts";

/** The state of keys in numbers. */
export interface KeyGauges {
  /** Keys with a holder. */
  readonly keysHeld: number;
  /** Held keys with limit 1. */
  readonly locksHeld: number;
  readonly lockWaiters: number;
  /** Slots held on keys with a higher limit. */
  readonly semaphoreHolders: number;
  readonly semaphoreWaiters: number;
  /** Keys that exist but cannot be read. */
  readonly keysUnreachable: number;
}

/** Adds up the state of keys. */
export class KeyTotals implements KeyGauges {
  keys = 0;
  keysHeld = 0;
  locksHeld = 0;
  lockWaiters = 0;
  semaphoreHolders = 0;
  semaphoreWaiters = 0;
  keysUnreachable = 0;

  add({ limit, holderCount, waiters }: Pick<KeyView, "limit" | "holderCount" | "waiters">): void {
    this.keys += 1;
    if (holderCount > 0) this.keysHeld += 1;
    if (limit === 1) {
      this.locksHeld += holderCount;
      this.lockWaiters += waiters;
    } else {
      this.semaphoreHolders += holderCount;
      this.semaphoreWaiters += waiters;
    }
  }
}
