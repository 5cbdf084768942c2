import type { EndReason, LockRequest, Observation, RoundEvent } from "../../../src/core/engine/index.ts";
import {
  type EndedWait,
  endNoticeOf,
  fenceOf,
  grantedOf,
  type Hold,
  isInRound,
  isUnconfirmed,
  type Loss,
  type Notice,
  openRequestOf,
  promotionOf,
  type Rules,
  tagOf,
  type Waiter,
} from "./types.ts";

export const SALT = "0123456789abcdef";
const PICK_UP_MS = 5_000;
const OFFER_TAKES_MS = 1_000;
/** A round of which nothing is heard for this long is given up. */
export const ROUND_MS = 1_250;
/** After a hold that another deployment was refused for, no round begins here for this long. */
const YIELD_MS = 200;

/** The state of one key, and the steps that its commands are made of. */
export class ModelState {
  limit: number;
  holds: Hold[] = [];
  queue: Waiter[] = [];
  ended: EndedWait[] = [];
  lapsed = new Map<string, number>();
  /** Ids of calls that have ended holds, newest first. */
  endedBy: string[] = [];
  lastFence = 0n;
  /** Last activity, by the earliest and by the latest reading. */
  activity: { earliest: number; latest: number };
  /** What the current command has done. */
  losses: Loss[] = [];
  /** Holders told that somebody else wants the key. */
  wants: Omit<Loss, "reason">[] = [];
  notices: Notice[] = [];
  promoted: Waiter[] = [];
  grants: Hold[] = [];
  /** What the relay of this deployment is told. */
  rounds: RoundEvent[] = [];
  /** Until then no round begins here. */
  #yieldsUntil = Number.NEGATIVE_INFINITY;
  /** Number of holds that it has ended. */
  endings = 0;
  /** All but repeated notices. */
  observations: Observation[] = [];
  #rules: Rules;
  #nextPlace = 1;
  #now: number;

  constructor(limit: number, now: number, rules: Rules) {
    this.limit = limit;
    this.#rules = rules;
    this.#now = now;
    this.activity = { earliest: now, latest: now };
  }

  get isIdle(): boolean {
    return this.holds.length + this.queue.length === 0;
  }

  protected get hasRoom(): boolean {
    return this.holds.length < this.limit;
  }

  protected get isQueueFull(): boolean {
    return this.#rules.maxWaiters > 0 && this.queue.length >= this.#rules.maxWaiters;
  }

  begin(now: number): void {
    this.#now = now;
    this.losses = [];
    this.wants = [];
    this.notices = [];
    this.promoted = [];
    this.grants = [];
    this.rounds = [];
    this.endings = 0;
    this.observations = [];
  }

