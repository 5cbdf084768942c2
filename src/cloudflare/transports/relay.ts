import type { Env } from "../env.ts";
import { KNOWN_HEADER, RELAY_WINDOW_HEADER, relayOf } from "../relay/relay-name.ts";

/** Opens a connection of another deployment. */
export function openRelay(env: Env, entry: { isKnown: boolean; hasWindow: boolean }): Promise<Response> {
  const headers = new Headers({ Upgrade: "websocket" });
  if (entry.isKnown) headers.set(KNOWN_HEADER, "1");
  if (entry.hasWindow) headers.set(RELAY_WINDOW_HEADER, "1");
  return relayOf(env).fetch("http://relay/", { headers });
}
