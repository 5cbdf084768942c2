/** The HTTP API is promised in numbered cases. Each is kept by one test, which bears its number in brackets. */
import { readdirSync, readFileSync } from "node:fs";
import { expect, it } from "vitest";

const TESTS = new URL("../../", import.meta.url);
const FILES = [
  ...readdirSync(new URL("e2e/http/", TESTS)).map((name) => `e2e/http/${name}`),
  // A server cannot be told to put one of its objects to sleep.
  "cloudflare/http-session/http-eviction.test.ts",
];
const LAST = 136;

it("every case from the first to the last is kept by exactly one test", () => {
  const numbers = FILES.flatMap((file) => {
    const source = readFileSync(new URL(file, TESTS), "utf8");
    return [...source.matchAll(/\[HC([0-9]+)\]"/g)].map(([, number]) => Number(number));
  });
  expect(numbers.sort((one, other) => one - other)).toEqual(Array.from({ length: LAST }, (_, index) => index + 1));
});
