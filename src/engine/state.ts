import type { Granted, Moment, Sessionless } from "./commands.ts";
import { Deadlines } from "./deadlines.ts";
import { type Fence, FenceExhaustedError, fenceOfToken, fenceToHex, nextFence } from "./fence.ts";
import { LinkedList } from "./linked-list.ts";
import { type FinalOutcome, Slot, Waiter } from "./members.ts";
import { type EndReason, type LossReason, type NoticeKind, Output } from "./output.ts";
import { RequestIndex } from "./request-index.ts";
import type { StoredKey } from "./storage.ts";
import { TwoPhaseRecords } from "./two-phase-records.ts";
import { identityOf } from "./views.ts";

const NEVER = Number.POSITIVE_INFINITY;
/** A notice that got no answer is repeated after this time, then ever less often. */
const FIRST_REPEAT_MS = 900;
const LONGEST_REPEAT_MS = 10_000;
/** A client that timed out and cannot be told so is given up after this many tries. */
const MOST_NOTICES = 30;
/** A session whose client waits has this long to pick its grant up, however short the lease is that follows. */
const PICK_UP_MS = 5_000;

/** How a hold ends. `returned`, `left` and `withdrawn` are its own session's doing; anything else is a loss to it. */
export type End = LossReason | "returned" | "left" | "withdrawn";

const END_REASONS: Record<End, EndReason> = {
  returned: "released",
  released: "released",
  expired: "expired",
  left: "disconnect",
  withdrawn: "gone",
  stolen: "stolen",
};

/** What a new hold belongs to. */
interface Claim {
  readonly session: string;
  readonly request: string;
  readonly leaseSeconds: number;
  readonly sessionless?: Sessionless | undefined;
}

/**
 * A key's slots, queue and indexes, and the steps that change them. Each step keeps the parts in agreement; which
 * steps a command takes is the engine's business.
 */
export class KeyState {
  limit: number;
  lastFence: Fence;
  lastActivity: number;
  readonly output = new Output();
  readonly held = new Map<string, Slot>();
  readonly queue = new LinkedList<Waiter>();
  readonly requests = new RequestIndex();
  readonly records: TwoPhaseRecords;
  readonly #deadlines = new Deadlines<Slot | Waiter>();
  readonly #slots: Slot[] = [];
  #free: Slot[] = [];
  #nextPlace = 1;

