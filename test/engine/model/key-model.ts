/**
 * One key by the book: lists, linear scans, no cleverness. It was written from the protocol's rules, not from the
 * engine, and says for every command what must come back and what must be true afterwards.
 *
 * Seven rules that the protocol leaves open, as decided for holdfast:
 *
 * - A waiter may still be granted a slot that became free no later than its deadline, even if the key is looked at
 *   late; at a tie the grant wins. (A command lets time pass first, so one that frees a slot in the same millisecond as
 *   a waiter's deadline comes after that waiter's time-out.)
 * - A time-out is a comparison with the stored deadline. So a time-out that its session has not answered yet is decided
 *   again after a reload; only a clock that was set back in between can turn it into a wait.
 * - A client that waits for a grant has five seconds to pick it up, however short its lease; the lease starts at the
 *   pick-up. Once its session has said that the client is away, no more than a lease is left.
 * - The first notice of a grant by `acquire` carries it. From then on the client may have it: the hold ends only as one
 *   whose client has it, unless the session says that nobody was told. That somebody was is not stored.
 * - An enqueued waiter whose `wait` was cut off is as if that `wait` had not been made. If it had timed out unheard, the
 *   waiter goes back to its place, unless its session has enqueued again.
 * - A release or removal that is made again under the same id gets the same answer, whoever holds the slot by then. At
 *   least the last four of a key are remembered.
 * - An activity that is noticed late (an expiry, a time-out) may count from when it was due or from when it was seen.
 */
import type {
  AcquireCommand,
  CancelOptions,
  LockRequest,
  NoticeAnswer,
  WaitCommand,
} from "../../../src/core/engine/index.ts";
import { ModelState } from "./model-state.ts";
import {
  type EndedWait,
  endNoticeOf,
  grantedOf,
  type Hold,
  heldSince,
  isInRound,
  isUnconfirmed,
  openRequestOf,
  type Seen,
  tagOf,
} from "./types.ts";

const NEVER = Number.POSITIVE_INFINITY;

export class KeyModel extends ModelState {
  acquire(command: AcquireCommand, now: number, seen: Seen): object {
    this.arrive(command.limit, now, seen);
    if (this.limit !== command.limit) return { status: "limit_mismatch" };
    if (command.quorum) return this.acquireInRound(command, now);
    if (this.hasRoom && this.queue.length === 0) return grantedOf(this.grant(command, now, { isReported: true }));
    this.want();
    if (this.isQueueFull) return { status: "max_waiters" };
    if (command.waitMs === 0) return this.timeoutAtOnce();
    if (!command.mayWait) return { status: "would_wait" };
    this.join(command, { isEnqueued: false, deadline: now + command.waitMs }, now);
    return { status: "queued" };
  }

  /** Waits in any case: for its turn, and then for the other deployments. */
  private acquireInRound(command: AcquireCommand, now: number): object {
    this.want();
    if (!this.isIdle && command.quorum === "once") return this.timeoutAtOnce();
    if (!this.isIdle && this.isQueueFull) return { status: "max_waiters" };
    this.join(command, { isEnqueued: false, deadline: NEVER }, now);
    this.promote(now);
    return { status: "queued" };
  }

  enqueue(command: LockRequest & { readonly limit: number }, now: number, seen: Seen): object {
    this.arrive(command.limit, now, seen);
    if (this.hasRecord(command.session)) return { status: "already_enqueued" };
    this.lapsed.delete(command.session);
    if (this.limit !== command.limit) return { status: "limit_mismatch" };
    if (this.hasRoom && this.queue.length === 0) {
      const hold = this.grant(command, now, { isReported: true });
      hold.isRecord = true;
      return grantedOf(hold);
    }
    this.want();
    if (this.isQueueFull) return { status: "max_waiters" };
    this.join(command, { isEnqueued: true, deadline: NEVER }, now);
    return { status: "queued" };
  }

  wait(command: WaitCommand, now: number): object {
    if (command.takesOver) this.interruptWaits(command.session, now);
    this.evaluate(now);
    if (this.lapsed.delete(command.session)) return { status: "lease_expired" };
    const { hold, waiter } = this.recordOf(command.session);
    if (hold) {
      if (hold.unanswered?.waitRequest && !command.takesOver) return { status: "not_enqueued" };
      hold.request = command.request;
      hold.wasKnown = hold.isReported;
      return this.report(hold, now);
    }
    if (!waiter || (waiter.waitRequest && !command.takesOver)) return { status: "not_enqueued" };
    if (command.waitMs === 0) {
      this.queue = this.queue.filter((other) => other !== waiter);
      this.touch(now);
      return this.timeoutAtOnce();
    }
    if (!command.mayWait) return { status: "would_wait" };
    waiter.waitRequest = command.request;
    waiter.deadline = now + command.waitMs;
    return { status: "queued" };
  }

