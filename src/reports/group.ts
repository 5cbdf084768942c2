import { configOf, type Env } from "../cloudflare/env.ts";
import { relayOf } from "../cloudflare/relay/relay-name.ts";

/** The group of this deployment as JSON: who is heard from, and whether that is a majority. Alone it is one by itself. */
export async function groupDocument(env: Env): Promise<string> {
  const { relay } = configOf(env);
  if (!relay) return JSON.stringify({ quorum_need: 1, quorum_ok: true, peers: [] });
  const peers = await relayOf(env).peers();
  const present = peers.filter(({ isPresent }) => isPresent).length;
  return JSON.stringify({
    id: relay.id,
    quorum_need: relay.need,
    quorum_ok: 1 + present >= relay.need,
    peers: peers.map(({ id, isPresent, silentMs }) => {
      return { id, present: isPresent, ...(silentMs !== undefined && { heard_s: silentMs / 1000 }) };
    }),
  });
}
