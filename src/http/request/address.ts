import type { Config } from "../../core/config/config.ts";

const UNKNOWN_ADDRESS = "unknown";

/**
 * The client's address: that of the one header that the edge sets and clients cannot forge or, without it, that of the
 * connection. If the host does not know it either, all clients are `unknown`; `X-Forwarded-For` is no substitute, since
 * any client can send it.
 */
export function clientAddress(
  { clientIpHeader }: Pick<Config, "clientIpHeader">,
  headers: Headers,
  connection?: string,
): string {
  const named = clientIpHeader === "" ? null : headers.get(clientIpHeader);
  return named || connection || UNKNOWN_ADDRESS;
}
