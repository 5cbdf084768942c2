import type { Socket } from "node:net";
import type { SecureContext } from "node:tls";
import type { Admission, ArrivalRefusal } from "../clients.ts";
import { plainIp } from "./addresses.ts";
import { sendAndClose } from "./lingering-close.ts";
import { LINGER_MS, type Shared, SocketCarrier } from "./socket-carrier.ts";
import { secured } from "./tls.ts";

/** A TCP client that closes its connection has left, whichever way it does that. */
const LEFT = 1000;

export interface TcpOptions {
  readonly shared: Shared;
  readonly tls: SecureContext | undefined;
  /** How long a TLS handshake may take. */
  readonly handshakeMs: number;
  /** Lets a client in. A refusal may carry a reply, which is sent before the socket closes. */
  readonly admit: (address: string) => Admission | TcpRefusal;
  /** Receives one line for each client that was not let in. */
  readonly log: (line: string) => void;
}

export interface TcpRefusal {
  readonly reason: ArrivalRefusal | "misconfigured" | "unknown_relay";
  readonly reply?: string;
}

/** Takes a TCP connection, or closes it if a cap forbids it. */
export function acceptTcp(client: Socket, options: TcpOptions): void {
  const { shared, tls, handshakeMs } = options;
  const address = plainIp(client.remoteAddress ?? "unknown");
  const leave = shared.connections.admit(address);
  if (typeof leave === "string") {
    client.destroy();
    return;
  }
  client.once("close", leave);
  if (!tls) open(client, address, options);
  else {
    // A client that has not completed the TLS handshake has no session.
    secured(client, tls, handshakeMs).then(
      (stream) => open(stream, address, options),
      () => client.destroy(),
    );
  }
}

function open(socket: Socket, address: string, { shared, admit, log }: TcpOptions): void {
  if (socket.destroyed) return;
  const admission = admit(address);
  if ("reason" in admission) {
    log(`a TCP connection was not let in: ${admission.reason}`);
    if (admission.reply === undefined) socket.destroy();
    else sendAndClose(socket, admission.reply);
    return;
  }
  new TcpCarrier(socket, shared).open(admission);
}

/** One client on a TCP connection, with TLS or without. */
class TcpCarrier extends SocketCarrier {
  readonly #socket: Socket;
  #isClosing = false;

  constructor(socket: Socket, shared: Shared) {
    super(socket, shared);
    this.#socket = socket;
  }

  open(admission: Admission): void {
    this.attachedTo(admission.attach(this));
    this.#socket
      .on("data", (bytes: Buffer) => this.#isClosing || this.connection?.received(bytes))
      .on("end", () => this.#isClosing || this.connection?.inputEnded())
      .on("close", () => {
        this.discard();
        this.ended(LEFT);
      });
  }

  send(lines: readonly string[]): void {
    if (!this.#isClosing) this.put(lines.length === 1 ? (lines[0] ?? "") : lines.join(""));
  }

  acknowledge(): void {}

  close(): void {
    if (this.#isClosing) return;
    this.#isClosing = true;
    this.closing();
    // Closing a socket with unread input resets it, and a reset can overtake our last bytes: keep reading for a while.
    this.#socket.resume();
    this.#socket.once("finish", () => setTimeout(() => this.#socket.destroy(), LINGER_MS).unref());
    this.endOutput();
  }

  protected stopReading(): void {
    if (!this.#isClosing) this.#socket.pause();
  }

  protected startReading(): void {
    this.#socket.resume();
  }

  protected cutOff(): void {
    this.#socket.destroy();
  }
}
