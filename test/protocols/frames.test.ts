import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { FrameReader } from "../../src/core/protocols/wire/frames.ts";

const encode = (text: string) => new TextEncoder().encode(text);
const text = (bytes: Uint8Array) => Buffer.from(bytes).toString("latin1");

/** What came out of a reader, in words that compare. */
type Out = { command: string; key: string; arg: string; size: number } | "line_too_long";

function drain(reader: FrameReader, bytes: Uint8Array): Out[] {
  return [...reader.read(bytes)].map((event) => {
    if (event.type === "line_too_long") return event.type;
    const { command, key, arg, size } = event.frame;
    return { command: text(command), key: text(key), arg: text(arg), size };
  });
}

const whole = (bytes: Uint8Array) => drain(new FrameReader(), bytes);
const frames = (stream: string) => whole(encode(stream));

/** Streams that look like the protocol often enough to get deep into it. */
const line = fc.oneof(
  fc.constantFrom("l", "auth", "auth\r", "auth\r\r", " auth", "ping", "", "\r", "k\r\rk\r", "x".repeat(255)),
  fc.constantFrom("x".repeat(256), "x".repeat(257), `${"x".repeat(255)}\r`, `${"x".repeat(256)}\r`, "y".repeat(300)),
  fc.string({ maxLength: 12 }),
);
const stream = fc.oneof(
  fc.array(line, { maxLength: 12 }).map((lines) => encode(lines.map((each) => `${each}\n`).join(""))),
  fc.uint8Array({ maxLength: 600 }),
  fc.array(fc.constantFrom(0x0a, 0x0d, 0x61), { maxLength: 60 }).map((bytes) => Uint8Array.from(bytes)),
);
const cuts = fc.array(fc.nat(700), { maxLength: 12 });

function chunksOf(bytes: Uint8Array, at: readonly number[]): Uint8Array[] {
  const ends = [...at.filter((cut) => cut < bytes.length), bytes.length].sort((a, b) => a - b);
  return ends.map((end, index) => bytes.subarray(ends[index - 1] ?? 0, end));
}

describe("frames", () => {
  it("are three lines without their line feeds, with the bytes they took", () => {
    expect(frames("l\nkey\n10 5\nping\n\n\n")).toEqual([
      { command: "l", key: "key", arg: "10 5", size: 11 },
      { command: "ping", key: "", arg: "", size: 7 },
    ]);
  });

  it("lose all carriage returns at the ends of their lines, and none elsewhere", () => {
    expect(frames("l\r\nk\r\r\r\n\r1\r 2\r\r\n")).toEqual([{ command: "l", key: "k", arg: "\r1\r 2", size: 16 }]);
    expect(frames("\r\n\r\r\n\r\n")).toEqual([{ command: "", key: "", arg: "", size: 7 }]);
  });

  it("are not judged before their third line feed", () => {
    expect(frames("no such command\n   \n\xff")).toEqual([]);
  });

  it("come out the same wherever the stream is cut in two", () => {
    const bytes = encode(
      `l\r\nключ-🔒\r\n10 5\r\nauth\n_\n${"s".repeat(300)}\r\nping\n\n\nl\n${"k".repeat(257)}\nr\nx\ny\n`,
    );
    const expected = whole(bytes);
    expect(expected.length).toBe(4);
    for (let cut = 0; cut <= bytes.length; cut += 1) {
      const reader = new FrameReader();
      expect([...drain(reader, bytes.subarray(0, cut)), ...drain(reader, bytes.subarray(cut))]).toEqual(expected);
    }
  });

  it("come out the same when the stream arrives byte by byte", () => {
    const bytes = encode(`auth\r\n_\n${"s".repeat(65_536)}\nl\nk\n1\n`);
    const reader = new FrameReader();
    const out: Out[] = [];
    for (let at = 0; at < 400; at += 1) out.push(...drain(reader, bytes.subarray(at, at + 1)));
    out.push(...drain(reader, bytes.subarray(400)));
    expect(out).toEqual(whole(bytes));
    expect(out.length).toBe(2);
  });

  it("come out of random bytes the same in any chunks", () => {
    fc.assert(
      fc.property(stream, cuts, (bytes, at) => {
        const reader = new FrameReader();
        expect(chunksOf(bytes, at).flatMap((chunk) => drain(reader, chunk))).toEqual(whole(bytes));
      }),
      { numRuns: 2_000 },
    );
  });

  it("come out the same when every chunk has a new reader that was given the last one's rest", () => {
    fc.assert(
      fc.property(stream, cuts, (bytes, at) => {
        let reader = new FrameReader();
        const out: Out[] = [];
        for (const chunk of chunksOf(bytes, at)) {
          reader = new FrameReader(reader.partial.slice());
          out.push(...drain(reader, chunk));
          // A stream with a line that was too long is over: nobody reads on.
          if (out.at(-1) === "line_too_long") break;
        }
        expect(out).toEqual(whole(bytes));
      }),
      { numRuns: 2_000 },
    );
  });

  it("say whether one is under way", () => {
    fc.assert(
      fc.property(stream, (bytes) => {
        const reader = new FrameReader();
        const out = drain(reader, bytes);
        const taken = out.reduce((sum, each) => sum + (each === "line_too_long" ? 0 : each.size), 0);
        expect(reader.isMidFrame).toBe(!out.includes("line_too_long") && taken < bytes.length);
      }),
      { numRuns: 500 },
    );
  });

  it("agree with a plain splitter that was written from the rules", () => {
    fc.assert(
      fc.property(stream, (bytes) => {
        expect(whole(bytes)).toEqual(split(bytes));
      }),
      { numRuns: 2_000 },
    );
  });

  it("do not change when the caller reuses its buffer", () => {
    const buffer = encode("l\nke");
    const reader = new FrameReader();
    drain(reader, buffer);
    buffer.fill(0x78);
    expect(drain(reader, encode("y\n1\n"))).toEqual([{ command: "l", key: "key", arg: "1", size: 8 }]);
  });
});

