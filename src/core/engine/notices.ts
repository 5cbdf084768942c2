import type { Bookkeeping } from "./bookkeeping.ts";
import type { NoticeEvent, NoticeKind } from "./output.ts";
import type { SlotOrWaiter } from "./request-index.ts";
import { Slot } from "./slots.ts";
import type { Waiter } from "./waiters.ts";

/** An unanswered notice is repeated after this time, then less and less often. */
const FIRST_REPEAT_MS = 900;
const MAX_REPEAT_MS = 10_000;
/** A session that cannot be told of an ended wait is given up after this many notices. */
const MAX_NOTICES = 30;

/** Notifying: tells sessions of promotions and ended waits until they answer. */
export class Notices {
  readonly #books: Bookkeeping;

  constructor(books: Bookkeeping) {
    this.#books = books;
  }

  /** Sends a notice and schedules the next one. The first of an offered hold carries the grant. */
  send(subject: SlotOrWaiter, now: number): void {
    if (!(subject instanceof Slot && subject.isUnconfirmed)) this.#send(subject, now, {});
    else {
      const { status: _, ...grant } = subject.granted;
      this.#send(subject, now, { offer: { ...grant, at: now } });
    }
  }

  repeat(subject: SlotOrWaiter, now: number): void {
    this.#books.output.observations.push({ type: "notice_repeated" });
    this.#send(subject, now, subject instanceof Slot && subject.isUnconfirmed ? { mayBeTold: true } : {});
  }

  #send(subject: SlotOrWaiter, now: number, grant: Pick<NoticeEvent, "offer" | "mayBeTold">): void {
    subject.notices += 1;
    subject.notifyAt = now + Math.min(FIRST_REPEAT_MS * 2 ** (subject.notices - 1), MAX_REPEAT_MS);
    this.#books.deadlines.schedule(subject);
    const { session } = subject;
    const { request, kind, hasPlace } = subject instanceof Slot ? promotionOf(subject) : endOf(subject);
    if (!kind) return;
    const refusal = subject instanceof Slot ? undefined : subject.refusal;
    const more = { ...(hasPlace && { hasPlace }), ...(refusal && { refusal }), ...grant };
    this.#books.output.events.push({ type: "notice", session, request, kind, ...more });
  }

  /** Only ended waits are given up; a hold that is not picked up expires. */
  isGivenUp(waiter: Waiter): boolean {
    return waiter.notices >= MAX_NOTICES;
  }
}

interface Content {
  readonly request: string;
  readonly kind: NoticeKind | undefined;
  readonly hasPlace: boolean;
}

function promotionOf({ request, hasRecord, isBeforeWait }: Slot): Content {
  return { request, kind: isBeforeWait ? "promoted" : "granted", hasPlace: hasRecord && !isBeforeWait };
}

function endOf({ openRequest, status, isEnqueued, waitRequest }: Waiter): Content {
  const kind = status === "queued" ? undefined : status;
  return { request: openRequest, kind, hasPlace: isEnqueued && waitRequest !== undefined };
}
