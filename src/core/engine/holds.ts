import type { Bookkeeping } from "./bookkeeping.ts";
import type { CommandContext, Granted, LockRequest } from "./commands.ts";
import { type Fence, FenceExhaustedError, fenceOfToken, fenceToHex, nextFence } from "./fence.ts";
import type { Notices } from "./notices.ts";
import type { EndReason, LossReason } from "./output.ts";
import { Releases } from "./releases.ts";
import { type Slot, SlotPool } from "./slots.ts";
import { SmallMap } from "./small-map.ts";
import type { StoredKey } from "./storage.ts";
import { identityOf } from "./views.ts";
import type { Waiter, WaitQueue } from "./waiters.ts";
import { Wanted } from "./wanted.ts";

const NEVER = Number.POSITIVE_INFINITY;
/** How long a waiting client has to pick its grant up, even if its lease is shorter. */
const PICK_UP_MS = 5_000;
/** The client of an offered hold may get its token this much later than the session was sent it. */
const OFFER_TAKES_MS = 1_000;
/**
 * A peer that was refused asks again after 50 to 150 ms. After a hold that it was refused for, requests that need a
 * quorum wait for this long, or waiters here would hand the lock to each other and the peer would never find it free.
 */
const YIELD_MS = 200;
/** How long a hold waits for the next step of its round: a phase, and a little for the way to the relay and back. */
export const ROUND_MS = 1_250;

/** How a hold ends. `returned`, `left` and `withdrawn` are its own session's doing; the others are a loss to it. */
type End = LossReason | "returned" | "left" | "withdrawn";

const END_REASONS: Record<End, EndReason> = {
  returned: "released",
  released: "released",
  expired: "expired",
  left: "disconnect",
  withdrawn: "gone",
  stolen: "stolen",
};

/** Holding: who has a slot, with which token and for how long, and who gets it next. */
export class Holds {
  readonly #books: Bookkeeping;
  readonly #notices: Notices;
  readonly #queue: WaitQueue;
  readonly #pool: SlotPool;
  /** By token, in grant order. */
  readonly #held = new SmallMap<string, Slot>();
  readonly wanted: Wanted;
  readonly releases = new Releases();
  #lastFence: Fence;
  /** Until then the lock is left to peers: no round begins here. */
  #yieldsUntil = Number.NEGATIVE_INFINITY;

  constructor({ limit, fence }: StoredKey, books: Bookkeeping, notices: Notices, queue: WaitQueue) {
    this.#books = books;
    this.#notices = notices;
    this.#queue = queue;
    this.#pool = new SlotPool(limit);
    this.wanted = new Wanted(books.output);
    this.#lastFence = fence;
  }

  get limit(): number {
    return this.#pool.limit;
  }

  get lastFence(): Fence {
    return this.#lastFence;
  }

  /** All slots, held or free. */
  get slots(): readonly Slot[] {
    return this.#pool.all;
  }

  get count(): number {
    return this.#held.size;
  }

  /** In grant order. */
  [Symbol.iterator](): Iterator<Slot> {
    return this.#held.values();
  }

  get(token: string): Slot | undefined {
    return this.#held.get(token);
  }

  /** Scans all holds for the one with this fence, 16 hex digits. */
  withFence(fence: string): Slot | undefined {
    for (const slot of this) if (slot.fence === fence) return slot;
    return undefined;
  }

  /** The hold with the highest fence, handed over or not. */
  get newest(): Slot | undefined {
    let newest: Slot | undefined;
    for (const slot of this) newest = slot;
    return newest;
  }

  setLimit(limit: number): void {
    this.#pool.setLimit(limit);
    this.#books.output.changes.limit = limit;
  }

