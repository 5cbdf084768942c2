/**
 * One key by the book: lists, linear scans, no cleverness. It was written from the protocol's rules, not from the
 * engine, and says for every command what must come back and what must be true afterwards.
 *
 * Five rules the protocol leaves open, as decided for holdfast:
 *
 * - A waiter may still be granted a slot that became free no later than its deadline, even if the key is looked at
 *   late; at a tie the grant wins. (A command lets time pass first, so one that frees a slot at the very millisecond of
 *   a waiter's deadline comes after that waiter's time-out.)
 * - A time-out is a comparison with the stored deadline. So a time-out that its session has not answered yet is decided
 *   again after a reload; only a clock that was set back in between can turn it into a wait.
 * - Who waits for a grant has five seconds to pick it up, however short its lease; the lease begins at the pick-up. Once
 *   its session has said that nobody is there, no more than a lease is left.
 * - An enqueued place whose `wait` was cut off is as if nobody had waited on it yet. If that `wait` had timed out
 *   unheard, the place goes back to where it stood, unless its session has a new one.
 * - An activity that is noticed late (an expiry, a time-out) may count from when it was due or from when it was seen.
 */
import type {
  Answer,
  ClaimCommand,
  EndReason,
  HoldSelector,
  Observation,
  RefreshCommand,
  Sessionless,
} from "../../src/engine/index.ts";
import type { SlotRow, WaiterRow } from "./stored-engine.ts";

export const SALT = "0123456789abcdef";
const NEVER = Number.POSITIVE_INFINITY;
const PICK_UP_MS = 5_000;

export interface Claim {
  readonly session: string;
  readonly request: string;
  readonly limit: number;
  readonly leaseSeconds: number;
  readonly sessionless?: Sessionless | undefined;
}

export interface Wait {
  readonly session: string;
  readonly request: string;
  readonly waitMs: number;
  readonly mayWait: boolean;
  readonly takesOver?: true;
}

interface Place {
  readonly place: number;
  readonly session: string;
  readonly request: string;
  readonly isEnqueued: boolean;
  readonly leaseSeconds: number;
  readonly joinedAt: number;
  readonly sessionless: Sessionless | undefined;
  deadline: number;
  /** The `wait` in progress on an enqueued place. */
  waitRequest: string | undefined;
}

export interface Hold {
  readonly session: string;
  request: string;
  readonly token: string;
  leaseSeconds: number;
  sessionless: Sessionless | undefined;
  expiresAt: number;
  /** When the token was handed over; before that, when the request came. */
  since: number;
  isReported: boolean;
  /** It is the two-phase record of its session. */
  isRecord: boolean;
  /** The place that led here, while its session has not answered. */
  unanswered: Place | undefined;
}

interface Ended {
  readonly place: Place;
  readonly outcome: "timeout" | "lease_expired";
  /** The client has been given the outcome. */
  isTold: boolean;
}

export interface Circumstances {
  readonly maxWaiters: number;
  readonly gcMaxIdleMs: number;
  readonly fenceFloor: bigint;
}

/** What the engine did, for the one question that has two right answers: was the key idle for long enough? */
export interface Seen {
  readonly isMismatch: boolean;
  readonly hasNoLapses: boolean;
}

export interface Loss {
  readonly session: string;
  readonly token: string;
  readonly reason: "expired" | "released" | "stolen";
}

/** Something a session has to be told. */
export interface News {
  readonly session: string;
  readonly request: string;
  readonly kind: "granted" | "promoted" | "timeout" | "lease_expired";
}

export const listenerOf = ({ request, waitRequest }: Place): string => waitRequest ?? request;

export class KeyModel {
  limit: number;
  holds: Hold[] = [];
  queue: Place[] = [];
  /** Waits that are over, until their session has answered. */
  ended: Ended[] = [];
  lapsed = new Map<string, number>();
  lastFence = 0n;
  losses: Loss[] = [];
  /** What the command at hand has brought up. */
  news: News[] = [];
  /** Requests and places that were granted by the command at hand, in order. */
  promoted: Place[] = [];
  grants: Hold[] = [];
  /** Holds that the command at hand has ended. */
  endings = 0;
  /** What statistics are told of the command at hand, all but repeated notices. */
  observations: Observation[] = [];
  /** Last activity, by the earliest and by the latest reading. */
  activity: { earliest: number; latest: number };
  #rules: Circumstances;
  #nextPlace = 1;
  #now: number;

