import { expect, test } from "vitest";
import {
  keyPath,
  keyQuery,
  labelHeader,
  removalQuery,
  statsQuery,
  upgradeQuery,
} from "../../src/http/openapi/schemas.ts";
import { parseFields, parseQuery } from "../../src/http/request/fields.ts";

const stats = (query: string) => parseQuery(statsQuery, new URLSearchParams(query));
const detailOf = (query: string) => {
  const result = stats(query);
  return result.ok ? "accepted" : result.detail;
};

test("stats without parameters list everything, in brief", () => {
  expect(stats("")).toEqual({ ok: true, value: { limit: 10_000, detail: false } });
});

test("parameters come as text and are read as what they mean; unknown ones are not looked at", () => {
  expect(stats("prefix=build%2F&limit=5&cursor=abc&detail=true&x=1&__proto__=2")).toEqual({
    ok: true,
    value: { prefix: "build/", limit: 5, cursor: "abc", detail: true },
  });
  expect(stats("limit=5&limit=6&prefix=")).toEqual({ ok: true, value: { prefix: "", limit: 6, detail: false } });
});

test.each(["0", "10001", "-1", "1.0", "1e3", "", " 1", "0x10", "99999999999999999999"])("limit is not %j", (limit) => {
  expect(detailOf(`limit=${encodeURIComponent(limit)}`)).toBe("limit must be a whole number from 1 to 10000");
});

test("other values are refused by name", () => {
  expect(detailOf("detail=1")).toBe("detail must be true or false");
  expect(detailOf("cursor=")).toBe("cursor must be a cursor of an earlier reply");
  expect(detailOf(`prefix=${"é".repeat(129)}`)).toContain("prefix must be");
  expect(detailOf("prefix=a+b")).toContain("prefix must be");
});

test("the history of a key is asked for in as many words", () => {
  const key = (query: string) => parseQuery(keyQuery, new URLSearchParams(query));
  expect(key("x=1")).toEqual({ ok: true, value: { history: false } });
  expect(key("history=true")).toEqual({ ok: true, value: { history: true } });
  expect(key("history=yes")).toEqual({ ok: false, detail: "history must be true or false" });
});

test("a holder is named by the 16 hex digits of its fence", () => {
  const remove = (query: string) => parseQuery(removalQuery, new URLSearchParams(query));
  expect(remove("token_fence=18a2f0c4d5e60007").ok).toBe(true);
  expect(remove("")).toEqual({ ok: false, detail: "token_fence is required" });
  expect(remove("token_fence=18A2F0C4D5E60007")).toMatchObject({
    detail: "token_fence must be 16 lowercase hex digits",
  });
});

test("a label is 1 to 64 characters one can see", () => {
  const accepted = ["ci-runner-7", "a b", "Jürgen", "名前", "🔒".repeat(64), "x".repeat(64)];
  const refused = ["", "x".repeat(65), "a\nb", "a\u0000b", "\u202eevil", "a\u2028b", "\u200b"];
  for (const label of accepted) expect(labelHeader.safeParse(label).success, label).toBe(true);
  for (const label of refused) {
    expect(parseFields(upgradeQuery, { label }), JSON.stringify(label)).toEqual({
      ok: false,
      detail: "label must be 1 to 64 printable characters",
    });
  }
});

test("a key is 1 to 256 bytes without blanks", () => {
  for (const key of ["k", "a/b", "\u0000", "a".repeat(256), "é".repeat(128)]) {
    expect(keyPath.safeParse(key).success, key).toBe(true);
  }
  for (const key of ["", "a b", "a\tb", "a\nb", "a\rb", "a".repeat(257), "é".repeat(129)]) {
    expect(keyPath.safeParse(key).success, key).toBe(false);
  }
});
