export interface ConnectionCaps {
  /** Sockets of every kind that may be open: what the open files allow. */
  readonly sockets: number;
  /** Clients over TCP and WebSocket together; 0 is no limit. */
  readonly clients: number;
  /** The same per address; 0 is no limit. */
  readonly clientsPerAddress: number;
}

export type ConnectionRefusal = "max_connections" | "max_connections_per_ip";

/** Counts what is connected, so that a refusal costs nothing behind the front door. */
export class Connections {
  readonly #caps: ConnectionCaps;
  readonly #byAddress = new Map<string, number>();
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

function once(action: () => void): () => void {
  let isDone = false;
  return () => {
    if (!isDone) action();
    isDone = true;
  };
}
