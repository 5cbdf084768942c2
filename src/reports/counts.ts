import { seriesName } from "../metrics/series.ts";
import type { Env } from "../objects/env.ts";
import { configOf } from "../objects/env.ts";
import { allCollectors } from "../objects/metrics/collectors.ts";
import { relayOf } from "../objects/relay/relay-name.ts";
import { walkKeys } from "./key-walk.ts";

/** The service in a few numbers, by name. */
export async function gatherCounts(env: Env): Promise<Readonly<Record<string, number>>> {
  const { relay } = configOf(env);
  const [present, readings, held] = await Promise.all([
    relay ? relayOf(env).present() : [],
    Promise.all(allCollectors(env).map((collector) => collector.read())),
    countKeys(env),
  ]);
  const total = (isMeant: (series: string) => boolean) =>
    readings
      .flatMap(({ sums }) => Object.entries(sums))
      .reduce((sum, [series, value]) => (isMeant(series) ? sum + value : sum), 0);
  const need = relay?.need ?? 1;
  return {
    ...held,
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

async function countKeys(env: Env): Promise<{ locks: number; waiters: number; clients: number }> {
  const counts = { locks: 0, waiters: 0, clients: 0 };
  for await (const { keys, sessions } of walkKeys(env, { limit: Number.POSITIVE_INFINITY })) {
    counts.clients = sessions.tcp + sessions.ws + sessions.http;
    for (const { holderCount, waiters } of keys) {
      if (holderCount > 0) counts.locks += 1;
      counts.waiters += waiters;
    }
  }
  return counts;
}
