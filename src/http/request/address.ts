import type { Config } from "../../core/config/config.ts";

const UNKNOWN_ADDRESS = "unknown";

/**
 * The client's address, taken only from the one header that the edge sets and clients cannot forge. If no such header
 * is configured, all clients are `unknown`; `X-Forwarded-For` is no substitute, since any client can send it.
 */
export function clientAddress({ clientIpHeader }: Pick<Config, "clientIpHeader">, headers: Headers): string {
  if (clientIpHeader === "") return UNKNOWN_ADDRESS;
  return headers.get(clientIpHeader) || UNKNOWN_ADDRESS;
}
