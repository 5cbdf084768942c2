import { describe, expect, test } from "vitest";
import { REQUESTS, type RequestId } from "../../src/http/openapi/schemas.ts";
import { parseBody } from "../../src/http/request/body.ts";

function parse(id: RequestId, body: string | Uint8Array) {
  const { schema, mayBeEmpty } = REQUESTS[id];
  const bytes = typeof body === "string" ? new TextEncoder().encode(body) : body;
  return parseBody(schema, bytes, { mayBeEmpty });
}
const detailOf = (id: RequestId, body: string | Uint8Array) => {
  const result = parse(id, body);
  return result.ok ? "accepted" : result.detail;
};
const L = (body: string | Uint8Array) => parse("acquireLock", body);

const SECONDS = "must be a whole number from 0 to 9223372036";
const TEXT = "must be a string of 1 to 256 bytes without space, tab or line break";

/** Every integer field of every operation, with what else the body needs and the words of the rule. */
const INTEGERS: readonly [RequestId, string, Record<string, unknown>, string][] = [
  ["acquireLock", "acquire_timeout_s", {}, SECONDS],
  ["acquireLock", "lease_ttl_s", {}, SECONDS],
  ["enqueueLock", "lease_ttl_s", {}, SECONDS],
  ["waitLock", "timeout_s", {}, SECONDS],
  ["renewLock", "lease_ttl_s", { token: "t" }, SECONDS],
  ["acquireSem", "acquire_timeout_s", { limit: 2 }, SECONDS],
  ["acquireSem", "lease_ttl_s", { limit: 2 }, SECONDS],
  ["acquireSem", "limit", {}, "must be a whole number from 1 to 1048576"],
  ["enqueueSem", "lease_ttl_s", { limit: 2 }, SECONDS],
  ["enqueueSem", "limit", {}, "must be a whole number from 1 to 1048576"],
  ["waitSem", "timeout_s", {}, SECONDS],
  ["renewSem", "lease_ttl_s", { token: "t" }, SECONDS],
  ["createTicket", "ttl_s", { keys: ["*"], operations: ["lock"] }, "must be a whole number from 1 to 86400"],
];

function withField(others: Record<string, unknown>, field: string, text: string): string {
  const pairs = Object.entries(others).map(([name, value]) => `${JSON.stringify(name)}:${JSON.stringify(value)}`);
  return `{${[...pairs, `${JSON.stringify(field)}:${text}`].join(",")}}`;
}

describe.each(INTEGERS)("%s: %s", (id, field, others, rule) => {
  test.each([
    "-1",
    "9223372037",
    "99999999999999999999",
    "1e400",
    "1.0",
    "1.5",
    "1e1",
    "1E0",
    '"1"',
    "true",
    "[]",
    "{}",
  ])("is not %s", (text) => expect(detailOf(id, withField(others, field, text))).toBe(`${field} ${rule}`));

  test("may be a whole number, and counts as absent when null", () => {
    expect(parse(id, withField(others, field, "7"))).toMatchObject({ ok: true, value: { [field]: 7 } });
    const nothing = parse(id, withField(others, field, "null"));
    expect(nothing).toEqual(parse(id, JSON.stringify(others)));
    if (field === "limit") expect(nothing).toEqual({ ok: false, detail: "limit is required" });
  });
});

test("fields that are absent have their defaults", () => {
  const none = { ok: true, value: { acquire_timeout_s: 0, lease_ttl_s: 0 } };
  expect(L("{}")).toEqual(none);
  expect(L("null")).toEqual(none);
  expect(L(" \t\r\nnull\n")).toEqual(none);
  expect(L('{"acquire_timeout_s":null,"lease_ttl_s":null}')).toEqual(none);
  expect(parse("createTicket", '{"keys":["k"],"operations":["lock"]}')).toMatchObject({ value: { ttl_s: 300 } });
});

test("the largest timeout is accepted, minus zero is zero", () => {
  expect(L('{"acquire_timeout_s":9223372036}')).toMatchObject({ ok: true, value: { acquire_timeout_s: 9223372036 } });
  expect(L('{"acquire_timeout_s":-0}')).toEqual({ ok: true, value: { acquire_timeout_s: 0, lease_ttl_s: 0 } });
  expect(parse("acquireSem", '{"limit":1048576}').ok).toBe(true);
  expect(detailOf("acquireSem", '{"limit":1048577}')).toContain("limit must be");
  expect(detailOf("acquireSem", '{"limit":0}')).toContain("limit must be");
});

test("an empty body is accepted for lock enqueue and session create, and nowhere else", () => {
  const accepting = (Object.keys(REQUESTS) as RequestId[]).filter((id) => {
    const results = ["", " ", " \t\r\n "].map((body) => parse(id, body));
    for (const result of results) if (!result.ok) expect(result.detail).toBe("body is required, at least {}");
    return results.every((result) => result.ok);
  });
  expect(accepting).toEqual(["createSession", "enqueueLock"]);
  expect(parse("enqueueLock", "\u00a0").ok).toBe(false);
});

