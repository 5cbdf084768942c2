import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { clientCloseFrame } from "../../src/front/carriage/frames.ts";
import { MAX_MESSAGE_BYTES, MessageMeter } from "../../src/front/carriage/message-meter.ts";

interface Part {
  readonly opcode: number;
  readonly isLast: boolean;
  readonly payload: number;
}

/** A frame as a client sends it, with or without its payload. */
function frame({ opcode, isLast, payload }: Part, sends = payload): Buffer {
  const length =
    payload < 126
      ? Buffer.from([0x80 | payload])
      : payload < 65_536
        ? Buffer.from([0x80 | 126, payload >> 8, payload & 0xff])
        : Buffer.concat([Buffer.from([0x80 | 127]), eightBytes(payload)]);
  return Buffer.concat([
    Buffer.from([(isLast ? 0x80 : 0) | opcode]),
    length,
    Buffer.alloc(4, 7),
    Buffer.alloc(sends, 9),
  ]);
}

function eightBytes(value: number): Buffer {
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64BE(BigInt(value));
  return bytes;
}

/** Passes the bytes on in pieces of these sizes, over and over. */
function passed(bytes: Buffer, sizes: readonly number[]): { readonly bytes: Buffer; readonly isTooLong: boolean } {
  const meter = new MessageMeter({ hasRoom: () => true, passed: () => {} });
  const out: Buffer[] = [];
  for (let [at, turn] = [0, 0]; at < bytes.length; turn += 1) {
    const size = sizes[turn % sizes.length] ?? 1;
    out.push(Buffer.from(meter.take(bytes.subarray(at, at + size))));
    at += size;
  }
  return { bytes: Buffer.concat(out), isTooLong: meter.isTooLong };
}

/** Compared as bytes: to print a difference of megabytes takes minutes. */
function expectPassed(sent: Buffer, { bytes, isTooLong }: ReturnType<typeof passed>): void {
  const result = passed(sent, [65_536]);
  expect([result.bytes.length, result.bytes.equals(bytes), result.isTooLong]).toEqual([bytes.length, true, isTooLong]);
}

const text = (payload: number): Part => ({ opcode: 1, isLast: true, payload });
const sizes = fc.array(fc.integer({ min: 1, max: 40 }), { minLength: 1, maxLength: 8 });
const shortFrames = fc.array(
  fc.record({
    opcode: fc.constantFrom(0, 1, 2, 8, 9, 10),
    isLast: fc.boolean(),
    payload: fc.oneof(fc.integer({ min: 0, max: 125 }), fc.integer({ min: 126, max: 400 })),
  }),
  { maxLength: 12 },
);

describe("what a WebSocket client sends", () => {
  test("is passed on byte for byte, however it is cut", () => {
    fc.assert(
      fc.property(shortFrames, sizes, (frames, cuts) => {
        const bytes = Buffer.concat(frames.map((each) => frame(each)));
        const result = passed(bytes, cuts);
        expect(result.isTooLong).toBe(false);
        expect(result.bytes.equals(bytes)).toBe(true);
      }),
    );
  });

  test("stops in front of a frame that makes its message too long, however it is cut", () => {
    fc.assert(
      fc.property(shortFrames, sizes, fc.integer({ min: 1, max: 2 ** 40 }), (frames, cuts, excess) => {
        const before = Buffer.concat(frames.map((each) => frame(each)));
        const bytes = Buffer.concat([before, frame(text(MAX_MESSAGE_BYTES + excess), 50)]);
        const result = passed(bytes, cuts);
        expect(result.isTooLong).toBe(true);
        expect(result.bytes.equals(before)).toBe(true);
      }),
    );
  });

  test("may be a message of exactly the longest length", () => {
    const bytes = frame(text(MAX_MESSAGE_BYTES));
    expectPassed(bytes, { bytes, isTooLong: false });
  });

  test("is measured over all parts of a message, with control frames between them", () => {
    const half = MAX_MESSAGE_BYTES / 2;
    const ping = frame({ opcode: 9, isLast: true, payload: 4 });
    const parts = [frame({ opcode: 2, isLast: false, payload: half }), ping];
    const fits = Buffer.concat([...parts, frame({ opcode: 0, isLast: true, payload: half }), frame(text(3))]);
    expectPassed(fits, { bytes: fits, isTooLong: false });
    const tooLong = Buffer.concat([...parts, frame({ opcode: 0, isLast: true, payload: half + 1 })]);
    expectPassed(tooLong, { bytes: Buffer.concat(parts), isTooLong: true });
  });

  test("lengths beyond what a number holds are too long", () => {
    const announced = Buffer.concat([Buffer.from([0x82, 0xff]), Buffer.alloc(8, 0xff), Buffer.alloc(4)]);
    expect(passed(announced, [3])).toEqual({ bytes: Buffer.alloc(0), isTooLong: true });
  });
});

test("a close frame is masked and carries its code", () => {
  expect([...clientCloseFrame(1009)]).toEqual([0x88, 0x82, 0, 0, 0, 0, 0x03, 0xf1]);
});
