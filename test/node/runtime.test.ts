import { setImmediate as nextTurn } from "node:timers/promises";
import { expect, it } from "vitest";
import { systemRuntime } from "../../src/node/system/runtime.ts";

/** After how many turns of the event loop a batch ends, if a command arrives in each of the first ones. */
async function turnsOfBatch(turnsWithInput: number): Promise<number> {
  const runtime = systemRuntime();
  let turns = 0;
  let arrived = 0;
  let endedAfter = Number.POSITIVE_INFINITY;
  runtime.whenQuiet(
    () => {
      endedAfter = turns;
    },
    () => arrived,
  );
  for (; turns < turnsWithInput + 5; turns += 1) {
    if (turns < turnsWithInput) arrived += 1;
    await nextTurn();
  }
  return endedAfter;
}

it.each([1, 3])("a batch ends with the first turn that brings nothing new, after %i that did", async (turns) => {
  const ends: number[] = [];
  // A machine that stands still meanwhile uses up the time for it.
  while (ends.at(-1) !== turns && ends.length < 100) ends.push(await turnsOfBatch(turns));
  expect(ends.at(-1)).toBe(turns);
  expect(Math.max(...ends)).toBe(turns);
});

it("a batch does not grow for ever, though commands arrive without end", async () => {
  const runtime = systemRuntime();
  const startedAt = performance.now();
  let arrived = 0;
  let hasEnded = false;
  runtime.whenQuiet(
    () => {
      hasEnded = true;
    },
    () => arrived,
  );
  while (!hasEnded) {
    arrived += 1;
    await nextTurn();
    expect(performance.now() - startedAt).toBeLessThan(5_000);
  }
});