  /** Whoever shows a token has it. */
  private shown(token: string, now: number): void {
    const hold = this.holds.find((held) => held.token === token);
    if (hold && isUnconfirmed(hold) && hold.expiresAt > now) this.confirm(hold, undefined);
  }

  release(token: string, session: string, now: number, id?: string): object {
    this.shown(token, now);
    this.evaluate(now);
    const hold = this.holds.find((held) => held.token === token);
    if (!hold) return { status: this.hasEnded(id) ? "released" : "not_held" };
    this.ends(id);
    if (hold.session !== session && hold.isReported && !hold.sessionless)
      this.losses.push({ session: hold.session, token, reason: "released" });
    this.free(hold, "released", now);
    this.promote(now);
    return { status: "released" };
  }

  /** Only the session that holds the slot can do this. */
  giveBack(token: string, session: string, now: number, id?: string): object {
    this.shown(token, now);
    this.evaluate(now);
    const isOwn = this.holds.some((hold) => hold.token === token && hold.session === session);
    if (isOwn) return this.release(token, session, now, id);
    return { status: this.hasEnded(id) ? "released" : "not_held" };
  }

  /** The call has ended a hold before. */
  hasEnded(id: string | undefined): boolean {
    return id !== undefined && this.endedBy.includes(id);
  }

  /** The call ends a hold. */
  ends(id: string | undefined): void {
    if (id !== undefined) this.endedBy = [id, ...this.endedBy];
  }

  /** The hold ends as if its lease had, handed over or not; the next waiter is served. */
  steal(fence: string, now: number): object {
    this.evaluate(now);
    const hold = this.holds.find(({ token }) => token.startsWith(fence));
    if (!hold) return { status: "not_held" };
    const { session, expiresAt } = hold;
    this.takeAway(hold, "stolen", now);
    this.promote(now);
    return { status: "stolen", session, since: heldSince(hold), expiresAt, ...tagOf(hold) };
  }

  renew(token: string, leaseSeconds: number, now: number): object {
    this.shown(token, now);
    this.evaluate(now);
    const hold = this.holds.find((held) => held.token === token);
    this.observations.push({ type: "renewed", result: hold ? "ok" : "error" });
    if (!hold) return { status: "not_held" };
    hold.expiresAt = now + leaseSeconds * 1000;
    hold.stored = undefined;
    this.touch(now);
    const isWanted = hold.isWanted || (hold.asksWanted && this.queue.length > 0);
    hold.isWanted = isWanted && this.queue.length > 0;
    return { status: "renewed", leaseSeconds, ...(isWanted && { isWanted }) };
  }

  pickUp(request: string, now: number): object {
    this.evaluate(now);
    const hold = this.holds.find((held) => held.request === request);
    if (hold) return isInRound(hold) ? { status: "queued" } : this.report(hold, now);
    if (this.queue.some((waiter) => openRequestOf(waiter) === request)) return { status: "queued" };
    const end = this.ended.find(({ waiter }) => openRequestOf(waiter) === request);
    if (end) this.tell(end);
    return { status: end ? endNoticeOf(end).kind : "unknown" };
  }

  /** The reply to the same request again, after time has passed; undefined if the key does not know it. */
  repeat(request: string): object | undefined {
    const hold = this.holds.find((held) => held.request === request);
    if (hold) return hold.isReported ? grantedOf(hold) : { status: "queued" };
    const waiters = [...this.queue, ...this.ended.map(({ waiter }) => waiter)];
    return waiters.some((waiter) => openRequestOf(waiter) === request) ? { status: "queued" } : undefined;
  }

  cancel(request: string, now: number, { sparesKnown, sparesPlace }: CancelOptions = {}): void {
    const isUndone = sparesPlace && this.undoWait(request, now);
    this.evaluate(now);
    if (isUndone) {
      this.promote(now);
      return;
    }
    const hold = this.holds.find((held) => held.request === request);
    if (sparesKnown && hold?.wasKnown) {
      hold.isRecord ||= !this.hasRecord(hold.session);
      return;
    }
    if (hold) {
      this.free(hold, "gone", now);
      this.promote(now);
    }
    const before = this.queue.length;
    this.queue = this.queue.filter((waiter) => openRequestOf(waiter) !== request);
    if (this.queue.length < before) this.touch(now);
    // Those behind it may have waited for the end of its pause.
    this.promote(now);
    this.forgetEnd(request);
  }

