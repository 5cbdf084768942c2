const TWO_BYTE_LENGTH = 126;
const EIGHT_BYTE_LENGTH = 127;
const LINE_END = 0x0a;
const NOTHING = Buffer.alloc(0);

/** What the header of a WebSocket frame says. */
export interface FrameHeader {
  readonly opcode: number;
  /** Bytes of the payload. */
  readonly payload: number;
}

interface Header extends FrameHeader {
  readonly length: number;
  /** What the payload is masked with; empty if it is not. */
  readonly mask: Buffer;
}

export interface FrameEvents {
  /** Asked about each frame in its turn, and again about one that had to stop. */
  mayPass?(header: FrameHeader): boolean;
  /** Told how many line ends there are in each piece of a payload that passes. */
  seesLineEnds?(count: number): void;
}

/** Reads along one direction of a WebSocket, and can stop it between two frames. */
export class FrameReader {
  readonly #events: FrameEvents;
  /** What was not passed on: a frame that may not pass yet, or a header that is not whole. */
  #held: Buffer = NOTHING;
  #frame: Header = { opcode: 0, payload: 0, length: 0, mask: NOTHING };
  /** Bytes of that frame's payload that have passed. */
  #passed = 0;

  constructor(events: FrameEvents) {
    this.#events = events;
  }

  /** Those of the bytes held back and of these that may be passed on. */
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
    // A copy, so that a few bytes do not keep the memory of many.
    this.#held = at === bytes.length ? NOTHING : Buffer.from(bytes.subarray(at));
    return bytes.subarray(0, at);
  }

  /** Passes what is there of the payload at hand; where the next byte stands. */
  #passPayload(bytes: Buffer, from: number): number {
    const to = Math.min(from + this.#frame.payload - this.#passed, bytes.length);
    if (to > from) this.#events.seesLineEnds?.(this.#lineEndsIn(bytes, from, to));
    this.#passed += to - from;
    return to;
  }

  #lineEndsIn(bytes: Buffer, from: number, to: number): number {
    const { mask } = this.#frame;
    // A line end as it looks in each of the four places of the mask.
    const masked = [0, 1, 2, 3].map((place) => LINE_END ^ (mask[place] ?? 0));
    const shift = this.#passed - from;
    let count = 0;
    for (let at = from; at < to; at += 1) if (bytes[at] === masked[(at + shift) & 3]) count += 1;
    return count;
  }
}

/** The frame header at this place; undefined while it is not whole. */
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
  // Frames of clients are masked; a mask of zeros changes nothing.
  return Buffer.from([0x88, 0x82, 0, 0, 0, 0, code >> 8, code & 0xff]);
}
