import type { Bookkeeping } from "./bookkeeping.ts";
import type { CommandContext, WaitCommand } from "./commands.ts";
import type { Holds } from "./holds.ts";
import type { NoticeAnswer } from "./output.ts";
import type { Slot } from "./slots.ts";
import { Waiter, type WaitQueue } from "./waiters.ts";

/** What sessions say to notices, what else becomes known of waits and offered holds, and the end of sessions. */
export class Answers {
  readonly #books: Bookkeeping;
  readonly #holds: Holds;
  readonly #queue: WaitQueue;
  readonly #cancel: (request: string, context: CommandContext) => void;

  constructor(
    books: Bookkeeping,
    holds: Holds,
    queue: WaitQueue,
    cancel: (request: string, context: CommandContext) => void,
  ) {
    this.#books = books;
    this.#holds = holds;
    this.#queue = queue;
    this.#cancel = cancel;
  }

  /** See `KeyEngine.answer`. */
  take(request: string, answer: NoticeAnswer, context: CommandContext, offered: string | undefined): void {
    const subject = this.#books.requests.get(request);
    if (subject instanceof Waiter) this.#answerEnd(subject, answer, context);
    else if (!subject || subject.isReported || (offered ?? subject.token) !== subject.token) return;
    else if (answer === "taken" && subject.isOffered) this.#confirm(subject, offered ? context.now : undefined);
    else this.#answerPromotion(subject, answer, context);
  }

  /** The session knows that its earlier `wait` on this key was cut off. */
  interruptWaits({ session, request }: WaitCommand, now: number): void {
    const { requests } = this.#books;
    // A repeat of the same `wait` has interrupted nothing.
    if (requests.has(request)) return;
    for (const subject of requests.ofSession(session)) {
      if (subject instanceof Waiter && subject.waitRequest !== undefined) this.#holds.interruptWait(subject, now);
    }
  }

  /** A `wait` becomes as if it had not been made. False if there is none with this id, or it has been answered. */
  undoWait(request: string, now: number): boolean {
    const subject = this.#books.requests.get(request);
    const waiter = subject instanceof Waiter ? subject : subject?.waiter;
    if (waiter?.waitRequest !== request) return false;
    this.#holds.interruptWait(waiter, now);
    this.#queue.forgetWait(waiter);
    return true;
  }

  /** The session has ended, and with it all its waits. */
  withdrawWaits(session: string, now: number): void {
    const { requests, records } = this.#books;
    records.takeLapse(session);
    for (const subject of requests.ofSession(session)) {
      if (subject instanceof Waiter && !subject.slot) this.#queue.remove(subject, now);
    }
  }

  /** The session has ended: what it has goes, except, with `keepsReported`, holds whose token the client has. */
  endHolds(session: string, keepsReported: boolean, context: CommandContext): void {
    const { requests, records } = this.#books;
    records.takeLapse(session);
    for (const subject of requests.ofSession(session)) {
      if (subject instanceof Waiter) {
        if (subject.outcome) this.#queue.settle(subject);
      } else if (keepsReported && subject.mayBeKnown) this.#holds.clearRecord(subject);
      else this.#holds.end(subject, "left", context.now);
    }
    this.#holds.promote(context);
  }

  /** Presenting a token confirms delivery. */
  shown(token: string, now: number): void {
    const slot = this.#holds.get(token);
    if (slot?.isUnconfirmed && slot.expiresAt > now) this.#confirm(slot, undefined);
  }

  /**
   * The client of an offered hold has the token. If its session has handed it over just now, the lease starts; this is
   * written only if it then ends later than stored. If it is not known when, the lease is not prolonged.
   */
  #confirm(slot: Slot, now: number | undefined): void {
    slot.isReported = true;
    if (slot.waiter) this.#queue.settle(slot.waiter);
    // Tell the holder of waiters that came after the offer.
    if (this.#queue.length > 0) this.#holds.wanted.tell();
    if (now === undefined) return;
    const ends = now + Math.round(slot.leaseSeconds * 1000);
    if (ends > slot.expiresAt) this.#holds.leaseUntil(slot, ends, now);
    else this.#holds.shorten(slot, ends, now);
  }

  #answerEnd(waiter: Waiter, answer: NoticeAnswer, context: CommandContext): void {
    if (answer === "later" || !waiter.outcome) return;
    if (answer === "taken") this.#queue.markTold(waiter);
    if (answer !== "noted" || !waiter.waitRequest) this.#queue.settle(waiter);
    else {
      this.#queue.interruptWait(waiter, context.now);
      this.#holds.promote(context);
    }
  }

  #answerPromotion(slot: Slot, answer: NoticeAnswer, context: CommandContext): void {
    const { request, waiter, hasRecord } = slot;
    if (answer === "gone") this.#cancel(request, context);
    // About an earlier promotion: this one has not been announced yet.
    else if (slot.isInRound) return;
    else if (answer === "later") this.#holds.startLease(slot, context.now);
    else if (answer === "noted" && waiter && hasRecord) this.#holds.interruptWait(waiter, context.now);
  }
}
