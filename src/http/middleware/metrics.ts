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

/** Requests in a row share their flushes: one at once, the next no sooner than this. */
const FLUSH_EVERY_MS = 100;
/** A scrape waits no longer than this for flushes under way; one that takes longer is given up for lost. */
const FLUSH_TAKES_AT_MOST_MS = 1_000;
const LOOK_AGAIN_MS = 5;

// Requests of one isolate share what they have counted, but no promise: the platform lets none wait for another's I/O.
// So each looks after its own flush, and those under way are known to the others by number and starting time only.
const pending = new Tally();
const flushing = new Map<number, number>();
let flushes = 0;
let flushedAt = Number.NEGATIVE_INFINITY;
/** When a request will flush what others have counted as well, unless the runtime ends its work. */
let flushDueAt = Number.NEGATIVE_INFINITY;
let isolate: string | undefined;

/** Counts a request whose reply is ready. The next scrape shows it. */
export function recordRequest(env: Env, waitUntil: WaitUntil, request: FinishedRequest): void {
  const { path, status, seconds } = request;
  const labels = { method: methodOf(request), path, status };
  pending.count("http_requests_total", labels);
  pending.observe("http_request_duration_seconds", labels, seconds);
  flushInTime(env, waitUntil);
}

/** Counts something else that the Worker itself has seen. */
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
 * The text of `/metrics`: every request whose reply was out before this one began is in it. Rejects when a part of the
 * service does not answer, rather than showing sums that have fallen.
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

/** Methods that few routes know are named on those only: elsewhere they are somebody's mistake, whichever they are. */
const RARE_METHODS: readonly string[] = ["PUT", "LOCK", "UNLOCK"];

function methodOf({ method, path }: FinishedRequest): (typeof METHODS)[number] {
  const isNamed = path !== UNMATCHED || !RARE_METHODS.includes(method);
  return METHODS.find((known) => isNamed && known === method) ?? "OTHER";
}

/** Makes sure that what is pending is flushed soon: by this request, unless another one is about to. */
function flushInTime(env: Env, waitUntil: WaitUntil): void {
  const now = Date.now();
  if (now < flushDueAt && flushDueAt <= now + FLUSH_EVERY_MS) return;
  const dueInMs = Math.min(flushedAt + FLUSH_EVERY_MS - now, FLUSH_EVERY_MS);
  if (dueInMs <= 0) {
    waitUntil(flush(env));
    return;
  }
  flushDueAt = now + dueInMs;
  waitUntil(scheduler.wait(dueInMs).then(() => flush(env)));
}

/** Sends what is pending to a collector. What cannot be sent stays for the next flush. */
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

/** Resolves once the collectors have all that this isolate has counted so far. */
async function settle(env: Env): Promise<void> {
  const others = [...flushing.keys()];
  await flush(env);
  while (others.some(isUnderWay)) await scheduler.wait(LOOK_AGAIN_MS);
}

function isUnderWay(number: number): boolean {
  const since = flushing.get(number);
  if (since === undefined) return false;
  if (Date.now() - since < FLUSH_TAKES_AT_MOST_MS) return true;
  // The runtime ends a request's work without a word when it takes too long.
  flushing.delete(number);
  return false;
}
