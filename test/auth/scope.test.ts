import { describe, expect, test } from "vitest";
import { commonPrefix, permits, type Scope, type ScopeOperation, seesKey } from "../../src/core/auth/scope.ts";

function scope(keys: string[], operations: ScopeOperation[] = ["lock"]): Scope {
  return { keys, operations, expiresAt: 0 };
}

describe("a pattern of keys", () => {
  test.each<[string, string, boolean]>([
    ["deploy", "deploy", true],
    ["deploy", "deploy2", false],
    ["deploy", "Deploy", false],
    ["deploy", "", false],
    ["team-a/*", "team-a/x", true],
    ["team-a/*", "team-a/x/y", true],
    ["team-a/*", "team-a/", true],
    ["team-a/*", "team-a", false],
    ["team-a/*", "team-ab/x", false],
    ["*", "anything/at all", true],
    ["*", "*", true],
    ["a*", "a", true],
    ["a*", "a*", true],
    ["a*", "b", false],
    ["a**", "a*b", true],
    ["a**", "ab", false],
    ["*a", "*a", true],
    ["*a", "ba", false],
    ["a*b", "a*b", true],
    ["a*b", "axb", false],
    ["a.c", "abc", false],
    ["ключ/*", "ключ/1", true],
    ["\u0000", "\u0000", true],
  ])("%j on key %j: %s", (pattern, key, isSeen) => {
    expect(seesKey(scope([pattern]), key)).toBe(isSeen);
    expect(seesKey(scope(["other", pattern]), key)).toBe(isSeen);
  });

  test("no pattern is no key", () => {
    expect(seesKey(scope([]), "k")).toBe(false);
    expect(seesKey(scope([]), "")).toBe(false);
  });
});

test("a scope permits its operations on its keys, and nothing else", () => {
  const both = scope(["k", "p/*"], ["semaphore", "stats"]);
  expect(permits(both, "semaphore", "k")).toBe(true);
  expect(permits(both, "stats", "p/1")).toBe(true);
  expect(permits(both, "lock", "k")).toBe(false);
  expect(permits(both, "semaphore", "j")).toBe(false);
  expect(permits(scope(["*"], []), "lock", "k")).toBe(false);
});

test.each<[string[], string]>([
  [["deploy"], "deploy"],
  [["user-42/*"], "user-42/"],
  [["user-42/*", "user-4"], "user-4"],
  [["user-42/*", "team/*"], ""],
  [["user-42/*", "*"], ""],
  [["a😀*", "a😁*"], "a"],
  [[], ""],
])("all keys of %j begin with %j", (keys, prefix) => {
  expect(commonPrefix(scope(keys))).toBe(prefix);
});
