/** What others may see of a key. Tokens are not part of it. */
import type { Sessionless } from "./commands.ts";
import type { Holds } from "./holds.ts";
import type { Slot } from "./slots.ts";
import type { WaitQueue } from "./waiters.ts";

/** A semaphore may have a million holders, and as many waiters. */
const MAX_SHOWN = 100;
/** Longer tags are cut: a view shows up to a hundred. */
const MAX_TAG_SHOWN = 256;

export interface HolderView {
  readonly session: string;
  /** When the token was handed over or offered; until then, when the waiter was promoted. */
  readonly since: number;
  /** The lease of the grant; a renewal may have set another one. */
  readonly leaseSeconds: number;
  readonly expiresAt: number;
  /** The token's first 16 hex digits: enough to name the hold, not to release it. */
  readonly fence: string;
  /** The start of the tag, if the holder has no session. */
  readonly tag?: string;
}

/** A hold whose token the client has, or may have. */
export interface ReportedHold {
  readonly session: string;
  /** As in `HolderView`. */
  readonly tag?: string;
  readonly fence: string;
  /** When the token was handed over or offered. */
  readonly since: number;
  /** It was granted without waiting. */
  readonly isImmediate: boolean;
}

export interface WaiterView {
  readonly session: string;
  readonly joinedAt: number;
  /** Undefined for an enqueued waiter before its `wait`. */
  readonly deadline: number | undefined;
  /** As in `HolderView`. */
  readonly tag?: string;
}

export interface KeyView {
  readonly limit: number;
  readonly holderCount: number;
  /** The first of them, in grant order. */
  readonly holders: readonly HolderView[];
  readonly waiters: number;
  /** The first of them, in queue order; empty unless asked for. */
  readonly queue: readonly WaiterView[];
  readonly lastActivity: number;
}

/** The first holders, in grant order; at least one if there is any. */
export function holderViews(holds: Holds, max = MAX_SHOWN): HolderView[] {
  const views: HolderView[] = [];
  for (const slot of holds) {
    const { heldSince, leaseSeconds, expiresAt } = slot;
    if (views.push({ ...identityOf(slot), since: heldSince, leaseSeconds, expiresAt }) >= max) break;
  }
  return views;
}

/** The first waiters, in queue order. */
export function waiterViews(queue: WaitQueue): WaiterView[] {
  const views: WaiterView[] = [];
  for (const { session, joinedAt, deadline, sessionless } of queue) {
    const view = { session, joinedAt, deadline: Number.isFinite(deadline) ? deadline : undefined };
    if (views.push({ ...view, ...tagOf(sessionless) }) === MAX_SHOWN) break;
  }
  return views;
}

/** The newest holds whose clients have the token or may have it, at most `max` of them, in hand-over order. */
export function newestHolds(holds: Holds, max: number): ReportedHold[] {
  let newest: Slot[] = [];
  for (const slot of holds) {
    if (!slot.mayBeKnown || newest.push(slot) < 2 * max) continue;
    // There may be a million: sort in parts, and keep only the newest of each.
    newest = newest.sort(byHandOver).slice(-max);
  }
  return newest
    .sort(byHandOver)
    .slice(-max)
    .map((slot) => ({ ...identityOf(slot), since: slot.since, isImmediate: slot.place === 0 }));
}

/** Who has the hold. */
export function identityOf({ session, fence, sessionless }: Slot): { session: string; fence: string; tag?: string } {
  return { session, fence, ...tagOf(sessionless) };
}

export function tagOf(sessionless: Sessionless | undefined): { readonly tag?: string } {
  const tag = sessionless?.tag;
  return tag === undefined ? {} : { tag: tag.slice(0, MAX_TAG_SHOWN) };
}

function byHandOver(a: Slot, b: Slot): number {
  return a.since - b.since || (a.token < b.token ? -1 : 1);
}
