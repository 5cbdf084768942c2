import { type FrameHeader, FrameReader } from "./frames.ts";

/** The protocol's limit for a WebSocket message. */
export const MAX_MESSAGE_BYTES = 1_048_576;

const FIRST_CONTROL_OPCODE = 8;
const CONTINUATION = 0;
const NOTHING = Buffer.alloc(0);

export interface MeterEvents {
  /** Whether another frame may be passed on now. */
  hasRoom(): boolean;
  /** Called with the number of lines passed on. */
  passed(lines: number): void;
}

/** A control frame counts as a request of three lines, since it gets one frame in answer. */
const LINES_OF_CONTROL = 3;

/**
 * Parses what a WebSocket client sends and measures its messages by the lengths in their frame headers. A message that
 * is too long is detected and stopped before the first byte of the frame that exceeds the limit is passed on.
 */
export class MessageMeter {
  readonly #reader: FrameReader;
  readonly #events: MeterEvents;
  /** Announced length of the current message so far, over all its frames. */
  #messageBytes = 0;
  #isTooLong = false;

  constructor(events: MeterEvents) {
    this.#events = events;
    this.#reader = new FrameReader({
      mayPass: (header) => events.hasRoom() && this.#measure(header),
      // A line fragment takes work too, and gets no answer.
      seesLineEnds: (count) => events.passed(Math.max(1, count)),
    });
  }

  get isTooLong(): boolean {
    return this.#isTooLong;
  }

  /** The bytes, of these and those held back before, that may be passed on. */
  take(received?: Buffer): Buffer {
    // Anything after a message that is too long is dropped.
    return this.#isTooLong ? NOTHING : this.#reader.take(received);
  }

  #measure({ opcode, payload }: FrameHeader): boolean {
    // Control frames may come between the parts of a message, and must be short.
    if (opcode >= FIRST_CONTROL_OPCODE) {
      this.#events.passed(LINES_OF_CONTROL);
      this.#isTooLong = payload > MAX_MESSAGE_BYTES;
    } else {
      if (payload === 0) this.#events.passed(1);
      this.#messageBytes = opcode === CONTINUATION ? this.#messageBytes + payload : payload;
      this.#isTooLong = this.#messageBytes > MAX_MESSAGE_BYTES;
    }
    return !this.#isTooLong;
  }
}
