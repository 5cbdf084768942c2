import { renderExposition } from "../../core/metrics/exposition.ts";
import { METHODS, UNMATCHED } from "../../core/metrics/families.ts";
import type { Counting } from "../../core/metrics/tally.ts";
import type { Service } from "../../service.ts";
import { VERSION } from "../../version.ts";

export interface FinishedRequest {
  readonly method: string;
  /** The template of the route, or `unmatched`: never the path itself, which may hold a key. */
  readonly path: string;
  readonly status: number;
  readonly seconds: number;
}

/** Counts a request whose reply is ready. The next scrape includes it. */
export function recordRequest(meter: Counting, request: FinishedRequest): void {
  const { path, status, seconds } = request;
  const labels = { method: methodOf(request), path, status };
  meter.count("http_requests_total", labels);
  meter.observe("http_request_duration_seconds", labels, seconds);
}

/**
 * The text of `/metrics`. It includes every request whose reply was ready before. Without `estimates`, figures that would
 * be estimates are left out. Rejects if a part of the service does not answer, rather than showing sums that have fallen.
 */
export async function renderMetrics(
  { directory, meter }: Pick<Service, "directory" | "meter">,
  { isDraining, estimates }: { readonly isDraining: boolean; readonly estimates: boolean },
): Promise<string> {
  const [{ sums, startedAt }, figures] = await Promise.all([
    meter.read(),
    directory.gauges({ mayEstimate: estimates }),
  ]);
  const { sessions, keys, listingBacklog, keysSampled, isEstimate, byState, logBytes } = figures;
  const named = (figure: number | undefined) => (figure !== undefined && isEstimate ? { estimate: figure } : figure);
  return renderExposition(sums, {
    ready: isDraining ? 0 : 1,
    draining: isDraining ? 1 : 0,
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
    wal_bytes: logBytes,
    build_info: { version: VERSION },
    listing_backlog: listingBacklog,
  });
}

/** These methods are named only on routes that know them; elsewhere they count as `OTHER`. */
const RARE_METHODS: readonly string[] = ["PUT", "LOCK", "UNLOCK"];

function methodOf({ method, path }: FinishedRequest): (typeof METHODS)[number] {
  const isNamed = path !== UNMATCHED || !RARE_METHODS.includes(method);
  return METHODS.find((known) => isNamed && known === method) ?? "OTHER";
}
