import type { IncomingMessage } from "node:http";
import type { Socket } from "node:net";
import { WebSocket, WebSocketServer } from "ws";
import { REFUSAL_HEADER } from "../../core/protocols/carrier/refusal.ts";
import { VANISHED } from "../../core/session/socket-session.ts";
import { CLOSE } from "../../core/session/wire/protocol.ts";
import type { Arrival, SocketRefusal, Sockets, Upgraded } from "../../service.ts";
import type { Admission, ArrivalRefusal, Clients, Peers } from "../clients.ts";
import { binaryFrame, pongFrame, textFrames } from "./frames.ts";
import { LINGER_MS, type Shared, SocketCarrier } from "./socket-carrier.ts";

/** The protocol's limit for a WebSocket message. */
const MAX_MESSAGE_BYTES = 1_048_576;
/** A close frame without a code, as `ws` reports it. */
const NO_CODE = 1005;
/** The service stops, and may be back soon. */
const RESTARTING = 1012;

/** The connection of an upgrade request. */
export interface UpgradeRequest {
  readonly incoming: IncomingMessage;
  readonly socket: Socket;
  /** What the client has sent after the head. */
  readonly head: Buffer;
  /** The address of the connection. */
  readonly address: string;
}

/** What decides who is let in. `clients` is undefined if the service is misconfigured, `peers` if it belongs to no group. */
export interface Admitters {
  readonly clients: Clients | undefined;
  readonly peers: Peers | undefined;
}

/** Makes WebSockets of upgrade requests. */
export class WebSockets implements Sockets {
  readonly #shared: Shared;
  readonly #admitters: Admitters;
  readonly #requests = new WeakMap<Request, UpgradeRequest>();
  readonly #switched = new WeakSet<Request>();
  readonly #server = new WebSocketServer<typeof ServerSocket>({
    noServer: true,
    // A short message could become a very long one.
    perMessageDeflate: false,
    maxPayload: MAX_MESSAGE_BYTES,
    // Only keys have to be UTF-8, and the session checks them.
    skipUTF8Validation: true,
    // Its pongs would bypass back-pressure.
    autoPong: false,
    // Not in its types.
    ...{ closeTimeout: LINGER_MS },
    WebSocket: ServerSocket,
  });
  /** Headers of the handshake under way. */
  #headers: Iterable<[string, string]> = [];

  constructor(shared: Shared, admitters: Admitters) {
    this.#shared = shared;
    this.#admitters = admitters;
    this.#server.on("headers", (lines: string[]) => {
      for (const [name, value] of this.#headers) lines.push(`${name}: ${value}`);
    });
  }

  /** The app may upgrade this request. */
  expect(request: Request, upgrade: UpgradeRequest): void {
    this.#requests.set(request, upgrade);
  }

  /** Whether the request's connection is a WebSocket now: nothing else may be written to it. */
  hasSwitched(request: Request): boolean {
    return this.#switched.has(request);
  }

  /** Tells every client that the service stops, if nothing is unsent that would have to go first. */
  announceStop(): void {
    for (const { carrier } of this.#server.clients) carrier?.announceStop();
  }

  async upgrade(request: Request, arrival: Arrival, headers: Headers): Promise<Upgraded | SocketRefusal> {
    const upgrade = this.#requests.get(request);
    this.#requests.delete(request);
    if (!upgrade) return { status: "unavailable" };
    const { socket } = upgrade;
    // It has been closed while the app was deciding, and will not report that again.
    if (socket.destroyed) return { status: "unavailable" };
    const leave = this.#shared.connections.admit(arrival.type === "client" ? arrival.entry.address : upgrade.address);
    if (typeof leave === "string") return { status: leave };
    socket.once("close", leave);
    const admission = await this.#admit(arrival, upgrade.address).catch(() => "unavailable" as const);
    if (typeof admission !== "string") this.#open(upgrade, headers, arrival, admission);
    else if (admission === "session_gone") {
      headers.set(REFUSAL_HEADER, admission);
      this.#handshake(upgrade, headers)?.close(CLOSE.gone);
    } else if (admission === "session_in_use") this.#handshake(upgrade, headers)?.close(CLOSE.inUse);
    else {
      leave();
      return { status: admission };
    }
    this.#switched.add(request);
    return { status: "upgraded", response: new Response(null, { headers }) };
  }

  async #admit(arrival: Arrival, peerAddress: string): Promise<Admission | ArrivalRefusal> {
    const { clients, peers } = this.#admitters;
    if (arrival.type === "peer") {
      const { isKnown, hasWindow } = arrival;
      return peers?.admit({ address: peerAddress, isKnown, hasWindow }) ?? "unavailable";
    }
    if (!clients) return "unavailable";
    const { entry, credential } = arrival;
    const transport = entry.transport === "tcp" ? "tcp" : "ws";
    const client = { ...entry, transport, label: entry.label } as const;
    return credential ? clients.resume(client, credential) : clients.admit(client);
  }

  #open(upgrade: UpgradeRequest, headers: Headers, arrival: Arrival, admission: Admission): void {
    const ws = this.#handshake(upgrade, headers);
    if (!ws) admission.abandon();
    else {
      const { hasWindow } = arrival.type === "client" ? arrival.entry : arrival;
      new WebSocketCarrier(ws, upgrade.socket, hasWindow, this.#shared).open(admission);
    }
  }

  /** Answers 101. Undefined if the client has hung up meanwhile. */
  #handshake({ incoming, socket, head }: UpgradeRequest, headers: Headers): ServerSocket | undefined {
    // The app has chosen the subprotocol, and `ws` would refuse a list that has one twice.
    delete incoming.headers["sec-websocket-protocol"];
    this.#shared.connections.becameWebSocket(socket);
    let opened: ServerSocket | undefined;
    this.#headers = headers;
    this.#server.handleUpgrade(incoming, socket, head, (ws) => {
      opened = ws.on("error", () => {});
    });
    return opened;
  }
}

