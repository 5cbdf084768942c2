import type { Sessionless } from "./commands.ts";
import type { Due } from "./deadlines.ts";
import { fenceOfToken, timeOfFence } from "./fence.ts";
import type { Linked } from "./linked-list.ts";

const NEVER = Number.POSITIVE_INFINITY;

/** One of a key's `limit` places. A free slot keeps its last token, so the fence in it is never forgotten. */
export class Slot implements Due {
  readonly index: number;
  token = "";
  isHeld = false;
  session = "";
  /** The request that was, or will be, answered with the token. */
  request = "";
  leaseSeconds = 0;
  /** End of the lease; of a free slot, the moment it became free. */
  expiresAt = 0;
  /** When the request reached the key; from the moment the token is handed over, that moment. */
  since = 0;
  /** The token has been handed to the client. */
  isReported = false;
  /** The hold is a two-phase record of its session: `wait` has not been answered yet. */
  hasRecord = false;
  /** The place in the queue that led here; 0 if there was no queue. */
  place = 0;
  /** Set while the holder is one without a session. */
  sessionless: Sessionless | undefined;
  /** The queue entry that became this hold, until its session has answered. */
  waiter: Waiter | undefined;
  /** When to tell the session (again) that it has been promoted. */
  notifyAt = NEVER;
  /** How often it has been told. */
  notices = 0;
  scheduledAt = NEVER;

  constructor(index: number) {
    this.index = index;
  }

  /** The part of the token that may be shown: it names the hold, but proves nothing. */
  get fence(): string {
    return this.token.slice(0, 16);
  }

  /** When the token was handed over; before that, when the slot was given to the place in the queue. */
  get heldSince(): number {
    if (this.isReported) return this.since;
    // The fence tells the time of the grant. If fences are ahead of the clock, the lease does; one that is shorter than the
    // time for the pick-up then seems to begin some seconds late, which is better than a row for it.
    return Math.min(timeOfFence(fenceOfToken(this.token)), this.expiresAt - this.leaseSeconds * 1000);
  }

  get dueAt(): number {
    return this.isHeld ? Math.min(this.expiresAt, this.notifyAt) : NEVER;
  }
}

export type FinalOutcome = "timeout" | "lease_expired";

/**
 * A place in the queue. It outlives the queue until its session has answered: first `queued`, then either promoted
 * (`slot` is set) or ended (`outcome` is set), at last settled.
 */
export class Waiter implements Due, Linked<Waiter> {
  /** Rising with every join; the order of the queue. */
  readonly place: number;
  readonly session: string;
  readonly request: string;
  readonly isEnqueued: boolean;
  readonly leaseSeconds: number;
  readonly joinedAt: number;
  readonly sessionless: Sessionless | undefined;
  deadline: number;
  /** The `wait` in progress on an enqueued place. */
  waitRequest: string | undefined;
  slot: Slot | undefined;
  outcome: FinalOutcome | undefined;
  isSettled = false;
  /** The client has been given the outcome. */
  isTold = false;
  notifyAt = NEVER;
  notices = 0;
  scheduledAt = NEVER;
  ahead: Waiter | undefined;
  behind: Waiter | undefined;

  constructor(
    from: Pick<Waiter, "place" | "session" | "request" | "isEnqueued" | "leaseSeconds" | "joinedAt" | "deadline"> & {
      readonly sessionless?: Sessionless | undefined;
    },
  ) {
    this.place = from.place;
    this.session = from.session;
    this.request = from.request;
    this.isEnqueued = from.isEnqueued;
    this.leaseSeconds = from.leaseSeconds;
    this.joinedAt = from.joinedAt;
    this.sessionless = from.sessionless;
    this.deadline = from.deadline;
  }

  get isQueued(): boolean {
    return !this.isSettled && !this.slot && !this.outcome;
  }

  /** The request that hears of this place's fate. */
  get listener(): string {
    return this.waitRequest ?? this.request;
  }

  get dueAt(): number {
    if (this.isSettled || this.slot) return NEVER;
    return this.outcome ? this.notifyAt : this.deadline;
  }
}
