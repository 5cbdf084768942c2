import { Partial } from "../partial.ts";

export type LineEvent =
  /** Without its line feed and the carriage returns before it; may be a view of a larger buffer. */
  { readonly type: "line"; readonly line: Uint8Array } | { readonly type: "line_too_long" };

const LF = 0x0a;
const CR = 0x0d;
const LINE_CAP = 1_024;
/** A line with a token may be longer than any other. */
const AUTH_LINE_CAP = 66_560;
const AUTH = [0x41, 0x55, 0x54, 0x48, 0x20];

/**
 * Splits a byte stream into lines, however it is chunked. Memory is bounded by one line. A line that is too long is
 * reported as soon as that is known, and nothing is read after it.
 */
export class LineReader {
  readonly #partial = new Partial();
  #isBroken = false;

  /** `partial` is what an earlier reader of the same stream had left. */
  constructor(partial: Uint8Array = new Uint8Array(0)) {
    for (const _ of this.read(partial)) throw new Error("a partial line cannot hold a whole one");
  }

  /** What must be given to the next reader of this stream: a copy. */
  get partial(): Uint8Array {
    return this.#partial.from(0).slice();
  }

  /** The length of `partial`. */
  get partialLength(): number {
    return this.#partial.length;
  }

  /** A line has begun and is incomplete. */
  get isMidLine(): boolean {
    return this.#partial.length > 0;
  }

  *read(bytes: Uint8Array): Generator<LineEvent> {
    let rest = bytes;
    while (rest.length > 0 && !this.#isBroken) {
      const end = rest.indexOf(LF);
      const line = this.#join(end < 0 ? rest : rest.subarray(0, end), { isWhole: end >= 0 });
      if (line.length > capOf(line)) {
        this.#isBroken = true;
        this.#partial.clear();
        yield { type: "line_too_long" };
        return;
      }
      if (end < 0) return;
      rest = rest.subarray(end + 1);
      this.#partial.clear();
      yield { type: "line", line: withoutTrailingCr(line) };
    }
  }

  /** The line so far. */
  #join(tail: Uint8Array, { isWhole }: { readonly isWhole: boolean }): Uint8Array {
    if (isWhole && this.#partial.length === 0) return tail;
    // No line is longer than this: what comes after it need not be copied to know that.
    this.#partial.add(tail.subarray(0, AUTH_LINE_CAP + 1));
    return this.#partial.from(0);
  }
}

function capOf(line: Uint8Array): number {
  return AUTH.every((byte, at) => line[at] === byte) ? AUTH_LINE_CAP : LINE_CAP;
}

function withoutTrailingCr(line: Uint8Array): Uint8Array {
  let end = line.length;
  while (end > 0 && line[end - 1] === CR) end -= 1;
  return line.subarray(0, end);
}
