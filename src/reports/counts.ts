import type { Env } from "../cloudflare/env.ts";
import { configOf } from "../cloudflare/env.ts";
import { allCollectors } from "../cloudflare/metrics/collectors.ts";
import { settleReports } from "../cloudflare/metrics/isolate-tally.ts";
import { relayOf } from "../cloudflare/relay/relay-name.ts";
import { seriesName } from "../core/metrics/series.ts";
import { gatherGauges } from "./gauges.ts";

/** The service in a few numbers, by name. */
export async function gatherCounts(env: Env): Promise<Readonly<Record<string, number>>> {
  const { relay } = configOf(env);
  await settleReports(env);
  const [present, readings, gauges] = await Promise.all([
    relay ? relayOf(env).present() : [],
    Promise.all(allCollectors(env).map((collector) => collector.read())),
    gatherGauges(env),
  ]);
  const total = (isMeant: (series: string) => boolean) =>
    readings
      .flatMap(({ sums }) => Object.entries(sums))
      .reduce((sum, [series, value]) => (isMeant(series) ? sum + value : sum), 0);
  const need = relay?.need ?? 1;
  return {
    locks: gauges.byState?.keysHeld ?? 0,
    waiters: (gauges.byState?.lockWaiters ?? 0) + (gauges.byState?.semaphoreWaiters ?? 0),
    clients: gauges.sessions.tcp + gauges.sessions.ws + gauges.sessions.http,
    // Only if `locks` and `waiters` are estimates.
    ...(gauges.isEstimate && { estimated: 1 }),
    relays: present.length,
    quorum_need: need,
    quorum_ok: 1 + present.length >= need ? 1 : 0,
    uptime_ms: Math.max(0, Date.now() - Math.min(...readings.map(({ startedAt }) => startedAt))),
    granted_total: total((series) => series.startsWith("grants_total|")),
    expired_total: total((series) => EXPIRED.has(series)),
  };
}

const EXPIRED: ReadonlySet<string> = new Set(
  (["lock", "semaphore"] as const).map((kind) => seriesName("releases_total", { kind, reason: "expired" })),
);
