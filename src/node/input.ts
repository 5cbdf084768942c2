import { VANISHED } from "../core/session/socket-session.ts";
import type { Batch } from "./batch.ts";
import type { Connection } from "./clients.ts";

/** Input of one connection that is processed in one batch, so that a flood on one does not hold up the others. */
const MAX_PER_BATCH = 4_096;
/** Input that waits for its turn. Beyond this, nothing more is read. */
const MAX_WAITING_BYTES = 65_536;

/** What becomes of the input of one connection. All but `pause` and `resume` are called in a batch. */
export interface InputEvents {
  /** Whether the connection still counts: what comes from one that does not is dropped. */
  isCurrent(): boolean;
  /** Whether so much is being carried out that more input has to wait. */
  isBehind(): boolean;
  pause(): void;
  resume(): void;
  /** Processes a piece of input; an empty one is its end. */
  take(bytes: Uint8Array): void;
  heard(): void;
  sentTooMuch(): void;
  closed(code: number): void;
}

const END_OF_INPUT = new Uint8Array(0);

/** The input of one connection: however much arrives, each batch takes a little. */
export class Input implements Connection {
  readonly #batch: Batch;
  readonly #events: InputEvents;
  /** Bytes, and what else has happened on the connection, in order. */
  #waiting: (Uint8Array | (() => void))[] = [];
  #waitingBytes = 0;
  /** What is left in `#waiting` is looked at after this batch. */
  #isPlanned = false;
  #isPaused = false;
  /** Nothing is taken until `proceed`. */
  #isHeld = false;
  /** The number of the batch that has taken some last. */
  #lastBatch = -1;
  /** Bytes taken in that batch. */
  #taken = 0;

  constructor(batch: Batch, events: InputEvents) {
    this.#batch = batch;
    this.#events = events;
  }

  received(bytes: Uint8Array): void {
    if (this.#waiting.length > 0 || bytes.length > this.#room) {
      this.#push(bytes.slice());
      return;
    }
    this.#taken += bytes.length;
    let piece = bytes;
    let isTaken = false;
    this.#enter(() => {
      isTaken = true;
      this.#events.take(piece);
    });
    // The caller may reuse the buffer.
    if (!isTaken) piece = bytes.slice();
  }

  heard(): void {
    this.#enter(() => this.#events.heard());
  }

  inputEnded(): void {
    this.#enterInOrder(() => this.#events.take(END_OF_INPUT));
  }

  sentTooMuch(): void {
    this.#enterInOrder(() => this.#events.sentTooMuch());
  }

  /** A client that has closed its connection wants what it has sent before; one that has vanished may not. */
  closed(code: number): void {
    if (code === VANISHED) this.#waiting = [];
    this.#enterInOrder(() => this.#events.closed(code));
  }

  /** Must be called when `isBehind` may have become false. */
  proceed(): void {
    if (!this.#isHeld || this.#events.isBehind()) return;
    this.#isHeld = false;
    this.#plan();
  }

  /** Bytes that may still be taken in this batch. */
  get #room(): number {
    if (this.#lastBatch !== this.#batch.number) {
      this.#lastBatch = this.#batch.number;
      this.#taken = 0;
    }
    return MAX_PER_BATCH - this.#taken;
  }

  #enter(command: () => void): void {
    this.#batch.enter(() => {
      if (this.#events.isCurrent()) command();
    });
  }

  #enterInOrder(command: () => void): void {
    if (this.#waiting.length === 0) this.#enter(command);
    else this.#waiting.push(command);
  }

  #push(bytes: Uint8Array): void {
    this.#waiting.push(bytes);
    this.#waitingBytes += bytes.length;
    if (this.#waitingBytes > MAX_WAITING_BYTES && !this.#isPaused) {
      this.#isPaused = true;
      this.#events.pause();
    }
    this.#plan();
  }

  #plan(): void {
    if (this.#isPlanned || this.#isHeld) return;
    this.#isPlanned = true;
    this.#batch.afterBatch(() => this.#batch.enter(() => this.#takeWaiting()));
  }

  #takeWaiting(): void {
    this.#isPlanned = false;
    while (this.#waiting.length > 0 && this.#room > 0 && this.#events.isCurrent() && !this.#events.isBehind()) {
      const next = this.#waiting[0] as Uint8Array | (() => void);
      if (typeof next === "function") {
        this.#waiting.shift();
        next();
      } else this.#takePiece(next);
    }
    if (!this.#events.isCurrent()) this.#waiting = [];
    else if (this.#waiting.length > 0) {
      this.#isHeld = this.#events.isBehind();
      this.#plan();
    } else if (this.#isPaused) {
      this.#isPaused = false;
      this.#events.resume();
    }
  }

  #takePiece(next: Uint8Array): void {
    const piece = next.subarray(0, this.#room);
    if (piece.length === next.length) this.#waiting.shift();
    else this.#waiting[0] = next.subarray(piece.length);
    this.#waitingBytes -= piece.length;
    this.#taken += piece.length;
    this.#events.take(piece);
  }
}
