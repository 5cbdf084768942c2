import { randomBytes } from "node:crypto";
import type { Server } from "node:http";
import type { Socket } from "node:net";
import { createSecureContext } from "node:tls";
import type { Address } from "../node/listeners/addresses.ts";
import { type Listener, listen } from "../node/listeners/listen.ts";
import { TcpFront } from "./carriage/tcp.ts";
import { TCP_PROTOCOLS, type TcpProtocolName } from "./carriage/tcp-protocols.ts";
import { refusal, sayGoodbye } from "./http/refusals.ts";
import { httpFront } from "./http/server.ts";
import { ADMISSION, type AdmissionLimits, AdmissionQueue } from "./limits/admission.ts";
import { type ConnectionCaps, type ConnectionRefusal, Connections } from "./limits/connections.ts";
import type { Upstream } from "./workerd/supervisor.ts";

export interface DoorOptions {
  readonly tcp: Address;
  readonly http: Address;
  readonly godistlock?: Address | undefined;
  /** For relays of other deployments. */
  readonly relay?: Address | undefined;
  readonly tls: { readonly cert: Buffer; readonly key: Buffer } | undefined;
  readonly caps: ConnectionCaps;
  /** How fast connections are admitted. */
  readonly admission?: AdmissionLimits;
  readonly writeTimeoutMs: number;
  readonly readTimeoutMs: number;
  /** Makes the Worker trust the client addresses we send for TCP clients. */
  readonly ownSecret: string;
  /** The secret of external bridges, if there are any. */
  readonly bridgeSecret: string | undefined;
  /** The header that names the address of an HTTP client. */
  readonly clientIpHeader: string;
  readonly upstream: Upstream;
  /** Receives one line for each connection that failed. */
  readonly log: (line: string) => void;
}

/** Refused connections that may be sent an answer at a time; any beyond that are closed without one. */
const MAX_GOODBYES = 32;

/** What a listener accepts. */
type Kind = TcpProtocolName | "http";

/** A secret for one run of the server, used if the operator has set none. */
export const newBridgeSecret = () => randomBytes(24).toString("hex");

/**
 * The server's own listeners. They bound what one connection can cost before workerd sees it: how many connections
 * there are, how long a message may be, how much may be buffered for a client that does not read.
 */
export class FrontDoor {
  readonly #connections: Connections;
  readonly #admission: AdmissionQueue;
  readonly #options: DoorOptions;
  readonly #http: Server;
  readonly #tcp: Readonly<Record<TcpProtocolName, TcpFront>>;
  readonly #sockets = new Set<Socket>();
  readonly #listeners = new Map<Kind, Listener>();
  #goodbyes = 0;

  private constructor(options: DoorOptions) {
    const { upstream, writeTimeoutMs, readTimeoutMs, tls, log } = options;
    this.#options = options;
    this.#connections = new Connections(options.caps);
    this.#admission = new AdmissionQueue(options.admission ?? ADMISSION);
    const shared = { upstream, connections: this.#connections, admission: this.#admission, writeTimeoutMs };
    const { bridgeSecret, clientIpHeader, ownSecret } = options;
    this.#http = httpFront({ ...shared, bridgeSecret, clientIpHeader, headTimeoutMs: readTimeoutMs, tls });
    const carried = { ...shared, readTimeoutMs, bridgeSecret: ownSecret, tls: tls && createSecureContext(tls), log };
    this.#tcp = {
      dflockd: new TcpFront({ ...carried, protocol: TCP_PROTOCOLS.dflockd }),
      godistlock: new TcpFront({ ...carried, protocol: TCP_PROTOCOLS.godistlock }),
      relay: new TcpFront({ ...carried, protocol: TCP_PROTOCOLS.relay }),
    };
  }

  /** Resolves once all listeners accept connections. */
  static async open(options: DoorOptions): Promise<FrontDoor> {
    const door = new FrontDoor(options);
    const { tcp: dflockd, http, godistlock, relay } = options;
    try {
      for (const [kind, address] of Object.entries({ dflockd, http, godistlock, relay }) as [
        Kind,
        Address | undefined,
      ][])
        if (address) door.#listeners.set(kind, await listen(address, (client) => door.#accept(client, kind)));
    } catch (error) {
      door.stopListening();
      throw error;
    }
    return door;
  }

  get tcpPort(): number {
    return this.#portOf("dflockd");
  }

  get httpPort(): number {
    return this.#portOf("http");
  }

  /** 0 if there is no such listener. */
  get godistlockPort(): number {
    return this.#portOf("godistlock");
  }

  /** 0 if there is no such listener. */
  get relayPort(): number {
    return this.#portOf("relay");
  }

  #portOf(kind: Kind): number {
    return this.#listeners.get(kind)?.port ?? 0;
  }

  /** Connections waiting to be admitted. */
  get waiting(): number {
    return this.#admission.waiting;
  }

  stopListening(): void {
    for (const listener of this.#listeners.values()) void listener.close();
  }

  /** Drops every connection. */
  cut(): void {
    for (const front of Object.values(this.#tcp)) front.cut();
    for (const socket of this.#sockets) socket.destroy();
    this.#http.close();
  }

  #accept(client: Socket, kind: Kind): void {
    if (kind === "http" && this.#connections.isHttpFull(client)) {
      this.#refuse(client, kind, "max_connections_per_ip");
      return;
    }
    if (this.#connections.hasRoom) {
      this.#take(client, kind);
      return;
    }
    client.on("error", () => client.destroy());
    this.#http.closeIdleConnections();
    // Their slots are freed once they have closed.
    setImmediate(() => {
      if (client.destroyed) return;
      if (this.#connections.hasRoom) this.#take(client, kind);
      else this.#refuseForFiles(client, kind);
    });
  }

  #take(client: Socket, kind: Kind): void {
    client.once("close", this.#connections.open());
    if (kind === "http") client.once("close", this.#connections.openHttp(client));
    this.#sockets.add(client);
    client.once("close", () => this.#sockets.delete(client));
    // Until another handler takes over, a reset only needs the close that follows it.
    client.on("error", () => client.destroy());
    if (kind === "http") this.#http.emit("connection", client);
    else void this.#tcp[kind].accept(client);
  }

  /** Refuses a connection because the limit of open files is reached. */
  #refuseForFiles(client: Socket, kind: Kind): void {
    const { caps, log } = this.#options;
    log(`a connection was refused: ${caps.sockets} are open, and the limit of open files allows no more`);
    this.#refuse(client, kind, "max_connections");
  }

  #refuse(client: Socket, kind: Kind, error: ConnectionRefusal): void {
    if (kind !== "http" || this.#options.tls || this.#goodbyes >= MAX_GOODBYES) {
      client.on("error", () => {});
      client.destroy();
      return;
    }
    this.#goodbyes += 1;
    client.once("close", () => {
      this.#goodbyes -= 1;
    });
    sayGoodbye(client, refusal(503, error));
  }
}
