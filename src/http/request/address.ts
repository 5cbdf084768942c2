import type { Config } from "../../core/config/config.ts";

const UNKNOWN_ADDRESS = "unknown";
const EDGE_HEADER = "CF-Connecting-IP";
/** The one address that the edge names for requests of all Workers of other zones (2026-11). */
const OF_WORKERS = "2a06:98c0:3600::103";
/** The zone of the Worker that makes a request. The edge sets it, and removes it from the requests of other clients. */
const ZONE_HEADER = "CF-Worker";
const MAX_ZONE = 253;

/**
 * The client's address: that of the one header that the edge sets and clients cannot forge or, without it, that of the
 * connection. If the host does not know it either, all clients are `unknown`; `X-Forwarded-For` is no substitute, since
 * any client can send it. A Worker of another zone counts for its zone: the address it shows is that of all such Workers.
 */
export function clientAddress(
  { clientIpHeader }: Pick<Config, "clientIpHeader">,
  headers: Headers,
  connection?: string,
): string {
  const named = clientIpHeader === "" ? null : headers.get(clientIpHeader);
  const zone = named === OF_WORKERS && isOfEdge(clientIpHeader) ? headers.get(ZONE_HEADER) : null;
  if (zone) return `worker of ${zone.slice(0, MAX_ZONE).toLowerCase()}`;
  return named || connection || UNKNOWN_ADDRESS;
}

function isOfEdge(header: string): boolean {
  return header.toLowerCase() === EDGE_HEADER.toLowerCase();
}
