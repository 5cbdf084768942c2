import { Answers } from "./answers.ts";
import { Bookkeeping } from "./bookkeeping.ts";
import type {
  AcquireCommand,
  AcquireOutcome,
  CancelOptions,
  CommandContext,
  EnqueueCommand,
  EnqueueOutcome,
  Granted,
  PickUpOutcome,
  Queued,
  Refusal,
  ReleaseOutcome,
  RenewOutcome,
  StealOutcome,
  WaitCommand,
  WaitOutcome,
} from "./commands.ts";
import type { Fence } from "./fence.ts";
import { Holds } from "./holds.ts";
import { Idleness } from "./idleness.ts";
import { Notices } from "./notices.ts";
import type { KeyEvent, NoticeAnswer, Observation } from "./output.ts";
import { RelayHolds } from "./relay-holds.ts";
import { Rounds } from "./rounds.ts";
import {
  type ClaimCommand,
  type ClaimOutcome,
  type CurrentHold,
  type HoldSelector,
  type RefreshCommand,
  type RefreshOutcome,
  type RemoveOutcome,
  SessionlessHolds,
} from "./sessionless.ts";
import { Slot, watchAll } from "./slots.ts";
import type { Changes, StoredKey } from "./storage.ts";
import { holderViews, type KeyView, newestHolds, type ReportedHold, tagOf, waiterViews } from "./views.ts";
import { Waiter, WaitQueue } from "./waiters.ts";

/**
 * One key: its slots, its first-come-first-served queue, its leases and fences. A lock is a key of limit 1.
 *
 * Every command starts by letting time pass (`tick`): expired holds end and waiters move up before anything else is
 * decided. The engine knows no clock, no storage and no protocol. Replies are return values; changed rows, messages and
 * statistics are collected for `takeChanges`, `takeEvents` and `takeObservations`.
 *
 * This class decides what each command does. How it is done is cut by subject: holding in `Holds`, queueing in
 * `WaitQueue`, notifying in `Notices`, what sessions say to that in `Answers`, sleeping and pruning in `Idleness`.
 */
export class KeyEngine {
  readonly #books: Bookkeeping;
  readonly #notices: Notices;
  readonly #queue: WaitQueue;
  readonly #holds: Holds;
  readonly #answers: Answers;
  readonly #idleness: Idleness;
  // Most keys never need these.
  #sessionlessHolds: SessionlessHolds | undefined;
  #relayHolds: RelayHolds | undefined;
  #quorumRounds: Rounds | undefined;

  constructor(stored: StoredKey) {
    this.#books = new Bookkeeping(stored);
    this.#notices = new Notices(this.#books);
    this.#queue = new WaitQueue(this.#books, this.#notices);
    this.#holds = new Holds(stored, this.#books, this.#notices, this.#queue);
    this.#answers = new Answers(this.#books, this.#holds, this.#queue, (...given) => this.cancel(...given));
    this.#idleness = new Idleness(this.#books, this.#holds, this.#queue);
    this.#holds.restore(stored);
    this.#queue.restore(stored);
  }

  /** What other deployments ask, and what they hold. */
  get relays(): RelayHolds {
    const reset = (context: CommandContext) => this.#resetIfPrunable(1, context);
    this.#relayHolds ??= new RelayHolds(this.#holds, (context) => this.tick(context), reset);
    return this.#relayHolds;
  }

  /** Requests that need a quorum of deployments. */
  get rounds(): Rounds {
    const tick = (context: CommandContext) => this.tick(context);
    this.#quorumRounds ??= new Rounds(this.#books, this.#holds, this.#queue, this.#notices, tick);
    return this.#quorumRounds;
  }

