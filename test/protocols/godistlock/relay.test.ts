import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { errorLine } from "../../../src/core/protocols/godistlock/errors.ts";
import {
  exchangesFences,
  formatRelayReply,
  formatRelayRequest,
  parseRelayLine,
  type RelayReply,
  type RelayRequest,
  versionName,
} from "../../../src/core/protocols/godistlock/relay.ts";

const encode = (text: string) => new TextEncoder().encode(text);
const parse = (line: string) => {
  const parsed = parseRelayLine(encode(line));
  return parsed.ok ? parsed.message : errorLine(parsed.fault).trim();
};

const word = fc.stringMatching(/^[!-~]{1,20}$/);
const fence = fc.bigInt({ min: 0n, max: 2n ** 64n - 1n });
const timeoutMs = fc.integer({ min: 1, max: 9_223_372_036_000 });
const status = fc.integer({ min: 0, max: 3 });

describe("lines between deployments", () => {
  it("are read as they were written, requests", () => {
    const request: fc.Arbitrary<RelayRequest> = fc.oneof(
      fc.record({ type: fc.constant("auth" as const), token: word, nonce: word }),
      fc.record({ type: fc.constant("hello" as const), id: word, version: word, nonce: word }),
      fc.record({ type: fc.constantFrom("prop" as const, "sched" as const, "off" as const), lock: word, nonce: word }),
      fc.record({ type: fc.constant("comm" as const), lock: word, timeoutMs, nonce: word }),
      fc.record({ type: fc.constant("comm" as const), lock: word, timeoutMs, nonce: word, fence }),
    );
    fc.assert(
      fc.property(request, (sent) => {
        expect(parse(formatRelayRequest(sent).slice(0, -1))).toEqual({ is: "request", request: sent });
      }),
    );
  });

  it("are read as they were written, replies", () => {
    const reply: fc.Arbitrary<RelayReply> = fc.oneof(
      fc.record({ type: fc.constant("howdy" as const), nonce: word, id: word, version: word }),
      fc.record({ type: fc.constant("stat" as const), nonce: word, status }),
      fc.record({ type: fc.constant("stat" as const), nonce: word, status, floor: fence }),
      fc.record({ type: fc.constantFrom("ack" as const, "conf" as const), nonce: word, status }),
      fc.record({ type: fc.constant("err" as const), text: fc.constantFrom("n no-quorum", "some thing went wrong") }),
    );
    fc.assert(
      fc.property(reply, (sent) => {
        expect(parse(formatRelayReply(sent).slice(0, -1))).toEqual({ is: "reply", reply: sent });
      }),
    );
  });

  it.each([
    ["ON r14 1000 a", "ERR - invalid-keyword"],
    ["TRY r14 1000 a", "ERR - invalid-keyword"],
    ["prop lock a", "ERR - invalid-keyword"],
    ["", "ERR - invalid-keyword"],
    ["PROP r13", "ERR - invalid-message"],
    ["PROP r13 a b", "ERR - invalid-message"],
    ["HELLO p1 1.0.0", "ERR - invalid-message"],
    ["COMM r13 1000 b 5 6", "ERR - invalid-message"],
    ["COMM r13  b", "ERR - invalid-message"],
    ["COMM r13 abc b", "ERR b invalid-timeout"],
    ["COMM r13 0 b", "ERR b invalid-timeout"],
    ["COMM r13 abc b 1x", "ERR b invalid-fence"],
    ["COMM r13 5 b 18446744073709551616", "ERR b invalid-fence"],
    ["SCHED a\tb c", "ERR c invalid-lock"],
    ["STAT n x", "ERR - invalid-message"],
    ["CONF n", "ERR - invalid-message"],
  ])("%j is answered %j", (line, reply) => {
    expect(parse(line)).toBe(reply);
  });

  it("carry fences only between deployments of this kind", () => {
    expect(exchangesFences(versionName("1.0.0"))).toBe(true);
    expect(exchangesFences("1.0.0")).toBe(false);
    expect(formatRelayRequest({ type: "comm", lock: "a", timeoutMs: 6_000, nonce: "n" })).toBe("COMM a 6000 n\n");
    expect(formatRelayReply({ type: "stat", nonce: "n", status: 0 })).toBe("STAT n 0\n");
    expect(formatRelayReply({ type: "stat", nonce: "n", status: 0, floor: 0n })).toBe("STAT n 0 0\n");
  });
});
