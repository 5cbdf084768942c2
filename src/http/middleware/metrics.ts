import type { Env } from "../../cloudflare/env.ts";
import { allCollectors } from "../../cloudflare/metrics/collectors.ts";
import { settleReports } from "../../cloudflare/metrics/isolate-tally.ts";
import { Meter } from "../../cloudflare/metrics/meter.ts";
import type { Config } from "../../core/config/config.ts";
import { renderExposition } from "../../core/metrics/exposition.ts";
import { type CounterName, type LabelsOf, METHODS, UNMATCHED } from "../../core/metrics/families.ts";
import { Tally } from "../../core/metrics/tally.ts";
import { gatherGauges } from "../../reports/gauges.ts";
import { VERSION } from "../../version.ts";

export interface FinishedRequest {
  readonly method: string;
  /** The template of the route, or `unmatched`: never the path itself, which may hold a key. */
  readonly path: string;
  readonly status: number;
  readonly seconds: number;
}

type WaitUntil = (promise: Promise<unknown>) => void;

/** Counts a request whose reply is ready. The next scrape includes it. */
export function recordRequest(env: Env, waitUntil: WaitUntil, request: FinishedRequest): void {
  const { path, status, seconds } = request;
  const labels = { method: methodOf(request), path, status };
  const meter = new Meter(env, waitUntil);
  meter.count("http_requests_total", labels);
  meter.observe("http_request_duration_seconds", labels, seconds);
}

/** Counts another event seen by the Worker itself. */
export function countHttp<Name extends CounterName>(
  env: Env,
  waitUntil: WaitUntil,
  family: Name,
  labels: LabelsOf<Name>,
): void {
  new Meter(env, waitUntil).count(family, labels);
}

/**
 * The text of `/metrics`. It includes everything this isolate has counted before, such as requests whose reply was
 * ready. Without `estimates`, figures that would be estimates are left out. Rejects if a part of the service does not
 * answer, rather than showing sums that have fallen.
 */
export async function renderMetrics(env: Env, config: Config, { estimates = true } = {}): Promise<string> {
  await settleReports(env);
  const [readings, { sessions, keys, keysSampled, isEstimate, byState }] = await Promise.all([
    Promise.all(allCollectors(env).map((collector) => collector.read())),
    gatherGauges(env, { mayEstimate: estimates }),
  ]);
  const tally = new Tally();
  for (const { sums } of readings) tally.merge(sums);
  const startedAt = Math.min(...readings.map((reading) => reading.startedAt));
  const named = (figure: number | undefined) => (figure !== undefined && isEstimate ? { estimate: figure } : figure);
  return renderExposition(tally.read(), {
    ready: config.draining ? 0 : 1,
    draining: config.draining ? 1 : 0,
    uptime_seconds: Math.max(0, Date.now() - startedAt) / 1000,
    connections: sessions.tcp + sessions.ws + sessions.http,
    http_sessions: sessions.http,
    ws_connections: sessions.ws,
    tcp_connections: sessions.tcp,
    locks_held: named(byState?.locksHeld),
    lock_waiters: named(byState?.lockWaiters),
    semaphore_holders: named(byState?.semaphoreHolders),
    semaphore_waiters: named(byState?.semaphoreWaiters),
    keys,
    keys_sampled: keysSampled,
    keys_unreachable: named(byState?.keysUnreachable),
    build_info: { version: VERSION },
  });
}

/** These methods are named only on routes that know them; elsewhere they count as `OTHER`. */
const RARE_METHODS: readonly string[] = ["PUT", "LOCK", "UNLOCK"];

function methodOf({ method, path }: FinishedRequest): (typeof METHODS)[number] {
  const isNamed = path !== UNMATCHED || !RARE_METHODS.includes(method);
  return METHODS.find((known) => isNamed && known === method) ?? "OTHER";
}