  constructor(stored: StoredKey) {
    this.limit = stored.limit;
    this.lastFence = stored.fence;
    this.lastActivity = stored.lastActivity;
    this.records = new TwoPhaseRecords(stored.lapsed, this.output);
    for (const slot of stored.slots) this.#restoreSlot(slot);
    this.#sortHeld();
    for (const waiter of stored.waiters) this.#restoreWaiter(waiter);
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

  /** The hold with this fence, 16 hex digits. Looks through all of them. */
  findHold(fence: string): Slot | undefined {
    for (const slot of this.held.values()) if (slot.fence === fence) return slot;
    return undefined;
  }

  setLimit(limit: number): void {
    this.limit = limit;
    this.output.changes.limit = limit;
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
  hold(slot: Slot, { session, request, leaseSeconds, sessionless }: Claim, moment: Moment): void {
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
    slot.sessionless = sessionless;
    slot.since = moment.now;
    slot.notices = 0;
    slot.place = 0;
    this.held.set(slot.token, slot);
    this.requests.add(slot);
    this.lease(slot, leaseSeconds, moment.now);
  }

  lease(slot: Slot, leaseSeconds: number, now: number): void {
    slot.expiresAt = now + leaseSeconds * 1000;
    this.#deadlines.schedule(slot);
    this.#touch(now);
    this.output.changes.slots.add(slot);
  }

  /**
   * The token is about to be told: the two-phase record is done with, and the lease starts in full. One that was told
   * before may have been renewed since, so it is never cut short.
   */
  report(slot: Slot, now: number): Granted {
    const isRenewed = slot.isReported && !slot.hasRecord && slot.expiresAt > now + slot.leaseSeconds * 1000;
    if (!slot.isReported) {
      const waitMs = elapsed(slot.since, now);
      this.output.observations.push({ type: "granted", how: "queued", ...identityOf(slot), at: now, waitMs });
      slot.since = now;
    }
    slot.isReported = true;
    slot.notifyAt = NEVER;
    this.clearRecord(slot);
    if (slot.waiter) this.settle(slot.waiter);
    if (!isRenewed) this.lease(slot, slot.leaseSeconds, now);
    return { status: "granted", token: slot.token, leaseSeconds: slot.leaseSeconds };
  }

  /** Ends a hold at `at`. Whoever waits for it is told by `promote`, which the caller owes. */
  endHold(slot: Slot, end: End, at: number, now = at): void {
    const { session, token, fence, since, waiter, isReported, sessionless } = slot;
    // Its session does not know yet, and is told when it next asks for the token.
    const isTakenAway = end === "expired" || end === "stolen";
    const isUnseenRecord = isTakenAway && slot.hasRecord && !waiter?.waitRequest;
    this.clearRecord(slot);
    if (isUnseenRecord) this.records.addLapse(session, at);
    this.held.delete(token);
    this.requests.remove(slot);
    slot.waiter = undefined;
    if (waiter) {
      waiter.slot = undefined;
      if (isTakenAway && !isUnseenRecord) this.finish(waiter, "lease_expired", now);
      else this.settle(waiter);
    }
    slot.isHeld = false;
    slot.isReported = false;
    slot.expiresAt = at;
    slot.notifyAt = NEVER;
    slot.session = "";
    slot.request = "";
    slot.sessionless = undefined;
    if (slot.index < this.limit) this.giveBack(slot);
    this.#touch(at);
    this.output.changes.slots.add(slot);
    const isLoss = isTakenAway || end === "released";
    if (isLoss && isReported && !sessionless) this.output.events.push({ type: "lost", session, token, reason: end });
    const reason = end === "expired" && !isReported ? "gone" : END_REASONS[end];
    this.output.observations.push({
      type: "ended",
      fence,
      reason,
      holdMs: isReported ? elapsed(since, at) : undefined,
    });
  }

  /** Puts a new waiter at the end of the queue. */
  join(claim: Claim, { isEnqueued, deadline }: { isEnqueued: boolean; deadline: number }, now: number): Waiter {
    const waiter = new Waiter({ ...claim, place: this.#nextPlace++, isEnqueued, deadline, joinedAt: now });
    this.queue.push(waiter);
    this.requests.add(waiter);
    this.#deadlines.schedule(waiter);
    this.#touch(now);
    this.output.changes.waiters.add(waiter);
    return waiter;
  }

  /** An enqueued waiter is now waited for by `request`, and by no earlier one, until `deadline`. */
  listen(waiter: Waiter, request: string, deadline: number): void {
    this.requests.move(waiter, waiter.listener, request);
    waiter.waitRequest = request;
    waiter.deadline = deadline;
    this.#deadlines.schedule(waiter);
    this.output.changes.waiters.add(waiter);
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
    this.records.remove(waiter);
    this.#touch(now);
    // A time-out shows in the stored deadline; only a lapsed grant has to be written down.
    if (outcome === "lease_expired") this.output.changes.waiters.add(waiter);
    this.notify(waiter, now);
  }

  /** A client is about to hear that its wait was in vain, or has just heard it. */
  tellEnd(waiter: Waiter): void {
    if (!waiter.outcome || waiter.isTold) return;
    waiter.isTold = true;
    if (waiter.outcome === "timeout") this.output.observations.push({ type: "timeout" });
  }

  /** The waiter's session knows its fate: nothing of it is left. */
  settle(waiter: Waiter): void {
    if (waiter.isSettled) return;
    waiter.isSettled = true;
    if (waiter.slot) {
      waiter.slot.waiter = undefined;
      waiter.slot.notifyAt = NEVER;
    }
    this.records.remove(waiter);
    this.requests.remove(waiter);
    this.output.changes.waiters.add(waiter);
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
      if (!this.#promoteTo(slot, head, moment)) return;
      const expiredAt = freedAt[next];
      if (expiredAt !== undefined)
        this.output.observations.push({ type: "handed_over_late", ms: elapsed(expiredAt, moment.now) });
      next += 1;
    }
  }

  /** False when fences have run out: nobody can be granted, the waiter keeps its place. */
  #promoteTo(slot: Slot, waiter: Waiter, moment: Moment): boolean {
    const { session, listener, leaseSeconds, isEnqueued, joinedAt, sessionless } = waiter;
    try {
      this.hold(slot, { session, request: listener, leaseSeconds, sessionless }, moment);
    } catch (error) {
      if (error instanceof FenceExhaustedError) return false;
      throw error;
    }
    this.queue.remove(waiter);
    waiter.slot = slot;
    slot.waiter = waiter;
    slot.place = waiter.place;
    slot.since = joinedAt;
    slot.isReported = false;
    slot.hasRecord = isEnqueued;
    if (isEnqueued) this.records.add(slot);
    if (promotionOf(slot) === "granted") slot.expiresAt = Math.max(slot.expiresAt, moment.now + PICK_UP_MS);
    this.notify(slot, moment.now);
    return true;
  }

  /** A notice got no answer: the session is told again, unless there is no hope of that any more. */
  notifyAgain(subject: Slot | Waiter, now: number): void {
    if (subject instanceof Waiter && subject.notices >= MOST_NOTICES) {
      this.settle(subject);
      return;
    }
    this.output.observations.push({ type: "notice_repeated" });
    this.notify(subject, now);
  }

  /** Tells a session of a promotion or an end, and again later unless it answers. */
  notify(subject: Slot | Waiter, now: number): void {
    subject.notices += 1;
    subject.notifyAt = now + Math.min(FIRST_REPEAT_MS * 2 ** (subject.notices - 1), LONGEST_REPEAT_MS);
    this.#deadlines.schedule(subject);
    const isSlot = subject instanceof Slot;
    const request = isSlot ? subject.request : subject.listener;
    const kind = isSlot ? promotionOf(subject) : subject.outcome;
    const hasPlace = isSlot
      ? subject.hasRecord && kind === "granted"
      : subject.isEnqueued && subject.waitRequest !== undefined;
    if (!kind) return;
    this.output.events.push({ type: "notice", session: subject.session, request, kind, ...(hasPlace && { hasPlace }) });
  }

  clearRecord(slot: Slot): void {
    if (!slot.hasRecord) return;
    slot.hasRecord = false;
    this.records.remove(slot);
    this.output.changes.slots.add(slot);
  }

  #touch(at: number): void {
    if (at > this.lastActivity) this.lastActivity = at;
  }

  /** In the order of their grants, not of their slots: tokens begin with their fence. */
  #sortHeld(): void {
    const held = [...this.held].sort(([a], [b]) => (a < b ? -1 : 1));
    this.held.clear();
    for (const [token, slot] of held) this.held.set(token, slot);
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
    this.requests.add(slot);
    if (slot.hasRecord) this.records.add(slot);
    this.#deadlines.schedule(slot);
  }

  #restoreWaiter(waiter: Waiter): void {
    this.#nextPlace = Math.max(this.#nextPlace, waiter.place + 1);
    if (waiter.slot) {
      waiter.slot.waiter = waiter;
      waiter.slot.notifyAt = 0;
      this.#deadlines.schedule(waiter.slot);
      this.requests.addToSession(waiter);
      return;
    }
    this.requests.add(waiter);
    if (waiter.waitRequest !== undefined) this.requests.move(waiter, waiter.request, waiter.waitRequest);
    if (waiter.outcome) waiter.notifyAt = 0;
    else {
      this.queue.push(waiter);
      if (waiter.isEnqueued && !(this.records.get(waiter.session) instanceof Slot)) this.records.add(waiter);
    }
    this.#deadlines.schedule(waiter);
  }
}

function promotionOf({ waiter, hasRecord }: Slot): NoticeKind {
  return hasRecord && !waiter?.waitRequest ? "promoted" : "granted";
}

/** Never negative, even if the clock was set back in between. */
function elapsed(from: number, to: number): number {
  return Math.max(0, to - from);
}