test.each([
  ['{"acquire_timeout_s":0', "body must be one valid JSON object"],
  ['{"acquire_timeout_s":0}{}', "body must be one valid JSON object"],
  ['{"acquire_timeout_s":0} x', "body must be one valid JSON object"],
  ['{"acquire_timeout_s":00}', "body must be one valid JSON object"],
  ["{'acquire_timeout_s':0}", "body must be one valid JSON object"],
  ["\uFEFF{}", "body must be UTF-8 text without byte-order mark"],
  ["[]", "body must be a JSON object"],
  ["5", "body must be a JSON object"],
  ['"x"', "body must be a JSON object"],
  ["true", "body must be a JSON object"],
  ['{"acquire_timeout_s":0,"extra":1}', 'unknown field "extra"'],
  ['{"extra":null}', 'unknown field "extra"'],
  ['{"Acquire_Timeout_S":0}', 'unknown field "Acquire_Timeout_S"'],
  ['{"limit":1}', 'unknown field "limit"'],
  ['{"__proto__":{}}', 'unknown field "__proto__"'],
  ['{"__proto__":null}', 'unknown field "__proto__"'],
  ['{"constructor":1}', 'unknown field "constructor"'],
  ['{"toString":1}', 'unknown field "toString"'],
  [`{"${"x".repeat(5000)}":1}`, `unknown field "${"x".repeat(64)}…"`],
])("a lock is not acquired with %s", (body, detail) => {
  expect(detailOf("acquireLock", body)).toBe(detail);
});

test("a session takes no fields", () => {
  expect(parse("createSession", "{}").ok).toBe(true);
  expect(detailOf("createSession", '{"stable_ref":"x"}')).toBe('unknown field "stable_ref"');
});

test("of a repeated field the last one counts, whatever the others were", () => {
  const last = { ok: true, value: { acquire_timeout_s: 0, lease_ttl_s: 9 } };
  expect(L('{"acquire_timeout_s":5,"acquire_timeout_s":0,"lease_ttl_s":9}')).toEqual(last);
  expect(L('{"acquire_timeout_s":1.5,"lease_ttl_s":9,"acquire_timeout_s":0}')).toEqual(last);
  expect(L('{"acquire_timeout_s":0,"acquire_timeout_s":1.0}').ok).toBe(false);
});

test("bytes that are not UTF-8 are refused", () => {
  const bytes = new TextEncoder().encode('{"token":"?"}');
  for (const broken of [0xff, 0xc0, 0x80]) {
    bytes[10] = broken;
    expect(detailOf("releaseLock", bytes)).toBe("body must be UTF-8 text without byte-order mark");
  }
});

test.each([
  ["arrays", "[".repeat(100_000) + "]".repeat(100_000)],
  ["open arrays", "[".repeat(100_000)],
  ["objects", `${'{"a":'.repeat(100_000)}1${"}".repeat(100_000)}`],
  ["a field's value", `{"acquire_timeout_s":${"[".repeat(100_000)}${"]".repeat(100_000)}}`],
])("100,000 nested brackets do no harm: %s", (_where, body) => {
  expect(detailOf("acquireLock", body)).toMatch(/^(body|unknown|acquire_timeout_s) /);
});

test.each([
  ['{"token":"abc\\nping\\n_\\n"}', `token ${TEXT}`],
  ['{"token":"a b"}', `token ${TEXT}`],
  ['{"token":"a\\tb"}', `token ${TEXT}`],
  ['{"token":"a\\rb"}', `token ${TEXT}`],
  ['{"token":""}', `token ${TEXT}`],
  ['{"token":1}', `token ${TEXT}`],
  ['{"token":1.0}', `token ${TEXT}`],
  ['{"token":["secret"]}', `token ${TEXT}`],
  [`{"token":"${"a".repeat(257)}"}`, `token ${TEXT}`],
  [`{"token":"${"é".repeat(129)}"}`, `token ${TEXT}`],
  ["{}", "token is required"],
  ['{"token":null}', "token is required"],
])("nothing is released with %s", (body, detail) => {
  for (const id of ["releaseLock", "releaseSem", "renewLock", "renewSem"] as const) {
    expect(detailOf(id, body)).toBe(detail);
  }
});

test("a token is opaque: any text of 1 to 256 bytes without blanks", () => {
  for (const token of ["short", "a".repeat(256), "é".repeat(128), "\u0000", "_"]) {
    expect(parse("releaseLock", JSON.stringify({ token }))).toEqual({ ok: true, value: { token } });
  }
});

test.each([
  ['{"operations":["lock"]}', "keys is required"],
  ['{"keys":[],"operations":["lock"]}', "keys must be a list of 1 to 64 keys or prefixes"],
  ['{"keys":"k","operations":["lock"]}', "keys must be a list of 1 to 64 keys or prefixes"],
  [`{"keys":["k"${',"k"'.repeat(64)}],"operations":["lock"]}`, "keys must be a list of 1 to 64 keys or prefixes"],
  ['{"keys":["k","a b"],"operations":["lock"]}', `keys[1] ${TEXT}`],
  ['{"keys":["\\ud800"],"operations":["lock"]}', `keys[0] ${TEXT}`],
  ['{"keys":["k"]}', "operations is required"],
  ['{"keys":["k"],"operations":[]}', "operations must be a list of lock, semaphore, stats, each at most once"],
  [
    '{"keys":["k"],"operations":["lock","lock"]}',
    "operations must be a list of lock, semaphore, stats, each at most once",
  ],
  ['{"keys":["k"],"operations":["admin"]}', "operations[0] must be one of lock, semaphore, stats"],
  ['{"keys":["k"],"operations":["lock"],"ttl_s":0}', "ttl_s must be a whole number from 1 to 86400"],
])("no ticket is issued for %s", (body, detail) => {
  expect(detailOf("createTicket", body)).toBe(detail);
});
