import type { Bookkeeping } from "./bookkeeping.ts";
import type { LockRequest, Quorum, RoundRefusal, Sessionless } from "./commands.ts";
import type { Due } from "./deadlines.ts";
import { type Linked, LinkedList } from "./linked-list.ts";
import type { Notices } from "./notices.ts";
import { Slot } from "./slots.ts";
import type { StoredKey } from "./storage.ts";

const NEVER = Number.POSITIVE_INFINITY;

export type FinalOutcome = "timeout" | "lease_expired" | RoundRefusal["status"];

/**
 * A request in the queue. It outlives the queue until its session has answered: first it is queued, then either promoted
 * (`slot` is set) or ended (`outcome` is set), and finally settled.
 */
export class Waiter implements Due, Linked<Waiter> {
  /** Its place in the queue; rises with every join. */
  readonly place: number;
  readonly session: string;
  readonly request: string;
  /** It came by `enqueue`. */
  readonly isEnqueued: boolean;
  readonly leaseSeconds: number;
  readonly joinedAt: number;
  readonly sessionless: Sessionless | undefined;
  readonly quorum: Quorum | undefined;
  readonly asksWanted: boolean;
  deadline: number;
  /** It keeps its place, and until then neither it nor those behind it are promoted. */
  pausedUntil = 0;
  /** Why other deployments did not agree. */
  refusal: RoundRefusal | undefined;
  /** The `wait` in progress on an enqueued waiter. */
  waitRequest: string | undefined;
  slot: Slot | undefined;
  outcome: FinalOutcome | undefined;
  isSettled = false;
  /** It has a row. One that was offered a hold has none: the slot's row tells. */
  isStored = true;
  /** The client has been told the outcome. */
  isTold = false;
  notifyAt = NEVER;
  notices = 0;
  scheduledAt = NEVER;
  ahead: Waiter | undefined;
  behind: Waiter | undefined;

  constructor(
    from: Pick<Waiter, "place" | "session" | "request" | "isEnqueued" | "leaseSeconds" | "joinedAt" | "deadline"> & {
      readonly sessionless?: Sessionless | undefined;
      readonly quorum?: Quorum | undefined;
      readonly asksWanted?: boolean | undefined;
    },
  ) {
    this.place = from.place;
    this.session = from.session;
    this.request = from.request;
    this.isEnqueued = from.isEnqueued;
    this.leaseSeconds = from.leaseSeconds;
    this.joinedAt = from.joinedAt;
    this.sessionless = from.sessionless;
    this.quorum = from.quorum;
    this.asksWanted = from.asksWanted === true;
    this.deadline = from.deadline;
  }

  get isQueued(): boolean {
    return !this.isSettled && !this.slot && !this.outcome;
  }

  /** The request that will be answered: the `wait` if there is one. */
  get openRequest(): string {
    return this.waitRequest ?? this.request;
  }

  /** What its session is told. */
  get status(): "queued" | "timeout" | "lease_expired" {
    if (this.outcome === undefined) return "queued";
    return this.outcome === "lease_expired" ? this.outcome : "timeout";
  }

  get dueAt(): number {
    if (this.isSettled || this.slot) return NEVER;
    if (this.outcome) return this.notifyAt;
    return this.pausedUntil > 0 ? Math.min(this.deadline, this.pausedUntil) : this.deadline;
  }
}

/** Queueing: who waits, in order of arrival, and how each wait ends. */
export class WaitQueue {
  readonly #books: Bookkeeping;
  readonly #notices: Notices;
  readonly #list = new LinkedList<Waiter>();
  #nextPlace = 1;

  constructor(books: Bookkeeping, notices: Notices) {
    this.#books = books;
    this.#notices = notices;
  }

  get length(): number {
    return this.#list.length;
  }

