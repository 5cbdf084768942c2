import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { Frame } from "../../src/core/protocols/wire/frames.ts";
import { type Parsed, parseRequest, splitTag } from "../../src/core/protocols/wire/requests.ts";

const bytes = (text: string) => new Uint8Array(Buffer.from(text, "utf8"));
const latin1 = (text: string) => new Uint8Array(Buffer.from(text, "latin1"));

function frame(command: Uint8Array, key: Uint8Array, arg: Uint8Array): Frame {
  return { command, key, arg, size: command.length + key.length + arg.length + 3 };
}

const parse = (command: string, key: string, arg: string) =>
  parseRequest(command, frame(bytes(command), bytes(key), bytes(arg)));

const ok = (request: object) => ({ ok: true, request });
const code = (number: number) => ({ ok: false, code: number });
const acquire = (fields: object) =>
  ok({ type: "acquire", key: "k", limit: 1, waitSeconds: 0, leaseSeconds: undefined, ...fields });
const enqueue = (fields: object) => ok({ type: "enqueue", key: "k", limit: 1, leaseSeconds: undefined, ...fields });
const renew = (fields: object) => ok({ type: "renew", key: "k", token: "tok", leaseSeconds: undefined, ...fields });
const waits = (waitSeconds: number) => ok({ type: "wait", key: "k", waitSeconds });
const MAX = "9223372036";
const OVER = "9223372037";

describe("a request is understood", () => {
  it.each<[string, string, object]>([
    ["l", "10", acquire({ waitSeconds: 10 })],
    ["l", "0 5", acquire({ leaseSeconds: 5 })],
    ["l", "  10   5  ", acquire({ waitSeconds: 10, leaseSeconds: 5 })],
    ["l", "\t\v\f\r 1\v\f2 \r", acquire({ waitSeconds: 1, leaseSeconds: 2 })],
    ["l", "+10 007", acquire({ waitSeconds: 10, leaseSeconds: 7 })],
    ["l", "-0", acquire({ waitSeconds: 0 })],
    ["l", `${"0".repeat(255)}5`, acquire({ waitSeconds: 5 })],
    ["l", `${MAX} ${MAX}`, acquire({ waitSeconds: 9_223_372_036, leaseSeconds: 9_223_372_036 })],
    ["l", "0 1", acquire({ leaseSeconds: 1 })],
    ["sl", "0 2", acquire({ limit: 2 })],
    ["sl", "\t0\t2\t ", acquire({ limit: 2 })],
    ["sl", "1 1048576 9", acquire({ waitSeconds: 1, limit: 1_048_576, leaseSeconds: 9 })],
    ["l", "10 wanted", acquire({ waitSeconds: 10, asksWanted: true })],
    ["l", "10 5 wanted ", acquire({ waitSeconds: 10, leaseSeconds: 5, asksWanted: true })],
    ["sl", "0 2 9 wanted", acquire({ limit: 2, leaseSeconds: 9, asksWanted: true })],
    ["steal", "1 wanted", acquire({ steals: true, asksWanted: true })],
    ["e", "", enqueue({})],
    ["e", "   ", enqueue({})],
    ["e", "30", enqueue({ leaseSeconds: 30 })],
    ["se", "3", enqueue({ limit: 3 })],
    ["se", "3 30", enqueue({ limit: 3, leaseSeconds: 30 })],
    ["w", " 0 ", waits(0)],
    ["sw", MAX, waits(9_223_372_036)],
    ["r", "  tok\t", ok({ type: "release", key: "k", token: "tok" })],
    ["sr", "two words", ok({ type: "release", key: "k", token: "two words" })],
    ["r", "\x00", ok({ type: "release", key: "k", token: "\x00" })],
    ["n", "tok", renew({})],
    ["sn", "tok +08", renew({ leaseSeconds: 8 })],
    ["ping", "anything", ok({ type: "ping" })],
    ["stats", "", ok({ type: "stats" })],
    ["watch", " lost ", ok({ type: "watch", what: "lost" })],
    ["watch", "taken", ok({ type: "watch", what: "taken" })],
  ])("%s with %j", (command, arg, expected) => {
    expect(parse(command, "k", arg)).toEqual(expected);
  });

  it("as a token of any bytes, trimmed", () => {
    expect(parseRequest("auth", frame(bytes("auth"), latin1("\xff"), latin1(" \t\xfe\x00 x\r")))).toEqual(
      ok({ type: "auth", token: latin1("\xfe\x00 x") }),
    );
  });

  it.each(["ping", "stats", "watch", "auth"])("%s whatever is in its key line", (command) => {
    for (const key of ["", " ", "\t\r", "\xff\xfe"]) {
      expect(parseRequest(command, frame(bytes(command), latin1(key), bytes("lost"))).ok).toBe(true);
    }
  });
});

