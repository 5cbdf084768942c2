/**
 * `npm run distance`: how long clients wait for what crosses between objects, in ms, if each crossing takes 5, 80 and 200 ms,
 * one way. Measured in the real runtime, in virtual time; what the machine itself takes is not part of it.
 */
import { createVitest } from "vitest/node";
import { distanceTable, type MeasuredPath } from "./table.ts";

const CROSSINGS_MS = [5, 80, 200];

const vitest = await createVitest("test", { watch: false, project: ["objects"], reporters: ["dot"] });
vitest.provide("crossingsMs", CROSSINGS_MS);
await vitest.start(["test/cloudflare/distance/distance.test.ts"]);
const tests = vitest.state.getTestModules().flatMap((module) => [...module.children.allTests()]);
const paths = tests.flatMap((test) => (test.meta() as { readonly distance?: MeasuredPath }).distance ?? []);
console.log(`\n${distanceTable(paths)}\n\nEach crossing takes so many ms, one way; a call is two, there and back.\n`);
const isWithinBudget = tests.length > 0 && tests.every((test) => test.ok());
if (!isWithinBudget) console.error("distance: a path is longer than its budget: see above");
await vitest.close();
process.exit(isWithinBudget ? 0 : 1);
