import { expect, it } from "vitest";
import { hrefOf, routeOf } from "../../../src/console/shared/route.ts";
import { count, nameOf, ownerOf, rate, shortFence, span } from "../../../src/console/shared/words.ts";

it.each([
  [0, "0 s"],
  [0.0001, "0 s"],
  [0.004, "4 ms"],
  [0.25, "250 ms"],
  [1.24, "1.2 s"],
  [12.6, "13 s"],
  [59.4, "59 s"],
  [60, "1 min"],
  [185, "3 min 5 s"],
  [3_600, "1 h"],
  [7_810, "2 h 10 min"],
  [273_600, "3 d 4 h"],
])("%f seconds are %s", (seconds, words) => {
  expect(span(seconds)).toBe(words);
});

it("numbers come with their noun", () => {
  expect([count(0, "key"), count(1, "key"), count(1_234, "key"), count(2, "is", "are")]).toEqual([
    "0 keys",
    "1 key",
    "1,234 keys",
    "2 are",
  ]);
  expect([rate(0), rate(0.25), rate(12.4), rate(1_234.5)]).toEqual(["0", "0.3", "12", "1,235"]);
});

it("a fence is shown without the zeros before it, and somebody without a label by his number", () => {
  expect(shortFence("000000000000002f")).toBe("2f");
  expect(shortFence("0000000000000000")).toBe("0");
  expect(nameOf({ label: "ada", owner_conn_id: 7 })).toBe("ada");
  expect(nameOf({ owner_conn_id: 7 })).toBe("session 7");
});

it.each(["deploy", "user/7", "a#b?c", "100%", "ключ", "%2F"])("the place of the key %s is found again", (key) => {
  expect(routeOf(hrefOf.key(key))).toEqual({ name: "key", key });
});

it.each(["", "#", "#/", "#/keys/", "#/keys/%", "#/nowhere", "#content"])("%j is the list of all keys", (hash) => {
  expect(routeOf(hash)).toEqual({ name: "keys" });
});

it("who has no session is named by its tag, or by what it is", () => {
  expect(nameOf({ protocol: "file", label: "deploy", owner_conn_id: 7 })).toBe("deploy");
  expect(nameOf({ protocol: "file", owner_conn_id: 7 })).toBe("file 7");
  expect(ownerOf({ protocol: "terraform", label: "ada@laptop", owner_conn_id: 7 })).toBe("Terraform lock 7");
  expect(ownerOf({ protocol: "worker", label: "worker", owner_conn_id: 7 })).toBe("Worker 7");
});
