import type { Service } from "../service.ts";

/**
 * The group of this deployment as JSON: who is heard from, and whether that is a majority. Alone it is one by itself.
 * Equal concurrent questions share the answer.
 */
export async function groupDocument(service: Pick<Service, "config" | "group" | "share">): Promise<string> {
  const { config, group } = service;
  const relay = config.ok ? config.config.relay : undefined;
  if (!relay || !group) return JSON.stringify({ quorum_need: 1, quorum_ok: true, peers: [] });
  return service.share("group", async () => {
    const peers = await group.peers();
    const present = peers.filter(({ isPresent }) => isPresent).length;
    return JSON.stringify({
      id: relay.id,
      quorum_need: relay.need,
      quorum_ok: 1 + present >= relay.need,
      peers: peers.map(({ id, isPresent, silentMs }) => {
        return { id, present: isPresent, ...(silentMs !== undefined && { heard_s: silentMs / 1000 }) };
      }),
    });
  });
}
