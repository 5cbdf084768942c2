import type { KeyState } from "./state.ts";
import type { HolderView, KeyView, WaiterView } from "./types.ts";

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

function firstHolders({ held }: KeyState): HolderView[] {
  const holders: HolderView[] = [];
  for (const { session, since, expiresAt, fence } of held.values()) {
    if (holders.push({ session, since, expiresAt, fence }) === MOST_SHOWN) break;
  }
  return holders;
}

function firstWaiters({ queue }: KeyState): WaiterView[] {
  const waiters: WaiterView[] = [];
  for (const { session, joinedAt, deadline } of queue) {
    const isBounded = Number.isFinite(deadline);
    if (waiters.push({ session, joinedAt, deadline: isBounded ? deadline : undefined }) === MOST_SHOWN) break;
  }
  return waiters;
}
