/** Everything that clients connect to: TCP, HTTP and WebSockets, with TLS or without. */
import type { Socket } from "node:net";
import { createSecureContext } from "node:tls";
import { errorLine, NO_NONCE } from "../../core/protocols/godistlock/errors.ts";
import { wireReply } from "../../core/protocols/statuses.ts";
import { ALL_BUT_ADMIN } from "../../core/session/rights.ts";
import type { SocketProtocol } from "../../core/session/socket-session.ts";
import type { Sockets } from "../../service.ts";
import type { Admission } from "../clients.ts";
import type { Address } from "./addresses.ts";
import { type ConnectionCaps, type ConnectionRefusal, Connections } from "./connections.ts";
import { refusal } from "./http/refusals.ts";
import { type Fetch, type HttpListener, httpListener } from "./http/server.ts";
import { sendAndClose } from "./lingering-close.ts";
import { type Listener, listen, PortTakenFailure } from "./listen.ts";
import { WriteTimeout } from "./outbox.ts";
import type { Shared } from "./socket-carrier.ts";
import { acceptTcp, type TcpRefusal } from "./tcp.ts";
import { type Admitters, WebSockets } from "./websocket.ts";

/** What a port serves. */
export type PortName = "dflockd" | "http" | "godistlock" | "relay";

export interface PortOptions extends Address {
  /** If the port is taken, go on without it and say so. Otherwise that is an error. */
  readonly isOptional?: boolean;
}

export interface ListenerOptions extends Admitters {
  /** A port number of 0 picks a free one. */
  readonly ports: Readonly<Partial<Record<PortName, PortOptions | undefined>>>;
  /** The app, called with the address of the connection. */
  readonly fetch: Fetch;
  readonly tls: { readonly cert: Buffer; readonly key: Buffer } | undefined;
  readonly caps: ConnectionCaps;
  /** How long a client may leave something unread; 0 means no limit. */
  readonly writeTimeoutMs: number;
  /** How long a TLS handshake or the head of a request may take. */
  readonly readTimeoutMs: number;
  /** Receives lines for the operator. Those about single connections may be many. */
  readonly log: (line: string) => void;
}

/** Refused connections that may be sent an answer at a time; any beyond that are closed without one. */
const MAX_REFUSALS = 32;

/**
 * The server's own listeners. They bound what one connection can cost before a session sees it: how many connections
 * there are, how long a message may be, how much may be buffered for a client that does not read.
 */
export class Listeners {
  readonly #options: ListenerOptions;
  readonly #shared: Shared;
  readonly #webSockets: WebSockets;
  readonly #http: HttpListener;
  readonly #accept: Readonly<Record<PortName, (client: Socket) => void>>;
  readonly #sockets = new Set<Socket>();
  readonly #open = new Map<PortName, Listener>();
  #refusals = 0;