  /** Whether a waiter's deadline is still ahead. Waiters past theirs may still be in the list. */
  isAnyoneLeft(now: number): boolean {
    for (const { deadline } of this.#list) if (deadline > now) return true;
    return false;
  }

  get head(): Waiter | undefined {
    return this.#list.head;
  }

  [Symbol.iterator](): Iterator<Waiter> {
    return this.#list[Symbol.iterator]();
  }

  /** Adds a waiter at the end. */
  join(
    { session, request, leaseSeconds, sessionless, quorum, asksWanted }: LockRequest,
    { isEnqueued, deadline }: Pick<Waiter, "isEnqueued" | "deadline">,
    now: number,
  ): Waiter {
    const place = this.#nextPlace++;
    const asked = { session, request, leaseSeconds, sessionless, quorum, asksWanted };
    const waiter = new Waiter({ ...asked, place, isEnqueued, deadline, joinedAt: now });
    this.#list.push(waiter);
    this.#books.requests.add(waiter);
    this.#books.deadlines.schedule(waiter);
    this.#books.touch(now);
    this.#books.output.changes.waiters.add(waiter);
    return waiter;
  }

  /** The `wait` with this id now waits on an enqueued waiter, in place of any earlier one. */
  startWait(waiter: Waiter, request: string, deadline: number): void {
    this.#books.requests.move(waiter, waiter.openRequest, request);
    waiter.waitRequest = request;
    waiter.deadline = deadline;
    this.#books.deadlines.schedule(waiter);
    this.#books.output.changes.waiters.add(waiter);
  }

  /**
   * A `wait` was cut off before its client heard how it ended: the waiter stays as if that `wait` had not been made. If it
   * had timed out, it goes back to its place in the queue.
   */
  interruptWait(waiter: Waiter, now: number): void {
    const { session, outcome } = waiter;
    const { records, output } = this.#books;
    if (outcome && (waiter.isTold || records.has(session))) this.settle(waiter);
    else if (outcome === "lease_expired") {
      records.addLapse(session, now);
      this.settle(waiter);
    } else {
      // `waitRequest` stays, so that a late `cancel` still finds the waiter.
      waiter.deadline = NEVER;
      output.changes.waiters.add(waiter);
      if (outcome) this.#putBack(waiter);
    }
  }

  /** The `wait` on a waiter that is still queued is over, and nothing more will be heard of it. */
  forgetWait(waiter: Waiter): void {
    if (!waiter.isQueued) return;
    this.#books.requests.move(waiter, waiter.openRequest, waiter.request);
    waiter.waitRequest = undefined;
    this.#books.deadlines.schedule(waiter);
    this.#books.output.changes.waiters.add(waiter);
  }

  /** Takes the waiter out of the queue: it has been promoted to this slot. */
  promote(waiter: Waiter, slot: Slot): void {
    this.#list.remove(waiter);
    waiter.slot = slot;
    slot.waiter = waiter;
    slot.place = waiter.place;
    if (slot.isOffered) this.#unstore(waiter);
  }

  /** The promotion of a waiter failed: it is back at the head of the queue. */
  stepBack(waiter: Waiter, pausedUntil: number): void {
    waiter.slot = undefined;
    waiter.pausedUntil = pausedUntil;
    this.#books.requests.set(waiter.openRequest, waiter);
    this.#books.deadlines.schedule(waiter);
    this.#insert(waiter);
  }

  /** It keeps its place, and has its turn at this time at the earliest. */
  pause(waiter: Waiter, until: number): void {
    waiter.pausedUntil = until;
    this.#books.deadlines.schedule(waiter);
  }

  /** The pause is over. */
  resume(waiter: Waiter): void {
    waiter.pausedUntil = 0;
    this.#books.deadlines.schedule(waiter);
  }

  /** The wait has ended without a hold; its session is notified until it answers. */
  end(waiter: Waiter, outcome: FinalOutcome, now: number): void {
    const { requests, records, output } = this.#books;
    if (outcome !== "lease_expired") this.#list.remove(waiter);
    waiter.outcome = outcome;
    requests.set(waiter.openRequest, waiter);
    records.remove(waiter);
    this.#books.touch(now);
    // A time-out follows from the stored deadline; only an expired grant has to be written.
    if (outcome === "lease_expired") {
      waiter.isStored = true;
      output.changes.waiters.add(waiter);
    }
    this.#notices.send(waiter, now);
  }

  /** The client is told the outcome, if there is one. Counts a time-out once. */
  markTold(waiter: Waiter): void {
    if (!waiter.outcome || waiter.isTold) return;
    waiter.isTold = true;
    if (waiter.outcome === "timeout") this.#books.output.observations.push({ type: "timeout" });
  }

  /** Drops a queued or ended waiter. Its session is not notified. */
  remove(waiter: Waiter, now: number): void {
    if (waiter.isQueued) {
      this.#list.remove(waiter);
      this.#books.touch(now);
    }
    this.settle(waiter);
  }

  /** The session has answered, or will not: nothing is kept of the waiter. */
  settle(waiter: Waiter): void {
    if (waiter.isSettled) return;
    waiter.isSettled = true;
    if (waiter.slot) {
      waiter.slot.waiter = undefined;
      waiter.slot.notifyAt = NEVER;
    }
    this.#books.records.remove(waiter);
    this.#books.requests.remove(waiter);
    this.#unstore(waiter);
  }

  /** Slots must have been restored before. */
  restore({ slots, waiters }: StoredKey): void {
    for (const slot of slots) {
      this.#nextPlace = Math.max(this.#nextPlace, slot.place + 1);
      if (slot.isUnconfirmed) this.#restorePromoted(waiterOf(slot), slot);
    }
    for (const waiter of waiters) {
      this.#nextPlace = Math.max(this.#nextPlace, waiter.place + 1);
      if (waiter.slot) this.#restorePromoted(waiter, waiter.slot);
      else this.#restoreWaiting(waiter);
    }
  }

  #unstore(waiter: Waiter): void {
    if (!waiter.isStored) return;
    waiter.isStored = false;
    this.#books.output.changes.waiters.add(waiter);
  }

  #restorePromoted(waiter: Waiter, slot: Slot): void {
    slot.waiter = waiter;
    if (!slot.isInRound) slot.notifyAt = 0;
    this.#books.deadlines.schedule(slot);
    this.#books.requests.addToSession(waiter);
  }

  #restoreWaiting(waiter: Waiter): void {
    const { requests, records, deadlines } = this.#books;
    requests.add(waiter);
    if (waiter.waitRequest !== undefined) requests.move(waiter, waiter.request, waiter.waitRequest);
    if (waiter.outcome) waiter.notifyAt = 0;
    else {
      this.#list.push(waiter);
      if (waiter.isEnqueued && !(records.get(waiter.session) instanceof Slot)) records.add(waiter);
    }
    deadlines.schedule(waiter);
  }

  #putBack(waiter: Waiter): void {
    waiter.outcome = undefined;
    waiter.notifyAt = NEVER;
    waiter.notices = 0;
    this.#books.records.add(waiter);
    this.#insert(waiter);
  }

  #insert(waiter: Waiter): void {
    this.#list.insert(waiter, ({ place }) => place > waiter.place);
  }
}

/** The waiter that was offered this hold, as far as the slot's row tells. */
function waiterOf(slot: Slot): Waiter {
  const { place, session, request, leaseSeconds, since: joinedAt, asksWanted } = slot;
  const asked = { session, request, leaseSeconds, asksWanted };
  const waiter = new Waiter({ ...asked, place, isEnqueued: false, joinedAt, deadline: NEVER });
  waiter.slot = slot;
  waiter.isStored = false;
  return waiter;
}
