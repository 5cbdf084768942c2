import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { LineReader } from "../../../src/core/protocols/godistlock/lines.ts";

const encode = (text: string) => new TextEncoder().encode(text);

function drain(reader: LineReader, bytes: Uint8Array): string[] {
  return [...reader.read(bytes)].map((event) =>
    event.type === "line" ? `line ${Buffer.from(event.line).toString("latin1")}` : event.type,
  );
}

const lines = (stream: string) => drain(new LineReader(), encode(stream));

describe("lines", () => {
  it("end with a line feed, and lose the carriage returns before it and no others", () => {
    expect(lines("HELLO 1 n\nIS a\r\r b\r\r\n\n\r\n")).toEqual(["line HELLO 1 n", "line IS a\r\r b", "line ", "line "]);
  });

  it("are not given out before their line feed", () => {
    const reader = new LineReader();
    expect(drain(reader, encode("TRY c0"))).toEqual([]);
    expect(reader.isMidLine).toBe(true);
    expect(drain(reader, encode("7 1000 n1\nI"))).toEqual(["line TRY c07 1000 n1"]);
    expect(Buffer.from(reader.partial).toString()).toBe("I");
  });

  it("may have 1,024 bytes, carriage returns included", () => {
    const longest = "x".repeat(1_024);
    expect(lines(`${longest}\n`)).toEqual([`line ${longest}`]);
    expect(lines(`${"x".repeat(1_023)}\r\n`)).toEqual([`line ${"x".repeat(1_023)}`]);
    expect(lines(`${longest}\r\n`)).toEqual(["line_too_long"]);
  });

  it("may have 66,560 bytes if they carry a token", () => {
    const longest = `AUTH ${"x".repeat(66_555)}`;
    expect(lines(`${longest}\n`)).toEqual([`line ${longest}`]);
    expect(lines(`${longest}x\n`)).toEqual(["line_too_long"]);
    expect(lines(`AUTHX${"x".repeat(1_100)}\n`)).toEqual(["line_too_long"]);
  });

  it("that are too long are known without their end, and nothing is read after them", () => {
    const reader = new LineReader();
    expect(drain(reader, encode("x".repeat(1_025)))).toEqual(["line_too_long"]);
    expect(drain(reader, encode("\nHELLO 1 n\n"))).toEqual([]);
    expect(reader.isMidLine).toBe(false);
  });

  it("come out the same however the stream is cut, also when the reader is replaced in between", () => {
    const part = fc.oneof(
      fc.constantFrom("\n", "\r\n", "\r\r\n", "AUTH ", "HELLO 1 n", "ключ", "x".repeat(1_022), "y".repeat(600)),
      fc.string({ maxLength: 8 }),
    );
    const stream = fc.array(part, { maxLength: 14 }).map((parts) => encode(parts.join("")));
    fc.assert(
      fc.property(stream, fc.array(fc.nat(3_000), { maxLength: 10 }), fc.boolean(), (bytes, cuts, isReplaced) => {
        const whole = drain(new LineReader(), bytes);
        const ends = [...cuts.filter((cut) => cut < bytes.length), bytes.length].sort((a, b) => a - b);
        let reader = new LineReader();
        const out: string[] = [];
        for (const [index, end] of ends.entries()) {
          out.push(...drain(reader, bytes.subarray(ends[index - 1] ?? 0, end)));
          if (out.at(-1) === "line_too_long") break;
          if (isReplaced) reader = new LineReader(reader.partial);
        }
        expect(out).toEqual(whole);
      }),
      { numRuns: 2_000 },
    );
  });
});