  constructor(limit: number, now: number, rules: Circumstances) {
    this.limit = limit;
    this.#rules = rules;
    this.#now = now;
    this.activity = { earliest: now, latest: now };
  }

  get isIdle(): boolean {
    return this.holds.length + this.queue.length === 0;
  }

  begin(now: number): void {
    this.#now = now;
    this.losses = [];
    this.news = [];
    this.promoted = [];
    this.grants = [];
    this.endings = 0;
    this.observations = [];
  }

  /** All that sessions still have to be told. */
  pending(): News[] {
    const ends = this.ended.map(({ place, outcome: kind }) => {
      return { session: place.session, request: listenerOf(place), kind };
    });
    return [...ends, ...this.holds.filter(({ unanswered }) => unanswered).map(newsOf)];
  }

  /** Undefined when the earliest and the latest reading disagree. */
  isPrunable(now: number): boolean | undefined {
    if (!this.isIdle) return false;
    if (now - this.activity.latest > this.#rules.gcMaxIdleMs) return true;
    return now - this.activity.earliest > this.#rules.gcMaxIdleMs ? undefined : false;
  }

  /** Whether some request stands for `request` by now: an enqueue that is being waited for. */
  isSuperseded(request: string): boolean {
    const places = [...this.queue, ...this.ended.map(({ place }) => place)];
    for (const hold of this.holds) if (hold.unanswered) places.push(hold.unanswered);
    return places.some((place) => place.request === request && place.waitRequest !== undefined);
  }

  acquire(claim: Claim & { waitMs: number; mayWait: boolean }, now: number, seen: Seen): object {
    this.arrive(claim.limit, now, seen);
    if (this.limit !== claim.limit) return { status: "limit_mismatch" };
    if (this.hasRoom && this.queue.length === 0) return this.answerOf(this.grant(claim, now, { isReported: true }));
    if (this.isQueueFull) return { status: "max_waiters" };
    if (claim.waitMs === 0) return this.timeoutAtOnce();
    if (!claim.mayWait) return { status: "would_wait" };
    this.join(claim, { isEnqueued: false, deadline: now + claim.waitMs }, now);
    return { status: "queued" };
  }

  /** A holder without a session asks. A claim with the holder's kind and mark is the holder's own. */
  claim(command: ClaimCommand, now: number, seen: Seen): object {
    this.evaluate(now);
    const { kind, mark } = command.sessionless;
    const hold = this.newest;
    if (hold && mark !== undefined && hold.sessionless?.kind === kind && hold.sessionless.mark === mark) {
      this.confirm(hold, now);
      return { status: "standing", ...this.shown(now) };
    }
    if (command.waitMs === 0 && this.limit === 1 && !this.isIdle)
      return { ...this.timeoutAtOnce(), ...this.shown(now) };
    const outcome = this.acquire({ ...command, limit: 1, mayWait: true }, now, seen);
    return this.asClaim(outcome, command.request, now);
  }

  /** What became of a claim that waited. */
  collect(request: string, now: number): object {
    this.evaluate(now);
    if (this.holds.some((hold) => hold.request === `confirmed:${request}`))
      return { status: "granted", ...this.shown(now) };
    return this.asClaim(this.pickUp(request, now), request, now);
  }

  /** A hold that another request was told of is withdrawn by none any more. */
  confirm(hold: Hold, now: number): void {
    if (!hold.isReported) this.report(hold, now);
    if (!hold.request.startsWith("confirmed:")) hold.request = `confirmed:${hold.request}`;
  }

  refresh(command: RefreshCommand, now: number, seen: Seen): object {
    this.evaluate(now);
    if (this.limit !== 1 && !(this.isPrunable(now) ?? !seen.isMismatch)) return { status: "limit_mismatch" };
    const refusal = this.refusalOf(command, now);
    this.observations.push({ type: "renewed", result: refusal ? "error" : "ok" });
    const hold = this.newest;
    if (refusal || !hold?.sessionless) return refusal ?? {};
    this.confirm(hold, now);
    hold.leaseSeconds = command.leaseSeconds ?? hold.leaseSeconds;
    hold.expiresAt = now + hold.leaseSeconds * 1000;
    if (command.tag !== undefined) hold.sessionless = { ...hold.sessionless, tag: command.tag };
    this.touch(now);
    return { status: "refreshed", ...this.shown(now) };
  }

  remove(selector: HoldSelector, now: number): object {
    this.evaluate(now);
    const refusal = this.refusalOf(selector, now);
    const hold = this.newest;
    if (refusal || !hold) return refusal ?? {};
    const removed = { status: "removed", ...this.shown(now) };
    if (hold.isReported) this.free(hold, "released", now);
    else this.takeAway(hold, "stolen", now);
    this.promote(now);
    return removed;
  }

  enqueue(claim: Claim, now: number, seen: Seen): object {
    this.arrive(claim.limit, now, seen);
    if (this.recordOf(claim.session)) return { status: "already_enqueued" };
    this.lapsed.delete(claim.session);
    if (this.limit !== claim.limit) return { status: "limit_mismatch" };
    if (this.hasRoom && this.queue.length === 0) {
      const hold = this.grant(claim, now, { isReported: true });
      hold.isRecord = true;
      return this.answerOf(hold);
    }
    if (this.isQueueFull) return { status: "max_waiters" };
    this.join(claim, { isEnqueued: true, deadline: NEVER }, now);
    return { status: "queued" };
  }

  wait(command: Wait, now: number): object {
    if (command.takesOver) this.keepPlacesOf(command.session, now);
    this.evaluate(now);
    if (this.lapsed.delete(command.session)) return { status: "lease_expired" };
    const record = this.recordOf(command.session);
    if (!record) return { status: "not_enqueued" };
    if (record.hold) {
      if (record.hold.unanswered?.waitRequest && !command.takesOver) return { status: "not_enqueued" };
      record.hold.request = command.request;
      return this.report(record.hold, now);
    }
    const { place } = record;
    if (place.waitRequest && !command.takesOver) return { status: "not_enqueued" };
    if (command.waitMs === 0) {
      this.queue = this.queue.filter((other) => other !== place);
      this.touch(now);
      return this.timeoutAtOnce();
    }
    if (!command.mayWait) return { status: "would_wait" };
    place.waitRequest = command.request;
    place.deadline = now + command.waitMs;
    return { status: "queued" };
  }

  release(token: string, session: string, now: number): object {
    this.evaluate(now);
    const hold = this.holds.find((held) => held.token === token);
    if (!hold) return { status: "not_held" };
    if (hold.session !== session && hold.isReported && !hold.sessionless)
      this.losses.push({ session: hold.session, token, reason: "released" });
    this.free(hold, "released", now);
    this.promote(now);
    return { status: "released" };
  }

  /** Whoever has the hold, or was about to get it, loses it as if its lease had ended; the next in line is served. */
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
    this.evaluate(now);
    const hold = this.holds.find((held) => held.token === token);
    this.observations.push({ type: "renewed", result: hold ? "ok" : "error" });
    if (!hold) return { status: "not_held" };
    hold.expiresAt = now + leaseSeconds * 1000;
    this.touch(now);
    return { status: "renewed", leaseSeconds };
  }

