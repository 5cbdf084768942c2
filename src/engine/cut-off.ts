import type { WaitCommand } from "./commands.ts";
import { type Slot, Waiter } from "./members.ts";
import type { KeyState } from "./state.ts";

/** Nobody is about to pick this hold up: from now on it lasts no longer than its lease. */
export function startLease(state: KeyState, slot: Slot, now: number): void {
  if (now + slot.leaseSeconds * 1000 < slot.expiresAt) state.lease(slot, slot.leaseSeconds, now);
}

/**
 * The `wait` on an enqueued place was cut off, and its client has not heard how it ended: the place is kept as if that
 * `wait` had not been made. One whose time was over goes back to where it stood.
 */
export function keepPlace(state: KeyState, waiter: Waiter, now: number): void {
  const { session, slot, outcome } = waiter;
  if (slot) {
    waiter.waitRequest = undefined;
    startLease(state, slot, now);
    state.settle(waiter);
  } else if (outcome && (waiter.isTold || state.records.has(session))) state.settle(waiter);
  else if (outcome === "lease_expired") {
    state.records.addLapse(session, now);
    state.settle(waiter);
  } else {
    // The place keeps the name of the request, so that a withdrawal that comes late still finds it.
    waiter.deadline = Number.POSITIVE_INFINITY;
    state.output.changes.waiters.add(waiter);
    if (outcome) putBack(state, waiter);
  }
}

/** The session of `command` knows that every earlier `wait` of its own on the key was cut off. */
export function keepPlacesOf(state: KeyState, { session, request }: WaitCommand, now: number): void {
  // The same command again has cut nobody off.
  if (state.requests.has(request)) return;
  for (const member of state.requests.ofSession(session)) {
    if (member instanceof Waiter && member.waitRequest !== undefined) keepPlace(state, member, now);
  }
}

function putBack(state: KeyState, waiter: Waiter): void {
  waiter.outcome = undefined;
  waiter.notifyAt = Number.POSITIVE_INFINITY;
  waiter.notices = 0;
  state.records.add(waiter);
  state.queue.insert(waiter, ({ place }) => place > waiter.place);
}
