export type LineEvent =
  /** Without its line feed and the carriage returns before it; may be a view of a larger buffer. */
  { readonly type: "line"; readonly line: Uint8Array } | { readonly type: "line_too_long" };

const LF = 0x0a;
const CR = 0x0d;
const LINE_CAP = 1_024;
/** A line with a token may be longer than any other. */
const AUTH_LINE_CAP = 66_560;
const AUTH = [0x41, 0x55, 0x54, 0x48, 0x20];
const NOTHING = new Uint8Array(0);

/**
 * Splits a byte stream into lines, however it is chunked. Memory is bounded by one line. A line that is too long is
 * reported as soon as that is known, and nothing is read after it.
 */
export class LineReader {
  #partial = NOTHING;
  #isBroken = false;

  /** `partial` is what an earlier reader of the same stream had left. */
  constructor(partial: Uint8Array = NOTHING) {
    for (const _ of this.read(partial)) throw new Error("a partial line cannot hold a whole one");
  }

  /** What must be given to the next reader of this stream. */
  get partial(): Uint8Array {
    return this.#partial;
  }

  /** A line has begun and is incomplete. */
  get isMidLine(): boolean {
    return this.#partial.length > 0;
  }

  *read(bytes: Uint8Array): Generator<LineEvent> {
    let rest = bytes;
    while (rest.length > 0 && !this.#isBroken) {
      const end = rest.indexOf(LF);
      const line = this.#joined(end < 0 ? rest : rest.subarray(0, end));
      if (line.length > capOf(line)) {
        this.#isBroken = true;
        this.#partial = NOTHING;
        yield { type: "line_too_long" };
        return;
      }
      if (end < 0) {
        this.#partial = line.slice();
        return;
      }
      rest = rest.subarray(end + 1);
      this.#partial = NOTHING;
      yield { type: "line", line: withoutTrailingCr(line) };
    }
  }

  #joined(tail: Uint8Array): Uint8Array {
    const head = this.#partial;
    if (head.length === 0) return tail;
    // No line is longer than this: what comes after it need not be copied to know that.
    const kept = tail.subarray(0, AUTH_LINE_CAP + 1);
    const all = new Uint8Array(head.length + kept.length);
    all.set(head);
    all.set(kept, head.length);
    return all;
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
