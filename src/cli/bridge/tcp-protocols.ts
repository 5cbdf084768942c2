/** What a TCP port speaks: which WebSocket carries its connections. */
export interface TcpProtocol {
  readonly path: string;
  readonly subprotocol: string;
  /** What a client is told when the service refuses the WebSocket, by status. Otherwise it is closed without a byte. */
  readonly refusals: Readonly<Record<number, string>>;
}

export const TCP_PROTOCOLS = {
  dflockd: { path: "/v1/ws", subprotocol: "dflockd.v2", refusals: { 500: "error\n" } },
  godistlock: {
    path: "/v1/godistlock",
    subprotocol: "godistlock.v1",
    refusals: { 500: "ERR - internal\n" },
  },
  relay: {
    path: "/v1/godistlock/relay",
    subprotocol: "godistlock-relay.v1",
    refusals: { 404: "ERR - unknown-relay\n", 500: "ERR - internal\n" },
  },
} as const satisfies Record<string, TcpProtocol>;

export type TcpProtocolName = keyof typeof TCP_PROTOCOLS;
