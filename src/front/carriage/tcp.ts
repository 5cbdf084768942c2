import type { Socket } from "node:net";
import type { SecureContext } from "node:tls";
import { WebSocket } from "ws";
import { WINDOW_HEADER } from "../../core/protocols/carrier/window.ts";
import { plainIp } from "../../node/listeners/addresses.ts";
import { reasonOf } from "../../node/listeners/failure.ts";
import { secured } from "../../node/listeners/tls.ts";
import type { AdmissionQueue, Release } from "../limits/admission.ts";
import type { Connections } from "../limits/connections.ts";
import { reach } from "../workerd/reach.ts";
import type { Upstream } from "../workerd/supervisor.ts";
import { FIRST_MESSAGE } from "./first-message.ts";
import { watchHangUp } from "./hang-up.ts";
import { Pump } from "./pump.ts";
import type { TcpProtocol } from "./tcp-protocols.ts";

const HANDSHAKE_LIMIT_MS = 10_000;
/** How long a connection is retried, and how often, if workerd resets it before its WebSocket is open. */
const RETRY_WITHIN_MS = 5_000;
const RETRY_EVERY_MS = 20;

export interface TcpFrontOptions {
  readonly protocol: TcpProtocol;
  readonly upstream: Upstream;
  readonly connections: Connections;
  readonly admission: AdmissionQueue;
  readonly writeTimeoutMs: number;
  /** How long a TLS handshake may take. */
  readonly readTimeoutMs: number;
  /** Proves to the Worker that it may trust the client address we send. */
  readonly bridgeSecret: string;
  readonly tls: SecureContext | undefined;
  readonly log: (line: string) => void;
}

/** Carries TCP clients over WebSockets to their sessions. */
export class TcpFront {
  readonly #options: TcpFrontOptions;
  readonly #pumps = new Set<Pump>();

  constructor(options: TcpFrontOptions) {
    this.#options = options;
  }

  /** Accepts a connection when it is its turn, or closes it without a byte if a cap forbids it. */
  async accept(client: Socket): Promise<void> {
    const { connections, tls, readTimeoutMs, log } = this.#options;
    const address = plainIp(client.remoteAddress ?? "unknown");
    const counted = connections.admit(address);
    if (typeof counted === "string") {
      client.destroy();
      return;
    }
    client.once("close", counted);
    try {
      // A client that has not completed the TLS handshake costs nothing behind the front door.
      const stream = tls ? await secured(client, tls, readTimeoutMs) : client;
      await this.#carry(stream, address, await this.#turn(stream, address));
    } catch (error) {
      if (!client.destroyed) log(`a TCP connection was not let in: ${reasonOf(error)}`);
      client.destroy();
    }
  }

  /** Cuts all connections without telling the sessions: a client that we cut off has not left. */
  cut(): void {
    for (const pump of this.#pumps) pump.cut();
  }

  async #turn(client: Socket, address: string): Promise<Release> {
    const { signal, stop } = watchHangUp(client, { isEndFinal: false });
    return this.#options.admission.enter({ address, isResuming: false, signal }).finally(stop);
  }

  /**
   * A workerd that ends may have accepted a connection, and resets it: the client has said nothing yet and is carried to
   * the next workerd.
   */
  async #carry(
    client: Socket,
    address: string,
    release: Release,
    giveUpAt = performance.now() + RETRY_WITHIN_MS,
  ): Promise<void> {
    const { upstream, writeTimeoutMs, log } = this.#options;
    const connection = await reach(upstream);
    if (!connection || client.destroyed) {
      connection?.destroy();
      release();
      client.destroy();
      return;
    }
    const socket = this.#open(connection, address);
    socket.once("open", release).once("close", release);
    socket.once("open", () => socket.send(FIRST_MESSAGE));
    const pump = new Pump(client, socket, writeTimeoutMs, {
      refused: (reason) => {
        log(`a TCP connection was not let in: ${reason}`);
        const line = this.#options.protocol.refusals[Number(/ ([0-9]{3})$/.exec(reason)?.[1])];
        if (line !== undefined) client.write(line);
      },
      broke: () => {
        this.#pumps.delete(pump);
        if (upstream.isEnding || performance.now() > giveUpAt) {
          log("a TCP connection was not let in: workerd resets it");
          client.destroy();
        } else setTimeout(() => void this.#carry(client, address, release, giveUpAt), RETRY_EVERY_MS);
      },
      closed: () => this.#pumps.delete(pump),
    });
    this.#pumps.add(pump);
  }

  #open(connection: Socket, address: string): WebSocket {
    const { path, subprotocol } = this.#options.protocol;
    return new WebSocket(`ws://localhost${path}`, subprotocol, {
      headers: {
        [WINDOW_HEADER]: "1",
        "X-Holdfast-Bridge": this.#options.bridgeSecret,
        "X-Holdfast-Client-Address": address,
      },
      perMessageDeflate: false,
      handshakeTimeout: HANDSHAKE_LIMIT_MS,
      createConnection: () => connection,
    });
  }
}
