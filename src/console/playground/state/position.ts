import { type LeaseSeen, leaseOf } from "../../shared/lease.ts";
import type { KeySnapshot } from "./watch.ts";

/** A client's slot or place in the queue, according to the service. */
export type Position =
  | { readonly kind: "queue"; readonly position: number; readonly of: number }
  /** Not in the report, which does not list all waiters. */
  | { readonly kind: "unlisted"; readonly behind: number; readonly of: number }
  | { readonly kind: "slot"; readonly fence: string; readonly lease: LeaseSeen };

export type QueuePosition = Exclude<Position, { kind: "slot" }>;

export function placeOf(snapshot: KeySnapshot | undefined, label: string): Position | undefined {
  if (!snapshot?.report) return undefined;
  const { held_by, queue, waiters } = snapshot.report;
  const holder = held_by.find((holder) => holder.label === label);
  if (holder) return { kind: "slot", fence: holder.fence, lease: leaseOf(holder, snapshot.at) };
  const waiter = queue.find((waiter) => waiter.label === label);
  if (waiter) return { kind: "queue", position: waiter.position, of: waiters };
  return waiters > queue.length ? { kind: "unlisted", behind: queue.length, of: waiters } : undefined;
}

/** How many waiters are ahead, exactly or at least. */
export function aheadOf(place: QueuePosition): { readonly ahead: number; readonly isAtLeast?: true } {
  return place.kind === "queue" ? { ahead: place.position - 1 } : { ahead: place.behind, isAtLeast: true };
}
