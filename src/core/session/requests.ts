import type {
  AcquireOutcome,
  EnqueueOutcome,
  NoticeAnswer,
  Offer,
  ReleaseOutcome,
  RenewOutcome,
  WaitOutcome,
} from "../engine/index.ts";
import type { Outcome } from "../protocols/statuses.ts";
import type { SessionContext } from "./context.ts";
import type { Notice } from "./effects.ts";
import { type Holdings, PLACE } from "./holdings.ts";
import { answerOf, type Circumstances, callOf, type KeyOutcome, type KeyRequest, mayHold } from "./key-calls.ts";
import { PickUps } from "./pick-ups.ts";
import type { RequestOwner } from "./request-owner.ts";
import { newRequest, type RequestTable, type TrackedRequest } from "./request-table.ts";
import { Watching } from "./watching.ts";
import { type Withdrawal, Withdrawals } from "./withdrawals.ts";

/** An older offer may have expired: it is picked up instead. Clocks that differ by more only make this slower. */
const OFFER_IS_FRESH_MS = 1_000;
/** A notice is not expected twice, and if it comes twice, then soon. */
const MAX_TOLD = 64;

/**
 * Carries out the requests of one session at their keys. Each has one state, whatever its protocol; see `TrackedRequest`. A
 * grant reaches the client only after its key has recorded that it is handed over, or may be, and a request whose client
 * is not told is withdrawn.
 */
export class Requests {
  readonly table: RequestTable;
  readonly #context: SessionContext;
  readonly #holdings: Holdings;
  readonly #withdrawals: Withdrawals;
  readonly #pickUps: PickUps;
  readonly #watching: Watching;
  /** What the client was told of, newest last: tokens of offers, and requests that waited for nothing. */
  readonly #told: string[] = [];
  /** Undefined while the session has no client. */
  #owner: RequestOwner | undefined;
  #isOver = false;