describe("a request is refused", () => {
  const over = "99999999999999999999";
  it.each<[string, string, number]>([
    ["bogus", "1", 3],
    ["", "", 3],
    ["L", "0", 3],
    [" l", "0", 3],
    ["l ", "0", 3],
    ["listen", "", 3],
    ["barrier", "_", 3],
    ["__proto__", "0", 3],
    ["l", "abc", 4],
    ["l", "1.5", 4],
    ["l", "1_0", 4],
    ["l", "1e3", 4],
    ["l", "1e308", 4],
    ["l", "0x10", 4],
    ["l", "0 -", 4],
    ["l", "+", 4],
    ["l", "--1", 4],
    ["l", "+-1", 4],
    ["l", "٣", 4],
    ["l", "1\u00a0", 4],
    ["l", over, 4],
    ["l", `-${over}`, 4],
    ["l", "9223372036854775808", 4],
    ["l", "9223372036854775807", 6],
    ["l", "-9223372036854775808", 6],
    ["l", "-1", 6],
    ["l", OVER, 6],
    ["w", "5 junk", 4],
    ["w", "", 4],
    ["w", "-1", 6],
    ["sw", OVER, 6],
    ["l", "0 0", 9],
    ["l", "0 -5", 9],
    ["l", `0 ${OVER}`, 9],
    ["e", "0", 9],
    ["e", OVER, 9],
    ["n", "tok 0", 9],
    ["n", "tok x", 4],
    ["sl", "0 0", 13],
    ["sl", "0 -1", 13],
    ["sl", "0 1048577", 13],
    ["se", "0", 13],
    ["se", "1048577", 13],
    ["se", "x", 4],
    ["l", "", 8],
    ["l", "1 2 3", 8],
    ["sl", "", 8],
    ["sl", "1", 8],
    ["sl", "1 2 3 4", 8],
    ["e", "30 junk", 8],
    ["se", "", 8],
    ["se", "1 2 3", 8],
    ["n", "a 1 2", 8],
    ["watch", "", 8],
    ["watch", "LOST", 8],
    ["watch", "taken lost", 8],
    ["watch", "lost found", 8],
    ["r", "", 7],
    ["r", " \t\v\f\r", 7],
    ["sr", "", 7],
    ["n", "", 7],
    ["sn", "  ", 7],
  ])("%s with %j, code %i", (command, arg, number) => {
    expect(parse(command, "k", arg)).toEqual(code(number));
  });

  it.each(["", "a b", " a", "a ", "a\tb", "a\rb", "\ra", "a\nb"])("with the key %j, code 5", (key) => {
    for (const command of ["l", "r", "n", "e", "w", "sl", "sr", "sn", "se", "sw"]) {
      expect(parse(command, key, "1 1 1 1")).toEqual(code(5));
    }
  });

  it.each(["k\xff", "\xc3", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xc0\x80"])("with a key that is not UTF-8", (key) => {
    expect(parseRequest("l", frame(bytes("l"), latin1(key), bytes("0")))).toEqual(code(5));
  });

  it("for the first rule it breaks: command, key, count, timeout, limit, lease", () => {
    expect(parse("x", "", "")).toEqual(code(3));
    expect(parse("sl", "", "x")).toEqual(code(5));
    expect(parse("sl", "k", "-1")).toEqual(code(8));
    expect(parse("sl", "k", "-1 0 0")).toEqual(code(6));
    expect(parse("sl", "k", "0 0 0")).toEqual(code(13));
    expect(parse("sl", "k", "0 1 0")).toEqual(code(9));
  });
});

