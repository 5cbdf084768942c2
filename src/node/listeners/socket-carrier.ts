import type { Writable } from "node:stream";
import type { Carrier, Connection } from "../clients.ts";
import type { Connections } from "./connections.ts";
import { Outbox, type OutboxOwner, type WriteTimeout } from "./outbox.ts";

/** A client with more than this unsent is not read from. */
const BUFFER_BYTES = 262_144;
/** A client with more than this unsent is cut off: without a write time-out, nothing else bounds it. */
const MAX_UNSENT_BYTES = 16 * 1_048_576;
/** How long a client may take to close its side after we have closed ours. */
export const LINGER_MS = 2_000;
/** How long a client may take to read what was sent before we closed, with or without a write time-out. */
const MAX_CLOSING_MS = 60_000;

/** What the connections of all listeners share. */
export interface Shared {
  readonly connections: Connections;
  readonly writeTimeout: WriteTimeout;
  /** We have dropped all connections: their clients have not left, so sessions are told nothing. */
  isCut: boolean;
}

/** What carriers over TCP and WebSockets have in common: back-pressure, and one report of the end. */
export abstract class SocketCarrier implements Carrier, OutboxOwner {
  readonly #shared: Shared;
  readonly #outbox: Outbox;
  #connection: Connection | undefined;
  /** The host does not want to read. */
  #isPaused = false;
  /** The client does not read. */
  #isFull = false;
  #closingTimer: NodeJS.Timeout | undefined;

  constructor(sink: Writable, shared: Shared) {
    this.#shared = shared;
    this.#outbox = new Outbox(sink, shared.writeTimeout, this);
  }

  abstract send(lines: readonly string[]): void;
  abstract acknowledge(frame: Uint8Array): void;
  abstract close(code: number): void;
  protected abstract stopReading(): void;
  protected abstract startReading(): void;
  /** Drops the connection with everything unsent. */
  protected abstract cutOff(): void;

  /** The session, until it has been told that the connection has ended. */
  protected get connection(): Connection | undefined {
    return this.#connection;
  }

  protected attachedTo(connection: Connection): void {
    this.#connection = connection;
  }

  protected get unsent(): number {
    return this.#outbox.size;
  }

  protected put(words: string | Buffer): void {
    this.#outbox.add(words);
    if (this.#outbox.size <= BUFFER_BYTES) return;
    this.#isFull = true;
    this.stopReading();
    if (this.#outbox.size > MAX_UNSENT_BYTES) this.cutOff();
  }

  /** We close: the connection ends within a bounded time, whatever the client does. */
  protected closing(): void {
    this.#closingTimer = setTimeout(() => this.cutOff(), MAX_CLOSING_MS).unref();
  }

  /** Ends our side once everything has been taken. */
  protected endOutput(): void {
    this.#outbox.end();
  }

  /** Tells the session, once, that the connection has ended. */
  protected ended(code: number): void {
    const connection = this.#connection;
    this.#connection = undefined;
    if (!this.#shared.isCut) connection?.closed(code);
  }

  /** The socket is gone, or about to go. */
  protected discard(): void {
    clearTimeout(this.#closingTimer);
    this.#outbox.discard();
  }

  pause(): void {
    this.#isPaused = true;
    this.stopReading();
  }

  resume(): void {
    this.#isPaused = false;
    if (!this.#isFull) this.startReading();
  }

  drained(): void {
    if (!this.#isFull) return;
    this.#isFull = false;
    if (!this.#isPaused) this.startReading();
  }

  stalled(): void {
    this.cutOff();
  }
}
