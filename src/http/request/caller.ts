import { sameSecret } from "../../core/auth/secrets.ts";
import type { Config } from "../../core/config/config.ts";
import { clientAddress } from "./address.ts";

const BRIDGE_HEADER = "X-Holdfast-Bridge";
const BRIDGE_ADDRESS_HEADER = "X-Holdfast-Client-Address";

/** Where a request comes from. `impostor`: it claims to come from a bridge but does not know the bridges' secret. */
export interface Caller {
  readonly via: "edge" | "bridge" | "impostor";
  readonly address: string;
}

/** A bridge that knows the secret speaks for its client; if no secret is configured, its headers are ignored. */
export function callerOf(config: Config, headers: Headers, connection?: string): Caller {
  const address = clientAddress(config, headers, connection);
  const shown = headers.get(BRIDGE_HEADER);
  if (config.bridgeSecret === undefined || shown === null) return { via: "edge", address };
  if (!sameSecret(shown, config.bridgeSecret)) return { via: "impostor", address };
  return { via: "bridge", address: headers.get(BRIDGE_ADDRESS_HEADER) ?? address };
}
