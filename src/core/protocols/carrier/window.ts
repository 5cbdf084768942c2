/** Input bytes that a carrier may send ahead of what the session has started to process. */
export const WINDOW_BYTES = 131_072;
/** A session acknowledges input in steps of at least this many bytes. */
export const ACKNOWLEDGE_EVERY = 32_768;
/** Header with which a carrier asks for acknowledgements at the upgrade. */
export const WINDOW_HEADER = "X-Holdfast-Window";

const FORGIVEN_AFTER_MS = 5_000;

/**
 * The sending side of the flow control between a TCP carrier and a session: a WebSocket's own flow control is not
 * visible to the program, so the session reports how much it has consumed.
 *
 * After five quiet seconds the count restarts at zero. By then a working session has consumed everything (the last,
 * partial acknowledgement is lost when it hibernates), and a blocked one applies its own, stricter limit.
 */
export class SendWindow {
  readonly #now: () => number;
  #outstanding = 0;
  #isShut = false;
  #lastSentAt = Number.NEGATIVE_INFINITY;

  /** `now` must be monotonic: a clock that is set back must not keep a window shut. */
  constructor(now: () => number = () => performance.now()) {
    this.#now = now;
  }

  sent(bytes: number): void {
    this.#forgive();
    this.#outstanding += bytes;
    this.#lastSentAt = this.#now();
    if (this.#outstanding >= WINDOW_BYTES) this.#isShut = true;
  }

  /** Processes an acknowledgement frame: four bytes, big-endian, bytes consumed since the previous one. */
  acknowledge(frame: Uint8Array): void {
    const consumed = new DataView(frame.buffer, frame.byteOffset, frame.byteLength).getUint32(0);
    this.#outstanding = Math.max(0, this.#outstanding - consumed);
    if (this.#outstanding < ACKNOWLEDGE_EVERY) this.#isShut = false;
  }

  /**
   * Once shut, the window reopens when everything that will be acknowledged has been consumed: workerd reads from a
   * connection for as long as there is something to read, and ignores all others meanwhile (workerd 2026-11).
   */
  get isOpen(): boolean {
    this.#forgive();
    return !this.#isShut;
  }

  get outstanding(): number {
    this.#forgive();
    return this.#outstanding;
  }

  /** How long until a shut window opens even without an acknowledgement. */
  msUntilForgiven(): number {
    return Math.max(0, this.#lastSentAt + FORGIVEN_AFTER_MS - this.#now());
  }

  #forgive(): void {
    if (this.msUntilForgiven() > 0) return;
    this.#outstanding = 0;
    this.#isShut = false;
  }
}

/** The receiving side: counts what a session has consumed and decides when to acknowledge it. */
export class ReceiveWindow {
  #consumed = 0;

  /** The acknowledgement that is due after these bytes were consumed, if any. */
  consumed(bytes: number): Uint8Array | undefined {
    this.#consumed += bytes;
    if (this.#consumed < ACKNOWLEDGE_EVERY) return undefined;
    const frame = new Uint8Array(4);
    new DataView(frame.buffer).setUint32(0, this.#consumed);
    this.#consumed = 0;
    return frame;
  }
}
