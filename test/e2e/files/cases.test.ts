/** Files and Terraform locks over HTTP are promised in numbered cases. Each is kept by a test that bears its number in brackets. */
import { readdirSync, readFileSync } from "node:fs";
import { expect, it } from "vitest";

const TESTS = new URL("../../", import.meta.url);
const FILES = [
  ...["e2e/files/", "e2e/terraform/"].flatMap((folder) =>
    readdirSync(new URL(folder, TESTS)).map((name) => `${folder}${name}`),
  ),
  // A server cannot be told to put one of its objects to sleep.
  "cloudflare/key/sessionless-eviction.test.ts",
];
const TITLES = FILES.map((file) => readFileSync(new URL(file, TESTS), "utf8")).join("\n");

it.each([
  ["E", 43],
  ["T", 18],
])("every case %s01 and on is kept by exactly one test", (letter, last) => {
  const numbers = Array.from({ length: last }, (_, index) => `${letter}${String(index + 1).padStart(2, "0")}`);
  for (const number of numbers) {
    expect(TITLES.split(`[${number}]`).length - 1, number).toBe(1);
  }
});
