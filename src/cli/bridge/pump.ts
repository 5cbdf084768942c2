import type { Socket } from "node:net";
import { type RawData, WebSocket } from "ws";
import { SendWindow } from "../../core/protocols/carrier/window.ts";
import { Outbox, type OutboxOwner, type WriteTimeout } from "../../node/listeners/outbox.ts";

const FRAME_BYTES = 65_536;
const BUFFER_BYTES = 262_144;
const LINGER_MS = 2_000;
const PING_EVERY_MS = 30_000;

export interface PumpEvents {
  /** The service refused the WebSocket or could not be reached. The client is closed without a byte. */
  refused(reason: string): void;
  /** Both sides are closed. */
  closed(): void;
}

/**
 * Carries one TCP connection over one WebSocket. Adds, drops and reorders nothing, never answers by
 * itself, and never reconnects: the end of either side is the end of the other.
 */
export class Pump implements OutboxOwner {
  readonly #tcp: Socket;
  readonly #ws: WebSocket;
  readonly #events: PumpEvents;
  readonly #window = new SendWindow(() => performance.now());
  readonly #outbox: Outbox;
  #forgiveness: NodeJS.Timeout | undefined;
  #heartbeat: NodeJS.Timeout | undefined;
  #wasOpen = false;
  #isTcpClosed = false;
  #isWsClosed = false;

  constructor(tcp: Socket, ws: WebSocket, writeTimeout: WriteTimeout, events: PumpEvents) {
    this.#tcp = tcp;
    this.#ws = ws;
    this.#events = events;
    this.#outbox = new Outbox(tcp, writeTimeout, this);
    this.#listenToWebSocket();
    // Nothing is read until the WebSocket is open: the bytes stay in the socket, in order.
    tcp
      .on("end", () => this.#endOfInput())
      .on("error", () => tcp.destroy())
      .on("close", () => this.#tcpClosed());
  }

  drained(): void {
    this.#ws.resume();
    this.#readOn();
  }

  stalled(): void {
    this.#tcp.destroy();
  }

  /** Closes both sides gracefully. */
  goAway(): void {
    this.#tcp.pause();
    this.#ws.resume();
    this.#ws.close(1001);
  }

  /** Cuts both sides. */
  cut(): void {
    this.#ws.terminate();
    this.#tcp.destroy();
  }

  #listenToWebSocket(): void {
    const ws = this.#ws;
    ws.on("open", () => this.#opened());
    ws.on("message", (data, isBinary) => this.#received(bytesOf(data), isBinary));
    ws.on("error", (error) => {
      if (!this.#wasOpen && !this.#isTcpClosed) this.#events.refused(error.message);
    });
    ws.on("close", () => this.#wsClosed());
  }

  #opened(): void {
    this.#wasOpen = true;
    if (this.#isTcpClosed) {
      this.#ws.close(1000);
      return;
    }
    this.#startHeartbeat();
    this.#tcp.on("data", (bytes: Buffer) => this.#forward(bytes));
    // The input may have ended, without a byte, before reading started.
    if (this.#tcp.readableEnded) this.#endOfInput();
  }

  #endOfInput(): void {
    if (this.#ws.readyState === WebSocket.OPEN) this.#ws.send(Buffer.alloc(0));
  }

  #forward(bytes: Buffer): void {
    if (this.#ws.readyState !== WebSocket.OPEN) return;
    for (let at = 0; at < bytes.length; at += FRAME_BYTES) {
      this.#ws.send(bytes.subarray(at, at + FRAME_BYTES), () => this.#readOn());
    }
    this.#window.sent(bytes.length);
    if (!this.#hasRoom()) this.#holdBack();
  }

  /** Whether more may be read from the client: a client that does not read is not read from either. */
  #hasRoom(): boolean {
    return this.#window.isOpen && this.#ws.bufferedAmount <= BUFFER_BYTES && this.#outbox.size <= BUFFER_BYTES;
  }

  #holdBack(): void {
    this.#tcp.pause();
    clearTimeout(this.#forgiveness);
    // The outbox reports when it is empty.
    if (this.#outbox.size > BUFFER_BYTES) return;
    // Always set it, even if the window opens this very millisecond: nothing else might wake us.
    this.#forgiveness = setTimeout(() => this.#readOn(), Math.ceil(this.#window.msUntilForgiven()) + 1);
  }

  #readOn(): void {
    if (!this.#tcp.isPaused() || this.#ws.readyState !== WebSocket.OPEN) return;
    if (!this.#hasRoom()) {
      this.#holdBack();
      return;
    }
    clearTimeout(this.#forgiveness);
    this.#tcp.resume();
  }

  #received(bytes: Buffer, isBinary: boolean): void {
    if (isBinary) {
      if (bytes.length === 4) this.#window.acknowledge(bytes);
      this.#readOn();
      return;
    }
    if (this.#isTcpClosed || bytes.length === 0) return;
    this.#outbox.add(bytes);
    if (this.#outbox.size > BUFFER_BYTES) {
      this.#ws.pause();
      this.#holdBack();
    }
  }

  #tcpClosed(): void {
    this.#isTcpClosed = true;
    this.#outbox.discard();
    if (this.#isWsClosed) {
      this.#finish();
      return;
    }
    if (this.#ws.readyState === WebSocket.CONNECTING) {
      this.#ws.terminate();
      return;
    }
    // A paused socket would never see the answer to its close frame.
    this.#ws.resume();
    this.#ws.close(1000);
    setTimeout(() => this.#ws.terminate(), LINGER_MS).unref();
  }

  /** The service's last bytes still reach the client; the client's further input is discarded. */
  #wsClosed(): void {
    this.#isWsClosed = true;
    if (this.#isTcpClosed) {
      this.#finish();
      return;
    }
    // Closing a socket with unread input resets it, and a reset can overtake our last bytes: keep reading for a while.
    this.#tcp.resume();
    this.#tcp.once("finish", () => setTimeout(() => this.#tcp.destroy(), LINGER_MS).unref());
    this.#outbox.end();
  }

  #finish(): void {
    clearInterval(this.#heartbeat);
    clearTimeout(this.#forgiveness);
    this.#events.closed();
  }

  /** Detects a service that vanished silently, and keeps middleboxes from dropping the connection. */
  #startHeartbeat(): void {
    let isAlive = true;
    this.#ws.on("pong", () => {
      isAlive = true;
    });
    this.#heartbeat = setInterval(() => {
      if (this.#ws.readyState !== WebSocket.OPEN) return;
      // While reading is paused, an answer may have arrived unseen.
      if (!isAlive && !this.#ws.isPaused) {
        this.#ws.terminate();
        return;
      }
      isAlive = false;
      this.#ws.ping();
    }, PING_EVERY_MS);
  }
}

function bytesOf(data: RawData): Buffer {
  if (Array.isArray(data)) return Buffer.concat(data);
  return Buffer.isBuffer(data) ? data : Buffer.from(data);
}