describe("a key", () => {
  it.each(["k\x00\x01\x0b", "ключ-🔒", "k-\u00a0", "@x", "__proto__", "k".repeat(256), "\ufeffk", "\u2028"])(
    "may be %j and is kept as it is",
    (key) => {
      expect(parse("l", key, "0")).toEqual(acquire({ key }));
    },
  );

  it("is compared byte for byte: two spellings of one word are two keys", () => {
    const keys = ["caf\u00e9", "cafe\u0301"].map((key) => parse("l", key, "0"));
    expect(keys[0]).not.toEqual(keys[1]);
  });
});

describe("a tag", () => {
  const split = (line: string) => splitTag(latin1(line));

  it("is split off with exactly one space", () => {
    expect(split("@a ping")).toEqual({ tag: "a", command: "ping" });
    expect(split("@A-z_09 l")).toEqual({ tag: "A-z_09", command: "l" });
    expect(split(`@${"a".repeat(32)} ping`)).toEqual({ tag: "a".repeat(32), command: "ping" });
    expect(split("@a  ping")).toEqual({ tag: "a", command: " ping" });
    expect(split("@a ")).toEqual({ tag: "a", command: "" });
  });

  it("is absent where the line does not begin with one", () => {
    expect(split("ping")).toEqual({ tag: undefined, command: "ping" });
    expect(split("")).toEqual({ tag: undefined, command: "" });
    expect(split(" @a ping")).toEqual({ tag: undefined, command: " @a ping" });
  });

  it.each([
    "@ ping",
    "@a! ping",
    `@${"a".repeat(33)} ping`,
    "@a",
    "@",
    "@a\tping",
    "@\xe9 ping",
    "@a\n ping",
    "@@a ping",
  ])("is malformed in %j", (line) => {
    expect(split(line)).toBeUndefined();
  });
});

/**
 * The grammar once more, as regular expressions over text of one character per byte. It only knows yes or no, and
 * shares nothing with the parser.
 */
const INT = "[+-]?[0-9]+";
const ARGS: Readonly<Record<string, RegExp>> = {
  l: new RegExp(`^${INT}( ${INT})?$`),
  sl: new RegExp(`^${INT} ${INT}( ${INT})?$`),
  e: new RegExp(`^(${INT})?$`),
  se: new RegExp(`^${INT}( ${INT})?$`),
  w: new RegExp(`^${INT}$`),
  r: /./s,
  n: new RegExp(`^[^ ]+( ${INT})?$`),
  ping: /^/,
  stats: /^/,
  auth: /^/,
  watch: /^(lost|taken)$/,
};
const PLAIN: Readonly<Record<string, string>> = { sw: "w", sr: "r", sn: "n" };
const KINDS: Readonly<Record<string, readonly string[]>> = {
  l: ["timeout", "lease"],
  sl: ["timeout", "limit", "lease"],
  e: ["lease"],
  se: ["limit", "lease"],
  w: ["timeout"],
  n: ["token", "lease"],
};
const RANGES: Readonly<Record<string, readonly [bigint, bigint]>> = {
  timeout: [0n, 9_223_372_036n],
  lease: [1n, 9_223_372_036n],
  limit: [1n, 1_048_576n],
};

function isAllowed(command: string, key: Uint8Array, arg: Uint8Array): boolean {
  const name = Object.hasOwn(PLAIN, command) ? (PLAIN[command] as string) : command;
  if (!Object.hasOwn(ARGS, name)) return false;
  const isKeyless = /^(ping|stats|auth|watch)$/.test(name);
  if (!isKeyless) {
    const text = Buffer.from(key);
    const isUtf8 = Buffer.from(text.toString("utf8"), "utf8").equals(text);
    if (!isUtf8 || text.length === 0 || /[ \t\n\r]/.test(text.toString("latin1"))) return false;
  }
  const words = Buffer.from(arg)
    .toString("latin1")
    .replace(/[ \t\v\f\r]+/g, " ")
    .replace(/^ | $/g, "");
  if (!ARGS[name]?.test(words)) return false;
  const values = words === "" ? [] : words.split(" ");
  return (KINDS[name] ?? []).every((kind, at) => {
    const range = RANGES[kind];
    const value = values[at];
    if (!range || value === undefined) return true;
    const number = BigInt(value.replace("+", ""));
    return number >= range[0] && number <= range[1];
  });
}

