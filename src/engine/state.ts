import { Changes } from "./changes.ts";
import { Deadlines } from "./deadlines.ts";
import { type Fence, FenceExhaustedError, fenceOfToken, fenceToHex, nextFence } from "./fence.ts";
import { type FinalOutcome, Slot, Waiter } from "./members.ts";
import { Queue } from "./queue.ts";
import type { Granted, KeyEvent, LossReason, Moment, NoticeKind } from "./types.ts";

const NEVER = Number.POSITIVE_INFINITY;
/** A notice that got no answer is repeated after this time, then ever less often. */
const FIRST_REPEAT_MS = 900;
const LONGEST_REPEAT_MS = 10_000;
/** A client that timed out and cannot be told so is given up after this many tries. */
const MOST_NOTICES = 30;

/** How a hold ends. `left` and `withdrawn` are its own session's doing. */
export type End = LossReason | "left" | "withdrawn";

/** What was stored of a key: everything needed to go on as if nothing had happened. */
export interface StoredKey {
  readonly limit: number;
  /** At least every fence of this key that is not in a slot any more. */
  readonly fence: Fence;
  /** Last activity that the slots do not show themselves. */
  readonly lastActivity: number;
  readonly slots: readonly Slot[];
  /** In the order of their places; `slot` is set on those that were promoted and not answered yet. */
  readonly waiters: readonly Waiter[];
  readonly lapsed: readonly (readonly [session: string, at: number])[];
}

/** What a new hold belongs to. */
interface Claim {
  readonly session: string;
  readonly request: string;
  readonly leaseSeconds: number;
}

/**
 * A key's slots, queue and indexes, and the steps that change them. Each step keeps the parts in agreement; which
 * steps a command takes is the engine's business.
 */
export class KeyState {
  limit: number;
  lastFence: Fence;
  lastActivity: number;
  changes = new Changes();
  events: KeyEvent[] = [];
  readonly held = new Map<string, Slot>();
  readonly queue = new Queue<Waiter>();
  readonly requests = new Map<string, Slot | Waiter>();
  readonly records = new Map<string, Slot | Waiter>();
  readonly #bySession = new Map<string, Set<Slot | Waiter>>();
  readonly #lapsed = new Map<string, number>();
  /** No lapse is older than this. */
  #oldestLapse = NEVER;
  readonly #deadlines = new Deadlines<Slot | Waiter>();
  readonly #slots: Slot[] = [];
  #free: Slot[] = [];
  #nextPlace = 1;

  constructor(stored: StoredKey) {
    this.limit = stored.limit;
    this.lastFence = stored.fence;
    this.lastActivity = stored.lastActivity;
    for (const slot of stored.slots) this.#restoreSlot(slot);
    for (const waiter of stored.waiters) this.#restoreWaiter(waiter);
    for (const [session, at] of stored.lapsed) {
      this.#lapsed.set(session, at);
      this.#oldestLapse = Math.min(this.#oldestLapse, at);
    }
  }

  /** Nobody holds or waits. */
  get isIdle(): boolean {
    return this.held.size === 0 && this.queue.length === 0;
  }

  /** Beside holders and waiters there is somebody who has not heard yet how his wait ended. */
  get hasNews(): boolean {
    return this.requests.size > this.held.size + this.queue.length;
  }

  earliestDeadline(): number {
    return this.#deadlines.earliest();
  }

  takeDue(now: number): Slot | Waiter | undefined {
    return this.#deadlines.takeDue(now);
  }