  /** A `wait` that never arrived is cancelled: its place goes, or what it has become, unless another `wait` has it. */
  forgo(session: string, now: number, { sparesKnown }: CancelOptions = {}): void {
    this.evaluate(now);
    const { hold, waiter = hold?.unanswered } = this.recordOf(session);
    if (waiter?.waitRequest || (sparesKnown && hold?.isReported)) return;
    const request = hold?.request ?? waiter?.request;
    if (request !== undefined) this.cancel(request, now);
  }

  /** `offered`: the token that the notice carried. */
  answer(request: string, answer: NoticeAnswer, now: number, offered?: string): void {
    const end = this.ended.find(({ waiter }) => openRequestOf(waiter) === request);
    const hold = this.holds.find((held) => held.request === request);
    if (end && answer === "noted") {
      this.interruptEnded(end, now);
      this.promote(now);
    } else if (end && answer !== "later") {
      if (answer === "taken") this.tell(end);
      this.forgetEnd(request);
    }
    if (!hold || hold.isReported || (offered !== undefined && offered !== hold.token)) return;
    if (hold.isOffered && answer === "taken") this.confirm(hold, offered === undefined ? undefined : now);
    else if (answer === "gone") this.cancel(request, now);
    else if (isInRound(hold)) return;
    else if (answer === "later") this.startLease(hold, now);
    else if (answer === "noted" && hold.isRecord && hold.unanswered) this.interruptHold(hold, now);
  }

  /** The session's waiters go first, then time passes, then its holds go. Nothing of it stays behind. */
  leave(session: string, keepsReported: boolean, now: number): void {
    const before = this.queue.length;
    this.queue = this.queue.filter((waiter) => waiter.session !== session);
    if (this.queue.length < before) this.touch(now);
    this.evaluate(now);
    this.ended = this.ended.filter(({ waiter }) => waiter.session !== session);
    this.lapsed.delete(session);
    for (const hold of this.holds.filter((held) => held.session === session)) {
      if (keepsReported && (hold.isReported || hold.isOffered)) hold.isRecord = false;
      else this.free(hold, "disconnect", now);
    }
    this.promote(now);
  }

  timeoutAtOnce(): object {
    this.observations.push({ type: "timeout" });
    return { status: "timeout" };
  }

  /** The session has no `wait` in progress, whatever it had. */
  private interruptWaits(session: string, now: number): void {
    for (const hold of this.holds.filter((held) => held.session === session && held.unanswered?.waitRequest)) {
      this.interruptHold(hold, now);
    }
    for (const waiter of this.queue) if (waiter.session === session && waiter.waitRequest) waiter.deadline = NEVER;
    for (const end of [...this.ended]) {
      if (end.waiter.session === session && end.waiter.waitRequest) this.interruptEnded(end, now);
    }
  }

  /** The `wait` is as if it had not been made. False if there is none, or it has been answered. */
  private undoWait(request: string, now: number): boolean {
    const hold = this.holds.find(({ unanswered }) => unanswered?.waitRequest === request);
    const end = this.ended.find(({ waiter }) => waiter.waitRequest === request);
    if (hold) this.interruptHold(hold, now);
    if (end) this.interruptEnded(end, now);
    const waiter = this.queue.find(({ waitRequest }) => waitRequest === request);
    if (waiter) {
      waiter.deadline = NEVER;
      waiter.waitRequest = undefined;
    }
    return hold !== undefined || end !== undefined || waiter !== undefined;
  }

  private interruptHold(hold: Hold, now: number): void {
    hold.unanswered = undefined;
    this.startLease(hold, now);
  }

  private interruptEnded(end: EndedWait, now: number): void {
    const { waiter, outcome, isTold } = end;
    this.ended = this.ended.filter((other) => other !== end);
    if (!waiter.waitRequest || isTold || this.hasRecord(waiter.session)) return;
    if (outcome === "lease_expired") this.lapsed.set(waiter.session, now);
    else {
      waiter.deadline = NEVER;
      this.queue = [...this.queue, waiter].sort((a, b) => a.place - b.place);
    }
  }

  /** A key that may be pruned is, and takes the limit asked for. */
  arrive(limit: number, now: number, seen: Seen): void {
    this.evaluate(now);
    const isReset = this.isPrunable(now) ?? (limit === this.limit ? seen.hasNoLapses : !seen.isMismatch);
    if (!isReset) return;
    this.limit = limit;
    this.lapsed.clear();
  }
}