  pickUp(request: string, now: number): object {
    this.evaluate(now);
    const hold = this.holds.find((held) => held.request === request);
    if (hold) return this.report(hold, now);
    if (this.queue.some((place) => listenerOf(place) === request)) return { status: "queued" };
    const end = this.ended.find(({ place }) => listenerOf(place) === request);
    if (end) this.tell(end);
    return { status: end?.outcome ?? "unknown" };
  }

  /** The same request again, after time has passed: what it was told, or undefined if the key does not know it. */
  repeat(request: string): object | undefined {
    const hold = this.holds.find((held) => held.request === request);
    if (hold) return hold.isReported ? this.answerOf(hold) : { status: "queued" };
    const waits = [...this.queue, ...this.ended.map(({ place }) => place)];
    return waits.some((place) => listenerOf(place) === request) ? { status: "queued" } : undefined;
  }

  cancel(request: string, now: number): void {
    this.evaluate(now);
    const hold = this.holds.find((held) => held.request === request);
    if (hold) {
      this.free(hold, "gone", now);
      this.promote(now);
    }
    const before = this.queue.length;
    this.queue = this.queue.filter((place) => listenerOf(place) !== request);
    if (this.queue.length < before) this.touch(now);
    this.forgetEnd(request);
  }

  answer(request: string, answer: Answer, now: number): void {
    const end = this.ended.find(({ place }) => listenerOf(place) === request);
    const hold = this.holds.find((held) => held.request === request);
    if (end && answer === "noted") {
      this.keepEnded(end, now);
      this.promote(now);
    } else if (end && answer !== "later") {
      if (answer === "taken") this.tell(end);
      this.forgetEnd(request);
    }
    if (!hold || hold.isReported) return;
    if (answer === "gone") this.cancel(request, now);
    else if (answer === "later") this.startLease(hold, now);
    else if (answer === "noted" && hold.isRecord && hold.unanswered) this.keepHold(hold, now);
  }

