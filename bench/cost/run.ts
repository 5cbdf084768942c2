/** `npm run cost`: counts the lives in the real runtime, prints what a million of each costs, and writes docs/cost.md. */
import { writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { startVitest } from "vitest/node";
import type { CountedLife } from "./counts.ts";
import { costDocument, printed } from "./document.ts";

const DOCUMENT = fileURLToPath(new URL("../../docs/cost.md", import.meta.url));

const vitest = await startVitest("test", ["test/cloudflare/cost/cost.test.ts"], {
  watch: false,
  project: ["objects"],
  reporters: ["dot"],
});
const tests = vitest.state.getTestModules().flatMap((module) => [...module.children.allTests()]);
const lives = tests.flatMap((test) => (test.meta() as { readonly cost?: CountedLife }).cost ?? []);
const isWhole = tests.length > 0 && lives.length === tests.length;
console.log(`\n${printed(lives)}\n`);
if (isWhole) {
  writeFileSync(DOCUMENT, costDocument(lives));
  console.log(`written: ${DOCUMENT}`);
} else console.error("cost: not every life was counted, so nothing is written");
const isWithinBudget = tests.every((test) => test.ok());
if (isWhole && !isWithinBudget) console.error("cost: a budget is exceeded: see above");
await vitest.close();
process.exit(isWhole && isWithinBudget ? 0 : 1);
