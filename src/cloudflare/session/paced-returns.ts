/**
 * Paces sessions that are resumed in this isolate. After a restart of a self-hosted server all clients resume at once,
 * and lose everything if they are too late. Each then immediately repeats its requests, which wakes keys and costs as
 * much as a resume: those requests wait until the rush is over. On Cloudflare a session has its own isolate, so there
 * is no rush.
 */
import type { KeyRequest } from "../../core/session/key-calls.ts";
import type { RunnerParts } from "../session-common/session-runner.ts";
import type { HostParts } from "./host-parts.ts";

/** Resumes are counted over about this time. */
const MEMORY_MS = 200;
/** More resumes than this within that time, forty a second, are a rush. */
const FEW_RETURNS = 8;
const MAX_WAIT_MS = 15_000;
/** A renewal is delayed by at most this part of its lease. */
const PART_OF_LEASE = 1 / 4;
/** A request that may wait is delayed by at most this part of its waiting time. */
const PART_OF_WAIT = 1 / 4;
/** Limit for other requests, which are expected to be answered quickly. */
const SOON_MS = 2_000;
/** Concurrent requests of resumed sessions. More would leave keep-alives unanswered for seconds. */
const MAX_UNDER_WAY = 8;
/** A request that takes longer has died with its object. */
const FORGOTTEN_AFTER_MS = 5_000;
/**
 * Pause between checks, multiplied by the number of waiting requests, to keep polling cheap. In a rush nobody gets a turn,
 * and every check takes time from those that resume. But when it is over, leases are running out.
 */
const PAUSE_MS = { each: 1, eachInRush: 2, least: 10, most: 1_500, mostInRush: 3_000 };

interface Place {
  /** When it began, or last checked. */
  since: number;
}

/** Plain data: the platform does not let one object await another's promise. */
const waiting = new Set<Place>();
const underWay = new Set<Place>();

let count = 0;
let countedAt = Number.NEGATIVE_INFINITY;

function recentReturns(now: number): number {
  // A clock that was set back must not prolong a rush.
  return now < countedAt ? 0 : count * Math.exp(-(now - countedAt) / MEMORY_MS);
}

/** Counts a resumed session. */
export function noteReturn(now: number): void {
  count = recentReturns(now) + 1;
  countedAt = now;
}

export function isRush(now: number): boolean {
  return recentReturns(now) > FEW_RETURNS;
}

/** Whether requests of a session that was just resumed have to wait for their turn. */
export function mustWait(now: number): boolean {
  return isRush(now) || countWaiting(now) > 0 || countUnderWay(now) >= MAX_UNDER_WAY;
}

/** Runs a request of a session that was just resumed: when its turn comes, or after `patienceMs`. */
export async function inTurn<Result>(patienceMs: number, task: () => Promise<Result>): Promise<Result> {
  const giveUpAt = Date.now() + patienceMs;
  const place: Place = { since: Date.now() };
  waiting.add(place);
  try {
    while ((isRush(Date.now()) || countUnderWay(Date.now()) >= MAX_UNDER_WAY) && Date.now() < giveUpAt) {
      waiting.delete(place);
      place.since = Date.now();
      waiting.add(place);
      await scheduler.wait(Math.min(pauseMs(Date.now()) * (0.5 + Math.random()), giveUpAt - Date.now()));
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

function pauseMs(now: number): number {
  const [each, most] = isRush(now) ? [PAUSE_MS.eachInRush, PAUSE_MS.mostInRush] : [PAUSE_MS.each, PAUSE_MS.most];
  return Math.min(Math.max(countWaiting(now) * each, PAUSE_MS.least), most);
}

/** The turns of one session: its requests on one key start in the order in which they arrived. */
export class ReturnTurns {
  readonly #graceMs: number;
  #returnedAt = Number.NEGATIVE_INFINITY;
  /** By key: resolves when the last request on it has started. Absent if all have. */
  readonly #begun = new Map<string, Promise<void>>();
  #waiting = 0;

  constructor(graceMs: number) {
    this.#graceMs = graceMs;
  }

  /** The session is resumed. Counts once per grace period: one client that resumes again and again is no rush. */
  returned(now: number): void {
    if (now - this.#returnedAt > this.#graceMs) noteReturn(now);
    this.#returnedAt = now;
  }

  /** Whether the session was resumed just now, and so were many others. */
  isInRush(resumedAt: number | undefined, now = Date.now()): boolean {
    return resumedAt !== undefined && now - resumedAt < this.#graceMs && mustWait(now);
  }

  /** Number of requests that have not started. */
  get waiting(): number {
    return this.#waiting;
  }

  isWaiting(key: string): boolean {
    return this.#begun.has(key);
  }

  async run<Result>(key: string, patienceMs: number, task: () => Promise<Result>): Promise<Result> {
    const before = this.#begun.get(key);
    const begun = Promise.withResolvers<void>();
    this.#begun.set(key, begun.promise);
    this.#waiting += 1;
    await before;
    return inTurn(patienceMs, () => {
      this.#waiting -= 1;
      if (this.#begun.get(key) === begun.promise) this.#begun.delete(key);
      const done = task();
      begun.resolve();
      return done;
    });
  }
}

/** Makes the calls of a session now or, if it was just resumed in a rush, in their turn. */
export function pacedCalls({
  own,
  session,
  keepalives,
  turns,
}: Pick<HostParts, "own" | "session" | "keepalives" | "turns">): NonNullable<RunnerParts["pace"]> {
  return ({ call, key, request }, make) => {
    if (!request || (!turns.isWaiting(key) && !turns.isInRush(session.conversation?.resumedAt))) return make();
    return turns.run(key, patienceFor(request, own.config.defaultLeaseSeconds * 1_000), async () => {
      if (session.conversation) keepalives.atWork();
      return session.context.isCallWanted(call) ? make() : "skipped";
    });
  };
}

const countWaiting = (now: number) => countOf(waiting, now);
const countUnderWay = (now: number) => countOf(underWay, now);

/** Drops dead entries; the oldest come first. */
function countOf(places: Set<Place>, now: number): number {
  for (const place of places) {
    if (now >= place.since && now - place.since <= FORGOTTEN_AFTER_MS) break;
    places.delete(place);
  }
  return places.size;
}

export function patienceFor(request: KeyRequest, defaultLeaseMs: number): number {
  // Other clients wait for the release.
  if (request.type === "release") return 0;
  if (request.type === "acquire" || request.type === "wait")
    return Math.min(MAX_WAIT_MS, request.waitSeconds * 1_000 * PART_OF_WAIT);
  if (request.type !== "renew") return SOON_MS;
  const leaseMs = request.leaseSeconds === undefined ? defaultLeaseMs : request.leaseSeconds * 1_000;
  return Math.min(MAX_WAIT_MS, leaseMs * PART_OF_LEASE);
}
