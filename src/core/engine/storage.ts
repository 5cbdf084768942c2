import type { Fence } from "./fence.ts";
import type { Slot } from "./slots.ts";
import type { Waiter } from "./waiters.ts";

/** A key as stored: everything needed to continue after a restart. */
export interface StoredKey {
  readonly limit: number;
  /** At least as high as every fence of this key that is no longer in a slot. */
  readonly fence: Fence;
  /** Last activity that the slots do not show. */
  readonly lastActivity: number;
  readonly slots: readonly Slot[];
  /** In queue order; `slot` is set on those that were promoted and whose session has not answered yet. */
  readonly waiters: readonly Waiter[];
  readonly lapsed: readonly (readonly [session: string, at: number])[];
}

/** What commands have changed, each thing once however often it was touched, for the store to write. */
export class Changes {
  readonly slots = new Set<Slot>();
  readonly waiters = new Set<Waiter>();
  /** Sessions whose two-phase grant expired unseen, with the time; undefined = to be forgotten. */
  readonly lapsed = new Map<string, number | undefined>();
  limit: number | undefined;

  get isEmpty(): boolean {
    return this.slots.size + this.waiters.size + this.lapsed.size === 0 && this.limit === undefined;
  }
}
