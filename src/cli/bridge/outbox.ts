import type { Writable } from "node:stream";

/** Small enough that a slow but living reader takes one within any reasonable write time-out. */
const PIECE_BYTES = 16_384;

export interface OutboxEvents {
  /** All bytes so far have been taken. */
  drained(): void;
  /** The reader has taken no byte during the time-out although some are pending. */
  stalled(): void;
}

/**
 * Bytes on their way to one reader, in order. Node reports a write as done only when all of it is, so the bytes are
 * written in small pieces, one at a time: each completed piece is a sign of life.
 */
export class Outbox {
  readonly #sink: Writable;
  readonly #timeoutMs: number;
  readonly #events: OutboxEvents;
  #waiting: Buffer[] = [];
  #bytes = 0;
  #isWriting = false;
  #isEnding = false;
  #timer: NodeJS.Timeout | undefined;

  /** A time-out of 0 means no limit. */
  constructor(sink: Writable, timeoutMs: number, events: OutboxEvents) {
    this.#sink = sink;
    this.#timeoutMs = timeoutMs;
    this.#events = events;
  }

  /** Bytes not yet taken. */
  get size(): number {
    return this.#bytes;
  }

  add(bytes: Buffer): void {
    this.#waiting.push(bytes);
    this.#bytes += bytes.length;
    this.#writeNext();
  }

  /** Ends the sink once everything has been taken. */
  end(): void {
    this.#isEnding = true;
    this.#writeNext();
  }

  /** Drops what was not taken. */
  discard(): void {
    clearTimeout(this.#timer);
    this.#waiting = [];
    this.#bytes = 0;
  }

  #writeNext(): void {
    if (this.#isWriting || this.#sink.destroyed) return;
    const piece = this.#takePiece();
    if (piece.length === 0) {
      if (this.#isEnding) this.#sink.end();
      return;
    }
    this.#isWriting = true;
    this.#watch();
    this.#sink.write(piece, (error) => {
      this.#isWriting = false;
      clearTimeout(this.#timer);
      if (error) return;
      this.#bytes = Math.max(0, this.#bytes - piece.length);
      this.#writeNext();
      if (this.#bytes === 0) this.#events.drained();
    });
  }

  #takePiece(): Buffer {
    const pieces: Buffer[] = [];
    let room = PIECE_BYTES;
    while (room > 0) {
      const next = this.#waiting[0];
      if (next === undefined) break;
      pieces.push(next.subarray(0, room));
      if (next.length > room) this.#waiting[0] = next.subarray(room);
      else this.#waiting.shift();
      room -= Math.min(room, next.length);
    }
    const [first] = pieces;
    return pieces.length === 1 && first ? first : Buffer.concat(pieces);
  }

  #watch(): void {
    if (this.#timeoutMs > 0)
      this.#timer = setTimeout(() => this.#events.stalled(), Math.min(this.#timeoutMs, 2 ** 31 - 1));
  }
}
