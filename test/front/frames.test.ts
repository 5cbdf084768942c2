import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { FrameReader } from "../../src/front/carriage/frames.ts";

/** A text frame of a client, masked. */
function masked(payload: Buffer, mask: readonly number[]): Buffer {
  const length = payload.length < 126 ? [payload.length] : [126, payload.length >> 8, payload.length & 0xff];
  const [first = 0, ...rest] = length;
  const body = payload.map((byte, index) => byte ^ (mask[index & 3] ?? 0));
  return Buffer.concat([Buffer.from([0x81, 0x80 | first, ...rest, ...mask]), body]);
}

const masks = fc.tuple(fc.nat(255), fc.nat(255), fc.nat(255), fc.nat(255));
const payloads = fc.array(fc.constantFrom("a", "\n", "ping\n_\n_\n", "long ".repeat(30)), { maxLength: 12 });

describe("a reader along a stream of frames", () => {
  test("counts line ends under any mask, however the bytes are cut", () => {
    fc.assert(
      fc.property(fc.array(fc.tuple(payloads, masks)), fc.integer({ min: 1, max: 50 }), (frames, size) => {
        let seen = 0;
        const reader = new FrameReader({
          seesLineEnds: (count) => {
            seen += count;
          },
        });
        const bytes = Buffer.concat(frames.map(([words, mask]) => masked(Buffer.from(words.join("")), mask)));
        for (let at = 0; at < bytes.length; at += size) reader.take(bytes.subarray(at, at + size));
        const text = frames.map(([words]) => words.join("")).join("");
        expect(seen).toBe(text.split("\n").length - 1);
      }),
    );
  });

  test("stops between two frames and goes on where it stopped", () => {
    const [one, two] = [masked(Buffer.from("one\n"), [1, 2, 3, 4]), masked(Buffer.from("two\n"), [5, 6, 7, 8])];
    let mayPass = 1;
    const reader = new FrameReader({ mayPass: () => mayPass-- > 0 });
    expect(reader.take(Buffer.concat([one, two.subarray(0, 8)]))).toEqual(one);
    expect(reader.take(two.subarray(8))).toEqual(Buffer.alloc(0));
    mayPass = 1;
    expect(reader.take()).toEqual(two);
  });
});
