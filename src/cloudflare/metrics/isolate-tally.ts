/**
 * What this isolate has counted and no collector has received yet. All objects and requests of an isolate share it as
 * plain data: the platform does not let one await another's I/O. No object is kept awake to send it. An object or request
 * that counts something when a report is due carries it, so a key that is rarely used costs no report of its own.
 */
import { randomHex } from "../../core/hex.ts";
import type { CounterName, HistogramName, LabelsOf } from "../../core/metrics/families.ts";
import { Tally } from "../../core/metrics/tally.ts";
import { logged } from "../../log.ts";
import type { PartialEnv } from "../env.ts";
import { isRecent } from "../pacing/recent.ts";
import { collectorOf } from "./collectors.ts";

/** Reports of one isolate are at least this far apart. */
const REPORT_EVERY_MS = 10_000;
/**
 * A report costs a request and a row, so it waits until it is worth that: until this many events are counted, or the
 * report is this late.
 */
const WORTH_A_REPORT = 200;
const LATE_AFTER_MS = 600_000;
/** A scrape waits at most this long for reports in flight; one that takes longer is considered lost. */
const REPORT_TAKES_AT_MOST_MS = 1_000;
const LOOK_AGAIN_MS = 5;

const pending = new Tally();
/** Events counted since the last report. */
let events = 0;
/** When the last report was sent; before the first one, when counting began. */
let reportedAt: number | undefined;
/** Reports in flight by number, and since when. */
const inFlight = new Map<number, number>();
let reports = 0;
let isolate: string | undefined;
let startedAt: number | undefined;

/** When this isolate began to count or to collect, in milliseconds since the epoch. */
export function countingSince(): number {
  // Not at the top level: there is no clock before the first event (workerd 2026-11).
  startedAt ??= Date.now();
  return startedAt;
}

export function count<Name extends CounterName>(family: Name, labels: LabelsOf<Name>, by = 1): void {
  pending.count(family, labels, by);
  counted();
}

export function observe<Name extends HistogramName>(family: Name, labels: LabelsOf<Name>, seconds: number): void {
  pending.observe(family, labels, seconds);
  counted();
}

/** Counts what is no reason for a report: it travels with the next one. */
export function countAlong<Name extends CounterName>(family: Name, labels: LabelsOf<Name>): void {
  pending.count(family, labels);
}

function counted(): void {
  events += 1;
  reportedAt ??= countingSince();
}

/** Whether the caller, which has just counted something, should send a report. */
export function isReportDue(): boolean {
  if (events === 0 || reportedAt === undefined) return false;
  const now = Date.now();
  // The clock was set back.
  if (reportedAt > now) reportedAt = now;
  const lateMs = now - reportedAt - REPORT_EVERY_MS;
  if (lateMs < 0) return false;
  return events >= WORTH_A_REPORT || lateMs + REPORT_EVERY_MS >= LATE_AFTER_MS;
}

/** Sends what is pending to a collector. If that fails, it stays for the next report. Never rejects. */
export async function sendReport(env: PartialEnv): Promise<void> {
  if (pending.isEmpty) return;
  isolate ??= randomHex(8);
  reportedAt = Date.now();
  const number = reports++;
  inFlight.set(number, reportedAt);
  const sums = pending.take();
  const sent = events;
  events = 0;
  try {
    await collectorOf(env, isolate).report({ sums });
  } catch (error) {
    pending.merge(sums);
    events += sent;
    logged("metrics_not_reported")(error);
  } finally {
    inFlight.delete(number);
  }
}

/** Resolves once the collectors have everything this isolate has counted so far. */
export async function settleReports(env: PartialEnv): Promise<void> {
  const others = [...inFlight.keys()];
  await sendReport(env);
  while (others.some(isInFlight)) await scheduler.wait(LOOK_AGAIN_MS);
}

function isInFlight(number: number): boolean {
  const since = inFlight.get(number);
  if (since === undefined) return false;
  if (isRecent(Date.now(), since, REPORT_TAKES_AT_MOST_MS)) return true;
  // The runtime silently ends the work of a request or object that takes too long.
  inFlight.delete(number);
  return false;
}
