import type { Writable } from "node:stream";

/** Small enough that a slow but living reader takes one within any reasonable write time-out. */
export const PIECE_BYTES = 16_384;

/** A pending write. */
export interface PendingWrite {
  /** When the reader last took something. */
  since: number;
  /** The reader has taken nothing during the time-out. */
  stalled(): void;
}

/**
 * Finds readers that take nothing for too long. One interval serves all connections, and runs only while writes are
 * pending: a write that the operating system takes at once costs no timer.
 */
export class WriteTimeout {
  readonly #timeoutMs: number;
  readonly #lookEveryMs: number;
  readonly #pending = new Set<PendingWrite>();
  #interval: NodeJS.Timeout | undefined;
  /** When the next look is due. */
  #dueAt = 0;

  /** A time-out of 0 means no limit. */
  constructor(timeoutMs: number) {
    this.#timeoutMs = timeoutMs;
    this.#lookEveryMs = Math.min(Math.max(timeoutMs / 10, 10), 500);
  }

  /** Watches a write until `delete`. Called again, it counts as progress. */
  add(write: PendingWrite): void {
    if (this.#timeoutMs === 0) return;
    write.since = performance.now();
    this.#pending.add(write);
    if (this.#interval) return;
    this.#dueAt = write.since + this.#lookEveryMs;
    this.#interval = setInterval(() => this.#look(), this.#lookEveryMs).unref();
  }

  delete(write: PendingWrite): void {
    this.#pending.delete(write);
  }

  #look(): void {
    const now = performance.now();
    // While a commit took long we could not see what readers took: timers run before that is reported.
    const lateMs = Math.max(now - this.#dueAt, 0);
    this.#dueAt = now + this.#lookEveryMs;
    for (const write of this.#pending) {
      write.since = Math.min(write.since + lateMs, now);
      if (write.since > now - this.#timeoutMs) continue;
      this.#pending.delete(write);
      write.stalled();
    }
    if (this.#pending.size > 0) return;
    clearInterval(this.#interval);
    this.#interval = undefined;
  }
}

export interface OutboxOwner {
  /** Everything so far has been taken. */
  drained(): void;
  /** The reader has taken nothing during the time-out although something is pending. */
  stalled(): void;
}

/**
 * Text and bytes on their way to one reader, in order. Node reports a write as done only when all of it is, so no write
 * is longer than a piece, and they are made one at a time: each completed write is a sign of life.
 */
export class Outbox implements PendingWrite {
  readonly #sink: Writable;
  readonly #timeout: WriteTimeout;
  readonly #owner: OutboxOwner;
  #waiting: (string | Buffer)[] = [];
  #waitingSize = 0;
  /** Length of the write under way; 0 if there is none. */
  #writing = 0;
  #isEnding = false;
  since = 0;

  constructor(sink: Writable, timeout: WriteTimeout, owner: OutboxOwner) {
    this.#sink = sink;
    this.#timeout = timeout;
    this.#owner = owner;
  }

  /** Bytes, or characters of text, not yet taken. */
  get size(): number {
    return this.#waitingSize + this.#writing;
  }

  /** Adds text or bytes. What fits into a piece is written in one go, possibly together with what waits before it. */
  add(words: string | Buffer): void {
    if (words.length === 0 || this.#isEnding || this.#sink.destroyed) return;
    if (this.#writing === 0 && words.length <= PIECE_BYTES) {
      this.#write(words);
      return;
    }
    this.#waitingSize += words.length;
    if (words.length <= PIECE_BYTES) this.#waiting.push(words);
    else {
      // Text cannot be cut anywhere.
      const bytes = typeof words === "string" ? Buffer.from(words) : words;
      this.#waitingSize += bytes.length - words.length;
      for (let at = 0; at < bytes.length; at += PIECE_BYTES) this.#waiting.push(bytes.subarray(at, at + PIECE_BYTES));
    }
    if (this.#writing === 0) this.#writeNext();
  }

  /** Ends the sink once everything has been taken. */
  end(): void {
    if (this.#isEnding) return;
    this.#isEnding = true;
    if (this.#writing === 0) this.#sink.end();
  }

  /** Drops what was not taken; the sink is gone. */
  discard(): void {
    this.#timeout.delete(this);
    this.#waiting = [];
    this.#waitingSize = 0;
  }

  stalled(): void {
    this.#owner.stalled();
  }

  #write(piece: string | Buffer): void {
    this.#writing = piece.length;
    this.#sink.write(piece, this.#written);
    // Most writes are taken at once, though reported later.
    if (this.#sink.writableLength > 0) this.#timeout.add(this);
  }

  readonly #written = (error: Error | null | undefined): void => {
    this.#writing = 0;
    this.#timeout.delete(this);
    if (error || this.#sink.destroyed) return;
    if (this.#waiting.length > 0) this.#writeNext();
    else {
      if (this.#isEnding) this.#sink.end();
      this.#owner.drained();
    }
  };

  #writeNext(): void {
    let size = 0;
    let count = 0;
    for (const { length } of this.#waiting) {
      if (count > 0 && size + length > PIECE_BYTES) break;
      size += length;
      count += 1;
    }
    this.#waitingSize -= size;
    this.#write(joined(this.#waiting.splice(0, count)));
  }
}

function joined(pieces: readonly (string | Buffer)[]): string | Buffer {
  const [first = ""] = pieces;
  if (pieces.length === 1) return first;
  if (pieces.every((piece) => typeof piece === "string")) return pieces.join("");
  return Buffer.concat(pieces.map((piece) => (typeof piece === "string" ? Buffer.from(piece) : piece)));
}
