/**
 * Sessions that are being taken up again in this isolate. After a restart of a self-hosted server all of them come back at once, and
 * lose everything if they come too late. Each then asks at once for what it holds and waits for, which wakes keys and costs as much
 * as a return: that waits until the rush is over. On Cloudflare a session has its isolate for itself, and there is no rush.
 */
import type { KeyRequest } from "../session-common/operations.ts";

/** Returns are counted over about this time. */
const MEMORY_MS = 200;
/** More returns than this, within that time, are a rush: forty a second. */
const FEW_RETURNS = 8;
const MAX_WAIT_MS = 15_000;
/** A renewal waits for no more than this part of its lease. */
const PART_OF_LEASE = 1 / 4;
/** One that may wait anyway, for no more than this part of that time. */
const PART_OF_WAIT = 1 / 4;
/** Others are not expected to take long. */
const SOON_MS = 2_000;
/** Requests of returned sessions that are carried out at a time. More would leave keep-alives unanswered for seconds. */
const MAX_UNDER_WAY = 8;
/** A request that has taken so long has died with its object. */
const FORGOTTEN_AFTER_MS = 5_000;
/** How long to wait before looking again, for each request that waits too: looking must cost nothing. */
const PAUSE_MS = { each: 1, least: 10, most: 1_500 };

interface Place {
  /** When it began, or last looked. */
  since: number;
}

/** Plain data: the platform lets no object wait for the promise of another. */
const waiting = new Set<Place>();
const underWay = new Set<Place>();

let count = 0;
let countedAt = Number.NEGATIVE_INFINITY;

function recentReturns(now: number): number {
  // A clock that was set back must not make a rush last.
  return now < countedAt ? 0 : count * Math.exp(-(now - countedAt) / MEMORY_MS);
}

/** A session is taken up again. */
export function noteReturn(now: number): void {
  count = recentReturns(now) + 1;
  countedAt = now;
}

export function isRush(now: number): boolean {
  return recentReturns(now) > FEW_RETURNS;
}

/** Whether what a session asks for now, right after it was taken up again, has to wait for its turn. */
export function mustWait(now: number): boolean {
  return isRush(now) || countWaiting(now) > 0 || countUnderWay(now) >= MAX_UNDER_WAY;
}

/** Carries out what a session asks for that has just been taken up again: when its turn comes, or its patience is over. */
export async function inTurn<Result>(patienceMs: number, task: () => Promise<Result>): Promise<Result> {
  const giveUpAt = Date.now() + patienceMs;
  const place: Place = { since: Date.now() };
  waiting.add(place);
  try {
    while ((isRush(Date.now()) || countUnderWay(Date.now()) >= MAX_UNDER_WAY) && Date.now() < giveUpAt) {
      waiting.delete(place);
      place.since = Date.now();
      waiting.add(place);
      const pauseMs = Math.min(Math.max(countWaiting(Date.now()) * PAUSE_MS.each, PAUSE_MS.least), PAUSE_MS.most);
      await scheduler.wait(Math.min(pauseMs * (0.5 + Math.random()), giveUpAt - Date.now()));
    }
  } finally {
    waiting.delete(place);
  }
  const turn: Place = { since: Date.now() };
  underWay.add(turn);
  try {
    return await task();
  } finally {
    underWay.delete(turn);
  }
}

/** The turns of one session: its requests on one key are begun in the order in which they came. */
export class ReturnTurns {
  /** Resolves when the last request on a key has begun; none where all have. */
  readonly #begun = new Map<string, Promise<void>>();

  isWaiting(key: string): boolean {
    return this.#begun.has(key);
  }

  async run<Result>(key: string, patienceMs: number, task: () => Promise<Result>): Promise<Result> {
    const before = this.#begun.get(key);
    const begun = Promise.withResolvers<void>();
    this.#begun.set(key, begun.promise);
    await before;
    return inTurn(patienceMs, () => {
      if (this.#begun.get(key) === begun.promise) this.#begun.delete(key);
      const done = task();
      begun.resolve();
      return done;
    });
  }
}

const countWaiting = (now: number) => countOf(waiting, now);
const countUnderWay = (now: number) => countOf(underWay, now);

/** The oldest come first, and so do those that have been forgotten. */
function countOf(places: Set<Place>, now: number): number {
  for (const place of places) {
    if (now >= place.since && now - place.since <= FORGOTTEN_AFTER_MS) break;
    places.delete(place);
  }
  return places.size;
}

export function patienceFor(request: KeyRequest, defaultLeaseMs: number): number {
  // Others wait for what is released.
  if (request.type === "release") return 0;
  if (request.type === "acquire" || request.type === "wait")
    return Math.min(MAX_WAIT_MS, request.waitSeconds * 1_000 * PART_OF_WAIT);
  if (request.type !== "renew") return SOON_MS;
  const leaseMs = request.leaseSeconds === undefined ? defaultLeaseMs : request.leaseSeconds * 1_000;
  return Math.min(MAX_WAIT_MS, leaseMs * PART_OF_LEASE);
}
