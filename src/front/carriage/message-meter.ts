import { type FrameHeader, FrameReader } from "./frames.ts";

/** What the protocol allows a WebSocket message to have. */
export const MAX_MESSAGE_BYTES = 1_048_576;

const FIRST_CONTROL_OPCODE = 8;
const CONTINUATION = 0;
const NOTHING = Buffer.alloc(0);

export interface MeterEvents {
  /** Whether another frame may be passed on now. */
  hasRoom(): boolean;
  /** So many lines have been passed on. */
  passed(lines: number): void;
}

/** A control frame is answered by another one, as a request of three lines is by one line. */
const LINES_OF_CONTROL = 3;

/**
 * Reads along what a WebSocket client sends and measures its messages by what the headers of their frames announce. A
 * message that is too long is known, and stopped, before the first byte of the frame that makes it so is passed on.
 */
export class MessageMeter {
  readonly #reader: FrameReader;
  readonly #events: MeterEvents;
  /** Announced so far of the message at hand, over all its frames. */
  #messageBytes = 0;
  #isTooLong = false;

  constructor(events: MeterEvents) {
    this.#events = events;
    this.#reader = new FrameReader({
      mayPass: (header) => events.hasRoom() && this.#measure(header),
      // A piece of a line takes work too, and has no answer of its own.
      seesLineEnds: (count) => events.passed(Math.max(1, count)),
    });
  }

  get isTooLong(): boolean {
    return this.#isTooLong;
  }

  /** What of these bytes, and of those kept back before, may be passed on. */
  take(received?: Buffer): Buffer {
    // What comes after a message that is too long is not even kept.
    return this.#isTooLong ? NOTHING : this.#reader.take(received);
  }

  #measure({ opcode, payload }: FrameHeader): boolean {
    // Control frames may stand between the parts of a message, and are short by rule.
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
