import type { LossReason, NoticeKind, Offer, Quorum, Round, Sessionless } from "../../../src/core/engine/index.ts";

export interface Waiter {
  readonly place: number;
  readonly session: string;
  readonly request: string;
  readonly isEnqueued: boolean;
  readonly leaseSeconds: number;
  readonly joinedAt: number;
  readonly sessionless: Sessionless | undefined;
  readonly quorum: Quorum | undefined;
  readonly asksWanted: boolean;
  deadline: number;
  /** Until then, neither it nor those behind it get the slot. */
  pausedUntil: number;
  /** The `wait` in progress on an enqueued waiter. */
  waitRequest: string | undefined;
}

export interface Hold {
  readonly session: string;
  request: string;
  token: string;
  leaseSeconds: number;
  /** Set if other deployments have to agree, or have agreed. */
  round: Round | undefined;
  sessionless: Sessionless | undefined;
  expiresAt: number;
  /** When the token was handed over or offered; until then, when the request came. */
  since: number;
  isReported: boolean;
  readonly asksWanted: boolean;
  /** Its holder has been told that somebody else wants the key. */
  isWanted: boolean;
  /** Another deployment was refused because of it. */
  isWantedByPeer: boolean;
  /** Its session wants to hear at once when its lease ends. */
  readonly isWatched: boolean;
  /** Its token was sent to the session, whose client may have it. */
  isOffered: boolean;
  /** The waiter that it was offered to. */
  offeredTo: Waiter | undefined;
  /** The end that the rows show of a hold that was confirmed without a write. */
  stored: { readonly expiresAt: number } | undefined;
  /** It is the two-phase record of its session. */
  isRecord: boolean;
  /** The client had its token before it sent the `wait` that stands for it. */
  wasKnown: boolean;
  /** The waiter that became this hold, until its session has answered. */
  unanswered: Waiter | undefined;
}

/** A wait that is over, until its session has answered. */
export interface EndedWait {
  readonly waiter: Waiter;
  /** `refused` by other deployments; its session is told of a time-out. */
  readonly outcome: "timeout" | "lease_expired" | "refused";
  /** The client has been told the outcome. */
  isTold: boolean;
}

export interface Rules {
  readonly maxWaiters: number;
  readonly gcMaxIdleMs: number;
  readonly fenceFloor: bigint;
}

/** What the engine did, for the one question with two right answers: was the key idle for long enough? */
export interface Seen {
  readonly isMismatch: boolean;
  readonly hasNoLapses: boolean;
}

export interface Loss {
  readonly session: string;
  readonly token: string;
  readonly reason: LossReason;
}

export interface Notice {
  readonly session: string;
  readonly request: string;
  readonly kind: NoticeKind;
  readonly offer?: Offer;
  readonly mayBeTold?: true;
}

export const openRequestOf = ({ request, waitRequest }: Waiter): string => waitRequest ?? request;

export const endNoticeOf = ({ waiter, outcome }: Pick<EndedWait, "waiter" | "outcome">): Notice => ({
  session: waiter.session,
  request: openRequestOf(waiter),
  kind: outcome === "refused" ? "timeout" : outcome,
});

/** Other deployments have not agreed yet: nobody has the lock. */
export const isInRound = ({ round }: Hold): boolean => round === "open" || round === "fenced";

/** Its client may have the token, or may not. */
export const isUnconfirmed = ({ isOffered, isReported }: Hold): boolean => isOffered && !isReported;

/** When the token was handed over; until then, when the waiter was promoted: its fence tells, or its lease. */
export function heldSince({ isReported, isOffered, since, token, expiresAt, leaseSeconds }: Hold): number {
  if (isReported || isOffered) return since;
  const fencedAt = Number(BigInt(`0x${token.slice(0, 16)}`) / 1_000_000n);
  return Math.min(fencedAt, expiresAt - leaseSeconds * 1000);
}

export const fenceOf = ({ token }: Pick<Hold, "token">): string => token.slice(0, 16);

export function grantedOf({ token, leaseSeconds, isWanted }: Hold): object {
  return { status: "granted", token, leaseSeconds, ...(isWanted && { isWanted }) };
}

/** Tags are short here, and are shown whole. */
export function tagOf({ sessionless }: Hold): { tag?: string } {
  return sessionless?.tag === undefined ? {} : { tag: sessionless.tag };
}

export function promotionOf({ session, request, isRecord, unanswered }: Hold): Notice {
  return { session, request, kind: isRecord && !unanswered?.waitRequest ? "promoted" : "granted" };
}