  /** Undefined when the earliest and the latest reading disagree. */
  isPrunable(now: number): boolean | undefined {
    if (!this.isIdle) return false;
    if (now - this.activity.latest > this.#rules.gcMaxIdleMs) return true;
    return now - this.activity.earliest > this.#rules.gcMaxIdleMs ? undefined : false;
  }

  /** What the protocol calls evaluating the key. */
  evaluate(now: number): void {
    const due = this.holds.filter((hold) => hold.expiresAt <= now).sort((a, b) => a.expiresAt - b.expiresAt);
    for (const hold of due.filter(isInRound)) this.stepBack(hold, now);
    for (const waiter of this.queue) if (waiter.pausedUntil <= now) waiter.pausedUntil = 0;
    const expired = due.filter((hold) => !isInRound(hold));
    for (const hold of expired) this.takeAway(hold, "expired", hold.expiresAt);
    for (const { expiresAt } of expired) {
      this.timeOut((waiter) => waiter.deadline < expiresAt, now);
      if (this.promoteOne(now)) this.observations.push({ type: "handed_over_late", ms: Math.max(0, now - expiresAt) });
    }
    // Room beside a waiter is only found after a reload, by a time-out that is decided again.
    this.timeOut((waiter) => waiter.deadline < now, now);
    this.promote(now);
    this.timeOut((waiter) => waiter.deadline <= now, now);
    for (const [session, at] of [...this.lapsed]) {
      if (now - at > this.#rules.gcMaxIdleMs) this.lapsed.delete(session);
    }
  }

  /** `shownActivity` is the last activity that the rows show. */
  reload(shownActivity: number): void {
    const undecided = this.ended.filter(({ outcome }) => outcome !== "lease_expired").map(({ waiter }) => waiter);
    const decided = this.ended.filter(({ outcome }) => outcome === "lease_expired");
    this.ended = decided.map((end) => ({ ...end, isTold: false }));
    this.queue = [...this.queue, ...undecided].sort((a, b) => a.place - b.place);
    for (const waiter of this.queue) waiter.pausedUntil = 0;
    this.#yieldsUntil = Number.NEGATIVE_INFINITY;
    for (const hold of this.holds) {
      hold.isWanted = false;
      hold.isWantedByPeer = false;
    }
    this.activity.earliest = Math.min(this.activity.earliest, shownActivity);
    for (const hold of this.holds) this.reloadOffer(hold);
  }

  /** The rows do not tell whether an offered hold was handed over, nor all of its waiter. */
  private reloadOffer(hold: Hold): void {
    Object.assign(hold, hold.stored && { ...hold.stored, isReported: false, stored: undefined });
    if (!isUnconfirmed(hold) || !hold.offeredTo) return;
    const { place, session, request, leaseSeconds } = hold.offeredTo;
    const known = { place, session, request, leaseSeconds, joinedAt: hold.since };
    const unknown = { isEnqueued: false, sessionless: undefined, quorum: undefined, waitRequest: undefined };
    const { asksWanted } = hold;
    hold.unanswered = { ...known, ...unknown, asksWanted, deadline: Number.POSITIVE_INFINITY, pausedUntil: 0 };
  }

  prune(limit: number, now: number): void {
    this.limit = limit;
    this.lapsed.clear();
    this.endedBy = [];
    this.#yieldsUntil = Number.NEGATIVE_INFINITY;
    this.activity = { earliest: now, latest: now };
  }

  hasRecord(session: string): boolean {
    const { hold, waiter } = this.recordOf(session);
    return hold !== undefined || waiter !== undefined;
  }

  protected recordOf(session: string): { hold?: Hold | undefined; waiter?: Waiter | undefined } {
    const hold = this.holds.find((held) => held.session === session && held.isRecord);
    if (hold) return { hold };
    return { waiter: this.queue.find((waiter) => waiter.session === session && waiter.isEnqueued) };
  }

  protected join(request: LockRequest, kind: Pick<Waiter, "isEnqueued" | "deadline">, now: number): void {
    const { session, request: id, leaseSeconds, sessionless, quorum } = request;
    const joined = { place: this.#nextPlace++, session, request: id, leaseSeconds, sessionless, quorum, joinedAt: now };
    const asksWanted = request.asksWanted === true;
    this.queue.push({ ...joined, ...kind, asksWanted, waitRequest: undefined, pausedUntil: 0 });
    this.touch(now);
  }

  /** Somebody wants the key and does not get it now: every holder that asked, and has its token, is told once. */
  want(): void {
    for (const hold of this.holds) {
      if (!hold.asksWanted || !hold.isReported || hold.isWanted) continue;
      hold.isWanted = true;
      this.wants.push({ session: hold.session, token: hold.token });
    }
  }

  grant(
    {
      session,
      request,
      leaseSeconds,
      sessionless,
      asksWanted,
      isWatched = false,
    }: Omit<LockRequest, "asksWanted"> & {
      asksWanted?: boolean | undefined;
    },
    now: number,
    { isReported }: { isReported: boolean },
  ): Hold {
    const token = this.mint(now);
    const expiresAt = now + leaseSeconds * 1000;
    const none = { offeredTo: undefined, stored: undefined, unanswered: undefined, round: undefined };
    const told = { asksWanted: asksWanted === true, isWanted: false, isWantedByPeer: false };
    const is = { isReported, isWatched, isOffered: false, isRecord: false, wasKnown: false, ...none, ...told };
    const hold = { session, request, token, leaseSeconds, sessionless, expiresAt, since: now, ...is };
    if (isReported) {
      const granted = { type: "granted", how: "immediate", session, fence: fenceOf(hold), at: now, waitMs: 0 } as const;
      this.observations.push({ ...granted, ...tagOf(hold) });
    }
    this.holds.push(hold);
    this.grants.push(hold);
    this.touch(now);
    return hold;
  }

  /** The token of the next grant. Its fence is above all others and above `floor`. */
  mint(now: number, floor = 0n): string {
    const above = [this.lastFence, this.#rules.fenceFloor, floor].reduce((a, b) => (a > b ? a : b)) + 1n;
    const clock = BigInt(now) * 1_000_000n;
    return this.tokenWith(above > clock ? above : clock);
  }

  tokenWith(fence: bigint): string {
    this.lastFence = fence;
    return fence.toString(16).padStart(16, "0") + SALT;
  }

  promote(now: number): void {
    while (this.hasRoom && this.promoteOne(now));
  }

  protected promoteOne(now: number): boolean {
    const waiter = this.queue[0];
    if (!waiter || waiter.pausedUntil > now) return false;
    if (waiter.quorum && this.#yieldsUntil > now) {
      waiter.pausedUntil = this.#yieldsUntil;
      return false;
    }
    this.queue.shift();
    const hold = this.grant({ ...waiter, request: openRequestOf(waiter), isWatched: true }, now, { isReported: false });
    hold.since = waiter.joinedAt;
    hold.isRecord = waiter.isEnqueued;
    hold.unanswered = waiter;
    this.promoted.push(waiter);
    if (waiter.quorum) {
      const { session, request, leaseSeconds } = hold;
      hold.round = "open";
      hold.expiresAt = now + ROUND_MS;
      this.rounds.push({ type: "round", session, request, mark: fenceOf(hold), leaseMs: leaseSeconds * 1000 });
      return true;
    }
    if (!waiter.isEnqueued && !waiter.sessionless) {
      this.countGrant(hold, now);
      hold.isOffered = true;
      hold.offeredTo = waiter;
      hold.isWanted = hold.asksWanted && this.queue.some(({ deadline }) => deadline > now);
      hold.expiresAt += OFFER_TAKES_MS;
    }
    if (!waiter.isEnqueued || waiter.waitRequest) hold.expiresAt = Math.max(hold.expiresAt, now + PICK_UP_MS);
    const { token, leaseSeconds, isWanted } = hold;
    const offer = { token, leaseSeconds, at: now, ...(isWanted && { isWanted }) };
    this.notices.push({ ...promotionOf(hold), ...(hold.isOffered && { offer }) });
    return true;
  }

  /** A round came to nothing: its request is at the head of the queue again. */
  stepBack(hold: Hold, now: number): Waiter | undefined {
    hold.isWantedByPeer = false;
    this.free(hold, "gone", now);
    const { unanswered } = hold;
    if (unanswered) this.queue = [...this.queue, unanswered].sort((a, b) => a.place - b.place);
    return unanswered;
  }

  /**
   * The token is handed to the client: its full lease starts. One that other deployments have agreed to never ends
   * later than they know of.
   */
  report(hold: Hold, now: number): object {
    if (!hold.isReported && !hold.isOffered) this.countGrant(hold, now);
    hold.isReported = true;
    hold.isRecord = false;
    hold.unanswered = undefined;
    hold.isWanted = hold.asksWanted && this.queue.length > 0;
    hold.stored = undefined;
    const leaseEnd = now + hold.leaseSeconds * 1000;
    hold.expiresAt = hold.round ? Math.min(hold.expiresAt, leaseEnd) : leaseEnd;
    this.touch(now);
    return grantedOf(hold);
  }

  private countGrant(hold: Hold, at: number): void {
    const { session, since } = hold;
    const waited = { session, fence: fenceOf(hold), at, waitMs: Math.max(0, at - since) };
    this.observations.push({ type: "granted", how: "queued", ...waited, ...tagOf(hold) });
    hold.since = at;
  }

  /**
   * The client of an offered hold has its token. If it got it just now, its lease starts, and is written only if it ends
   * later than before. If not, it is not prolonged.
   */
  protected confirm(hold: Hold, now: number | undefined): void {
    const { expiresAt } = hold;
    hold.isReported = true;
    hold.unanswered = undefined;
    // Somebody may have come to wait since it was offered.
    if (this.queue.length > 0) this.want();
    hold.stored = { expiresAt };
    if (now === undefined) return;
    hold.expiresAt = now + hold.leaseSeconds * 1000;
    if (hold.expiresAt > expiresAt) hold.stored = undefined;
    this.touch(now);
  }

  protected startLease(hold: Hold, now: number): void {
    const expiresAt = now + hold.leaseSeconds * 1000;
    if (expiresAt >= hold.expiresAt) return;
    hold.expiresAt = expiresAt;
    this.touch(now);
  }

  free(hold: Hold, reason: EndReason, at: number): void {
    this.holds = this.holds.filter((held) => held !== hold);
    this.endings += 1;
    const holdMs = hold.isReported || hold.isOffered ? Math.max(0, at - hold.since) : undefined;
    this.observations.push({ type: "ended", fence: fenceOf(hold), reason, holdMs });
    const { session, request, round } = hold;
    if (hold.isWantedByPeer) this.#yieldsUntil = at + YIELD_MS;
    if (round) this.rounds.push({ type: "round_over", session, request, mark: fenceOf(hold) });
    this.touch(at);
  }

  /** Ends a hold that its session did not end. A client that waits for the token is told; one that asks later will be. */
  takeAway(hold: Hold, reason: "expired" | "stolen", at: number): void {
    const { session, token, unanswered } = hold;
    const mayBeKnown = hold.isReported || hold.isOffered;
    this.free(hold, reason === "expired" && !mayBeKnown ? "gone" : reason, at);
    this.touch(at, this.#now);
    if (mayBeKnown && !hold.sessionless) this.losses.push({ session, token, reason });
    const isWaitedFor = unanswered !== undefined && (!unanswered.isEnqueued || unanswered.waitRequest !== undefined);
    if (isWaitedFor) this.end(unanswered, "lease_expired");
    else if (hold.isRecord) this.lapsed.set(session, at);
  }

  protected timeOut(isLate: (waiter: Waiter) => boolean, now: number): void {
    for (const waiter of this.queue.filter(isLate)) {
      this.end(waiter, "timeout");
      this.touch(waiter.deadline, now);
    }
    this.queue = this.queue.filter((waiter) => !isLate(waiter));
  }

  end(waiter: Waiter, outcome: EndedWait["outcome"]): void {
    this.ended.push({ waiter, outcome, isTold: false });
    this.notices.push(endNoticeOf({ waiter, outcome }));
  }

  /** A time-out counts once, when its client is told. */
  protected tell(end: EndedWait): void {
    if (end.outcome === "timeout" && !end.isTold) this.observations.push({ type: "timeout" });
    end.isTold = true;
  }

  /** The session has answered, or has been notified often enough. */
  forgetEnd(request: string): void {
    this.ended = this.ended.filter(({ waiter }) => openRequestOf(waiter) !== request);
  }

  touch(earliest: number, latest = earliest): void {
    this.activity.earliest = Math.max(this.activity.earliest, earliest);
    this.activity.latest = Math.max(this.activity.latest, latest);
  }
}
