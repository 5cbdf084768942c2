import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  type ClientReply,
  formatClientReply,
  parseClientRequest,
} from "../../../src/core/protocols/godistlock/client.ts";
import { CLOSE_CODES, errorLine } from "../../../src/core/protocols/godistlock/errors.ts";

const encode = (text: string) => new TextEncoder().encode(text);
const request = (line: string) => {
  const parsed = parseClientRequest(encode(line));
  return parsed.ok ? parsed.message : errorLine(parsed.fault).trim();
};

describe("requests of clients", () => {
  it("have a keyword and their fields", () => {
    expect(request("HELLO 1.0.0 n1")).toEqual({ type: "hello", nonce: "n1" });
    expect(request("ON deploy 60000 x")).toEqual({ type: "on", lock: "deploy", timeoutMs: 60_000, nonce: "x" });
    expect(request("TRY deploy 1 x")).toEqual({ type: "try", lock: "deploy", timeoutMs: 1, nonce: "x" });
    const fence = 18_446_744_073_709_551_615n;
    expect(request("REFRESH d 18446744073709551615 5 x")).toEqual({
      ...{ type: "refresh", lock: "d", fence, timeoutMs: 5, nonce: "x" },
    });
    expect(request("IS d x")).toEqual({ type: "is", lock: "d", nonce: "x" });
    expect(request("OFF d x")).toEqual({ type: "off", lock: "d", nonce: "x" });
    expect(request("STATS s")).toEqual({ type: "stats", nonce: "s" });
    expect(request("AUTH s3cret n")).toEqual({ type: "auth", token: "s3cret", nonce: "n" });
  });

  it("have opaque nonces", () => {
    for (const nonce of ["AQ==", "ключ-☃", "-", "0", "\t", "x".repeat(256)])
      expect(request(`IS a ${nonce}`)).toEqual({ type: "is", lock: "a", nonce });
    expect(request(`IS a ${"x".repeat(257)}`)).toBe("ERR - invalid-message");
    expect(request(`IS a ${"é".repeat(129)}`)).toBe("ERR - invalid-message");
  });

  it.each([
    ["BOGUS", "ERR - invalid-keyword"],
    ["hello 1 n", "ERR - invalid-keyword"],
    ["", "ERR - invalid-keyword"],
    [" HELLO 1 n", "ERR - invalid-keyword"],
    ["PROP lock n", "ERR - invalid-keyword"],
    ["ON c 5000", "ERR - invalid-message"],
    ["HELLO 1", "ERR - invalid-message"],
    ["HELLO 1 2 3", "ERR - invalid-message"],
    ["OFF c", "ERR - invalid-message"],
    ["ON c  5000 n", "ERR - invalid-message"],
    ["IS  n", "ERR - invalid-message"],
    ["IS c n ", "ERR - invalid-message"],
    ["STATS ", "ERR - invalid-message"],
    [`HELLO ${"v".repeat(257)} n`, "ERR - invalid-message"],
    ["ON c abc n", "ERR n invalid-timeout"],
    ["ON c 1.5 n", "ERR n invalid-timeout"],
    ["ON c 0 n", "ERR n invalid-timeout"],
    ["TRY c -5 n", "ERR n invalid-timeout"],
    ["TRY c +5 n", "ERR n invalid-timeout"],
    ["TRY c 9223372036001 n", "ERR n invalid-timeout"],
    ["TRY c 00000000000000005 n", "ERR n invalid-timeout"],
    ["REFRESH c 12x 1000 n", "ERR n invalid-fence"],
    ["REFRESH c 18446744073709551616 1000 n", "ERR n invalid-fence"],
    ["REFRESH c 000000000000000000001 1000 n", "ERR n invalid-fence"],
    ["TRY c\t31 1000 n", "ERR n invalid-lock"],
    ["TRY c\r31 1000 n", "ERR n invalid-lock"],
    [`IS ${"x".repeat(257)} n`, "ERR n invalid-lock"],
    [`IS ${"é".repeat(129)} n`, "ERR n invalid-lock"],
    // The first rule broken decides: nonce, lock, fence, timeout.
    ["REFRESH c\t 12x abc n", "ERR n invalid-lock"],
    ["REFRESH c 12x abc n", "ERR n invalid-fence"],
    [`REFRESH c\t 12x abc ${"n".repeat(257)}`, "ERR - invalid-message"],
    [`AUTH ${"t".repeat(65_537)} n`, "ERR - invalid-message"],
  ])("%j is answered %j", (line, reply) => {
    expect(request(line)).toBe(reply);
  });

  it("must be UTF-8, whatever their keyword", () => {
    const parsed = parseClientRequest(Uint8Array.of(0x42, 0x20, 0xff));
    expect(parsed).toEqual({ ok: false, fault: { word: "invalid-message", nonce: "-" } });
  });

  it("take the longest names, tokens and times", () => {
    expect(request(`IS ${"x".repeat(256)} n`)).toMatchObject({ type: "is" });
    expect(request("TRY c 9223372036000 n")).toMatchObject({ timeoutMs: 9_223_372_036_000 });
    expect(request("TRY c 0000000000000005 n")).toMatchObject({ timeoutMs: 5 });
    expect(request(`AUTH ${"t".repeat(65_536)} n`)).toMatchObject({ type: "auth" });
  });

  it("never make the parser throw", () => {
    const bytes = fc.oneof(
      fc.uint8Array({ maxLength: 80 }),
      fc
        .array(fc.constantFrom("ON", "REFRESH", "IS", "AUTH", "STATS", "a", "", "5", "\t", "0"), { maxLength: 6 })
        .map((fields) => encode(fields.join(" "))),
    );
    fc.assert(
      fc.property(bytes, (line) => {
        const parsed = parseClientRequest(line);
        if (!parsed.ok) expect(CLOSE_CODES[parsed.fault.word]).toBeDefined();
      }),
      { numRuns: 2_000 },
    );
  });
});

describe("replies to clients", () => {
  it.each<[ClientReply, string]>([
    [{ type: "hello", nonce: "n", id: "s0", version: "holdfast/1.0.0" }, "HELLO n s0 holdfast/1.0.0\n"],
    [{ type: "give", nonce: "n", fence: 7n }, "GIVE n 7\n"],
    [{ type: "lock", nonce: "n", fence: 0n }, "LOCK n 0\n"],
    [{ type: "no", nonce: "n" }, "NO n\n"],
    [{ type: "stats", nonce: "n", name: "locks", value: 3n }, "STATS n locks 3\n"],
    [{ type: "statsend", nonce: "n" }, "STATSEND n\n"],
  ])("are lines of words, one space apart: %o", (reply, line) => {
    expect(formatClientReply(reply)).toBe(line);
  });

  it("show fences as decimals, never as floating-point numbers", () => {
    expect(formatClientReply({ type: "give", nonce: "n", fence: 2n ** 64n - 1n })).toBe(
      "GIVE n 18446744073709551615\n",
    );
  });
});
