import { type LeaseSeen, leaseOf } from "../../shared/lease.ts";
import type { Sight } from "./watch.ts";

/** Where somebody stands on a key, as the service sees it. */
export type Position =
  | { readonly kind: "queue"; readonly position: number; readonly of: number }
  /** In no slot and not among those whom the report lists, but it does not list all who wait. */
  | { readonly kind: "unlisted"; readonly behind: number; readonly of: number }
  | { readonly kind: "slot"; readonly fence: string; readonly lease: LeaseSeen };

export type QueuePosition = Exclude<Position, { kind: "slot" }>;

export function placeOf(sight: Sight | undefined, label: string): Position | undefined {
  if (!sight?.report) return undefined;
  const { held_by, queue, waiters } = sight.report;
  const holder = held_by.find((holder) => holder.label === label);
  if (holder) return { kind: "slot", fence: holder.fence, lease: leaseOf(holder, sight.at) };
  const waiter = queue.find((waiter) => waiter.label === label);
  if (waiter) return { kind: "queue", position: waiter.position, of: waiters };
  return waiters > queue.length ? { kind: "unlisted", behind: queue.length, of: waiters } : undefined;
}

/** How many stand before such a place, or at least how many. */
export function aheadOf(place: QueuePosition): { readonly ahead: number; readonly isAtLeast?: true } {
  return place.kind === "queue" ? { ahead: place.position - 1 } : { ahead: place.behind, isAtLeast: true };
}
