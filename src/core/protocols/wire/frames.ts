import { Partial } from "../partial.ts";

/** Three lines as received, without their line feeds and trailing carriage returns; may be views of a larger buffer. */
export interface Frame {
  readonly command: Uint8Array;
  readonly key: Uint8Array;
  readonly arg: Uint8Array;
  /** Bytes it took in the stream. */
  readonly size: number;
}

export type FrameEvent = { readonly type: "frame"; readonly frame: Frame } | { readonly type: "line_too_long" };

const LF = 0x0a;
const CR = 0x0d;
const LINE_CAP = 256;
/** The token line of `auth` may be longer than any other. */
const AUTH_LINE_CAP = 65_536;
const AUTH = [0x61, 0x75, 0x74, 0x68];

const NOTHING = new Uint8Array(0);
const LINE_END = Uint8Array.of(LF);

/**
 * Splits a byte stream into frames, however it is chunked. Memory is bounded by one frame: the excess of a line that is
 * too long is dropped as it arrives. After such a line nothing more is read.
 */
export class FrameReader {
  /** The incomplete frame, as received. */
  readonly #partial = new Partial();
  /** Where the current line starts in `#partial`, and which line it is. */
  #lineStart = 0;
  #lines: Uint8Array[] = [];
  #isDropping = false;
  #isBroken = false;

  /** `partial` is what an earlier reader of the same stream had left. */
  constructor(partial: Uint8Array = NOTHING) {
    for (const _ of this.read(partial)) throw new Error("a partial frame cannot hold a whole one");
  }

  /** What must be given to the next reader of this stream: a copy. A line being dropped stays too long. */
  get partial(): Uint8Array {
    return this.#partial.from(0).slice();
  }

  /** The length of `partial`. */
  get partialLength(): number {
    return this.#partial.length;
  }

  /** A frame has begun and is incomplete. */
  get isMidFrame(): boolean {
    return !this.#isBroken && (this.#partial.length > 0 || this.#isDropping);
  }

  /** The current line is too long; the rest of it is dropped. */
  get isDropping(): boolean {
    return this.#isDropping && !this.#isBroken;
  }

  *read(bytes: Uint8Array): Generator<FrameEvent> {
    let rest = bytes;
    while (rest.length > 0 && !this.#isBroken) {
      const whole = this.isMidFrame ? undefined : wholeFrame(rest);
      if (whole) {
        rest = whole.size === rest.length ? NOTHING : rest.subarray(whole.size);
        yield { type: "frame", frame: whole };
        continue;
      }
      const end = rest.indexOf(LF);
      if (end < 0) {
        this.#append(rest);
        return;
      }
      this.#append(rest.subarray(0, end));
      rest = rest.subarray(end + 1);
      if (this.#isDropping) {
        this.#isBroken = true;
        this.#partial.clear();
        yield { type: "line_too_long" };
        return;
      }
      const frame = this.#endLine();
      if (frame) yield { type: "frame", frame };
    }
  }

  #append(bytes: Uint8Array): void {
    if (this.#isDropping || bytes.length === 0) return;
    const excess = this.#partial.length - this.#lineStart + bytes.length - this.#cap();
    this.#isDropping = excess > 0;
    // Keep one byte over the cap: it makes the line too long for the next reader as well.
    this.#partial.add(this.#isDropping ? bytes.subarray(0, bytes.length - excess + 1) : bytes);
  }

  #endLine(): Frame | undefined {
    const line = this.#partial.from(this.#lineStart);
    this.#lines.push(lineOf(line, 0, line.length));
    const [command, key, arg] = this.#lines;
    if (!command || !key || !arg) {
      this.#partial.add(LINE_END);
      this.#lineStart = this.#partial.length;
      return undefined;
    }
    const size = this.#partial.length + 1;
    this.#partial.clear();
    this.#lineStart = 0;
    this.#lines = [];
    return { command, key, arg, size };
  }

  #cap(): number {
    const [command, key] = this.#lines;
    return command && key ? argCap(command) : LINE_CAP;
  }
}

/** The frame at the start of the bytes, if it is complete and within the caps. Its lines are views, not copies. */
function wholeFrame(bytes: Uint8Array): Frame | undefined {
  const first = bytes.indexOf(LF);
  if (first < 0 || first > LINE_CAP) return undefined;
  const second = bytes.indexOf(LF, first + 1);
  if (second < 0 || second - first - 1 > LINE_CAP) return undefined;
  const third = bytes.indexOf(LF, second + 1);
  const command = lineOf(bytes, 0, first);
  if (third < 0 || third - second - 1 > argCap(command)) return undefined;
  const key = lineOf(bytes, first + 1, second);
  const arg = lineOf(bytes, second + 1, third);
  return { command, key, arg, size: third + 1 };
}

function argCap(command: Uint8Array): number {
  const isAuth = command.length === AUTH.length && AUTH.every((byte, at) => command[at] === byte);
  return isAuth ? AUTH_LINE_CAP : LINE_CAP;
}

/** The line between two places, without its trailing carriage returns. */
function lineOf(bytes: Uint8Array, start: number, lineFeed: number): Uint8Array {
  let end = lineFeed;
  while (end > start && bytes[end - 1] === CR) end -= 1;
  return bytes.subarray(start, end);
}
