import type { Config } from "../../config.ts";
import { randomHex } from "../../hex.ts";
import { logged } from "../../log.ts";
import { renderExposition } from "../../metrics/exposition.ts";
import { type CounterName, type LabelsOf, METHODS, UNMATCHED } from "../../metrics/families.ts";
import { Tally } from "../../metrics/tally.ts";
import type { Env } from "../../objects/env.ts";
import { allCollectors, collectorOf } from "../../objects/metrics/collectors.ts";
import { gatherGauges } from "../../reports/stats.ts";
import { VERSION } from "../../version.ts";

export interface FinishedRequest {
  readonly method: string;
  /** The template of the route, or `unmatched`: never the path itself, which may hold a key. */
  readonly path: string;
  readonly status: number;
  readonly seconds: number;
}

type WaitUntil = (promise: Promise<unknown>) => void;

/** Requests in quick succession share flushes: one immediately, the next no sooner than this. */
const FLUSH_EVERY_MS = 100;
/** A scrape waits at most this long for flushes in flight; a flush that takes longer is considered lost. */
const FLUSH_TAKES_AT_MOST_MS = 1_000;
const LOOK_AGAIN_MS = 5;

// Requests of one isolate share what they have counted, but no promises: the platform does not let one await another's
// I/O. So each request awaits its own flush, and others know it only by number and starting time.
const pending = new Tally();
const flushing = new Map<number, number>();
let flushes = 0;
let flushedAt = Number.NEGATIVE_INFINITY;
/** When a pending request will flush for others as well, unless the runtime ends it first. */
let flushDueAt = Number.NEGATIVE_INFINITY;
let isolate: string | undefined;

/** Counts a request whose reply is ready. The next scrape includes it. */
export function recordRequest(env: Env, waitUntil: WaitUntil, request: FinishedRequest): void {
  const { path, status, seconds } = request;
  const labels = { method: methodOf(request), path, status };
  pending.count("http_requests_total", labels);
  pending.observe("http_request_duration_seconds", labels, seconds);
  flushInTime(env, waitUntil);
}

/** Counts another event seen by the Worker itself. */
export function countHttp<Name extends CounterName>(
  env: Env,
  waitUntil: WaitUntil,
  family: Name,
  labels: LabelsOf<Name>,
): void {
  pending.count(family, labels);
  flushInTime(env, waitUntil);
}

/**
 * The text of `/metrics`. It includes every request whose reply was ready before this one began. Rejects if a part of
 * the service does not answer, rather than showing sums that have fallen.
 */
export async function renderMetrics(env: Env, config: Config): Promise<string> {
  await settle(env);
  const [readings, { sessions, keys, ...members }] = await Promise.all([
    Promise.all(allCollectors(env).map((collector) => collector.read())),
    gatherGauges(env),
  ]);
  const tally = new Tally();
  for (const { sums } of readings) tally.merge(sums);
  const startedAt = Math.min(...readings.map((reading) => reading.startedAt));
  return renderExposition(tally.read(), {
    ready: config.draining ? 0 : 1,
    draining: config.draining ? 1 : 0,
    uptime_seconds: Math.max(0, Date.now() - startedAt) / 1000,
    connections: sessions.tcp + sessions.ws + sessions.http,
    http_sessions: sessions.http,
    ws_connections: sessions.ws,
    tcp_connections: sessions.tcp,
    locks_held: members.locksHeld,
    lock_waiters: members.lockWaiters,
    semaphore_holders: members.semaphoreHolders,
    semaphore_waiters: members.semaphoreWaiters,
    keys,
    keys_unreachable: members.keysUnreachable,
    build_info: { version: VERSION },
  });
}

/** These methods are named only on routes that know them; elsewhere they count as `OTHER`. */
const RARE_METHODS: readonly string[] = ["PUT", "LOCK", "UNLOCK"];

function methodOf({ method, path }: FinishedRequest): (typeof METHODS)[number] {
  const isNamed = path !== UNMATCHED || !RARE_METHODS.includes(method);
  return METHODS.find((known) => isNamed && known === method) ?? "OTHER";
}

/** Makes sure that what is pending is flushed soon: by this request, unless another one is about to. */
function flushInTime(env: Env, waitUntil: WaitUntil): void {
  const now = Date.now();
  if (now < flushDueAt && flushDueAt <= now + FLUSH_EVERY_MS) return;
  waitUntil(flushWhenDue(env));
}

/** Flushes once the last flush is long enough ago. Another request may flush while this one waits. */
async function flushWhenDue(env: Env): Promise<void> {
  while (!pending.isEmpty) {
    const now = Date.now();
    const dueInMs = Math.min(flushedAt + FLUSH_EVERY_MS - now, FLUSH_EVERY_MS);
    if (dueInMs <= 0) return flush(env);
    flushDueAt = now + dueInMs;
    await scheduler.wait(dueInMs);
  }
}

/** Sends pending counts to a collector. If that fails, they stay for the next flush. */
async function flush(env: Env): Promise<void> {
  if (pending.isEmpty) return;
  isolate ??= randomHex(8);
  flushedAt = Date.now();
  const number = flushes++;
  flushing.set(number, flushedAt);
  const sums = pending.take();
  try {
    await collectorOf(env, isolate).report(sums);
  } catch (error) {
    pending.merge(sums);
    logged("metrics_not_reported")(error);
  } finally {
    flushing.delete(number);
  }
}

/** Resolves once the collectors have everything this isolate has counted so far. */
async function settle(env: Env): Promise<void> {
  const others = [...flushing.keys()];
  await flush(env);
  while (others.some(isUnderWay)) await scheduler.wait(LOOK_AGAIN_MS);
}

function isUnderWay(number: number): boolean {
  const since = flushing.get(number);
  if (since === undefined) return false;
  if (Date.now() - since < FLUSH_TAKES_AT_MOST_MS) return true;
  // The runtime silently ends a request's work when it takes too long.
  flushing.delete(number);
  return false;
}
