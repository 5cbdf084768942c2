const TWO_BYTE_LENGTH = 126;
const EIGHT_BYTE_LENGTH = 127;
const LINE_END = 0x0a;
const NOTHING = Buffer.alloc(0);

/** The header of a WebSocket frame. */
export interface FrameHeader {
  readonly opcode: number;
  /** Bytes of the payload. */
  readonly payload: number;
}

interface Header extends FrameHeader {
  readonly length: number;
  /** The mask of the payload; empty if it is not masked. */
  readonly mask: Buffer;
}

export interface FrameEvents {
  /** Called for each frame in order, and again for one that had to stop. */
  mayPass?(header: FrameHeader): boolean;
  /** Called with the number of line ends in each piece of a payload that passes. */
  seesLineEnds?(count: number): void;
}

/** Parses one direction of a WebSocket, and can stop it between two frames. */
export class FrameReader {
  readonly #events: FrameEvents;
  /** Bytes held back: a frame that may not pass yet, or an incomplete header. */
  #held: Buffer = NOTHING;
  #frame: Header = { opcode: 0, payload: 0, length: 0, mask: NOTHING };
  /** Bytes of that frame's payload that have passed. */
  #passed = 0;

  constructor(events: FrameEvents) {
    this.#events = events;
  }

  /** The bytes, of those held back and these, that may be passed on. */
  take(received: Buffer = NOTHING): Buffer {
    const bytes = this.#held.length === 0 ? received : Buffer.concat([this.#held, received]);
    let at = this.#passPayload(bytes, 0);
    while (at < bytes.length) {
      const header = headerAt(bytes, at);
      if (header === undefined || this.#events.mayPass?.(header) === false) break;
      this.#frame = header;
      this.#passed = 0;
      at = this.#passPayload(bytes, at + header.length);
    }
    // A copy, so that a few bytes do not keep a large buffer alive.
    this.#held = at === bytes.length ? NOTHING : Buffer.from(bytes.subarray(at));
    return bytes.subarray(0, at);
  }

  /** Passes what is there of the current payload. Returns the position after it. */
  #passPayload(bytes: Buffer, from: number): number {
    const to = Math.min(from + this.#frame.payload - this.#passed, bytes.length);
    if (to > from) this.#events.seesLineEnds?.(this.#lineEndsIn(bytes, from, to));
    this.#passed += to - from;
    return to;
  }

  #lineEndsIn(bytes: Buffer, from: number, to: number): number {
    const { mask } = this.#frame;
    // A line end masked with each of the four mask bytes.
    const masked = [0, 1, 2, 3].map((place) => LINE_END ^ (mask[place] ?? 0));
    const shift = this.#passed - from;
    let count = 0;
    for (let at = from; at < to; at += 1) if (bytes[at] === masked[(at + shift) & 3]) count += 1;
    return count;
  }
}

/** The frame header at this position; undefined if it is incomplete. */
function headerAt(bytes: Buffer, at: number): Header | undefined {
  const have = bytes.length - at;
  if (have < 2) return undefined;
  const short = bytes.readUInt8(at + 1) & 0x7f;
  const extra = short === TWO_BYTE_LENGTH ? 2 : short === EIGHT_BYTE_LENGTH ? 8 : 0;
  const length = 2 + extra + ((bytes.readUInt8(at + 1) & 0x80) === 0 ? 0 : 4);
  if (have < length) return undefined;
  const payload =
    extra === 0 ? short : extra === 2 ? bytes.readUInt16BE(at + 2) : Number(bytes.readBigUInt64BE(at + 2));
  const isMasked = (bytes.readUInt8(at + 1) & 0x80) !== 0;
  const mask = isMasked ? Buffer.from(bytes.subarray(at + length - 4, at + length)) : NOTHING;
  return { opcode: bytes.readUInt8(at) & 0x0f, length, payload, mask };
}

/** A close frame as a client sends it. */
export function clientCloseFrame(code: number): Buffer {
  // Client frames must be masked; a mask of zeros changes nothing.
  return Buffer.from([0x88, 0x82, 0, 0, 0, 0, code >> 8, code & 0xff]);
}
