/** The list of deployments that agree on locks. No imports. */
export const MAX_PEERS = 8;
const RELAY_PATH = "/v1/godistlock/relay";

export interface RelayPeer {
  readonly id: string;
  readonly url: string;
}

/** The peers of a list, or undefined if it breaks the rule. The own id may be among them. */
export function peersOf(entries: readonly string[]): readonly RelayPeer[] | undefined {
  const peers = entries.map(peerOf);
  const ids = new Set(peers.map((peer) => peer?.id));
  if (peers.length === 0 || peers.length > MAX_PEERS + 1 || ids.size < peers.length) return undefined;
  return peers.every((peer) => peer !== undefined) ? peers : undefined;
}

function peerOf(entry: string): RelayPeer | undefined {
  const [, id = "", scheme, host, path] = /^([^=]+)=(wss?|tcp):\/\/([^/?#\s@]+)(\/[^?#\s]*)?$/.exec(entry) ?? [];
  if (!isId(id) || !URL.canParse(`http://${host}`)) return undefined;
  if (scheme !== "tcp") return { id, url: `${scheme}://${host}${path && path !== "/" ? path : RELAY_PATH}` };
  return path === undefined && /:[0-9]+$/.test(host ?? "") ? { id, url: `tcp://${host}` } : undefined;
}

export function isId(text: string): boolean {
  return /^[A-Za-z0-9._-]{1,64}$/.test(text);
}
