import type { Slot, Waiter } from "./members.ts";

/** What a command has changed, each thing once however often it was touched, for the store to write. */
export class Changes {
  readonly slots = new Set<Slot>();
  readonly waiters = new Set<Waiter>();
  /** Sessions whose two-phase grant ran out unseen, with the time; undefined = no longer remembered. */
  readonly lapsed = new Map<string, number | undefined>();
  limit: number | undefined;

  get isEmpty(): boolean {
    return this.slots.size + this.waiters.size + this.lapsed.size === 0 && this.limit === undefined;
  }
}
