/** Where objects live is decided in one file. */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";

const SRC = fileURLToPath(new URL("../../src", import.meta.url));
const PLACEMENT = "cloudflare/placement.ts";
const BINDING = /\benv\.(?:KEY|SESSION|HTTP_SESSION|DIRECTORY|METRICS|RATE_LIMIT|RELAY)\b/;
const UNPLACED_KEY = /objectsOf\([^)]*"KEY"\)\s*\.(?:get|getByName)\(/;

it("no object is called but through the file that places it", () => {
  const sources = readdirSync(SRC, { recursive: true, encoding: "utf8" })
    .filter((name) => /\.tsx?$/.test(name) && name !== PLACEMENT)
    .map((name) => ({ name, text: readFileSync(join(SRC, name), "utf8") }));
  expect(sources.filter(({ text }) => text.includes("objectsOf(")).length).toBeGreaterThan(5);
  const strays = sources.filter(({ text }) => BINDING.test(text) || UNPLACED_KEY.test(text));
  expect(strays.map(({ name }) => name)).toEqual([]);
});