  membersOf(session: string): (Slot | Waiter)[] {
    return [...(this.#bySession.get(session) ?? [])];
  }

  setLimit(limit: number): void {
    this.limit = limit;
    this.changes.limit = limit;
    this.#free = this.#slots.filter((slot) => !slot.isHeld && slot.index < limit);
  }

  takeFreeSlot(): Slot | undefined {
    const free = this.#free.pop();
    if (free || this.#slots.length >= this.limit) return free;
    const slot = new Slot(this.#slots.length);
    this.#slots.push(slot);
    return slot;
  }

  giveBack(slot: Slot): void {
    this.#free.push(slot);
  }

  /** Makes a free slot a hold with a token of its own. When fences have run out it throws and nothing has changed. */
  hold(slot: Slot, { session, request, leaseSeconds }: Claim, moment: Moment): void {
    try {
      this.lastFence = nextFence(this.lastFence, moment.fenceFloor, moment.now);
    } catch (error) {
      this.giveBack(slot);
      throw error;
    }
    slot.token = fenceToHex(this.lastFence) + moment.salt();
    slot.isHeld = true;
    slot.session = session;
    slot.request = request;
    slot.leaseSeconds = leaseSeconds;
    slot.since = moment.now;
    slot.notices = 0;
    slot.place = 0;
    this.held.set(slot.token, slot);
    this.#enrol(slot);
    this.lease(slot, leaseSeconds, moment.now);
  }

  lease(slot: Slot, leaseSeconds: number, now: number): void {
    slot.expiresAt = now + leaseSeconds * 1000;
    this.#deadlines.schedule(slot);
    this.#touch(now);
    this.changes.slots.add(slot);
  }

  /**
   * The token is about to be told: the two-phase record is done with, and the lease starts in full. One that was told
   * before may have been renewed since, so it is never cut short.
   */
  report(slot: Slot, now: number): Granted {
    const isRenewed = slot.isReported && !slot.hasRecord && slot.expiresAt > now + slot.leaseSeconds * 1000;
    slot.isReported = true;
    slot.notifyAt = NEVER;
    this.clearRecord(slot);
    if (slot.waiter) this.settle(slot.waiter);
    if (!isRenewed) this.lease(slot, slot.leaseSeconds, now);
    return { status: "granted", token: slot.token, leaseSeconds: slot.leaseSeconds };
  }

  /** Ends a hold at `at`. Whoever waits for it is told by `promote`, which the caller owes. */
  endHold(slot: Slot, end: End, at: number, now = at): void {
    const { session, token, waiter, isReported } = slot;
    const isUnseenRecord = end === "expired" && slot.hasRecord && !waiter?.waitRequest;
    this.clearRecord(slot);
    if (isUnseenRecord) this.#setLapsed(session, at);
    this.held.delete(token);
    this.#dismiss(slot);
    slot.waiter = undefined;
    if (waiter) {
      waiter.slot = undefined;
      if (end === "expired" && !isUnseenRecord) this.finish(waiter, "lease_expired", now);
      else this.settle(waiter);
    }
    slot.isHeld = false;
    slot.isReported = false;
    slot.expiresAt = at;
    slot.notifyAt = NEVER;
    slot.session = "";
    slot.request = "";
    if (slot.index < this.limit) this.giveBack(slot);
    this.#touch(at);
    this.changes.slots.add(slot);
    const isLoss = end === "expired" || end === "released" || end === "stolen";
    if (isLoss && isReported) this.events.push({ type: "lost", session, token, reason: end });
  }

  /** Puts a new waiter at the end of the queue. */
  join(claim: Claim, { isEnqueued, deadline }: { isEnqueued: boolean; deadline: number }, now: number): Waiter {
    const waiter = new Waiter({ ...claim, place: this.#nextPlace++, isEnqueued, deadline, joinedAt: now });
    this.queue.push(waiter);
    this.#enrol(waiter);
    this.#deadlines.schedule(waiter);
    this.#touch(now);
    this.changes.waiters.add(waiter);
    return waiter;
  }

  /** An enqueued waiter is now waited for, until `deadline`. */
  listen(waiter: Waiter, request: string, deadline: number): void {
    this.requests.delete(waiter.request);
    waiter.waitRequest = request;
    waiter.deadline = deadline;
    this.requests.set(request, waiter);
    this.#deadlines.schedule(waiter);
    this.changes.waiters.add(waiter);
  }

  /** Takes a waiter out of the queue for good; nobody has to be told. */
  dequeue(waiter: Waiter, now: number): void {
    this.queue.remove(waiter);
    this.#touch(now);
    this.settle(waiter);
  }

  /** A waiter's time is over without a hold; its session is told until it answers. */
  finish(waiter: Waiter, outcome: FinalOutcome, now: number): void {
    if (waiter.isQueued && outcome === "timeout") this.queue.remove(waiter);
    waiter.outcome = outcome;
    this.requests.set(waiter.listener, waiter);
    if (this.records.get(waiter.session) === waiter) this.records.delete(waiter.session);
    this.#touch(now);
    // A time-out shows in the stored deadline; only a lapsed grant has to be written down.
    if (outcome === "lease_expired") this.changes.waiters.add(waiter);
    this.notify(waiter, now);
  }

  /** The waiter's session knows its fate: nothing of it is left. */
  settle(waiter: Waiter): void {
    if (waiter.isSettled) return;
    waiter.isSettled = true;
    if (waiter.slot) {
      waiter.slot.waiter = undefined;
      waiter.slot.notifyAt = NEVER;
    }
    if (this.records.get(waiter.session) === waiter) this.records.delete(waiter.session);
    this.#dismiss(waiter);
    this.changes.waiters.add(waiter);
  }

  /**
   * Gives free slots to the queue, first come, first served. `freedAt` are the moments at which slots became free,
   * in order: a waiter whose deadline was earlier than that came too late for the slot.
   */
  promote(moment: Moment, freedAt: readonly number[] = []): void {
    let next = 0;
    for (let head = this.queue.head; head; head = this.queue.head) {
      const slot = this.takeFreeSlot();
      if (!slot) return;
      if (head.deadline < (freedAt[next] ?? moment.now)) {
        this.giveBack(slot);
        this.finish(head, "timeout", moment.now);
        continue;
      }
      next += 1;
      if (!this.#promoteTo(slot, head, moment)) return;
    }
  }

  /** False when fences have run out: nobody can be granted, the waiter keeps its place. */
  #promoteTo(slot: Slot, waiter: Waiter, moment: Moment): boolean {
    const { session, listener, leaseSeconds, isEnqueued } = waiter;
    try {
      this.hold(slot, { session, request: listener, leaseSeconds }, moment);
    } catch (error) {
      if (error instanceof FenceExhaustedError) return false;
      throw error;
    }
    this.queue.remove(waiter);
    waiter.slot = slot;
    slot.waiter = waiter;
    slot.place = waiter.place;
    slot.isReported = false;
    slot.hasRecord = isEnqueued;
    if (isEnqueued) this.records.set(session, slot);
    this.notify(slot, moment.now);
    return true;
  }

  /** Tells a session of a promotion or an end, and again later unless it answers. */
  notify(subject: Slot | Waiter, now: number): void {
    const isSlot = subject instanceof Slot;
    if (!isSlot && subject.notices >= MOST_NOTICES) {
      this.settle(subject);
      return;
    }
    subject.notices += 1;
    subject.notifyAt = now + Math.min(FIRST_REPEAT_MS * 2 ** (subject.notices - 1), LONGEST_REPEAT_MS);
    this.#deadlines.schedule(subject);
    const request = isSlot ? subject.request : subject.listener;
    const kind = isSlot ? promotionOf(subject) : subject.outcome;
    if (kind) this.events.push({ type: "notice", session: subject.session, request, kind });
  }

  clearRecord(slot: Slot): void {
    if (!slot.hasRecord) return;
    slot.hasRecord = false;
    if (this.records.get(slot.session) === slot) this.records.delete(slot.session);
    this.changes.slots.add(slot);
  }

  /** True if this session's two-phase grant had run out unseen; it is remembered no longer. */
  forgetLapse(session: string): boolean {
    if (!this.#lapsed.delete(session)) return false;
    this.changes.lapsed.set(session, undefined);
    return true;
  }

  /** Forgets lapses from before `time`. */
  forgetLapsesBefore(time: number): void {
    if (time <= this.#oldestLapse) return;
    this.#oldestLapse = NEVER;
    for (const [session, at] of this.#lapsed) {
      if (at < time) this.forgetLapse(session);
      else this.#oldestLapse = Math.min(this.#oldestLapse, at);
    }
  }

  #setLapsed(session: string, at: number): void {
    this.#lapsed.set(session, at);
    this.#oldestLapse = Math.min(this.#oldestLapse, at);
    this.changes.lapsed.set(session, at);
  }

  #touch(at: number): void {
    if (at > this.lastActivity) this.lastActivity = at;
  }

  /** A waiter that is promoted hands its request over to the slot; `dismiss` of either leaves the other's entry alone. */
  #enrol(member: Slot | Waiter): void {
    this.requests.set(member.request, member);
    const members = this.#bySession.get(member.session);
    if (members) members.add(member);
    else this.#bySession.set(member.session, new Set([member]));
  }

  #dismiss(member: Slot | Waiter): void {
    const requests = member instanceof Slot ? [member.request] : [member.request, member.waitRequest];
    for (const request of requests) {
      if (request !== undefined && this.requests.get(request) === member) this.requests.delete(request);
    }
    const members = this.#bySession.get(member.session);
    members?.delete(member);
    if (members?.size === 0) this.#bySession.delete(member.session);
  }

  #restoreSlot(slot: Slot): void {
    this.#slots[slot.index] = slot;
    this.#nextPlace = Math.max(this.#nextPlace, slot.place + 1);
    const fence = fenceOfToken(slot.token);
    if (fence > this.lastFence) this.lastFence = fence;
    if (!slot.isHeld) {
      this.#touch(slot.expiresAt);
      if (slot.index < this.limit) this.giveBack(slot);
      return;
    }
    this.#touch(slot.since);
    this.held.set(slot.token, slot);
    this.#enrol(slot);
    if (slot.hasRecord) this.records.set(slot.session, slot);
    this.#deadlines.schedule(slot);
  }

  #restoreWaiter(waiter: Waiter): void {
    this.#nextPlace = Math.max(this.#nextPlace, waiter.place + 1);
    if (waiter.slot) {
      waiter.slot.waiter = waiter;
      waiter.slot.notifyAt = 0;
      this.#deadlines.schedule(waiter.slot);
      this.#bySession.get(waiter.session)?.add(waiter);
      return;
    }
    this.#enrol(waiter);
    if (waiter.waitRequest !== undefined) {
      this.requests.delete(waiter.request);
      this.requests.set(waiter.waitRequest, waiter);
    }
    if (waiter.outcome) waiter.notifyAt = 0;
    else {
      this.queue.push(waiter);
      if (waiter.isEnqueued && !(this.records.get(waiter.session) instanceof Slot))
        this.records.set(waiter.session, waiter);
    }
    this.#deadlines.schedule(waiter);
  }
}

function promotionOf({ waiter, hasRecord }: Slot): NoticeKind {
  return hasRecord && !waiter?.waitRequest ? "promoted" : "granted";
}