/** The server's end of a WebSocket. */
class ServerSocket extends WebSocket {
  carrier: WebSocketCarrier | undefined;

  /** `ws` calls this when the client has sent a close frame, or has broken the rules. */
  override close(code?: number): void {
    if (this.carrier) this.carrier.clientCloses(code);
    else super.close(code ?? CLOSE.done);
  }

  sendClose(code: number): void {
    super.close(code);
  }
}

/** One client on a WebSocket. */
class WebSocketCarrier extends SocketCarrier {
  readonly #ws: ServerSocket;
  readonly #socket: Socket;
  /** A bridge carries the client. */
  readonly #hasWindow: boolean;
  /** The code to close with once everything is sent. */
  #closingWith: number | undefined;
  #isFaulty = false;
  #hasSentTooMuch = false;

  constructor(ws: ServerSocket, socket: Socket, hasWindow: boolean, shared: Shared) {
    super(socket, shared);
    this.#ws = ws;
    this.#socket = socket;
    this.#hasWindow = hasWindow;
  }

  open(admission: Admission): void {
    this.#ws.carrier = this;
    this.attachedTo(admission.attach(this));
    this.#ws
      .on("message", (data: Buffer, isBinary: boolean) => this.#received(data, isBinary))
      .on("ping", (payload: Buffer) => {
        if (this.#closingWith !== undefined) return;
        this.put(pongFrame(payload));
        this.connection?.heard();
      })
      .on("pong", () => {
        if (this.#closingWith === undefined) this.connection?.heard();
      })
      .on("error", (error: Error & { readonly code?: string }) => {
        this.#isFaulty = true;
        this.#hasSentTooMuch = error.code === "WS_ERR_UNSUPPORTED_MESSAGE_LENGTH";
      })
      .on("close", (code: number) => {
        this.discard();
        this.ended(code);
      });
    // There is no half-open state: an end without a close frame means that the client is gone.
    this.#socket.once("end", () => {
      if (this.#closingWith === undefined) this.#socket.destroy();
    });
  }

  send(lines: readonly string[]): void {
    if (this.#closingWith !== undefined) return;
    for (const frames of textFrames(this.#hasWindow ? [lines.join("")] : lines)) this.put(frames);
  }

  acknowledge(frame: Uint8Array): void {
    if (this.#closingWith === undefined) this.put(binaryFrame(frame));
  }

  close(code: number): void {
    if (this.#closingWith !== undefined) return;
    this.#closingWith = code;
    this.closing();
    // The answer to our close frame must be seen.
    this.#ws.resume();
    if (this.unsent === 0) this.#ws.sendClose(code);
  }

  announceStop(): void {
    if (this.#closingWith !== undefined || this.unsent > 0) return;
    this.#closingWith = RESTARTING;
    this.#ws.sendClose(RESTARTING);
  }

  /** The client has sent a close frame or, if an error is reported in this very step, has broken the rules. */
  clientCloses(code: number | undefined): void {
    queueMicrotask(() => {
      if (this.#hasSentTooMuch && this.connection) {
        // The session closes, in order with its answers.
        this.connection.sentTooMuch();
        setTimeout(() => this.#socket.destroy(), LINGER_MS).unref();
        return;
      }
      this.ended(this.#isFaulty ? VANISHED : (code ?? NO_CODE));
      // Nothing may follow the close frame.
      this.discard();
      this.#closingWith ??= code ?? CLOSE.done;
      this.#ws.sendClose(this.#closingWith);
    });
  }

  override drained(): void {
    if (this.#closingWith !== undefined) this.#ws.sendClose(this.#closingWith);
    else super.drained();
  }

  #received(data: Buffer, isBinary: boolean): void {
    if (this.#closingWith !== undefined) return;
    if (data.length > 0) this.connection?.received(data);
    else if (isBinary) this.connection?.inputEnded();
    else this.connection?.heard();
  }

  protected stopReading(): void {
    if (this.#closingWith === undefined) this.#ws.pause();
  }

  protected startReading(): void {
    this.#ws.resume();
  }

  protected cutOff(): void {
    this.#socket.destroy();
  }
}
