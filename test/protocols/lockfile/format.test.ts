import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  cleanText,
  formatLockText,
  type LockFields,
  parseLockText,
} from "../../../src/core/protocols/lockfile/index.ts";

const parse = (text: string) => parseLockText(new TextEncoder().encode(text));

describe("writing a lock text", () => {
  it("has one line per field, in a fixed order, without blanks", () => {
    const fields = { expires: 6, fence: 5n, nonce: "00ff", host: "h", tag: "t", timestamp: 2, pid: 1 };
    expect(formatLockText(fields)).toBe("pid=1\ntimestamp=2\ntag=t\nhost=h\nnonce=00ff\nfence=5\nexpires=6\n");
    expect(formatLockText({ pid: 1, timestamp: 2 })).toBe("pid=1\ntimestamp=2\n");
    expect(formatLockText({ pid: 1, timestamp: 2, tag: "" })).toBe("pid=1\ntimestamp=2\ntag=\n");
  });

  it("lets no tag and no host inject a field", () => {
    const tag = "a\npid=99999\r\n\x1b[31mb ";
    const text = formatLockText({ pid: 1, timestamp: 2, tag, host: "h\npid=3\n" });
    expect(text).toContain("\ntag=a pid=99999   [31mb\n");
    expect(parse(text)).toMatchObject({ pid: 1, tag: "a pid=99999   [31mb", host: "h pid=3" });
  });

  it("refuses what no reader would accept", () => {
    const good = { pid: 1, timestamp: 2 };
    const bad: Partial<LockFields>[] = [
      { pid: -1 },
      { pid: 2 ** 32 },
      { pid: 1.5 },
      { timestamp: Number.NaN },
      { timestamp: 2 ** 53 },
      { nonce: "" },
      { nonce: "0\npid=9" },
      { fence: -1n },
      { expires: 0.5 },
    ];
    for (const fields of bad) expect(() => formatLockText({ ...good, ...fields })).toThrow(RangeError);
  });

  it("is undone by reading, for any tag once it is cleaned", () => {
    const text = fc.string({ unit: "binary", maxLength: 100 });
    fc.assert(
      fc.property(fc.nat(), fc.nat(), text, (pid, timestamp, tag) => {
        const written = formatLockText({ pid, timestamp, tag, nonce: "0f" });
        expect(parse(written)).toEqual({ kind: "well-formed", pid, timestamp, tag: cleanText(tag), nonce: "0f" });
      }),
    );
  });
});

describe("cleaning a tag", () => {
  it.each([
    ["\0\x1f\x7fx", "   x"],
    ["  lead and trail \t\n", "  lead and trail"],
    ["   ", ""],
    ["\u00a0\u0085", "\u00a0\u0085"],
    ["\ud800", "\ufffd"],
  ])("%j becomes %j", (tag, cleaned) => expect(cleanText(tag)).toBe(cleaned));

  it("ends after 10,000 code points, and leaves no blank there", () => {
    expect(cleanText("x".repeat(10_001))).toBe("x".repeat(10_000));
    expect(cleanText("\u{1F512}".repeat(10_001))).toBe("\u{1F512}".repeat(10_000));
    expect(cleanText(`x${"\u{1F512}".repeat(20_000)}`)).toBe(`x${"\u{1F512}".repeat(9_999)}`);
    expect(cleanText(`a${" ".repeat(20_000)}b`)).toBe("a");
  });
});
