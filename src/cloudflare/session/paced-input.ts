/** Messages up to this size are processed at once. */
const PIECE_BYTES = 16_384;
/**
 * Pause after each piece of a longer message, in answers per millisecond. A client gets each answer in its own frame; a
 * carrier gets them batched.
 */
export const ANSWERS_PER_MS = { client: 4, carrier: 64 } as const;

/**
 * Processes the input of one connection in order. A long message is processed in pieces, so that answers are sent and
 * other connections are served in between.
 */
export class PacedInput {
  /** Returns the number of answers sent synchronously. */
  readonly #hear: (piece: Uint8Array) => number;
  readonly #answersPerMs: number;
  #unheard: Uint8Array[] = [];
  #isListening = false;

  constructor(hear: (piece: Uint8Array) => number, answersPerMs: number) {
    this.#hear = hear;
    this.#answersPerMs = answersPerMs;
  }

  /** Processes a message, also an empty one, after all earlier ones. Resolves when no input is left. */
  take(message: Uint8Array): Promise<void> | undefined {
    if (!this.#isListening && message.length <= PIECE_BYTES) {
      this.#hear(message);
      return undefined;
    }
    this.#unheard.push(message.subarray(0, PIECE_BYTES));
    for (let at = PIECE_BYTES; at < message.length; at += PIECE_BYTES) {
      this.#unheard.push(message.subarray(at, at + PIECE_BYTES));
    }
    return this.#isListening ? undefined : this.#listen();
  }

  /** The client is gone: drops unprocessed input. */
  forget(): void {
    this.#unheard = [];
  }

  async #listen(): Promise<void> {
    this.#isListening = true;
    try {
      for (let piece = this.#unheard.shift(); piece; piece = this.#unheard.shift()) {
        const answers = this.#hear(piece);
        // At least 1 ms: the next turn of the event loop would come before any other input is read.
        await scheduler.wait(1 + Math.floor(answers / this.#answersPerMs));
      }
    } finally {
      this.#isListening = false;
    }
  }
}
