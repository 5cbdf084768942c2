import { type GrantRecord, type History, type Outcome, outcomeOf } from "./history.ts";

/** One grant in the picture. Times are in seconds since 1970. */
export interface Bar {
  readonly grant: GrantRecord;
  readonly outcome: Outcome;
  readonly lane: number;
  /** When its holder began to wait; equal to `from` if waits are not drawn. */
  readonly waitedFrom: number;
  readonly from: number;
  readonly to: number;
}

export interface Timeline {
  readonly from: number;
  readonly to: number;
  readonly lanes: number;
  readonly bars: readonly Bar[];
  /** Too many waited at the same time to draw the waits. */
  readonly isWithoutWaits: boolean;
}

const SPANS_S = [15, 30, 60, 120, 300, 900, 3_600];
/** More lanes are hard to read. */
const MAX_LANES = 10;
/** Tolerance for rounding: a slot is granted again within the same millisecond. */
const AT_ONCE_S = 0.0005;

type Period = Omit<Bar, "lane">;

/**
 * The grants of the last minutes, in as few lanes as possible without overlaps: each with its wait and its hold, or only
 * its hold if too many waited at once.
 */
export function timelineOf({ now, grants }: History): Timeline {
  const to = secondsOf(now);
  const periods = grants.map((grant) => periodOf(grant, to));
  const oldest = Math.min(to, ...periods.map(({ waitedFrom }) => waitedFrom));
  const span = SPANS_S.find((seconds) => seconds >= to - oldest) ?? 3_600;
  const from = to - span;
  const visible = periods.filter((period) => period.to >= from);
  const whole = inLanes(visible);
  if (whole.lanes <= MAX_LANES) return { from, to, ...whole, isWithoutWaits: false };
  const holds = visible.map((period) => ({ ...period, waitedFrom: period.from }));
  return { from, to, ...inLanes(holds), isWithoutWaits: true };
}

function periodOf(grant: GrantRecord, now: number): Period {
  const from = secondsOf(grant.granted_at);
  const to = grant.held_s === undefined ? Math.max(now, from) : from + grant.held_s;
  return { grant, outcome: outcomeOf(grant), waitedFrom: from - (grant.waited_s ?? 0), from, to };
}

/** Puts each into the first lane that is free when it begins. */
function inLanes(periods: readonly Period[]): Pick<Timeline, "lanes" | "bars"> {
  const ends: number[] = [];
  const bars = periods
    .toSorted((a, b) => a.waitedFrom - b.waitedFrom)
    .map((period) => {
      const free = ends.findIndex((end) => end <= period.waitedFrom + AT_ONCE_S);
      const lane = free === -1 ? ends.length : free;
      ends[lane] = period.to;
      return { ...period, lane };
    });
  return { lanes: Math.max(1, ends.length), bars };
}

function secondsOf(time: string): number {
  return Date.parse(time) / 1000;
}
