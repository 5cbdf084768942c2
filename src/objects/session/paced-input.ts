/** A message that is no longer is heard at once. */
const PIECE_BYTES = 16_384;
/** Of a longer one, so much that it takes so many answers a millisecond: a client gets each in a frame of its own. */
export const ANSWERS_PER_MS = { client: 4, carrier: 64 } as const;

/**
 * Hears what comes in on one connection, in its order. A long message is heard in pieces, so that answers leave and other
 * connections are served in between.
 */
export class PacedInput {
  /** Returns how many answers were given at once. */
  readonly #hear: (piece: Uint8Array) => number;
  readonly #answersPerMs: number;
  #unheard: Uint8Array[] = [];
  #isListening = false;

  constructor(hear: (piece: Uint8Array) => number, answersPerMs: number) {
    this.#hear = hear;
    this.#answersPerMs = answersPerMs;
  }

  /** Hears a message, an empty one too, after all that came before it. Resolves when no more is left. */
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

  /** Nobody is there any more to hear the answers. */
  forget(): void {
    this.#unheard = [];
  }

  async #listen(): Promise<void> {
    this.#isListening = true;
    try {
      for (let piece = this.#unheard.shift(); piece; piece = this.#unheard.shift()) {
        const answers = this.#hear(piece);
        // At least one: the next turn of the event loop would come before anything else that is to be read.
        await scheduler.wait(1 + Math.floor(answers / this.#answersPerMs));
      }
    } finally {
      this.#isListening = false;
    }
  }
}
