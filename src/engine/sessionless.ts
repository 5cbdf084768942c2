import type {
  AcquireCommand,
  AcquireOutcome,
  Moment,
  PickUpOutcome,
  Queued,
  Refusal,
  Sessionless,
} from "./commands.ts";
import { Slot } from "./members.ts";
import type { KeyState } from "./state.ts";

/** A request for the lock by a holder without a session. */
export interface ClaimCommand extends Pick<AcquireCommand, "session" | "request" | "leaseSeconds" | "waitMs"> {
  readonly sessionless: Sessionless;
}

/** The hold with the highest fence of a key, as of the moment `at`. */
export interface CurrentHold {
  readonly session: string;
  /** 16 hex digits. */
  readonly fence: string;
  /** Of a holder without a session the lease last set, otherwise that of the grant. */
  readonly leaseSeconds: number;
  readonly expiresAt: number;
  readonly at: number;
  /** Undefined if the holder has a session. */
  readonly sessionless?: Sessionless;
}

interface With<Status extends string> {
  readonly status: Status;
  readonly hold: CurrentHold;
}

/** Somebody else may hold the key; undefined if nobody does by now. */
interface Against<Status extends string> {
  readonly status: Status;
  readonly hold?: CurrentHold;
}

/** `standing`: the holder made this very claim before, and nothing has changed. */
export type ClaimOutcome =
  | With<"granted" | "standing">
  | Queued
  | Against<"timeout" | "limit_mismatch">
  | Refusal<"max_locks" | "max_waiters" | "fence_persistence" | "lease_expired">;

/** Which hold is meant: any, the one with one of these fences (16 hex digits each), or the one with this mark. */
export type Which =
  | { readonly by: "any" }
  | { readonly by: "fence"; readonly fences: readonly string[] }
  | { readonly by: "mark"; readonly mark: string };

export interface HoldSelector {
  readonly kind: string;
  readonly which: Which;
}

export interface RefreshCommand extends HoldSelector {
  /** Undefined: as long as the last one. */
  readonly leaseSeconds: number | undefined;
  /** Undefined: the tag stays. */
  readonly tag: string | undefined;
}

/** `foreign`: the holder is not of the kind that asks. `mismatch`: it is, but another one than was meant. */
export type RefreshOutcome = With<"refreshed" | "mismatch" | "foreign"> | Refusal<"not_held" | "limit_mismatch">;
export type RemoveOutcome = With<"removed" | "mismatch" | "foreign"> | Refusal<"not_held">;

/** The slot whose grant is the newest, handed over or not. */
function newestHold({ held }: KeyState): Slot | undefined {
  let newest: Slot | undefined;
  for (const slot of held.values()) if (!newest || slot.token > newest.token) newest = slot;
  return newest;
}

export function currentHold(state: KeyState, at: number): CurrentHold | undefined {
  const slot = newestHold(state);
  return slot && holdIn(slot, at);
}

export function refreshHold(state: KeyState, command: RefreshCommand, now: number): RefreshOutcome {
  const slot = select(state, command, now);
  const isMeant = slot instanceof Slot;
  state.output.observations.push({ type: "renewed", result: isMeant ? "ok" : "error" });
  if (!isMeant) return slot;
  confirmHold(state, slot, now);
  const { leaseSeconds = slot.leaseSeconds, tag } = command;
  slot.leaseSeconds = leaseSeconds;
  if (slot.sessionless && tag !== undefined) slot.sessionless = { ...slot.sessionless, tag };
  state.lease(slot, leaseSeconds, now);
  return { status: "refreshed", hold: holdIn(slot, now) };
}

export function removeHold(state: KeyState, selector: HoldSelector, moment: Moment): RemoveOutcome {
  const slot = select(state, selector, moment.now);
  if (!(slot instanceof Slot)) return slot;
  const hold = holdIn(slot, moment.now);
  // Whoever still waits for the answer to its claim has to be told that the hold is gone.
  state.endHold(slot, slot.isReported ? "returned" : "stolen", moment.now);
  state.promote(moment);
  return { status: "removed", hold };
}

export function holdIn({ session, fence, leaseSeconds, expiresAt, sessionless }: Slot, at: number): CurrentHold {
  return { session, fence, leaseSeconds, expiresAt, at, ...(sessionless && { sessionless }) };
}

/** The hold that an earlier request for the same claim was granted. */
export function standingHold(state: KeyState, { request, sessionless }: ClaimCommand): Slot | undefined {
  const { kind, mark } = sessionless;
  if (mark === undefined || state.requests.has(request)) return undefined;
  const slot = newestHold(state);
  return slot?.sessionless?.kind === kind && slot.sessionless.mark === mark ? slot : undefined;
}

/** Marks the id of a request that can no longer withdraw what it was granted. */
const CONFIRMED = "confirmed:";

/**
 * Another request than the one that was granted the hold has been told that it stands: it is handed over, and from here on
 * neither an unanswered notice nor a late withdrawal of the first request ends it.
 */
export function confirmHold(state: KeyState, slot: Slot, now: number): void {
  if (!slot.isReported) state.report(slot, now);
  if (slot.request.startsWith(CONFIRMED)) return;
  const confirmed = CONFIRMED + slot.request;
  state.requests.move(slot, slot.request, confirmed);
  slot.request = confirmed;
  state.output.changes.slots.add(slot);
}

/** The hold that this request was granted, if it has been confirmed since. */
export function confirmedHold({ requests }: KeyState, request: string): Slot | undefined {
  const slot = requests.get(CONFIRMED + request);
  return slot instanceof Slot ? slot : undefined;
}

/** The slot that is meant, or why it is not to be touched. */
function select(
  state: KeyState,
  { kind, which }: HoldSelector,
  at: number,
): Slot | With<"mismatch" | "foreign"> | Refusal<"not_held"> {
  const slot = newestHold(state);
  if (!slot) return { status: "not_held" };
  const hold = holdIn(slot, at);
  if (state.limit !== 1 || slot.sessionless?.kind !== kind) return { status: "foreign", hold };
  return isMeant(slot, which) ? slot : { status: "mismatch", hold };
}

function isMeant(slot: Slot, which: Which): boolean {
  switch (which.by) {
    case "any":
      return true;
    case "fence":
      return which.fences.includes(slot.fence);
    case "mark":
      return slot.sessionless?.mark === which.mark;
  }
}

/** What became of a claim, from what became of its request. */
export function claimOutcome(
  state: KeyState,
  { status }: AcquireOutcome | PickUpOutcome,
  request: string,
  at: number,
): ClaimOutcome {
  switch (status) {
    case "granted": {
      const slot = state.requests.get(request);
      return slot instanceof Slot ? { status, hold: holdIn(slot, at) } : { status: "lease_expired" };
    }
    // A claim may always wait.
    case "would_wait":
      return { status: "timeout" };
    case "timeout":
    case "limit_mismatch": {
      const hold = currentHold(state, at);
      return { status, ...(hold && { hold }) };
    }
    case "unknown":
      return { status: "lease_expired" };
    default:
      return { status };
  }
}
