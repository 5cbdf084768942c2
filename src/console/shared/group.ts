import { span } from "./words.ts";

/** Another deployment, as `GET /v1/relay` shows it. */
export interface Peer {
  readonly id: string;
  readonly present: boolean;
  readonly heard_s?: number;
}

export interface Group {
  readonly id?: string;
  readonly quorum_need: number;
  readonly quorum_ok: boolean;
  readonly peers: readonly Peer[];
}

export function quorumWords({ quorum_ok, quorum_need, peers }: Group): string {
  const there = 1 + peers.filter(({ present }) => present).length;
  const counted = `${there} of ${peers.length + 1} deployments, ${quorum_need} needed`;
  return quorum_ok ? `Quorum: ${counted}` : `No quorum: ${counted}`;
}

export function heardWords({ present, heard_s }: Peer): string {
  if (heard_s === undefined) return "not heard from";
  return present ? `heard ${span(heard_s)} ago` : `silent for ${span(heard_s)}`;
}
