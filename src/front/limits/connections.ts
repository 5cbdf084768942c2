import { plainIp } from "../../node/listeners/addresses.ts";

export interface ConnectionCaps {
  /** Maximum of open sockets of every kind, as the limit of open files allows. */
  readonly sockets: number;
  /** Clients over TCP and WebSocket together; 0 means no limit. */
  readonly clients: number;
  /** The same per address; 0 means no limit. */
  readonly clientsPerAddress: number;
  /** Connections of one address to the HTTP port, excluding those upgraded to WebSockets; 0 means no limit. */
  readonly httpPerAddress: number;
}

export type ConnectionRefusal = "max_connections" | "max_connections_per_ip";

/** The remote end of a connection. */
export interface Peer {
  readonly remoteAddress?: string | undefined;
  readonly remotePort?: number | undefined;
}

/** Counts connections, so that a refusal costs nothing behind the front door. */
export class Connections {
  readonly #caps: ConnectionCaps;
  readonly #byAddress = new Map<string, number>();
  readonly #httpByAddress = new Map<string, Set<string>>();
  #sockets = 0;
  #clients = 0;

  constructor(caps: ConnectionCaps) {
    this.#caps = caps;
  }

  get hasRoom(): boolean {
    return this.#sockets < this.#caps.sockets;
  }

  get sockets(): number {
    return this.#sockets;
  }

  /** Counts a socket until the returned function is called. */
  open(): () => void {
    this.#sockets += 1;
    return once(() => {
      this.#sockets -= 1;
    });
  }

  /** Whether this address has reached its cap of connections to the HTTP port. */
  isHttpFull(peer: Peer): boolean {
    const { httpPerAddress } = this.#caps;
    return httpPerAddress > 0 && (this.#httpByAddress.get(addressOf(peer))?.size ?? 0) >= httpPerAddress;
  }

  /** Counts a connection to the HTTP port until the returned function is called or it becomes a WebSocket. */
  openHttp(peer: Peer): () => void {
    // Read now: a closed socket no longer has a remote address.
    const { remoteAddress, remotePort } = peer;
    const address = addressOf(peer);
    const ofAddress = this.#httpByAddress.get(address) ?? new Set();
    this.#httpByAddress.set(address, ofAddress.add(nameOf(peer)));
    return () => this.becameWebSocket({ remoteAddress, remotePort });
  }

  /** The connection is counted as a client from here on. */
  becameWebSocket(peer: Peer): void {
    const ofAddress = this.#httpByAddress.get(addressOf(peer));
    if (ofAddress?.delete(nameOf(peer)) && ofAddress.size === 0) this.#httpByAddress.delete(addressOf(peer));
  }

  /** Counts a client until the returned function is called, or returns the cap that forbids it. */
  admit(address: string): ConnectionRefusal | (() => void) {
    const { clients, clientsPerAddress } = this.#caps;
    const ofAddress = this.#byAddress.get(address) ?? 0;
    if (clients > 0 && this.#clients >= clients) return "max_connections";
    if (clientsPerAddress > 0 && ofAddress >= clientsPerAddress) return "max_connections_per_ip";
    this.#clients += 1;
    this.#byAddress.set(address, ofAddress + 1);
    return once(() => this.#leave(address));
  }

  #leave(address: string): void {
    this.#clients -= 1;
    const left = (this.#byAddress.get(address) ?? 1) - 1;
    if (left === 0) this.#byAddress.delete(address);
    else this.#byAddress.set(address, left);
  }
}

const addressOf = ({ remoteAddress }: Peer) => plainIp(remoteAddress ?? "unknown");

/** Identifies a connection among all others to the same port, with TLS or without. */
const nameOf = ({ remoteAddress, remotePort }: Peer) => `${remoteAddress} ${remotePort}`;

function once(action: () => void): () => void {
  let isDone = false;
  return () => {
    if (!isDone) action();
    isDone = true;
  };
}
