import { fenceFromHex, type Quorum, type Round, Slot, type StoredKey, Waiter } from "../engine/index.ts";
import { decodeSessionless, encodeSessionless } from "./sessionless-row.ts";

const HELD = 1;
const REPORTED = 2;
const RECORD = 4;
/** The token may have been handed over. */
const OFFERED = 64;
/** The holder wants to be told when another client wants the key. */
const ASKS_WANTED = 128;
/** The client had the token before it sent its `wait`. */
const WAS_KNOWN = 256;
/** The session need not be told when the lease ends. */
const UNWATCHED = 512;
/** Of slots whose holder needs a quorum. */
const ROUNDS: Readonly<Record<Round, number>> = { open: 8, fenced: 16, agreed: 32 };

/** Values of `is_enqueued`. */
const WAITS = 0;
const ENQUEUED = 1;
const QUORUMS: Readonly<Record<Quorum, number>> = { once: 2, until_agreed: 3 };
/** Added to it for a waiter that wants to be told, once it holds a slot. */
const WILL_ASK_WANTED = 4;

export type SlotRow = {
  slot: number;
  token: string;
  session: string;
  request: string;
  lease_s: number;
  expires_at: number;
  since: number;
  place: number;
  flags: number;
  /** How the last holds were ended: JSON, null if none by a call that may be made again. */
  releases: string | null;
  sessionless?: string | null;
};

export type WaiterRow = {
  place: number;
  session: string;
  request: string;
  wait_request: string | null;
  is_enqueued: number;
  lease_s: number;
  joined_at: number;
  deadline: number | null;
  outcome: string | null;
  sessionless?: string | null;
};

export function flagsOf(slot: Slot): number {
  const { isHeld, isReported, isOffered, isWatched, asksWanted, hasRecord, wasKnown, round } = slot;
  if (!isHeld) return 0;
  const told = (isReported ? REPORTED : 0) | (isOffered ? OFFERED : 0) | (wasKnown ? WAS_KNOWN : 0);
  const tells = (isWatched ? 0 : UNWATCHED) | (asksWanted ? ASKS_WANTED : 0);
  return HELD | told | tells | (hasRecord ? RECORD : 0) | (round ? ROUNDS[round] : 0);
}

/** The value of a slot's `releases`. */
export function releasesOf({ releases }: Slot): string | null {
  return releases.length > 0 ? JSON.stringify(releases) : null;
}

/** The value of a waiter's `is_enqueued`. */
export function enqueuedOf({ quorum, isEnqueued, asksWanted }: Waiter): number {
  const kind = quorum ? QUORUMS[quorum] : isEnqueued ? ENQUEUED : WAITS;
  return kind + (asksWanted ? WILL_ASK_WANTED : 0);
}

export function slotFrom(row: SlotRow): Slot {
  const slot = new Slot(row.slot);
  slot.isHeld = (row.flags & HELD) !== 0;
  slot.token = row.token;
  slot.session = slot.isHeld ? row.session : "";
  slot.request = slot.isHeld ? row.request : "";
  slot.leaseSeconds = row.lease_s;
  slot.expiresAt = row.expires_at;
  slot.since = row.since;
  slot.place = row.place;
  slot.isReported = (row.flags & REPORTED) !== 0;
  slot.isOffered = (row.flags & OFFERED) !== 0;
  slot.isWatched = (row.flags & UNWATCHED) === 0;
  slot.asksWanted = (row.flags & ASKS_WANTED) !== 0;
  slot.hasRecord = (row.flags & RECORD) !== 0;
  slot.wasKnown = (row.flags & WAS_KNOWN) !== 0;
  slot.round = (Object.keys(ROUNDS) as Round[]).find((round) => (row.flags & ROUNDS[round]) !== 0);
  if (row.releases) slot.releases = JSON.parse(row.releases);
  if (slot.isHeld && row.sessionless) slot.sessionless = decodeSessionless(row.sessionless);
  return slot;
}

export function waiterFrom(row: WaiterRow, slot: Slot | undefined): Waiter {
  const kind = row.is_enqueued % WILL_ASK_WANTED;
  const waiter = new Waiter({
    place: row.place,
    session: row.session,
    request: row.request,
    isEnqueued: kind === ENQUEUED,
    quorum: (Object.keys(QUORUMS) as Quorum[]).find((quorum) => kind === QUORUMS[quorum]),
    asksWanted: row.is_enqueued >= WILL_ASK_WANTED,
    leaseSeconds: row.lease_s,
    joinedAt: row.joined_at,
    deadline: row.deadline ?? Number.POSITIVE_INFINITY,
    sessionless: row.sessionless ? decodeSessionless(row.sessionless) : undefined,
  });
  waiter.waitRequest = row.wait_request ?? undefined;
  waiter.outcome = row.outcome === "timeout" || row.outcome === "lease_expired" ? row.outcome : undefined;
  waiter.slot = slot;
  return waiter;
}

/** A waiter as a row. */
export function waiterRow(waiter: Waiter): WaiterRow {
  return {
    place: waiter.place,
    session: waiter.session,
    request: waiter.request,
    wait_request: waiter.waitRequest ?? null,
    is_enqueued: enqueuedOf(waiter),
    lease_s: waiter.leaseSeconds,
    joined_at: waiter.joinedAt,
    deadline: Number.isFinite(waiter.deadline) ? waiter.deadline : null,
    outcome: waiter.outcome ?? null,
    sessionless: waiter.sessionless ? encodeSessionless(waiter.sessionless) : null,
  };
}

/** A key's rows: slots in the order of their indexes, waiters in the order of their places, `lapsed` oldest first. */
export interface KeyRows {
  readonly limit: number;
  /** Hexadecimal. */
  readonly fence: string;
  readonly lastActivity: number;
  readonly slots: Iterable<SlotRow>;
  readonly waiters: Iterable<WaiterRow>;
  readonly lapsed: StoredKey["lapsed"];
}

/** The key that these rows describe: waiters that were promoted are connected with their slots. */
export function storedKeyFrom({ limit, fence, lastActivity, slots, waiters, lapsed }: KeyRows): StoredKey {
  const all = Array.from(slots, slotFrom);
  const promoted = new Map(all.filter(({ isHeld, place }) => isHeld && place > 0).map((slot) => [slot.place, slot]));
  return {
    limit,
    fence: fenceFromHex(fence),
    lastActivity,
    slots: all,
    waiters: Array.from(waiters, (row) => waiterFrom(row, promoted.get(row.place))),
    lapsed,
  };
}