/** No value that leaves the parser is outside the protocol's ranges. */
function isWithinRanges(parsed: Parsed): boolean {
  if (!parsed.ok) return true;
  const { request } = parsed;
  const isWhole = (value: number | undefined, min: number, max: number) =>
    value === undefined || (Number.isSafeInteger(value) && value >= min && value <= max);
  return (
    (!("key" in request) || (request.key !== "" && !/[ \t\n\r]/.test(request.key))) &&
    (!("limit" in request) || isWhole(request.limit, 1, 1_048_576)) &&
    (!("waitSeconds" in request) || isWhole(request.waitSeconds, 0, 9_223_372_036)) &&
    (!("leaseSeconds" in request) || isWhole(request.leaseSeconds, 1, 9_223_372_036)) &&
    (!("token" in request) || request.type === "auth" || request.token !== "")
  );
}

describe("the parser", () => {
  const COMMANDS = ["l", "sl", "e", "se", "w", "sw", "r", "sr", "n", "sn", "ping", "stats", "auth", "watch"];
  const command = fc.oneof(
    { weight: 20, arbitrary: fc.constantFrom(...COMMANDS) },
    { weight: 1, arbitrary: fc.constantFrom("toString", "constructor", "L", "", "s", "ll", " l") },
    { weight: 1, arbitrary: fc.string({ maxLength: 4 }) },
  );
  const raw = fc.uint8Array({ maxLength: 12 });
  const key = fc.oneof(
    { weight: 6, arbitrary: fc.constantFrom("k", "deploy", "ключ", "🔒").map(bytes) },
    { weight: 1, arbitrary: fc.constantFrom("", " ", "a b", "\r", "k\t").map(bytes) },
    { weight: 1, arbitrary: raw },
  );
  const word = fc.oneof(
    fc.constantFrom("0", "1", "-0", "+7", "007", "-1", MAX, OVER, "1048576", "1048577", "9223372036854775808", "lost"),
    fc.constantFrom("", "+", "-", "1.5", "0x1", "1e3", "1_0", "\u00a0", "٣", "a", "tok"),
    fc.bigInt({ min: -(2n ** 70n), max: 2n ** 70n }).map(String),
  );
  const blank = fc.constantFrom(" ", "  ", "\t", "\v", "\f", "\r", " \r\t");
  const arg = fc.oneof(
    {
      weight: 8,
      arbitrary: fc
        .tuple(
          fc.constantFrom("", " ", "\t"),
          fc.array(fc.tuple(word, blank), { maxLength: 4 }),
          fc.constantFrom("", "\r"),
        )
        .map(([before, words, after]) => {
          const text = words.map(([each, gap], at) => (at === words.length - 1 ? each : each + gap)).join("");
          return bytes(before + text + after);
        }),
    },
    { weight: 1, arbitrary: raw },
  );

  it("accepts exactly what the grammar allows, and never throws, over a hundred thousand frames", () => {
    let accepted = 0;
    fc.assert(
      fc.property(command, key, arg, (name, keyBytes, argBytes) => {
        const parsed = parseRequest(name, frame(bytes(name), keyBytes, argBytes));
        if (parsed.ok) accepted += 1;
        return parsed.ok === isAllowed(name, keyBytes, argBytes) && isWithinRanges(parsed);
      }),
      { numRuns: 100_000 },
    );
    // A fuzz that never gets through proves little.
    expect(accepted).toBeGreaterThan(10_000);
  });

  it("splits a tag off any line without throwing, and never a malformed one", () => {
    const start = fc.constantFrom("", "@", "@a ", "@a", "@tag-1 ");
    fc.assert(
      fc.property(start, fc.uint8Array({ maxLength: 40 }), (prefix, rest) => {
        const line = new Uint8Array([...bytes(prefix), ...rest]);
        const split = splitTag(line);
        const text = Buffer.from(line).toString("latin1");
        if (!text.startsWith("@")) return split?.tag === undefined && split?.command === text;
        if (!split) return !/^@[A-Za-z0-9_-]{1,32} /.test(text);
        return split.tag !== undefined && text === `@${split.tag} ${split.command}` && /^[\w-]{1,32}$/.test(split.tag);
      }),
      { numRuns: 20_000 },
    );
  });
});