  raiseFence(fence: Fence): void {
    if (fence > this.#lastFence) this.#lastFence = fence;
  }

  /** Grants a free slot at once, unless others wait. Throws a `FenceExhaustedError`, and nothing has changed. */
  grantIfFree(request: LockRequest, context: CommandContext): Slot | undefined {
    const slot = this.#queue.length > 0 ? undefined : this.#pool.takeFree();
    if (slot) this.#grant(slot, request, context);
    else this.wanted.tell();
    return slot;
  }

  /** Ends every hold, grants one slot to this request and the others to the queue. */
  stealAll(request: LockRequest, context: CommandContext): Slot {
    // Throws if no fence is left, before anyone has lost anything.
    nextFence(this.#lastFence, context.fenceFloor, context.now);
    for (const slot of [...this]) this.end(slot, "stolen", context.now);
    const slot = this.#pool.takeFree() as Slot;
    this.#grant(slot, request, context);
    this.promote(context);
    this.wanted.answer(slot, this.#queue.length > 0);
    return slot;
  }

  lease(slot: Slot, leaseSeconds: number, now: number): void {
    this.leaseUntil(slot, now + Math.round(leaseSeconds * 1000), now);
  }

  leaseUntil(slot: Slot, time: number, now: number): void {
    slot.expiresAt = time;
    this.#books.deadlines.schedule(slot);
    this.#books.touch(now);
    this.#books.output.changes.slots.add(slot);
  }

  /** Lets the lease end earlier than stored. After a restart it ends as stored. */
  shorten(slot: Slot, time: number, now: number): void {
    slot.expiresAt = time;
    this.#books.deadlines.schedule(slot);
    this.#books.touch(now);
  }

  /** Takes a free slot even if others wait, without handing a token over. */
  occupy(request: LockRequest, context: CommandContext): Slot | undefined {
    const slot = this.#pool.takeFree();
    if (slot) this.#hold(slot, request, context);
    return slot;
  }

  /** Gives the hold another fence, above every fence so far. A grant with the old one has ended. */
  refence(slot: Slot, fence: Fence, now: number): void {
    if (slot.isReported) this.#countEnd(slot, "returned", now);
    slot.isReported = false;
    this.#held.delete(slot.token);
    this.#lastFence = fence;
    slot.token = fenceToHex(fence) + slot.token.slice(16);
    this.#held.set(slot.token, slot);
    this.#books.output.changes.slots.add(slot);
  }

  /** Stores the note of a holder without a session. */
  note(slot: Slot, note: string): void {
    if (slot.sessionless) slot.sessionless = { ...slot.sessionless, note };
    this.#books.output.changes.slots.add(slot);
  }

  /** The token is handed to the client. One that was offered has been counted as granted. */
  handOver(slot: Slot, how: "immediate" | "queued", now: number): void {
    if (!slot.mayBeKnown) this.#countGrant(slot, how, now);
    slot.isReported = true;
  }

  /** The client is away: the time to pick the hold up shrinks to its lease. */
  startLease(slot: Slot, now: number): void {
    if (now + slot.leaseSeconds * 1000 < slot.expiresAt) this.lease(slot, slot.leaseSeconds, now);
  }

  /** From now on this request stands for the hold, instead of the one that was granted it. */
  reassign(slot: Slot, request: string): void {
    this.#books.requests.move(slot, slot.request, request);
    slot.request = request;
    this.#books.output.changes.slots.add(slot);
  }

  /**
   * Hands the token over: the two-phase record is done, and the full lease starts. If it was handed over before, it may
   * have been renewed since, so the lease is never shortened.
   */
  report(slot: Slot, now: number): Granted {
    const isRenewed = slot.isReported && !slot.hasRecord && slot.expiresAt > now + slot.leaseSeconds * 1000;
    this.handOver(slot, "queued", now);
    slot.notifyAt = NEVER;
    this.clearRecord(slot);
    if (slot.waiter) this.#queue.settle(slot.waiter);
    this.wanted.answer(slot, this.#queue.length > 0);
    // What other deployments have agreed to is never exceeded.
    if (slot.round) this.leaseUntil(slot, Math.min(slot.expiresAt, now + Math.round(slot.leaseSeconds * 1000)), now);
    else if (!isRenewed) this.lease(slot, slot.leaseSeconds, now);
    return slot.granted;
  }

  /** Makes the hold the two-phase record of its session. */
  addRecord(slot: Slot): void {
    slot.hasRecord = true;
    this.#books.records.add(slot);
    this.#books.output.changes.slots.add(slot);
  }

  clearRecord(slot: Slot): void {
    if (!slot.hasRecord) return;
    slot.hasRecord = false;
    this.#books.records.remove(slot);
    this.#books.output.changes.slots.add(slot);
  }

  /** A `wait` was cut off before its client heard how it ended. Its waiter stays, and so does the hold it may have. */
  interruptWait(waiter: Waiter, now: number): void {
    const { slot } = waiter;
    if (!slot) {
      this.#queue.interruptWait(waiter, now);
      return;
    }
    waiter.waitRequest = undefined;
    this.startLease(slot, now);
    this.#queue.settle(waiter);
  }

  /** Drops a waiter. Those behind it may have waited for the end of its pause. */
  passOver(waiter: Waiter, context: CommandContext): void {
    this.#queue.remove(waiter, context.now);
    this.promote(context);
  }

  /** Ends a hold and gives its slot to the queue, in one step. */
  free(slot: Slot, end: End, context: CommandContext): void {
    this.end(slot, end, context.now);
    this.promote(context);
  }

  /** Ends a hold at `at`. The caller must call `promote` afterwards. */
  end(slot: Slot, end: End, at: number, now = at): void {
    const { requests, records, output } = this.#books;
    const { session, request, token, fence, waiter, mayBeKnown, sessionless } = slot;
    const isTakenAway = end === "expired" || end === "stolen";
    // Its session does not know yet; the next `wait` is told.
    const isUnseen = isTakenAway && slot.isBeforeWait;
    this.clearRecord(slot);
    if (isUnseen) records.addLapse(session, at);
    this.#held.delete(token);
    requests.remove(slot);
    slot.waiter = undefined;
    if (waiter) {
      waiter.slot = undefined;
      if (isTakenAway && !isUnseen) this.#queue.end(waiter, "lease_expired", now);
      else this.#queue.settle(waiter);
    }
    this.#countEnd(slot, end, at);
    slot.isHeld = false;
    slot.isReported = false;
    slot.isOffered = false;
    slot.expiresAt = at;
    slot.notifyAt = NEVER;
    slot.session = "";
    slot.request = "";
    slot.sessionless = undefined;
    this.wanted.end(slot);
    if (slot.round) output.events.push({ type: "round_over", session, request, mark: fence });
    slot.round = undefined;
    if (slot.isWantedByPeer) this.#yieldsUntil = at + YIELD_MS;
    this.#pool.giveBack(slot);
    this.#books.touch(at);
    output.changes.slots.add(slot);
    const isLoss = isTakenAway || end === "released";
    if (isLoss && mayBeKnown && !sessionless) output.events.push({ type: "lost", session, token, reason: end });
  }

  /**
   * Gives free slots to the queue, first come, first served. `freedAt` are the times at which slots became free, in
   * order: a waiter whose deadline was before that is too late for the slot.
   */
  promote(context: CommandContext, freedAt: readonly number[] = []): void {
    const queue = this.#queue;
    let next = 0;
    for (let head = queue.head; head && head.pausedUntil <= context.now; head = queue.head) {
      const slot = this.#pool.takeFree();
      if (!slot) return;
      if (head.quorum && this.#yieldsUntil > context.now) {
        this.#pool.giveBack(slot);
        queue.pause(head, this.#yieldsUntil);
        return;
      }
      const expiredAt = freedAt[next];
      if (head.deadline < (expiredAt ?? context.now)) {
        this.#pool.giveBack(slot);
        queue.end(head, "timeout", context.now);
        continue;
      }
      if (!this.#promoteTo(slot, head, context)) return;
      if (expiredAt !== undefined) {
        const ms = elapsed(expiredAt, context.now);
        this.#books.output.observations.push({ type: "handed_over_late", ms });
      }
      next += 1;
    }
  }

  restore({ slots }: StoredKey): void {
    for (const slot of slots) {
      this.#pool.restore(slot);
      this.releases.restore(slot);
      this.raiseFence(fenceOfToken(slot.token));
      this.#books.touch(slot.isHeld ? slot.since : slot.expiresAt);
      if (!slot.isHeld) continue;
      this.#books.requests.add(slot);
      if (slot.hasRecord) this.#books.records.add(slot);
      this.#books.deadlines.schedule(slot);
      this.wanted.answer(slot, false);
    }
    // In grant order, not slot order: tokens start with their fence.
    const held = slots.filter(({ isHeld }) => isHeld).sort((a, b) => (a.token < b.token ? -1 : 1));
    for (const slot of held) this.#held.set(slot.token, slot);
  }

  #countGrant(slot: Slot, how: "immediate" | "queued", now: number): void {
    const waitMs = how === "queued" ? elapsed(slot.since, now) : 0;
    this.#books.output.observations.push({ type: "granted", how, ...identityOf(slot), at: now, waitMs });
    slot.since = now;
  }

  #countEnd({ fence, mayBeKnown, since }: Slot, end: End, at: number): void {
    const reason = end === "expired" && !mayBeKnown ? "gone" : END_REASONS[end];
    const holdMs = mayBeKnown ? elapsed(since, at) : undefined;
    this.#books.output.observations.push({ type: "ended", fence, reason, holdMs });
  }

  #grant(slot: Slot, request: LockRequest, context: CommandContext): void {
    this.#hold(slot, request, context);
    this.handOver(slot, "immediate", context.now);
  }

  /** False if no fence is left: nothing can be granted, and the waiter stays in the queue. */
  #promoteTo(slot: Slot, waiter: Waiter, context: CommandContext): boolean {
    const { session, openRequest, leaseSeconds, sessionless, quorum, isEnqueued, joinedAt } = waiter;
    const asksWanted = waiter.asksWanted || undefined;
    const request = { session, request: openRequest, leaseSeconds, sessionless, asksWanted, isWatched: true };
    try {
      this.#hold(slot, request, context);
    } catch (error) {
      if (error instanceof FenceExhaustedError) return false;
      throw error;
    }
    slot.since = joinedAt;
    if (!isEnqueued && !sessionless && !quorum) this.#offer(slot, context.now);
    this.#queue.promote(waiter, slot);
    if (slot.isOffered && slot.asksWanted) this.wanted.answer(slot, this.#queue.isAnyoneLeft(context.now));
    if (isEnqueued) this.addRecord(slot);
    if (quorum) {
      this.#openRound(slot, context.now);
      return true;
    }
    if (!slot.isBeforeWait) slot.expiresAt = Math.max(slot.expiresAt, context.now + PICK_UP_MS);
    this.#notices.send(slot, context.now);
    return true;
  }

  /** The notice of the promotion will carry the grant. */
  #offer(slot: Slot, now: number): void {
    this.#countGrant(slot, "queued", now);
    slot.isOffered = true;
    slot.expiresAt += OFFER_TAKES_MS;
  }

  #openRound(slot: Slot, now: number): void {
    const { session, request, fence: mark, leaseSeconds } = slot;
    slot.round = "open";
    this.leaseUntil(slot, now + ROUND_MS, now);
    const leaseMs = Math.round(leaseSeconds * 1000);
    this.#books.output.events.push({ type: "round", session, request, mark, leaseMs });
  }

  /** Makes a free slot a hold with a new token. If no fence is left it throws, and nothing has changed. */
  #hold(slot: Slot, asked: LockRequest, context: CommandContext): void {
    const { session, request, leaseSeconds, sessionless, isWatched = false } = asked;
    try {
      this.#lastFence = nextFence(this.#lastFence, context.fenceFloor, context.now);
    } catch (error) {
      this.#pool.giveBack(slot);
      throw error;
    }
    slot.token = fenceToHex(this.#lastFence) + context.salt();
    slot.isHeld = true;
    slot.session = session;
    slot.request = request;
    slot.leaseSeconds = leaseSeconds;
    slot.sessionless = sessionless;
    slot.since = context.now;
    slot.isReported = false;
    slot.isWatched = isWatched;
    slot.isOffered = false;
    slot.isWantedByPeer = false;
    slot.hasRecord = false;
    slot.wasKnown = false;
    slot.notices = 0;
    slot.place = 0;
    slot.asksWanted = asked.asksWanted === true;
    this.wanted.answer(slot, false);
    this.#held.set(slot.token, slot);
    this.#books.requests.add(slot);
    this.lease(slot, leaseSeconds, context.now);
  }
}

/** Never negative, even if the clock was set back in between. */
function elapsed(from: number, to: number): number {
  return Math.max(0, to - from);
}
