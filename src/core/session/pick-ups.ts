import type { NoticeAnswer, PickUpOutcome } from "../engine/index.ts";
import type { Outcome } from "../protocols/statuses.ts";
import type { SessionContext } from "./context.ts";
import type { Holdings } from "./holdings.ts";
import { answerOf } from "./key-calls.ts";
import type { RequestTable, TrackedRequest } from "./request-table.ts";
import { RETRY_PAUSES_MS } from "./withdrawals.ts";

/** The requests that grants are picked up for. */
interface OpenRequests {
  readonly table: RequestTable;
  isOver(): boolean;
  answer(entry: TrackedRequest, outcome: Outcome): void;
  /** The session has ended: undoes what the key did. */
  abandon(entry: TrackedRequest): void;
  withdraw(id: string, key: string): void;
}

/** Picks grants up that their notices did not carry, or that are not fresh: the key says whether they still stand. */
export class PickUps {
  readonly #context: SessionContext;
  readonly #holdings: Holdings;
  readonly #requests: OpenRequests;

  constructor(context: SessionContext, holdings: Holdings, requests: OpenRequests) {
    this.#context = context;
    this.#holdings = holdings;
    this.#requests = requests;
  }

  /** Picks a grant up; the client is told if that succeeds. A key may repeat its notice meanwhile. */
  begin(entry: TrackedRequest, number: number): void {
    entry.notices.push(number);
    if (entry.notices.length > 1) return;
    entry.state = "offered";
    entry.offers += 1;
    const { offers } = entry;
    this.#pickUp(
      entry,
      (outcome) => {
        const answer = this.#outcomeOf(entry, outcome);
        const isTaken = answer !== undefined && !this.#requests.isOver() && this.#requests.table.has(entry);
        this.#answerNotices(entry, isTaken ? "taken" : "gone");
        if (!this.#requests.table.has(entry) || entry.state !== "offered") return;
        if (this.#requests.isOver()) {
          if (answer) this.#requests.abandon(entry);
        } else if (answer) this.#requests.answer(entry, answer);
        else this.#waitOn(entry, offers);
      },
      (error) => {
        for (const notice of entry.notices.splice(0)) this.#context.emit({ type: "failNotice", notice, error });
        this.#chase(entry, 0);
      },
    );
  }

  /** Asks the key whether a wait is over, as a notice says. The client is told if it is. */
  confirmEnd(entry: TrackedRequest, notice: number, end: Outcome): void {
    this.#pickUp(
      entry,
      (outcome) => {
        const found = this.#outcomeOf(entry, outcome);
        const answer = outcome.status === end.status || outcome.status === "unknown" ? end : found;
        const isTold = answer !== undefined && !this.#requests.isOver() && this.#isOpen(entry);
        this.#context.emit({ type: "answerNotice", notice, answer: isTold ? "taken" : "later" });
        if (isTold) this.#requests.answer(entry, answer);
      },
      (error) => this.#context.emit({ type: "failNotice", notice, error }),
    );
  }

  /**
   * Asks a key that did not answer again, for a while: it may have recorded the pick-up and will then not notify again.
   */
  #chase(entry: TrackedRequest, attempt: number): void {
    const isWanted = () => !this.#requests.isOver() && this.#requests.table.has(entry) && entry.state === "offered";
    if (!isWanted()) return;
    const pauseMs = RETRY_PAUSES_MS[attempt];
    if (pauseMs === undefined) {
      this.#requests.answer(entry, { status: "unavailable" });
      this.#requests.withdraw(entry.id, entry.key ?? "");
      return;
    }
    const next = () => this.#chase(entry, attempt + 1);
    this.#context.timers.at(this.#context.now + pauseMs, () => {
      if (!isWanted()) return;
      const { offers } = entry;
      const settle = (outcome: PickUpOutcome) => {
        const answer = this.#outcomeOf(entry, outcome);
        if (!isWanted()) return;
        if (answer) this.#requests.answer(entry, answer);
        else this.#waitOn(entry, offers);
      };
      this.#pickUp(entry, settle, next);
    });
  }

  /** It is still queued, unless a notice has come since that was asked: then it is granted by now. */
  #waitOn(entry: TrackedRequest, offers: number): void {
    if (entry.offers === offers) entry.state = entry.isQueued ? "waiting" : "sent";
  }

  #pickUp(
    entry: TrackedRequest,
    answered: (outcome: PickUpOutcome) => void,
    failed: (error: string) => void = () => {},
  ): void {
    const { id, key } = entry;
    if (key !== undefined) this.#context.callKey(key, { type: "pickUp", request: id }, { answered, failed });
  }

  /** What a picked-up request is answered with; undefined while it waits. One that the key has lost is an error. */
  #outcomeOf(entry: TrackedRequest, outcome: PickUpOutcome): Outcome | undefined {
    const { id, key = "" } = entry;
    const isLatest = this.#requests.table.has(entry);
    if (outcome.status === "queued") return undefined;
    if (outcome.status === "granted") {
      // The answer to the `wait` itself may never come.
      if (entry.type === "wait" && isLatest) this.#holdings.waits(key, id, { endsPlace: entry.ownsPlace });
      this.#holdings.granted(key, id, outcome.token, { isLatest });
      return answerOf(outcome);
    }
    if (isLatest) this.#holdings.drop(key, id);
    return { status: outcome.status === "unknown" ? "error" : outcome.status };
  }

  #answerNotices(entry: TrackedRequest, answer: NoticeAnswer): void {
    for (const notice of entry.notices.splice(0)) this.#context.emit({ type: "answerNotice", notice, answer });
  }

  /** A repeated request may have been granted while its client was away. */
  lookAgain(entry: TrackedRequest): void {
    this.#pickUp(
      entry,
      (outcome) => {
        const answer = this.#outcomeOf(entry, outcome);
        if (answer && this.#isOpen(entry)) this.#requests.answer(entry, answer);
      },
      () => {
        if (!this.#isOpen(entry)) return;
        entry.state = "offered";
        this.#chase(entry, 0);
      },
    );
  }

  /** The request may still be answered with a grant. */
  #isOpen(entry: TrackedRequest): boolean {
    return this.#requests.table.has(entry) && (entry.state === "waiting" || entry.state === "offered");
  }
}