  get #sessionless(): SessionlessHolds {
    this.#sessionlessHolds ??= new SessionlessHolds(this.#books, this.#holds);
    return this.#sessionlessHolds;
  }

  get limit(): number {
    return this.#holds.limit;
  }

  get lastFence(): Fence {
    return this.#holds.lastFence;
  }

  /** From now on every grant has a higher fence than this. */
  raiseFence(fence: Fence): void {
    this.#holds.raiseFence(fence);
  }

  /**
   * Grants at once if a slot is free and the queue is empty; else joins the end of the queue. Throws a
   * `FenceExhaustedError` if no fence is left, and nothing is granted; so does `enqueue`.
   */
  acquire(command: AcquireCommand, context: CommandContext): AcquireOutcome {
    this.tick(context);
    const repeated = this.#repeated(command.request);
    if (repeated) return repeated;
    this.#resetIfPrunable(command.limit, context);
    if (this.limit !== command.limit) return { status: "limit_mismatch" };
    if (command.steals) return this.#holds.stealAll(command, context).granted;
    if (command.quorum) return this.rounds.join(command, { hasRoom: !this.#isQueueFull(context) }, context);
    const slot = this.#holds.grantIfFree(command, context);
    if (slot) return slot.granted;
    if (this.#isQueueFull(context)) return { status: "max_waiters" };
    if (command.waitMs === 0) return this.#timeout();
    if (!command.mayWait) return { status: "would_wait" };
    this.#queue.join(command, { isEnqueued: false, deadline: context.now + command.waitMs }, context.now);
    return { status: "queued" };
  }

  /** Like `acquire`, but does not wait: the request keeps its place in the queue for a later `wait`. */
  enqueue(command: EnqueueCommand, context: CommandContext): EnqueueOutcome {
    this.tick(context);
    const repeated = this.#repeated(command.request);
    if (repeated) return repeated;
    const { records } = this.#books;
    this.#resetIfPrunable(command.limit, context);
    if (records.has(command.session)) return { status: "already_enqueued" };
    records.takeLapse(command.session);
    if (this.limit !== command.limit) return { status: "limit_mismatch" };
    const slot = this.#holds.grantIfFree(command, context);
    if (slot) {
      this.#holds.addRecord(slot);
      return slot.granted;
    }
    if (this.#isQueueFull(context)) return { status: "max_waiters" };
    records.add(this.#queue.join(command, { isEnqueued: true, deadline: Number.POSITIVE_INFINITY }, context.now));
    return { status: "queued" };
  }

  /** The second phase of `enqueue`: returns the hold if there is one, else waits in the place already taken. */
  wait(command: WaitCommand, context: CommandContext): WaitOutcome {
    // Before time passes: what ends while the client cannot hear of it does not count against it.
    if (command.takesOver) this.#answers.interruptWaits(command, context.now);
    this.tick(context);
    const repeated = this.#repeated(command.request);
    if (repeated) return repeated;
    const { records } = this.#books;
    if (records.takeLapse(command.session)) return { status: "lease_expired" };
    const record = records.get(command.session);
    if (!record) return { status: "not_enqueued" };
    const waiter = record instanceof Slot ? record.waiter : record;
    if (waiter?.waitRequest && !command.takesOver) return { status: "not_enqueued" };
    if (record instanceof Slot) {
      record.wasKnown = record.isReported;
      this.#holds.reassign(record, command.request);
      return this.#holds.report(record, context.now);
    }
    if (command.waitMs === 0) {
      this.#queue.remove(record, context.now);
      return this.#timeout();
    }
    if (!command.mayWait) return { status: "would_wait" };
    this.#queue.startWait(record, command.request, context.now + command.waitMs);
    return { status: "queued" };
  }

  /**
   * Frees the slot with this token and gives it to the next waiter, in one step. `id` names the call: if the host makes
   * it again because the answer was lost, the answer is the same. A second call is `not_held`.
   */
  release(token: string, session: string, context: CommandContext, id?: string): ReleaseOutcome {
    this.#answers.shown(token, context.now);
    this.tick(context);
    const slot = this.#holds.get(token);
    if (!slot) return this.#endedBefore(token, id);
    this.#holds.releases.add(slot, id);
    this.#holds.free(slot, slot.session === session ? "returned" : "released", context);
    return { status: "released" };
  }

  /** Like `release`, but only for the session that holds the slot. */
  giveBack(token: string, session: string, context: CommandContext, id?: string): ReleaseOutcome {
    this.#answers.shown(token, context.now);
    this.tick(context);
    const isOwn = this.#holds.get(token)?.session === session;
    return isOwn ? this.release(token, session, context, id) : this.#endedBefore(token, id);
  }

  /**
   * Ends the hold with this fence (16 hex digits), even if its token has not been handed over. The fence names one hold:
   * the same call again takes nothing from the next holder, and answers `not_held`.
   */
  steal(fence: string, context: CommandContext): StealOutcome {
    this.tick(context);
    const slot = this.#holds.withFence(fence);
    if (!slot) return { status: "not_held" };
    const { session, heldSince, expiresAt, sessionless } = slot;
    this.#holds.free(slot, "stolen", context);
    return { status: "stolen", session, since: heldSince, expiresAt, ...tagOf(sessionless) };
  }

  /** Restarts the lease, which may be a shorter one. An expired hold stays expired. The same call again does it again. */
  renew(token: string, leaseSeconds: number, context: CommandContext, isWatched = false): RenewOutcome {
    this.#answers.shown(token, context.now);
    this.tick(context);
    const slot = this.#holds.get(token);
    this.#books.output.observations.push({ type: "renewed", result: slot ? "ok" : "error" });
    if (!slot) return { status: "not_held" };
    if (isWatched) slot.isWatched = true;
    this.#holds.lease(slot, leaseSeconds, context.now);
    return { status: "renewed", leaseSeconds, ...this.#holds.wanted.renewed(slot, this.#queue.length > 0) };
  }

  /** The state of a queued request. If it was granted, the token is handed over and the full lease starts. */
  pickUp(request: string, context: CommandContext): PickUpOutcome {
    this.tick(context);
    const subject = this.#books.requests.get(request);
    if (!subject) return { status: "unknown" };
    if (subject instanceof Slot)
      return subject.isInRound ? { status: "queued" } : this.#holds.report(subject, context.now);
    this.#queue.markTold(subject);
    return { status: subject.status };
  }

  /**
   * Withdraws a request, whatever its state. One that is unknown, as the second time, changes nothing, unless it is a `wait` of the session
   * `placeOf`: it never arrived, and the place that it was for goes, or what that has become. With `sparesKnown`, a hold
   * stays whose token the client has from `enqueue`.
   */
  cancel(request: string, context: CommandContext, { placeOf, sparesKnown, sparesPlace }: CancelOptions = {}): void {
    // Before time passes, as in `wait`.
    const isUndone = sparesPlace && this.#answers.undoWait(request, context.now);
    this.tick(context);
    if (isUndone) {
      this.#holds.promote(context);
      return;
    }
    const { requests, records } = this.#books;
    const made = requests.get(request);
    const subject = made ?? (placeOf === undefined ? undefined : records.unclaimed(placeOf));
    const isKnown = subject instanceof Slot && (made ? subject.wasKnown : subject.isReported);
    if (subject instanceof Waiter) this.#holds.passOver(subject, context);
    else if (subject && !(sparesKnown && isKnown)) this.#holds.free(subject, "withdrawn", context);
    // As if its `wait` had not been made.
    else if (subject && !records.has(subject.session)) this.#holds.addRecord(subject);
  }

  /**
   * Like `acquire`, for a holder without a session; a refusal names the newest holder. Only a claim that waits is subject
   * to the cap on waiters. The same claim again is granted the same hold, or is at the same place.
   */
  claim(command: ClaimCommand, context: CommandContext): ClaimOutcome {
    this.tick(context);
    const { request, waitMs, limit = 1, mayWait = true } = command;
    const confirmed = this.#sessionless.confirmed(request, context.now);
    if (confirmed) return confirmed;
    const standing = this.#sessionless.standing(command, context.now);
    if (standing) return standing;
    const outcome = this.acquire({ ...command, limit, mayWait }, context);
    const isFull = outcome.status === "max_waiters" && waitMs === 0;
    return this.#sessionless.claimOutcome(isFull ? this.#timeout() : outcome, request, context.now);
  }

  /** Like `pickUp`, for a claim. */
  collect(request: string, context: CommandContext): ClaimOutcome {
    this.tick(context);
    const confirmed = this.#sessionless.confirmed(request, context.now);
    return confirmed ?? this.#sessionless.claimOutcome(this.pickUp(request, context), request, context.now);
  }

  /** The hold with the highest fence, if the key is held. */
  current(context: CommandContext): CurrentHold | undefined {
    this.tick(context);
    return this.#sessionless.current(context.now);
  }

  /** Restarts the lease of a hold without a session, and sets its tag if one is given. The same call again does it again. */
  refresh(command: RefreshCommand, context: CommandContext): RefreshOutcome {
    this.tick(context);
    if (this.limit !== 1 && !this.isPrunable(context)) return { status: "limit_mismatch" };
    return this.#sessionless.refresh(command, context.now);
  }

  /**
   * Ends a hold without a session and gives the slot to the next waiter, in one step. `id` as in `release`: the same call
   * again leaves the next holder alone, and answers `removed`.
   */
  remove(selector: HoldSelector, context: CommandContext, id?: string): RemoveOutcome {
    this.tick(context);
    return this.#sessionless.remove(selector, context, id);
  }

  /** From now on the session hears at once when a lease of its own ends. */
  watch(session: string): void {
    watchAll(this.#holds, session, this.#books.output.changes);
  }

  /**
   * Takes a session's answer to a notice. A hold that will not be picked up goes to the next waiter. `offered` is the
   * token that the notice carried.
   */
  answer(request: string, answer: NoticeAnswer, context: CommandContext, offered?: string): void {
    this.#answers.take(request, answer, context, offered);
  }

  /**
   * A session has ended. Its waiters go first, so that none is promoted by what follows, then its holds. With
   * `keepsReported`, holds whose token the client has stay until they are released or expire. Sessions do not come back:
   * the same call again finds nothing.
   */
  leave(session: string, { keepsReported }: { keepsReported: boolean }, context: CommandContext): void {
    this.#answers.withdrawWaits(session, context.now);
    this.tick(context);
    this.#answers.endHolds(session, keepsReported, context);
  }

  /** Lets time pass: ends what has expired, moves the queue up, repeats unanswered notices. */
  tick(context: CommandContext): void {
    const { now } = context;
    const { deadlines, records } = this.#books;
    const freedAt: number[] = [];
    const late: Waiter[] = [];
    for (let due = deadlines.takeDue(now); due; due = deadlines.takeDue(now)) {
      if (due instanceof Waiter && due.isQueued && due.deadline > now) this.#queue.resume(due);
      else if (due instanceof Waiter && due.isQueued) late.push(due);
      else if (due instanceof Slot && due.isInRound && due.expiresAt <= now) this.rounds.giveUp(due, now);
      else if (due instanceof Slot && due.expiresAt <= now) {
        freedAt.push(due.expiresAt);
        this.#holds.end(due, "expired", due.expiresAt, now);
      } else if (due instanceof Waiter && this.#notices.isGivenUp(due)) this.#queue.settle(due);
      else this.#notices.repeat(due, now);
    }
    freedAt.sort((a, b) => a - b);
    this.#holds.promote(context, freedAt);
    for (const waiter of late) if (waiter.isQueued) this.#queue.end(waiter, "timeout", now);
    records.forgetLapsesBefore(now - context.gcMaxIdleMs);
  }

  /** Whether this is the token of a hold, possibly of one whose lease has ended unnoticed. */
  knows(token: string): boolean {
    return this.#holds.get(token) !== undefined;
  }

  /** When the lease of this hold ends; undefined if there is no such hold. */
  leaseEnd(token: string): number | undefined {
    return this.#holds.get(token)?.expiresAt;
  }

  /** When the key was last used, if it has no holder and no waiter. */
  get idleSince(): number | undefined {
    return this.#idleness.since;
  }

  /**
   * All there is to a key that is free: an engine made of it goes on as this one would. Undefined while there is more.
   * Only for engines whose output has been taken.
   */
  get remains(): StoredKey | undefined {
    const isFree = this.#idleness.isIdle && !this.hasNews && this.#books.records.isEmpty;
    if (!isFree || this.#relayHolds || this.#quorumRounds) return undefined;
    const { lastActivity } = this.#books;
    return {
      limit: this.limit,
      fence: this.lastFence,
      lastActivity,
      slots: this.#holds.slots,
      waiters: [],
      lapsed: [],
    };
  }

  /** True if the key has been idle for long enough to be forgotten, except for its fence. */
  isPrunable({ now, gcMaxIdleMs }: Pick<CommandContext, "now" | "gcMaxIdleMs">): boolean {
    return this.#idleness.isLongerThan(gcMaxIdleMs, { now });
  }

  /** A session has yet to be told how its wait ended: nothing may be deleted. */
  get hasNews(): boolean {
    return this.#idleness.hasNews;
  }

  /**
   * When the key must be woken; an idle key may be kept `graceMs` longer than necessary. With `isExact` it is woken for
   * every deadline, also for the end of a lease that no client watches or waits for.
   */
  nextWake(times: { gcMaxIdleMs: number; graceMs: number; isExact?: true }): number {
    return this.#idleness.nextWake(times);
  }

  /** The key as it is now; `detail` adds the waiters. Shows up to 100 holders, or `maxHolders`. */
  view(
    { detail, maxHolders }: { readonly detail: boolean; readonly maxHolders?: number } = { detail: false },
  ): KeyView {
    return {
      limit: this.limit,
      holderCount: this.#holds.count,
      holders: holderViews(this.#holds, maxHolders),
      waiters: this.#queue.length,
      queue: detail ? waiterViews(this.#queue) : [],
      lastActivity: this.#books.lastActivity,
    };
  }

  /** The key in numbers. */
  get counts(): Pick<KeyView, "limit" | "holderCount" | "waiters"> {
    return { limit: this.limit, holderCount: this.#holds.count, waiters: this.#queue.length };
  }

  /** The newest holds whose clients have the token, at most `max` of them, in hand-over order. */
  newestHolds(max: number): ReportedHold[] {
    return newestHolds(this.#holds, max);
  }

  /** Sessions, and holders without one, that hold something here or wait for it. */
  get sessions(): Iterable<string> {
    return this.#books.requests.sessions;
  }

  /** Something has to be stored. */
  get hasChanges(): boolean {
    return this.#books.output.hasChanges;
  }

  takeChanges(): Changes {
    return this.#books.output.takeChanges();
  }

  takeEvents(): readonly KeyEvent[] {
    return this.#books.output.takeEvents();
  }

  takeObservations(): readonly Observation[] {
    return this.#books.output.takeObservations();
  }

  #isQueueFull({ maxWaiters }: CommandContext): boolean {
    return maxWaiters > 0 && this.#queue.length >= maxWaiters;
  }

  #timeout(): Refusal<"timeout"> {
    this.#books.output.observations.push({ type: "timeout" });
    return { status: "timeout" };
  }

  /** A key that could have been pruned takes the limit of the request, like a new one. */
  #resetIfPrunable(limit: number, context: CommandContext): void {
    if (!this.isPrunable(context)) return;
    this.#books.records.forgetLapsesBefore(Number.POSITIVE_INFINITY);
    if (this.limit !== limit) this.#holds.setLimit(limit);
  }

  /** The answer to a release of a hold that has ended: by the same call, or otherwise. */
  #endedBefore(token: string, id: string | undefined): ReleaseOutcome {
    return { status: this.#holds.releases.has(id, token.slice(0, 16)) ? "released" : "not_held" };
  }

  /** The reply to a request that was sent before. */
  #repeated(request: string): Granted | Queued | undefined {
    const subject = this.#books.requests.get(request);
    if (!subject) return undefined;
    return subject instanceof Slot && subject.isReported ? subject.granted : { status: "queued" };
  }
}
