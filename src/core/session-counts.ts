export type Transport = "tcp" | "ws" | "http";

/** Kinds of sessions with separate caps: those on sockets, and those of HTTP clients. */
export type SessionKind = "connections" | "httpSessions";

/** Selects sessions; all of them if empty. */
export interface Which {
  readonly kind?: SessionKind;
  readonly address?: string;
}

export function kindOf(transport: Transport): SessionKind {
  return transport === "http" ? "httpSessions" : "connections";
}

/** How many sessions a shard lists, by transport and by address. */
export class SessionCounts {
  readonly #byTransport: Record<Transport, number> = { tcp: 0, ws: 0, http: 0 };
  readonly #byAddress: Readonly<Record<SessionKind, Map<string, number>>> = {
    connections: new Map(),
    httpSessions: new Map(),
  };

  add(transport: Transport, address: string): void {
    this.#byTransport[transport] += 1;
    const addresses = this.#byAddress[kindOf(transport)];
    addresses.set(address, (addresses.get(address) ?? 0) + 1);
  }

  remove(transport: Transport, address: string): void {
    this.#byTransport[transport] -= 1;
    const addresses = this.#byAddress[kindOf(transport)];
    const left = (addresses.get(address) ?? 0) - 1;
    if (left > 0) addresses.set(address, left);
    else addresses.delete(address);
  }

  byTransport(): Record<Transport, number> {
    return { ...this.#byTransport };
  }

  count({ kind, address }: Which = {}): number {
    const kinds: SessionKind[] = kind ? [kind] : ["connections", "httpSessions"];
    if (address !== undefined) return kinds.reduce((sum, each) => sum + (this.#byAddress[each].get(address) ?? 0), 0);
    const { tcp, ws, http } = this.#byTransport;
    return kinds.reduce((sum, each) => sum + (each === "httpSessions" ? http : tcp + ws), 0);
  }
}
