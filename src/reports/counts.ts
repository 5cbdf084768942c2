import { seriesName } from "../core/metrics/series.ts";
import type { Service } from "../service.ts";

/** The service in a few numbers, by name. */
export async function gatherCounts({
  config,
  directory,
  group,
  meter,
}: Pick<Service, "config" | "directory" | "group" | "meter">): Promise<Readonly<Record<string, number>>> {
  const [present, { sums, startedAt }, gauges] = await Promise.all([
    group?.present() ?? [],
    meter.read(),
    directory.gauges({ mayEstimate: true }),
  ]);
  const total = (isMeant: (series: string) => boolean) =>
    Object.entries(sums).reduce((sum, [series, value]) => (isMeant(series) ? sum + value : sum), 0);
  const need = (config.ok && config.config.relay?.need) || 1;
  return {
    locks: gauges.byState?.keysHeld ?? 0,
    waiters: (gauges.byState?.lockWaiters ?? 0) + (gauges.byState?.semaphoreWaiters ?? 0),
    clients: gauges.sessions.tcp + gauges.sessions.ws + gauges.sessions.http,
    // Only if `locks` and `waiters` are estimates.
    ...(gauges.isEstimate && { estimated: 1 }),
    relays: present.length,
    quorum_need: need,
    quorum_ok: 1 + present.length >= need ? 1 : 0,
    uptime_ms: Math.max(0, Date.now() - startedAt),
    granted_total: total((series) => series.startsWith("grants_total|")),
    expired_total: total((series) => EXPIRED.has(series)),
  };
}

const EXPIRED: ReadonlySet<string> = new Set(
  (["lock", "semaphore"] as const).map((kind) => seriesName("releases_total", { kind, reason: "expired" })),
);