  /** The session's waiters go first, then time passes, then its holds go. Nothing of it stays behind. */
  leave(session: string, keepsReported: boolean, now: number): void {
    const before = this.queue.length;
    this.queue = this.queue.filter((place) => place.session !== session);
    if (this.queue.length < before) this.touch(now);
    this.evaluate(now);
    this.ended = this.ended.filter(({ place }) => place.session !== session);
    this.lapsed.delete(session);
    for (const hold of this.holds.filter((held) => held.session === session)) {
      if (keepsReported && hold.isReported) hold.isRecord = false;
      else this.free(hold, "disconnect", now);
    }
    this.promote(now);
  }

  /** What the protocol calls evaluating the key. */
  evaluate(now: number): void {
    const expired = this.holds.filter((hold) => hold.expiresAt <= now).sort((a, b) => a.expiresAt - b.expiresAt);
    for (const hold of expired) this.takeAway(hold, "expired", hold.expiresAt);
    for (const { expiresAt } of expired) {
      this.timeOut((place) => place.deadline < expiresAt, now);
      if (this.promoteOne(now)) this.observations.push({ type: "handed_over_late", ms: Math.max(0, now - expiresAt) });
    }
    // Room beside a waiter is only found after a reload, by a time-out that is decided again.
    this.timeOut((place) => place.deadline < now, now);
    this.promote(now);
    this.timeOut((place) => place.deadline <= now, now);
    for (const [session, at] of [...this.lapsed]) {
      if (now - at > this.#rules.gcMaxIdleMs) this.lapsed.delete(session);
    }
  }

  /** Waits on records that timed out unheard, while their session has a new record. */
  outlivedRecords(): { readonly request: string; readonly deadline: number }[] {
    return this.ended
      .filter(({ place, outcome }) => place.isEnqueued && outcome === "timeout" && this.recordOf(place.session))
      .map(({ place }) => ({ request: listenerOf(place), deadline: place.deadline }));
  }

  /** `shownActivity` is the last activity that the rows show. */
  reload(shownActivity: number): void {
    const undecided = this.ended.filter(({ outcome }) => outcome === "timeout").map(({ place }) => place);
    this.ended = this.ended.filter(({ outcome }) => outcome !== "timeout").map((end) => ({ ...end, isTold: false }));
    this.queue = [...this.queue, ...undecided].sort((a, b) => a.place - b.place);
    this.activity.earliest = Math.min(this.activity.earliest, shownActivity);
  }

  prune(limit: number, now: number): void {
    this.limit = limit;
    this.lapsed.clear();
    this.activity = { earliest: now, latest: now };
  }

  /** The session behind an ended wait could not be told, often enough: nobody tries any more. */
  giveUp(request: string): void {
    this.forgetEnd(request);
  }

  slotRows(): Omit<SlotRow, "index" | "place">[] {
    return this.holds.map(({ isRecord, unanswered: _, ...row }) => ({
      ...row,
      hasRecord: isRecord,
      isHeld: true,
    }));
  }

  waiterRows(): Omit<WaiterRow, "place">[] {
    const promoted = this.holds.flatMap(({ unanswered }) => (unanswered ? [unanswered] : []));
    const ends = this.ended.map(({ place, outcome }) => ({
      place,
      outcome: outcome === "timeout" ? undefined : outcome,
    }));
    const others = [...this.queue, ...promoted].map((place) => ({ place, outcome: undefined }));
    return [...ends, ...others]
      .sort((a, b) => a.place.place - b.place.place)
      .map(({ place: { place: _, ...row }, outcome }) => ({ ...row, outcome }));
  }

  /** The session has no `wait` in progress, whatever it had. */
  private keepPlacesOf(session: string, now: number): void {
    for (const hold of this.holds.filter((held) => held.session === session && held.unanswered?.waitRequest)) {
      this.keepHold(hold, now);
    }
    for (const place of this.queue) if (place.session === session && place.waitRequest) place.deadline = NEVER;
    for (const end of [...this.ended]) {
      if (end.place.session === session && end.place.waitRequest) this.keepEnded(end, now);
    }
  }

  private keepHold(hold: Hold, now: number): void {
    hold.unanswered = undefined;
    this.startLease(hold, now);
  }

  private keepEnded(end: Ended, now: number): void {
    const { place, outcome, isTold } = end;
    this.ended = this.ended.filter((other) => other !== end);
    if (!place.waitRequest || isTold || this.recordOf(place.session)) return;
    if (outcome === "lease_expired") this.lapsed.set(place.session, now);
    else {
      place.deadline = NEVER;
      this.queue = [...this.queue, place].sort((a, b) => a.place - b.place);
    }
  }

  private startLease(hold: Hold, now: number): void {
    const expiresAt = now + hold.leaseSeconds * 1000;
    if (expiresAt >= hold.expiresAt) return;
    hold.expiresAt = expiresAt;
    this.touch(now);
  }

  private get hasRoom(): boolean {
    return this.holds.length < this.limit;
  }

  private get isQueueFull(): boolean {
    return this.#rules.maxWaiters > 0 && this.queue.length >= this.#rules.maxWaiters;
  }

  /** A key that may be pruned is, and starts anew with the limit asked for. */
  private arrive(limit: number, now: number, seen: Seen): void {
    this.evaluate(now);
    const isRestarted = this.isPrunable(now) ?? (limit === this.limit ? seen.hasNoLapses : !seen.isMismatch);
    if (!isRestarted) return;
    this.limit = limit;
    this.lapsed.clear();
  }

  private recordOf(session: string): { hold: Hold; place?: never } | { hold?: never; place: Place } | undefined {
    const hold = this.holds.find((held) => held.session === session && held.isRecord);
    if (hold) return { hold };
    const place = this.queue.find((other) => other.session === session && other.isEnqueued);
    return place && { place };
  }

  private get newest(): Hold | undefined {
    return this.holds.reduce<Hold | undefined>(
      (best, hold) => (best && best.token > hold.token ? best : hold),
      undefined,
    );
  }

  /** The newest hold, as those who have no session are told of it. */
  private shown(at: number): { hold?: object } {
    if (!this.newest) return {};
    const { session, token, leaseSeconds, expiresAt, sessionless } = this.newest;
    const hold = { session, fence: token.slice(0, 16), leaseSeconds, expiresAt, at };
    return { hold: sessionless ? { ...hold, sessionless } : hold };
  }

  private asClaim(outcome: object, request: string, now: number): object {
    const { status } = outcome as { status: string };
    if (status === "granted") {
      const isOwn = this.newest?.request === request;
      return isOwn ? { status, ...this.shown(now) } : { status: "a lock has one holder" };
    }
    if (status === "timeout" || status === "limit_mismatch") return { status, ...this.shown(now) };
    return { status: status === "unknown" ? "lease_expired" : status };
  }

  private refusalOf({ kind, which }: HoldSelector, now: number): object | undefined {
    const hold = this.newest;
    if (!hold) return { status: "not_held" };
    if (this.limit !== 1 || hold.sessionless?.kind !== kind) return { status: "foreign", ...this.shown(now) };
    const isMeant =
      which.by === "any" ||
      (which.by === "fence" ? which.fences.includes(hold.token.slice(0, 16)) : hold.sessionless.mark === which.mark);
    return isMeant ? undefined : { status: "mismatch", ...this.shown(now) };
  }

  private join(claim: Claim, kind: { isEnqueued: boolean; deadline: number }, now: number): void {
    const { session, request, leaseSeconds, sessionless } = claim;
    const place = this.#nextPlace++;
    const joined = { place, session, request, leaseSeconds, sessionless, joinedAt: now };
    this.queue.push({ ...joined, ...kind, waitRequest: undefined });
    this.touch(now);
  }

  private grant(
    { session, request, leaseSeconds, sessionless }: Omit<Claim, "limit">,
    now: number,
    { isReported }: { isReported: boolean },
  ): Hold {
    const { fenceFloor } = this.#rules;
    const above = (this.lastFence > fenceFloor ? this.lastFence : fenceFloor) + 1n;
    const clock = BigInt(now) * 1_000_000n;
    this.lastFence = above > clock ? above : clock;
    const token = this.lastFence.toString(16).padStart(16, "0") + SALT;
    const expiresAt = now + leaseSeconds * 1000;
    const hold = {
      session,
      request,
      token,
      leaseSeconds,
      sessionless,
      expiresAt,
      since: now,
      isReported,
      isRecord: false,
      unanswered: undefined,
    };
    if (isReported) {
      const fence = token.slice(0, 16);
      const granted = { type: "granted", how: "immediate", session, fence, at: now, waitMs: 0 } as const;
      this.observations.push({ ...granted, ...tagOf(hold) });
    }
    this.holds.push(hold);
    this.grants.push(hold);
    this.touch(now);
    return hold;
  }

  private promoteOne(now: number): boolean {
    const place = this.queue.shift();
    if (!place) return false;
    const claim = { ...place, request: listenerOf(place) };
    const hold = this.grant(claim, now, { isReported: false });
    hold.since = place.joinedAt;
    hold.isRecord = place.isEnqueued;
    hold.unanswered = place;
    if (!place.isEnqueued || place.waitRequest) hold.expiresAt = Math.max(hold.expiresAt, now + PICK_UP_MS);
    this.promoted.push(place);
    this.news.push(newsOf(hold));
    return true;
  }

  private promote(now: number): void {
    while (this.hasRoom && this.queue.length > 0) this.promoteOne(now);
  }

  /** The token is handed to the client: from here its lease runs in full. */
  private report(hold: Hold, now: number): object {
    if (!hold.isReported) {
      const { session, token, since } = hold;
      const [fence, waitMs] = [token.slice(0, 16), Math.max(0, now - since)];
      this.observations.push({ type: "granted", how: "queued", session, fence, at: now, waitMs, ...tagOf(hold) });
      hold.since = now;
    }
    hold.isReported = true;
    hold.isRecord = false;
    hold.unanswered = undefined;
    hold.expiresAt = now + hold.leaseSeconds * 1000;
    this.touch(now);
    return this.answerOf(hold);
  }

  private free(hold: Hold, reason: EndReason, at: number): void {
    this.holds = this.holds.filter((held) => held !== hold);
    this.endings += 1;
    const holdMs = hold.isReported ? Math.max(0, at - hold.since) : undefined;
    this.observations.push({ type: "ended", fence: hold.token.slice(0, 16), reason, holdMs });
    this.touch(at);
  }

  /** Ends a hold without its session's doing; who waits for the token is told, who will ask for it will be. */
  private takeAway(hold: Hold, reason: "expired" | "stolen", at: number): void {
    const { session, token, unanswered } = hold;
    this.free(hold, reason === "expired" && !hold.isReported ? "gone" : reason, at);
    this.touch(at, this.#now);
    if (hold.isReported && !hold.sessionless) this.losses.push({ session, token, reason });
    const isWaitedFor = unanswered !== undefined && (!unanswered.isEnqueued || unanswered.waitRequest !== undefined);
    if (isWaitedFor) this.end(unanswered, "lease_expired");
    else if (hold.isRecord) this.lapsed.set(session, at);
  }

  private timeOut(isLate: (place: Place) => boolean, now: number): void {
    for (const place of this.queue.filter(isLate)) {
      this.end(place, "timeout");
      this.touch(place.deadline, now);
    }
    this.queue = this.queue.filter((place) => !isLate(place));
  }

  private end(place: Place, outcome: Ended["outcome"]): void {
    this.ended.push({ place, outcome, isTold: false });
    this.news.push({ session: place.session, request: listenerOf(place), kind: outcome });
  }

  /** A wait that was in vain counts when its client hears of it, and once. */
  private tell(end: Ended): void {
    if (end.outcome === "timeout" && !end.isTold) this.observations.push({ type: "timeout" });
    end.isTold = true;
  }

  private timeoutAtOnce(): object {
    this.observations.push({ type: "timeout" });
    return { status: "timeout" };
  }

  private forgetEnd(request: string): void {
    this.ended = this.ended.filter(({ place }) => listenerOf(place) !== request);
  }

  private answerOf({ token, leaseSeconds }: Hold): object {
    return { status: "granted", token, leaseSeconds };
  }

  private touch(earliest: number, latest = earliest): void {
    this.activity.earliest = Math.max(this.activity.earliest, earliest);
    this.activity.latest = Math.max(this.activity.latest, latest);
  }
}

function newsOf({ session, request, isRecord, unanswered }: Hold): News {
  return { session, request, kind: isRecord && !unanswered?.waitRequest ? "promoted" : "granted" };
}

/** A tag of these stories is short, and is shown whole. */
function tagOf({ sessionless }: Hold): { tag?: string } {
  return sessionless?.tag === undefined ? {} : { tag: sessionless.tag };
}

/** When the token was handed over; before that, when the slot was given to the place: its fence tells, or its lease. */
function heldSince({ isReported, since, token, expiresAt, leaseSeconds }: Hold): number {
  if (isReported) return since;
  const fencedAt = Number(BigInt(`0x${token.slice(0, 16)}`) / 1_000_000n);
  return Math.min(fencedAt, expiresAt - leaseSeconds * 1000);
}