describe("lines", () => {
  const long = (length: number) => "x".repeat(length);

  it.each([
    ["command", (bytes: string) => `${bytes}\nk\n1\n`],
    ["key", (bytes: string) => `l\n${bytes}\n1\n`],
    ["arg", (bytes: string) => `l\nk\n${bytes}\n`],
  ])("of 256 bytes are a %s, of 257 they are not", (_, frame) => {
    expect(frames(frame(long(256)))).toHaveLength(1);
    expect(frames(frame(long(256)))).not.toContain("line_too_long");
    expect(frames(frame(long(257)))).toEqual(["line_too_long"]);
  });

  it("count their carriage returns", () => {
    expect(frames(`l\n${long(255)}\r\n1\n`)).toMatchObject([{ key: long(255) }]);
    expect(frames(`l\n${long(256)}\r\n1\n`)).toEqual(["line_too_long"]);
    expect(frames(`l\n${"\r".repeat(256)}\n1\n`)).toMatchObject([{ key: "" }]);
  });

  it.each(["auth", "auth\r", "auth\r\r\r"])("of a token after %j may have 65,536 bytes, not one more", (command) => {
    expect(frames(`${command}\n_\n${long(65_536)}\n`)).toMatchObject([{ command: "auth", arg: long(65_536) }]);
    expect(frames(`${command}\n_\n${long(65_537)}\n`)).toEqual(["line_too_long"]);
    expect(frames(`${command}\n_\n${long(65_535)}\r\n`)).toMatchObject([{ arg: long(65_535) }]);
    expect(frames(`${command}\n_\n${long(65_536)}\r\n`)).toEqual(["line_too_long"]);
  });

  it.each([" auth", "auth ", "Auth", "@a auth", "aut", "authx", "\rauth"])("after %j have no such room", (command) => {
    expect(frames(`${command}\n_\n${long(256)}\n`)).toHaveLength(1);
    expect(frames(`${command}\n_\n${long(257)}\n`)).toEqual(["line_too_long"]);
  });

  it("of the key of `auth` have no such room either", () => {
    expect(frames(`auth\n${long(257)}\nx\n`)).toEqual(["line_too_long"]);
  });

  it("have no such room in the frame after an `auth`", () => {
    expect(frames(`auth\n_\n${long(300)}\nl\nk\n${long(257)}\n`)).toMatchObject([{ command: "auth" }, "line_too_long"]);
  });

  it("that are too long are dropped as they come, told once at their end, and nothing is read after", () => {
    const reader = new FrameReader();
    expect(drain(reader, encode("ping\n_\n_\nl\n"))).toHaveLength(1);
    const megabyte = new Uint8Array(1_048_576).fill(0x78);
    for (let n = 0; n < 10; n += 1) {
      expect(drain(reader, megabyte)).toEqual([]);
      expect(reader.partial.length).toBeLessThan(600);
      expect(reader.isMidFrame).toBe(true);
    }
    expect(drain(reader, encode("\nping\n_\n_\nping\n_\n_\n"))).toEqual(["line_too_long"]);
    expect(drain(reader, encode("ping\n_\n_\n"))).toEqual([]);
    expect(reader.partial.length).toBe(0);
    expect(reader.isMidFrame).toBe(false);
  });

  it("that are too long stay so for the next reader, however little is kept of them", () => {
    const reader = new FrameReader();
    drain(reader, encode(`l\n${long(100_000)}`));
    const next = new FrameReader(reader.partial.slice());
    expect(next.partial.length).toBeLessThan(600);
    expect(drain(next, encode("\n1\n"))).toEqual(["line_too_long"]);
  });

  it("never make a reader keep more than one frame", () => {
    const reader = new FrameReader();
    for (let n = 0; n < 1_000; n += 1) {
      drain(reader, encode("l\nk\n1\nl\nk"));
      drain(reader, encode("\n1\n"));
    }
    expect(reader.partial.length).toBe(0);
  });
});

/** The rules on whole streams, with no thought for memory: cut at line feeds, look at three lines at a time. */
function split(bytes: Uint8Array): Out[] {
  const lines = text(bytes).split("\n").slice(0, -1);
  const out: Out[] = [];
  let held: string[] = [];
  let size = 0;
  for (const each of lines) {
    const isToken = held.length === 2 && held[0] === "auth";
    if (each.length > (isToken ? 65_536 : 256)) return [...out, "line_too_long"];
    size += each.length + 1;
    held.push(each.replace(/\r+$/, ""));
    if (held.length < 3) continue;
    const [command = "", key = "", arg = ""] = held;
    out.push({ command, key, arg, size });
    held = [];
    size = 0;
  }
  return out;
}