  constructor(context: SessionContext, holdings: Holdings, table: RequestTable) {
    this.#context = context;
    this.#holdings = holdings;
    this.table = table;
    this.#withdrawals = new Withdrawals(context, holdings, table);
    this.#watching = new Watching(context, () => this.#isOver);
    this.#pickUps = new PickUps(context, holdings, {
      table,
      isOver: () => this.#isOver,
      answer: (entry, outcome) => this.#answer(entry, outcome),
      abandon: (entry) => this.#abandon(entry),
      withdraw: (id, key) => this.withdraw(id, key),
    });
  }

  attach(owner: RequestOwner): void {
    this.#owner = owner;
  }

  /** The client is away and may repeat its requests on another socket: at their keys they stay as they are. */
  detach(): void {
    this.#owner = undefined;
    this.table.clear();
  }

  /** The session has ended. A grant that still arrives is withdrawn. `owner` stays if it has to be told. */
  end({ keepsOwner }: { readonly keepsOwner: boolean }): void {
    this.#isOver = true;
    this.table.leave();
    if (!keepsOwner) this.#owner = undefined;
  }

  begin(entry: TrackedRequest, request: KeyRequest, circumstances: Circumstances): void {
    const before = this.table.get(entry.id);
    this.table.add(entry);
    // A withdrawal in flight must not cancel this request: it is made after the withdrawal has been answered.
    if (before?.isCancelling) before.next = () => this.#start(entry, request, circumstances);
    else {
      this.#context.timers.stop(before?.timer);
      this.#start(entry, request, circumstances);
    }
  }

  /** Begins a request that is carried out without a key. */
  beginReport(id: string, tag: string | undefined): void {
    this.table.add(newRequest({ id, key: undefined, type: "report", tag }));
  }

  /** Withdraws a request, whatever its state. The client is not told. */
  drop(entry: TrackedRequest): void {
    this.table.unlist(entry);
    if (entry.key === undefined) this.table.remove(entry);
    else this.#withdrawals.begin(entry);
  }

  /** Withdraws a request for its client. It is told when that is certain: until then it would ask for it again. */
  cancel(entry: TrackedRequest, afterwards: () => void): void {
    const answer = () => {
      if (!this.#isOver && this.table.isListed(entry)) this.#answer(entry, { status: "cancelled" });
      afterwards();
    };
    if (entry.key === undefined) {
      answer();
      return;
    }
    entry.whenWithdrawn.push(answer);
    this.#withdrawals.begin(entry, { endsPlace: true });
  }

  /** Withdraws a request, also one that is no longer known: the answer may not have reached the client. */
  withdraw(id: string, key: string, how: Pick<Withdrawal, "afterwards" | "endsPlace"> = {}): void {
    const entry = this.table.get(id) ?? this.#withdrawals.ofUnknown(id, key);
    const isUnanswered = this.table.isListed(entry);
    this.table.unlist(entry);
    if (isUnanswered) this.#owner?.dropped(entry);
    this.table.addUnlisted(entry);
    const endsPlace = how.endsPlace === true || this.#isOver;
    this.#withdrawals.begin(entry, { ...how, endsPlace, sparesKnown: true });
  }

  /** A repeated request may have been granted while its client was away. */
  lookAgain(entry: TrackedRequest): void {
    this.#pickUps.lookAgain(entry);
  }

  /** The answer to a request that is carried out without a key. */
  reported(id: string, outcome: Outcome): void {
    const entry = this.table.get(id);
    if (entry && !this.#isOver) this.#answer(entry, outcome);
  }

  /** Handles a key's notice about a request that waits, or did. `isThere`: its client can still be answered. */
  notice(number: number, notice: Notice, isThere = true): void {
    const reply = (answer: NoticeAnswer) => this.#context.emit({ type: "answerNotice", notice: number, answer });
    if (this.#isOver) reply(this.answerWithoutClient(notice, true));
    else if (notice.kind === "promoted") reply("noted");
    else if (!this.#owner) reply("later");
    else {
      const entry = this.table.get(notice.request);
      const { offer } = notice;
      if (!entry) reply(this.#answerUnknown(this.#owner, notice));
      else if (entry.state === "answered") reply("taken");
      else if (entry.state === "withdrawing" || !isThere) reply(this.#owner.unknown(notice));
      else if (offer && entry.state === "waiting" && this.#isFresh(offer)) {
        this.#holdings.granted(notice.key, entry.id, offer.token, { isLatest: true });
        this.#remember(offer.token);
        this.#answer(entry, answerOf(offer));
        reply("taken");
      } else if (notice.kind === "granted") this.#pickUps.begin(entry, number);
      // A repeated request is on its way to the key, which must not have forgotten the first when that arrives.
      else if (!entry.isQueued) reply("later");
      else {
        const { kind: status, refusal } = notice;
        const end = refusal ? { status, refusal } : { status };
        // The end may be that of the first one: the repeated one may wait again.
        if (this.#owner.mayRepeat?.(entry.id)) this.#pickUps.confirmEnd(entry, number, end);
        else {
          this.#holdings.drop(notice.key, notice.request);
          this.#answer(entry, end);
          reply("taken");
        }
      }
    }
  }

  /** From now on every key tells at once when a lease of this session ends. */
  watch(): void {
    if (!this.#watching.isComplete) this.#watching.begin(this.#holdings.keysToLeave());
  }

  /** The answer of a session without a client. One that may have been told keeps its hold, unless it has left. */
  answerWithoutClient({ mayBeTold }: Notice, hasLeft: boolean): NoticeAnswer {
    return mayBeTold && !(hasLeft && this.#context.config.autoRelease) ? "taken" : "gone";
  }

  /** A hold of the session has ended without the session releasing it. */
  lost(key: string, token: string): void {
    this.#holdings.drop(key, token);
  }

  /** The answer about a request that is not known, or no longer. Gives a grant back only if its client was not told. */
  #answerUnknown(owner: RequestOwner, notice: Notice): NoticeAnswer {
    const { key, request, kind, offer, mayBeTold } = notice;
    if (offer && this.#told.includes(offer.token)) return "taken";
    const answer = owner.unknown(notice);
    // The session may have believed that nothing of it was left there.
    if (answer === "later" && kind === "granted") this.#holdings.add(key, request);
    // It was not cut off: its client knows that it is over.
    if (answer === "noted" && kind !== "granted" && this.#told.includes(request)) return "taken";
    return answer === "gone" && mayBeTold ? "taken" : answer;
  }

  #remember(told: string): void {
    this.#told.push(told);
    if (this.#told.length > MAX_TOLD) this.#told.shift();
  }

  #isFresh({ at }: Offer): boolean {
    return Math.abs(this.#context.now - at) <= OFFER_IS_FRESH_MS;
  }

  #start(entry: TrackedRequest, request: KeyRequest, circumstances: Circumstances): void {
    if (!this.#isSent(entry)) return;
    if (this.#isOver) {
      this.#dismiss(entry);
      return;
    }
    const { config } = this.#context;
    const isNew = request.type === "acquire" || request.type === "enqueue";
    if (isNew && config.draining) this.#answer(entry, { status: "draining" });
    // One that is repeated on another socket may be at its key, and must not be told otherwise.
    else if (isNew && !this.#context.isStorageWell() && !this.#owner?.mayRepeat?.(entry.id))
      this.#answer(entry, { status: "unavailable" });
    else this.#call(entry, request, circumstances);
  }

  #call(entry: TrackedRequest, request: KeyRequest, circumstances: Circumstances): void {
    const { session, config } = this.#context;
    const { id } = entry;
    if (circumstances.hasBegun) {
      this.#fetchStolen(entry, request);
      return;
    }
    if (request.type === "acquire") this.#holdings.add(request.key, id);
    else if (request.type === "enqueue") {
      this.#holdings.add(request.key, PLACE);
      this.table.disownPlace(request.key);
    }
    const { defaultLeaseSeconds } = config;
    // A `wait` may be made later than it was asked: another one may have the place by then.
    const takesOver = circumstances.takesOver === true && entry.ownsPlace;
    const call = callOf(request, { session, id, defaultLeaseSeconds, takesOver }, circumstances);
    this.#context.callKey(request.key, call, {
      mayRepeat: () => {
        // The current holder may have acquired the key after the steal, or another `wait` the place.
        const isHarmless = !(request.type === "acquire" && request.steals) && (entry.ownsPlace || !takesOver);
        return isHarmless && !this.#isOver && this.#isSent(entry);
      },
      failed: (error) => this.#failed(entry, request, error),
      answered: (outcome) => {
        this.#carriedOut(entry, request, outcome);
        // It was on its way when the other keys were told.
        if (this.#watching.isOn && !circumstances.isWatched && mayHold(request)) this.#watching.tell(request.key);
      },
    });
  }

  #carriedOut(entry: TrackedRequest, request: KeyRequest, outcome: KeyOutcome): void {
    const { key } = request;
    switch (request.type) {
      case "acquire":
        this.#claimed(entry, outcome as AcquireOutcome);
        break;
      case "enqueue": {
        const { status, ...grant } = outcome as EnqueueOutcome;
        if ("token" in grant) this.#holdings.add(key, grant.token);
        // Add it again: an earlier `enqueue` that was refused may have dropped it meanwhile.
        if (status === "queued" || status === "already_enqueued") this.#holdings.add(key, PLACE);
        // If the request has been repeated meanwhile, it may have a place again.
        else if (this.table.has(entry)) this.#holdings.drop(key, PLACE);
        this.#done(entry, { status: status === "granted" ? "acquired" : status, ...grant });
        break;
      }
      case "wait": {
        const waited = outcome as WaitOutcome;
        // A second concurrent `wait` is refused; the place still belongs to the first.
        if (waited.status === "not_enqueued") this.#done(entry, { status: "not_enqueued" });
        else {
          const endsPlace = entry.ownsPlace && this.table.has(entry);
          if (waited.status !== "would_wait") this.#holdings.waits(key, entry.id, { endsPlace });
          this.#claimed(entry, waited);
        }
        break;
      }
      case "release": {
        const { status } = outcome as ReleaseOutcome;
        this.#holdings.drop(key, request.token);
        this.#done(entry, { status: status === "released" ? "ok" : "not_held" });
        break;
      }
      case "renew": {
        const { status, ...lease } = outcome as RenewOutcome;
        this.#done(entry, { status: status === "renewed" ? "ok" : "not_held", ...lease });
      }
    }
  }

  /** Does not steal again: the current holder may have acquired the key after the steal. */
  #fetchStolen(entry: TrackedRequest, request: KeyRequest): void {
    this.#context.callKey(
      request.key,
      { type: "pickUp", request: entry.id },
      {
        mayRepeat: () => this.#isSent(entry),
        failed: (error) => this.#failed(entry, request, error),
        answered: (outcome) => {
          if (outcome.status === "granted") this.#claimed(entry, outcome);
          else {
            this.#holdings.drop(request.key, entry.id);
            this.#done(entry, { status: "lease_expired" });
          }
        },
      },
    );
  }

  /** Answers a request that is not waiting for anything. A notice may have overtaken the answer. */
  #done(entry: TrackedRequest, outcome: Outcome): void {
    if (!this.#isCarriedOut(entry)) return;
    if (this.#isOver) this.#abandon(entry);
    else this.#answer(entry, outcome);
  }

  #claimed(entry: TrackedRequest, outcome: AcquireOutcome | WaitOutcome): void {
    const { id, key = "" } = entry;
    const isLatest = this.table.has(entry);
    if (outcome.status === "granted") this.#holdings.granted(key, id, outcome.token, { isLatest });
    if (!this.#isCarriedOut(entry)) return;
    if (this.#isOver) this.#abandon(entry);
    else if (outcome.status === "granted") this.#answer(entry, answerOf(outcome));
    else if (outcome.status === "queued") {
      this.table.queued(entry);
      this.#owner?.waits(entry);
    } else if (outcome.status === "would_wait") {
      // The key is as it was: a `wait` still has its place there.
      if (entry.type === "acquire") this.#holdings.drop(key, id);
      this.table.remove(entry);
      this.#owner?.dropped(entry);
    } else {
      this.#holdings.drop(key, id);
      this.#answer(entry, { status: outcome.status });
    }
  }

  /** The outcome stays unknown: the request is withdrawn, and then answered. */
  #failed(entry: TrackedRequest, request: KeyRequest, error: string): void {
    this.#context.emit({
      type: "log",
      level: "error",
      event: "operation_failed",
      fields: { type: request.type, error },
    });
    if (!this.#isCarriedOut(entry)) return;
    const answer = () => {
      if (!this.table.isListed(entry)) return;
      if (this.#isOver) this.#dismiss(entry);
      else this.#answer(entry, { status: "unavailable" });
    };
    if (mayHold(request)) this.#withdrawals.begin(entry, { afterwards: answer, sparesKnown: true });
    else answer();
  }

  /** The session has ended: whatever the key did is undone, and the client is told that the session is gone. */
  #abandon(entry: TrackedRequest): void {
    if (entry.type === "release" || entry.type === "renew") this.#dismiss(entry);
    else this.#withdrawals.begin(entry, { afterwards: () => this.#dismiss(entry), sparesKnown: true });
  }

  #dismiss(entry: TrackedRequest): void {
    this.table.unlist(entry);
    if (entry.state !== "withdrawing") this.table.remove(entry);
    this.#owner?.dropped(entry);
  }

  #answer(entry: TrackedRequest, outcome: Outcome): void {
    if (entry.isQueued && outcome.token === undefined) this.#remember(entry.id);
    this.table.answered(entry);
    this.#owner?.answered(entry, outcome);
  }

  /** The request is being carried out for the first time, and nothing has been heard of it. */
  #isSent(entry: TrackedRequest): boolean {
    return this.table.has(entry) && entry.state === "sent";
  }

  /** The same, though a notice may have been heard already. */
  #isCarriedOut(entry: TrackedRequest): boolean {
    return this.table.has(entry) && (entry.state === "sent" || entry.state === "offered");
  }
}