  constructor(options: ListenerOptions) {
    const { caps, writeTimeoutMs, readTimeoutMs, tls, fetch, log } = options;
    const writeTimeout = new WriteTimeout(writeTimeoutMs);
    const shared = { connections: new Connections(caps), writeTimeout, isCut: false };
    this.#options = options;
    this.#shared = shared;
    this.#webSockets = new WebSockets(shared, options);
    const headTimeoutMs = readTimeoutMs;
    const http = httpListener({ fetch, sockets: this.#webSockets, writeTimeout, headTimeoutMs, tls, log });
    this.#http = http;
    const tcp = { shared, tls: tls && createSecureContext(tls), handshakeMs: readTimeoutMs, log };
    this.#accept = {
      dflockd: (client) => acceptTcp(client, { ...tcp, admit: (address) => admitClient(options, "dflockd", address) }),
      godistlock: (client) =>
        acceptTcp(client, { ...tcp, admit: (address) => admitClient(options, "godistlock", address) }),
      relay: (client) => acceptTcp(client, { ...tcp, admit: (address) => admitPeer(options, address) }),
      http: (client) => http.accept(client),
    };
  }

  /** For the service that `fetch` uses. */
  get sockets(): Sockets {
    return this.#webSockets;
  }

  /** The ports that are open. */
  get ports(): Readonly<Partial<Record<PortName, number>>> {
    return Object.fromEntries([...this.#open].map(([name, { port }]) => [name, port]));
  }

  /** Resolves once all ports accept connections. Rejects with a one-line `Failure`, leaving no port open. */
  async open(): Promise<void> {
    try {
      for (const [name, port] of Object.entries(this.#options.ports) as [PortName, PortOptions | undefined][])
        if (port) await this.#openPort(name, port);
    } catch (error) {
      this.stopListening();
      throw error;
    }
  }

  async #openPort(name: PortName, address: PortOptions): Promise<void> {
    try {
      this.#open.set(name, await listen(address, (client) => this.#arrive(client, name)));
    } catch (error) {
      if (!address.isOptional || !(error instanceof PortTakenFailure)) throw error;
      this.#options.log(`${error.message}: ${name} clients are not served there`);
    }
  }

  stopListening(): void {
    for (const listener of this.#open.values()) void listener.close();
  }

  /** Drops every connection without telling the sessions: a client that we cut off has not left. */
  cut(): void {
    this.#shared.isCut = true;
    this.#webSockets.announceStop();
    this.#http.cut();
    for (const socket of this.#sockets) socket.destroy();
  }

  #arrive(client: Socket, name: PortName): void {
    const { connections } = this.#shared;
    if (name === "http" && connections.isHttpFull(client)) this.#refuse(client, name, "max_connections_per_ip");
    else if (connections.hasRoom) this.#take(client, name);
    else {
      client.on("error", () => client.destroy());
      this.#http.closeIdleConnections();
      // Their slots are freed once they have closed, which Node reports at the end of this turn.
      setImmediate(() =>
        setImmediate(() => {
          if (client.destroyed) return;
          if (connections.hasRoom) this.#take(client, name);
          else this.#refuseForFiles(client, name);
        }),
      );
    }
  }

  #take(client: Socket, name: PortName): void {
    const { connections } = this.#shared;
    const closed = connections.open();
    const closedHttp = name === "http" ? connections.openHttp(client) : undefined;
    this.#sockets.add(client);
    client.once("close", () => {
      closed();
      closedHttp?.();
      this.#sockets.delete(client);
    });
    // Until another handler takes over, a reset only needs the close that follows it.
    client.on("error", () => client.destroy());
    this.#accept[name](client);
  }

  /** Refuses a connection because the limit of open files is reached. */
  #refuseForFiles(client: Socket, name: PortName): void {
    const { caps, log } = this.#options;
    log(`a connection was refused: ${caps.sockets} are open, and the limit of open files allows no more`);
    this.#refuse(client, name, "max_connections");
  }

  #refuse(client: Socket, name: PortName, error: ConnectionRefusal): void {
    if (name !== "http" || this.#options.tls || this.#refusals >= MAX_REFUSALS) {
      client.on("error", () => {});
      client.destroy();
      return;
    }
    this.#refusals += 1;
    client.once("close", () => {
      this.#refusals -= 1;
    });
    sendAndClose(client, refusal(503, error));
  }
}

/** What a client hears if the service is misconfigured. */
const MISCONFIGURED: Readonly<Record<SocketProtocol, string>> = {
  dflockd: `${wireReply("error")}\n`,
  godistlock: errorLine({ word: "internal", nonce: NO_NONCE }),
};

function admitClient({ clients }: Admitters, protocol: SocketProtocol, address: string): Admission | TcpRefusal {
  if (!clients) return { reason: "misconfigured", reply: MISCONFIGURED[protocol] };
  const known = { isAuthenticated: false, rights: ALL_BUT_ADMIN, label: undefined, hasWindow: false };
  const admission = clients.admit({ protocol, transport: "tcp", address, ...known });
  return typeof admission === "string" ? { reason: admission } : admission;
}

function admitPeer({ peers }: Admitters, address: string): Admission | TcpRefusal {
  if (!peers) return { reason: "unknown_relay", reply: errorLine({ word: "unknown-relay", nonce: NO_NONCE }) };
  const admission = peers.admit({ address, isKnown: false, hasWindow: false });
  return typeof admission === "string" ? { reason: admission } : admission;
}
