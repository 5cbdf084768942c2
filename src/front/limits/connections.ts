import { plainIp } from "../system/addresses.ts";

export interface ConnectionCaps {
  /** Sockets of every kind that may be open: what the open files allow. */
  readonly sockets: number;
  /** Clients over TCP and WebSocket together; 0 is no limit. */
  readonly clients: number;
  /** The same per address; 0 is no limit. */
  readonly clientsPerAddress: number;
  /** Connections of one address to the HTTP port, without those that have become WebSockets; 0 is no limit. */
  readonly httpPerAddress: number;
}

export type ConnectionRefusal = "max_connections" | "max_connections_per_ip";

/** The far end of a connection. */
export interface Peer {
  readonly remoteAddress?: string | undefined;
  readonly remotePort?: number | undefined;
}

/** Counts what is connected, so that a refusal costs nothing behind the front door. */
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

  /** Whether another connection of this address to the HTTP port is one too many. */
  isHttpFull(peer: Peer): boolean {
    const { httpPerAddress } = this.#caps;
    return httpPerAddress > 0 && (this.#httpByAddress.get(addressOf(peer))?.size ?? 0) >= httpPerAddress;
  }

  /** Counts a connection to the HTTP port until the returned function is called, or it has become a WebSocket. */
  openHttp(peer: Peer): () => void {
    // A socket that is closed no longer tells its far end.
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

  /** Counts a client until the returned function is called, or says which cap forbids it. */
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

/** Tells a connection from all others to the same port, with TLS or without. */
const nameOf = ({ remoteAddress, remotePort }: Peer) => `${remoteAddress} ${remotePort}`;

function once(action: () => void): () => void {
  let isDone = false;
  return () => {
    if (!isDone) action();
    isDone = true;
  };
}
