import { identityOf, tagOf } from "./identity.ts";
import type { Slot } from "./members.ts";
import type { KeyState } from "./state.ts";
import type { HolderView, KeyView, StandingHold, WaiterView } from "./types.ts";

/** A semaphore may have a million holders, and as many wait; nobody wants to see them all at once. */
const MOST_SHOWN = 100;

/** A key as it stands, without its tokens. */
export function viewOf(state: KeyState, { detail }: { readonly detail: boolean }): KeyView {
  const { limit, held, queue, lastActivity } = state;
  return {
    limit,
    holderCount: held.size,
    holders: firstHolders(state),
    waiters: queue.length,
    queue: detail ? firstWaiters(state) : [],
    lastActivity,
  };
}

/** The newest holds that are in their clients' hands, `most` of them at most, in the order of their hand-over. */
export function newestHolds({ held }: KeyState, most: number): StandingHold[] {
  let newest: Slot[] = [];
  for (const slot of held.values()) {
    if (!slot.isReported || newest.push(slot) < 2 * most) continue;
    // There may be a million: they are sorted in parts, of which only the newest are kept.
    newest = newest.sort(byHandOver).slice(-most);
  }
  return newest
    .sort(byHandOver)
    .slice(-most)
    .map((slot) => ({ ...identityOf(slot), since: slot.since, isImmediate: slot.place === 0 }));
}

function byHandOver(a: Slot, b: Slot): number {
  return a.since - b.since || (a.token < b.token ? -1 : 1);
}

function firstHolders({ held }: KeyState): HolderView[] {
  const holders: HolderView[] = [];
  for (const slot of held.values()) {
    const { heldSince, leaseSeconds, expiresAt } = slot;
    if (holders.push({ ...identityOf(slot), since: heldSince, leaseSeconds, expiresAt }) === MOST_SHOWN) break;
  }
  return holders;
}

function firstWaiters({ queue }: KeyState): WaiterView[] {
  const waiters: WaiterView[] = [];
  for (const { session, joinedAt, deadline, sessionless } of queue) {
    const view = { session, joinedAt, deadline: Number.isFinite(deadline) ? deadline : undefined };
    if (waiters.push({ ...view, ...tagOf(sessionless) }) === MOST_SHOWN) break;
  }
  return waiters;
}
