import { type LeaseSeen, leaseOf } from "../lease.ts";
import type { Sight } from "./watch.ts";

/** Where somebody stands on a key, as the service sees it. */
export type Place =
  | { readonly kind: "queue"; readonly position: number; readonly of: number }
  | { readonly kind: "slot"; readonly fence: string; readonly lease: LeaseSeen };

export function placeOf(sight: Sight | undefined, label: string): Place | undefined {
  if (!sight?.report) return undefined;
  const { held_by, queue, waiters } = sight.report;
  const holder = held_by.find((holder) => holder.label === label);
  if (holder) return { kind: "slot", fence: holder.fence, lease: leaseOf(holder, sight.at) };
  const waiter = queue.find((waiter) => waiter.label === label);
  return waiter && { kind: "queue", position: waiter.position, of: waiters };
}
