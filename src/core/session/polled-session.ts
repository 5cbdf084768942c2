import type { NoticeAnswer } from "../engine/index.ts";
import type { Outcome } from "../protocols/statuses.ts";
import { SessionContext, type SessionOrigin } from "./context.ts";
import type { Loss, Notice } from "./effects.ts";
import { Holdings } from "./holdings.ts";
import { IdleTimeout } from "./idle-timeout.ts";
import type { KeyRequest } from "./key-calls.ts";
import { Leaving } from "./leaving.ts";
import type { RequestOwner } from "./request-owner.ts";
import { newRequest, RequestTable, type TrackedRequest } from "./request-table.ts";
import { Requests } from "./requests.ts";

/** A parked request as kept during sleep. */
export interface Parked {
  readonly id: string;
  readonly key: string;
  readonly type: "acquire" | "wait";
  /** What the client has been told: nothing yet, a refusal, or a grant with its token. */
  readonly told: "nothing" | "refusal" | "grant";
}

/** A wait shorter than this needs no poll. While it lasts, the object cannot sleep. */
const WAITS_IN_CALL_MS = 250;
/** The client of a request whose poll does not come in this time has left. */
const POLL_COMES_WITHIN_MS = 5_000;
/** If cleanup takes longer, the object has died, and its alarm starts over. */
const CLEANUP_TAKES_AT_MOST_MS = 2_000;
/** However long the idle time, a dead session is ended within this time. */
const LONGEST_DEAD_MS = 30_000;

/**
 * The session of a client without a socket, as a state machine. A request that has to wait is answered late, and if it
 * waits for long, its client polls. The session is stored, so it survives sleep and restarts with everything it holds and
 * waits for. It ends when its client says so, or has been silent for twice the idle time with no request in flight. Its
 * requests run concurrently, those on one key in the order of their arrival.
 */
export class PolledSession implements RequestOwner {
  readonly context: SessionContext;
  readonly requests: Requests;
  readonly #idleTimeout: IdleTimeout;
  readonly #leaving: Leaving;
  /** How a request waits from the start. */
  readonly #firstPoll: TrackedRequest["poll"];
  #isOver: boolean;

  constructor(origin: SessionOrigin, parked: readonly Parked[]) {
    this.context = new SessionContext(origin);
    const holdings = new Holdings(this.context);
    const table = new RequestTable();
    for (const { id, key, type, told } of parked) {
      const entry = newRequest({ id, key, type, tag: id, isQueued: true, poll: "open" });
      entry.state = told === "nothing" ? "waiting" : "answered";
      if (told === "nothing") table.add(entry);
      else table.addUnlisted(entry);
    }
    this.requests = new Requests(this.context, holdings, table);
    this.requests.attach(this);
    this.#leaving = new Leaving(this.context, holdings);
    this.#idleTimeout = new IdleTimeout(this.context);
    this.#firstPoll = origin.holdsConnections ? "open" : "call";
    this.#isOver = !this.#idleTimeout.hasBegun || this.isEnding;
  }

  /** The session has ended, possibly before the object was restarted, or was never opened. */
  get isOver(): boolean {
    return this.#isOver;
  }

  get hasBegun(): boolean {
    return this.#idleTimeout.hasBegun;
  }

  get address(): string {
    return this.#idleTimeout.address;
  }

  /** Keys are being left. */
  get isLeaving(): boolean {
    return this.#leaving.isUnderWay;
  }

  /** It has ended before all keys know. */
  get isEnding(): boolean {
    return this.context.records.get("ending") === true;
  }

  /** Something is in flight or about to be retried. */
  get isBusy(): boolean {
    const { table } = this.requests;
    return this.context.callsInFlight > 0 || table.isAnyWithdrawing || table.some(({ poll }) => poll === "due");
  }

  open(address: string, label: string | undefined): void {
    this.#idleTimeout.begin(address, label);
    this.#isOver = false;
    this.#watch();
  }

