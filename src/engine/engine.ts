import type {
  AcquireCommand,
  AcquireOutcome,
  EnqueueCommand,
  EnqueueOutcome,
  Granted,
  Moment,
  PickUpOutcome,
  Queued,
  Refusal,
  ReleaseOutcome,
  RenewOutcome,
  StealOutcome,
  WaitCommand,
  WaitOutcome,
} from "./commands.ts";
import { keepPlace, keepPlacesOf, startLease } from "./cut-off.ts";
import { type Fence, nextFence } from "./fence.ts";
import { Slot, Waiter } from "./members.ts";
import type { Answer, KeyEvent, Observation } from "./output.ts";
import {
  type ClaimCommand,
  type ClaimOutcome,
  type CurrentHold,
  claimOutcome,
  confirmedHold,
  confirmHold,
  currentHold,
  type HoldSelector,
  holdIn,
  type RefreshCommand,
  type RefreshOutcome,
  type RemoveOutcome,
  refreshHold,
  removeHold,
  standingHold,
} from "./sessionless.ts";
import { KeyState } from "./state.ts";
import type { Changes, StoredKey } from "./storage.ts";
import { identityOf, type KeyView, newestHolds, type StandingHold, tagOf, viewOf } from "./views.ts";

/**
 * One key: its slots, its first-come-first-served queue, its leases and fences. A lock is a key of limit 1.
 *
 * Every command first lets time pass (`tick`): holders whose lease has ended are gone before anything else is
 * decided, and waiters move up. Nothing here knows a clock, storage or a protocol. Replies come back as values; what
 * changed, whom to tell and what to count is collected for `takeChanges`, `takeEvents` and `takeObservations`.
 */
export class KeyEngine {
  readonly #state: KeyState;

  constructor(stored: StoredKey) {
    this.#state = new KeyState(stored);
  }

  get limit(): number {
    return this.#state.limit;
  }

  get lastFence(): Fence {
    return this.#state.lastFence;
  }

