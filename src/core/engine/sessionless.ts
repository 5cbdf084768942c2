import type { Bookkeeping } from "./bookkeeping.ts";
import type {
  AcquireCommand,
  AcquireOutcome,
  CommandContext,
  PickUpOutcome,
  Queued,
  Refusal,
  Sessionless,
  WouldWait,
} from "./commands.ts";
import type { Holds } from "./holds.ts";
import { Slot } from "./slots.ts";

/** A request for a lock by a holder without a session. */
export interface ClaimCommand extends Pick<AcquireCommand, "session" | "request" | "leaseSeconds" | "waitMs"> {
  readonly sessionless: Sessionless;
  /** Of a semaphore; absent for a lock. */
  readonly limit?: number;
  /** The caller makes the claim again if it would have to wait, in another way. */
  readonly mayWait?: false;
}

/** The hold with the highest fence of a key, at the time `at`. */
export interface CurrentHold {
  readonly session: string;
  /** The one that was granted the hold. */
  readonly request: string;
  /** 16 hex digits. */
  readonly fence: string;
  /** The last lease set if the holder has no session, else that of the grant. */
  readonly leaseSeconds: number;
  readonly expiresAt: number;
  readonly at: number;
  /** Undefined if the holder has a session. */
  readonly sessionless?: Sessionless;
}

interface WithHold<Status extends string> {
  readonly status: Status;
  readonly hold: CurrentHold;
}

interface WithHoldIfAny<Status extends string> {
  readonly status: Status;
  readonly hold?: CurrentHold;
}

/** `standing`: the holder made the same claim before, and nothing has changed. Refusals name no hold if the key is free by now. */
export type ClaimOutcome =
  | (WithHold<"granted"> & { readonly token: string })
  | WithHold<"standing">
  | Queued
  /** It may not wait: nothing has changed. `at`: the time by the key's clock. */
  | (WouldWait & { readonly at: number })
  | WithHoldIfAny<"timeout">
  /** `limit`: that of the key. */
  | (WithHoldIfAny<"limit_mismatch"> & { readonly limit: number })
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
  /** Undefined: the same as before. */
  readonly leaseSeconds: number | undefined;
  /** Undefined: the tag stays. */
  readonly tag: string | undefined;
}

/** `foreign`: the holder is of another kind. `mismatch`: it is of this kind, but not the one that is meant. */
export type RefreshOutcome = WithHold<"refreshed" | "mismatch" | "foreign"> | Refusal<"not_held" | "limit_mismatch">;
/** `removed` without a hold: the same call has removed it before. */
export type RemoveOutcome = WithHoldIfAny<"removed"> | WithHold<"mismatch" | "foreign"> | Refusal<"not_held">;

/** Prefixes the id of a request that can no longer withdraw what it was granted. */
const CONFIRMED = "confirmed:";

/** What holders without a session may ask about a lock and do to it. */
export class SessionlessHolds {
  readonly #books: Bookkeeping;
  readonly #holds: Holds;

  constructor(books: Bookkeeping, holds: Holds) {
    this.#books = books;
    this.#holds = holds;
  }

  current(now: number): CurrentHold | undefined {
    const slot = this.#holds.newest;
    return slot && currentHold(slot, now);
  }

  /** The reply to a claim whose holder has made it before, with another request; undefined if it is new. */
  standing({ request, sessionless }: ClaimCommand, now: number): ClaimOutcome | undefined {
    const { kind, mark } = sessionless;
    if (mark === undefined || this.#books.requests.has(request)) return undefined;
    const slot = this.#holds.newest;
    if (slot?.sessionless?.kind !== kind || slot.sessionless.mark !== mark) return undefined;
    this.#confirm(slot, now);
    return { status: "standing", hold: currentHold(slot, now) };
  }

  /** The reply to a claim that was granted and then confirmed by another request. */
  confirmed(request: string, now: number): ClaimOutcome | undefined {
    const slot = this.#books.requests.get(CONFIRMED + request);
    return slot instanceof Slot ? grantedClaim(slot, now) : undefined;
  }

  /** The reply to a claim, given the outcome of its request. */
  claimOutcome({ status }: AcquireOutcome | PickUpOutcome, request: string, now: number): ClaimOutcome {
    switch (status) {
      case "granted": {
        const slot = this.#books.requests.get(request);
        return slot instanceof Slot ? grantedClaim(slot, now) : { status: "lease_expired" };
      }
      case "would_wait":
        return { status, at: now };
      case "timeout":
        return { status, ...this.#currentIfAny(now) };
      case "limit_mismatch":
        return { status, limit: this.#holds.limit, ...this.#currentIfAny(now) };
      case "unknown":
        return { status: "lease_expired" };
      default:
        return { status };
    }
  }

  refresh(command: RefreshCommand, now: number): RefreshOutcome {
    const slot = this.#select(command, now);
    const isFound = slot instanceof Slot;
    this.#books.output.observations.push({ type: "renewed", result: isFound ? "ok" : "error" });
    if (!isFound) return slot;
    this.#confirm(slot, now);
    const { leaseSeconds = slot.leaseSeconds, tag } = command;
    slot.leaseSeconds = leaseSeconds;
    if (slot.sessionless && tag !== undefined) slot.sessionless = { ...slot.sessionless, tag };
    this.#holds.lease(slot, leaseSeconds, now);
    return { status: "refreshed", hold: currentHold(slot, now) };
  }

  remove(selector: HoldSelector, context: CommandContext, id: string | undefined): RemoveOutcome {
    if (this.#holds.releases.has(id)) return { status: "removed" };
    const slot = this.#select(selector, context.now);
    if (!(slot instanceof Slot)) return slot;
    const hold = currentHold(slot, context.now);
    this.#holds.releases.add(slot, id);
    // A claim that has not been answered yet has to be told that its hold is gone.
    this.#holds.free(slot, slot.isReported ? "returned" : "stolen", context);
    return { status: "removed", hold };
  }

  /**
   * A request other than the one that was granted the hold has been told of it: it counts as handed over, and neither an
   * unanswered notice nor a late `cancel` of the first request ends it.
   */
  #confirm(slot: Slot, now: number): void {
    if (!slot.isReported) this.#holds.report(slot, now);
    if (!slot.request.startsWith(CONFIRMED)) this.#holds.reassign(slot, CONFIRMED + slot.request);
  }

  #currentIfAny(now: number): { readonly hold?: CurrentHold } {
    const hold = this.current(now);
    return hold ? { hold } : {};
  }

  /** The slot that is meant, or why it must not be touched. */
  #select({ kind, which }: HoldSelector, now: number): Slot | WithHold<"mismatch" | "foreign"> | Refusal<"not_held"> {
    const slot = this.#holds.newest;
    if (!slot) return { status: "not_held" };
    const hold = currentHold(slot, now);
    if (this.#holds.limit !== 1 || slot.sessionless?.kind !== kind) return { status: "foreign", hold };
    return matches(slot, which) ? slot : { status: "mismatch", hold };
  }
}

function grantedClaim(slot: Slot, at: number): ClaimOutcome {
  return { status: "granted", token: slot.token, hold: currentHold(slot, at) };
}

function currentHold(slot: Slot, at: number): CurrentHold {
  const { session, request, fence, leaseSeconds, expiresAt, sessionless } = slot;
  return { session, request, fence, leaseSeconds, expiresAt, at, ...(sessionless && { sessionless }) };
}

function matches(slot: Slot, which: Which): boolean {
  switch (which.by) {
    case "any":
      return true;
    case "fence":
      return which.fences.includes(slot.fence);
    case "mark":
      return slot.sessionless?.mark === which.mark;
  }
}