  /** Records that the client is alive, or ends the session if its time is up. False if there is no session. */
  saw(label: string | undefined): boolean {
    if (this.endIfSilent()) return false;
    this.#idleTimeout.saw();
    this.#watch();
    if (label !== undefined && this.#idleTimeout.relabel(label)) this.context.emit({ type: "relabel", label });
    return true;
  }

  /** Carries out a request. If it is not answered soon, its client has to poll. */
  begin(id: string, request: KeyRequest): void {
    const { key, type } = request;
    const { table } = this.requests;
    const isWaitedFor = (entry: TrackedRequest) =>
      entry.type === "wait" && entry.key === key && entry.state !== "withdrawing";
    // It may be lost on its way and made again. If this one had reached the key meanwhile, it would lose its place, and
    // never be answered.
    const isBeingAsked = (entry: TrackedRequest) => isWaitedFor(entry) && entry.state === "sent" && entry.ownsPlace;
    if (type === "wait" && table.some(isBeingAsked)) {
      this.context.emit({ type: "reply", id, outcome: { status: "not_enqueued" } });
      return;
    }
    const poll = this.#firstPoll;
    const takesOver = type === "wait" && !table.some(isWaitedFor);
    if (takesOver) table.disownPlace(key);
    this.requests.begin(newRequest({ id, key, type, tag: id, poll }), request, { mayWait: true, takesOver });
  }

  /** The client polls for a request that waits. */
  poll(id: string): void {
    const entry = this.requests.table.get(id);
    if (entry?.poll !== "due" || entry.state === "withdrawing") {
      this.context.emit({ type: "reply", id, outcome: "lost" });
      return;
    }
    const { key = "", type, kept } = entry;
    this.context.timers.stop(entry.timer);
    entry.poll = "open";
    if (kept) {
      this.requests.table.remove(entry);
      this.context.emit({ type: "reply", id, outcome: kept });
    } else this.context.emit({ type: "park", id, key, wait: type === "wait" ? "wait" : "acquire" });
  }

  /** The client has released these holds at their keys. */
  released(key: string, token: string): void {
    this.requests.lost(key, token);
  }

  /** The answer to a request did not reach the client. `hasLeft`: because the client has hung up. */
  withdraw(id: string, key: string, { hasLeft }: { readonly hasLeft: boolean }): void {
    const afterwards = () => this.context.emit({ type: "withdrawn", id });
    this.requests.withdraw(id, key, { afterwards, endsPlace: hasLeft });
  }

  /** The client no longer polls: it has the answer, or has hung up. A grant that it has not is withdrawn. */
  pollClosed({ id, key, type, told }: Parked, isDelivered: boolean): void {
    if (!this.#isOver) {
      this.#idleTimeout.saw();
      this.#watch();
    }
    const entry = this.requests.table.get(id);
    if (entry?.state === "withdrawing") return;
    // A close that wakes the object is all that is known of its poll.
    if (told === "refusal" || (told === "grant" && isDelivered)) {
      if (entry) this.requests.table.remove(entry);
    } else this.requests.withdraw(id, key, { endsPlace: type === "wait" });
  }

  /** The client of a request that was held open has its answer. */
  delivered(id: string): void {
    const entry = this.requests.table.get(id);
    if (entry?.state === "answered") this.requests.table.remove(entry);
  }

  /** `isThere`: the client of the request, if it polls, still does. */
  notice(number: number, notice: Notice, isThere: boolean): void {
    const entry = this.requests.table.get(notice.request);
    if (entry && !isThere) entry.isLeft = true;
    if (!this.endIfSilent()) this.requests.notice(number, notice, isThere);
    else {
      const answer = this.requests.answerWithoutClient(notice, true);
      this.context.emit({ type: "answerNotice", notice: number, answer });
    }
  }

  lose({ key, token }: Loss): void {
    this.requests.lost(key, token);
  }

  /** The alarm has fired. */
  wake(): void {
    if (this.#isOver) {
      if (!this.isEnding) return;
      this.#leaving.begin();
      this.context.emit({ type: "ended" });
    } else if (!this.endIfSilent()) this.#watch();
  }

  /** True if the session has ended, including if this call ended it. */
  endIfSilent(): boolean {
    const isSilent = () =>
      this.#idleTimeout.isOver && !this.requests.table.some(({ state }) => state !== "withdrawing");
    if (!this.#isOver && isSilent()) this.end();
    return this.#isOver;
  }

  end(): void {
    if (this.#isOver) return;
    // From here on the session no longer exists, even if the object dies before cleanup is complete.
    this.#isOver = true;
    this.context.emit({ type: "put", name: "ending", value: true });
    this.context.emit({ type: "wake", at: this.context.now + CLEANUP_TAKES_AT_MOST_MS });
    this.requests.table.some((entry) => {
      if (entry.isQueued) this.#dismiss(entry);
      return false;
    });
    this.requests.end({ keepsOwner: true });
    this.#leaving.begin();
    this.context.emit({ type: "ended" });
  }

  /** Runs what was planned up to this time. It may be later than `now`: a clock that was set back delays nothing. */
  tick(due: number): void {
    this.context.timers.run(due);
  }

  answered(entry: TrackedRequest, outcome: Outcome): void {
    if (!this.#isOver) this.#idleTimeout.saw();
    const { id, poll, state, timer } = entry;
    if (poll === "due") entry.kept = outcome;
    else if (poll === "open") this.context.emit({ type: "tell", id, outcome });
    else {
      if (state !== "withdrawing") this.context.timers.stop(timer);
      this.context.emit({ type: "reply", id, outcome });
    }
  }

  waits(entry: TrackedRequest): void {
    if (!this.#isOver) this.#idleTimeout.saw();
    if (entry.poll !== "call") return;
    const { timers, now } = this.context;
    entry.timer = timers.at(now + WAITS_IN_CALL_MS, () => this.#returnCall(entry));
  }

  dropped({ id, poll }: TrackedRequest): void {
    if (poll === "call") this.context.emit({ type: "reply", id, outcome: "gone" });
    else if (poll === "open") this.context.emit({ type: "tell", id, outcome: "gone" });
  }

  /** A restart may have cut off a `wait`: its place stays. That of a client that has left goes. */
  unknown({ hasPlace, request }: Notice): NoticeAnswer {
    return hasPlace && !this.requests.table.get(request)?.isLeft ? "noted" : "gone";
  }

  /** Has the client poll. */
  #returnCall(entry: TrackedRequest): void {
    const { timers, now } = this.context;
    const { id, key = "" } = entry;
    entry.poll = "due";
    this.context.emit({ type: "reply", id, outcome: "waits" });
    const leave = () => this.requests.withdraw(id, key, { endsPlace: true });
    entry.timer = timers.at(now + POLL_COMES_WITHIN_MS, leave);
  }

  /** Tells the client of a waiting request that the session has ended. */
  #dismiss({ id, poll, state, timer }: TrackedRequest): void {
    if (state !== "withdrawing") this.context.timers.stop(timer);
    if (poll === "open") this.context.emit({ type: "tell", id, outcome: "gone" });
    else if (poll === "call") this.context.emit({ type: "reply", id, outcome: "gone" });
  }

  /** Schedules the next check for a silent client. */
  #watch(): void {
    const pauseMs = Math.min(this.context.config.httpSessionIdleMs, LONGEST_DEAD_MS);
    this.context.emit({ type: "wake", by: Math.max(this.#idleTimeout.endsAt, this.context.now + pauseMs) });
  }
}