  /** Nothing is granted with this fence or a lower one from here on. */
  raiseFence(fence: Fence): void {
    if (fence > this.#state.lastFence) this.#state.lastFence = fence;
  }

  /**
   * Grants at once if a slot is free and nobody waits; else takes the last place in the queue. Throws a
   * `FenceExhaustedError`, and nobody is granted anything, when no fence is left; so does `enqueue`.
   */
  acquire(command: AcquireCommand, moment: Moment): AcquireOutcome {
    this.tick(moment);
    const repeated = this.#repeated(command.request);
    if (repeated) return repeated;
    this.#startAnewIfIdle(command.limit, moment);
    if (this.limit !== command.limit) return { status: "limit_mismatch" };
    if (command.steals) return this.#stealAll(command, moment);
    const granted = this.#grantIfFree(command, moment);
    if (granted) return granted;
    if (this.#isQueueFull(moment)) return { status: "max_waiters" };
    if (command.waitMs === 0) return this.#timeout();
    if (!command.mayWait) return { status: "would_wait" };
    this.#state.join(command, { isEnqueued: false, deadline: moment.now + command.waitMs }, moment.now);
    return { status: "queued" };
  }

  /** Like `acquire`, but never waits: a place in the queue is kept for a later `wait`. */
  enqueue(command: EnqueueCommand, moment: Moment): EnqueueOutcome {
    this.tick(moment);
    const repeated = this.#repeated(command.request);
    if (repeated) return repeated;
    const state = this.#state;
    this.#startAnewIfIdle(command.limit, moment);
    if (state.records.has(command.session)) return { status: "already_enqueued" };
    state.records.takeLapse(command.session);
    if (this.limit !== command.limit) return { status: "limit_mismatch" };
    const granted = this.#grantIfFree(command, moment);
    if (granted) {
      const slot = state.held.get(granted.token) as Slot;
      slot.hasRecord = true;
      state.records.add(slot);
      return granted;
    }
    if (this.#isQueueFull(moment)) return { status: "max_waiters" };
    const waiter = state.join(command, { isEnqueued: true, deadline: Number.POSITIVE_INFINITY }, moment.now);
    state.records.add(waiter);
    return { status: "queued" };
  }

  /** The second phase of `enqueue`: the hold if it has come, else a wait at the place already taken. */
  wait(command: WaitCommand, moment: Moment): WaitOutcome {
    // Before time passes: what ends while nobody is there to hear it is not held against the client.
    if (command.takesOver) keepPlacesOf(this.#state, command, moment.now);
    this.tick(moment);
    const repeated = this.#repeated(command.request);
    if (repeated) return repeated;
    const state = this.#state;
    if (state.records.takeLapse(command.session)) return { status: "lease_expired" };
    const record = state.records.get(command.session);
    if (!record) return { status: "not_enqueued" };
    if (record instanceof Slot) {
      if (record.waiter?.waitRequest && !command.takesOver) return { status: "not_enqueued" };
      state.requests.move(record, record.request, command.request);
      record.request = command.request;
      return state.report(record, moment.now);
    }
    if (record.waitRequest && !command.takesOver) return { status: "not_enqueued" };
    if (command.waitMs === 0) {
      state.dequeue(record, moment.now);
      return this.#timeout();
    }
    if (!command.mayWait) return { status: "would_wait" };
    state.listen(record, command.request, moment.now + command.waitMs);
    return { status: "queued" };
  }

  /** Frees the slot that carries this token and gives it to the next in line, in one step. */
  release(token: string, session: string, moment: Moment): ReleaseOutcome {
    this.tick(moment);
    const slot = this.#state.held.get(token);
    if (!slot) return { status: "not_held" };
    this.#state.endHold(slot, slot.session === session ? "returned" : "released", moment.now);
    this.#state.promote(moment);
    return { status: "released" };
  }

  /** Takes the hold with this fence (16 hex digits) from whoever has it, or was about to be given it. */
  steal(fence: string, moment: Moment): StealOutcome {
    this.tick(moment);
    const slot = this.#state.findHold(fence);
    if (!slot) return { status: "not_held" };
    const { session, heldSince, expiresAt, sessionless } = slot;
    this.#state.endHold(slot, "stolen", moment.now);
    this.#state.promote(moment);
    return { status: "stolen", session, since: heldSince, expiresAt, ...tagOf(sessionless) };
  }

  /** Sets the lease anew from now, also to a shorter one. An expired hold never revives. */
  renew(token: string, leaseSeconds: number, moment: Moment): RenewOutcome {
    this.tick(moment);
    const slot = this.#state.held.get(token);
    this.#state.output.observations.push({ type: "renewed", result: slot ? "ok" : "error" });
    if (!slot) return { status: "not_held" };
    this.#state.lease(slot, leaseSeconds, moment.now);
    return { status: "renewed", leaseSeconds };
  }

  /** Tells a request that was queued what became of it; a hold is the client's from here, with its full lease. */
  pickUp(request: string, moment: Moment): PickUpOutcome {
    this.tick(moment);
    const subject = this.#state.requests.get(request);
    if (!subject) return { status: "unknown" };
    if (subject instanceof Slot) return this.#state.report(subject, moment.now);
    this.#state.tellEnd(subject);
    return { status: subject.outcome ?? "queued" };
  }

  /** Withdraws one request of a session, whatever has become of it. An unknown one changes nothing. */
  cancel(request: string, moment: Moment): void {
    this.tick(moment);
    const subject = this.#state.requests.get(request);
    if (!subject) return;
    if (subject instanceof Slot) {
      this.#state.endHold(subject, "withdrawn", moment.now);
      this.#state.promote(moment);
    } else if (subject.isQueued) this.#state.dequeue(subject, moment.now);
    else this.#state.settle(subject);
  }

  /**
   * Like `acquire` of a lock, for a holder without a session: it is told who holds where it is refused. Only a claim that
   * would wait meets the cap on waiters.
   */
  claim(command: ClaimCommand, moment: Moment): ClaimOutcome {
    this.tick(moment);
    const state = this.#state;
    const { request, waitMs } = command;
    const standing = standingHold(state, command);
    if (standing) {
      confirmHold(state, standing, moment.now);
      return { status: "standing", hold: holdIn(standing, moment.now) };
    }
    const isRefused = waitMs === 0 && this.limit === 1 && !state.isIdle && !state.requests.has(request);
    const outcome = isRefused ? this.#timeout() : this.acquire({ ...command, limit: 1, mayWait: true }, moment);
    return claimOutcome(state, outcome, request, moment.now);
  }

  /** Like `pickUp`, for a claim. */
  collect(request: string, moment: Moment): ClaimOutcome {
    this.tick(moment);
    const confirmed = confirmedHold(this.#state, request);
    if (confirmed) return { status: "granted", hold: holdIn(confirmed, moment.now) };
    return claimOutcome(this.#state, this.pickUp(request, moment), request, moment.now);
  }

  /** The hold with the highest fence, if the key is held. */
  current(moment: Moment): CurrentHold | undefined {
    this.tick(moment);
    return currentHold(this.#state, moment.now);
  }

  /** Sets the lease anew from now, and the tag if one is given, of the hold without a session that is meant. */
  refresh(command: RefreshCommand, moment: Moment): RefreshOutcome {
    this.tick(moment);
    if (this.limit !== 1 && !this.isPrunable(moment)) return { status: "limit_mismatch" };
    return refreshHold(this.#state, command, moment.now);
  }

  /** Ends the hold without a session that is meant, and gives the slot to the next in line, in one step. */
  remove(selector: HoldSelector, moment: Moment): RemoveOutcome {
    this.tick(moment);
    return removeHold(this.#state, selector, moment);
  }

  /** Takes the answer to a notice. A hold that nobody will pick up goes to the next in line. */
  answer(request: string, answer: Answer, moment: Moment): void {
    const state = this.#state;
    const subject = state.requests.get(request);
    if (subject instanceof Waiter) {
      if (answer === "later" || !subject.outcome) return;
      if (answer === "taken") state.tellEnd(subject);
      if (answer !== "noted" || !subject.waitRequest) state.settle(subject);
      else {
        keepPlace(state, subject, moment.now);
        state.promote(moment);
      }
    } else if (subject && !subject.isReported) {
      if (answer === "gone") this.cancel(request, moment);
      else if (answer === "later") startLease(state, subject, moment.now);
      else if (answer === "noted" && subject.waiter && subject.hasRecord) keepPlace(state, subject.waiter, moment.now);
    }
  }

  /**
   * A session has ended: its waiters go first, so that none is promoted by what follows, then its holds. With
   * `keepsReported` those whose token the client knows stay until they are released or run out.
   */
  leave(session: string, { keepsReported }: { keepsReported: boolean }, moment: Moment): void {
    const state = this.#state;
    state.records.takeLapse(session);
    for (const member of state.requests.ofSession(session)) {
      if (member instanceof Slot || member.slot) continue;
      if (member.isQueued) state.dequeue(member, moment.now);
      else state.settle(member);
    }
    this.tick(moment);
    state.records.takeLapse(session);
    for (const member of state.requests.ofSession(session)) {
      if (member instanceof Waiter && member.outcome) state.settle(member);
      if (!(member instanceof Slot)) continue;
      if (keepsReported && member.isReported) state.clearRecord(member);
      else state.endHold(member, "left", moment.now);
    }
    state.promote(moment);
  }

  /** Lets time pass: ends what has run out, moves the queue up, repeats notices that got no answer. */
  tick(moment: Moment): void {
    const { now } = moment;
    const state = this.#state;
    const freedAt: number[] = [];
    const late: Waiter[] = [];
    for (let due = state.takeDue(now); due; due = state.takeDue(now)) {
      if (due instanceof Waiter && due.isQueued) late.push(due);
      else if (due instanceof Slot && due.expiresAt <= now) {
        freedAt.push(due.expiresAt);
        state.endHold(due, "expired", due.expiresAt, now);
      } else state.notifyAgain(due, now);
    }
    freedAt.sort((a, b) => a - b);
    state.promote(moment, freedAt);
    for (const waiter of late) if (waiter.isQueued) state.finish(waiter, "timeout", now);
    state.records.forgetLapsesBefore(now - moment.gcMaxIdleMs);
  }

  /** True when nobody has held or waited for long enough: the key counts as forgotten, all but its fence. */
  isPrunable({ now, gcMaxIdleMs }: Pick<Moment, "now" | "gcMaxIdleMs">): boolean {
    return this.#state.isIdle && now - this.#state.lastActivity > gcMaxIdleMs;
  }

  /** Somebody has still to be told how his wait ended: nothing may be deleted yet. */
  get hasNews(): boolean {
    return this.#state.hasNews;
  }

  /** When the key next has something to do by itself; `graceMs` is how long an idle key may outstay its time. */
  nextWake({ gcMaxIdleMs, graceMs }: { gcMaxIdleMs: number; graceMs: number }): number {
    const { isIdle, hasNews, lastActivity } = this.#state;
    const idleEnds = isIdle && !hasNews ? lastActivity + gcMaxIdleMs + 1 + graceMs : Number.POSITIVE_INFINITY;
    return Math.min(this.#state.earliestDeadline(), idleEnds);
  }

  /** The key as it stands; `detail` adds who waits. */
  view({ detail }: { readonly detail: boolean } = { detail: false }): KeyView {
    return viewOf(this.#state, { detail });
  }

  /** The newest holds that are in their clients' hands, `most` of them at most, in the order of their hand-over. */
  newestHolds(most: number): StandingHold[] {
    return newestHolds(this.#state, most);
  }

  takeChanges(): Changes {
    return this.#state.output.takeChanges();
  }

  takeEvents(): readonly KeyEvent[] {
    return this.#state.output.takeEvents();
  }

  takeObservations(): readonly Observation[] {
    return this.#state.output.takeObservations();
  }

  #timeout(): Refusal<"timeout"> {
    this.#state.output.observations.push({ type: "timeout" });
    return { status: "timeout" };
  }

  #isQueueFull({ maxWaiters }: Moment): boolean {
    return maxWaiters > 0 && this.#state.queue.length >= maxWaiters;
  }

  /** A key that has been idle for long enough takes the limit that is asked for, whatever it was before. */
  #startAnewIfIdle(limit: number, moment: Moment): void {
    if (!this.isPrunable(moment)) return;
    this.#state.records.forgetLapsesBefore(Number.POSITIVE_INFINITY);
    if (this.limit !== limit) this.#state.setLimit(limit);
  }

  /** The answer to a request that was sent before: the same again. */
  #repeated(request: string): Granted | Queued | undefined {
    const subject = this.#state.requests.get(request);
    if (!subject) return undefined;
    if (subject instanceof Waiter || !subject.isReported) return { status: "queued" };
    return { status: "granted", token: subject.token, leaseSeconds: subject.leaseSeconds };
  }

  /** Takes every slot from its holder, one for this request, the others for the queue. */
  #stealAll(command: AcquireCommand, moment: Moment): Granted {
    // Throws when fences have run out, before anybody has lost anything.
    nextFence(this.lastFence, moment.fenceFloor, moment.now);
    for (const slot of [...this.#state.held.values()]) this.#state.endHold(slot, "stolen", moment.now);
    const granted = this.#grant(this.#state.takeFreeSlot() as Slot, command, moment);
    this.#state.promote(moment);
    return granted;
  }

  #grantIfFree(command: EnqueueCommand | AcquireCommand, moment: Moment): Granted | undefined {
    if (this.#state.queue.length > 0) return undefined;
    const slot = this.#state.takeFreeSlot();
    return slot && this.#grant(slot, command, moment);
  }

  #grant(slot: Slot, command: EnqueueCommand | AcquireCommand, moment: Moment): Granted {
    this.#state.hold(slot, command, moment);
    slot.isReported = true;
    slot.hasRecord = false;
    const granted = { type: "granted", how: "immediate", ...identityOf(slot), at: moment.now, waitMs: 0 } as const;
    this.#state.output.observations.push(granted);
    return { status: "granted", token: slot.token, leaseSeconds: slot.leaseSeconds };
  }
}
