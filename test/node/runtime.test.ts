import { setImmediate as nextTurn } from "node:timers/promises";
import { expect, it } from "vitest";
import { systemRuntime } from "../../src/node/system/runtime.ts";

it("a batch ends with the turn if no connection arrives", async () => {
  const runtime = systemRuntime();
  let turns = 0;
  let endedAfter: number | undefined;
  runtime.atEndOfTurn(() => {
    endedAfter = turns;
  });
  for (; turns < 5; turns += 1) await nextTurn();
  expect(endedAfter).toBe(0);
});

/** After how many turns a batch ends, if a connection arrives in each of the first ones. */
async function turnsOfBatch(arrivals: number): Promise<number> {
  const runtime = systemRuntime();
  let turns = 0;
  let endedAfter = Number.POSITIVE_INFINITY;
  runtime.atEndOfTurn(() => {
    endedAfter = turns;
  });
  for (; turns < arrivals + 5; turns += 1) {
    if (turns < arrivals) runtime.accepted();
    await nextTurn();
  }
  return endedAfter;
}

it("a batch waits for connections as long as one arrives in each turn", async () => {
  const ends: number[] = [];
  // A machine that stands still meanwhile uses up the time for it.
  while (ends.at(-1) !== 3 && ends.length < 100) ends.push(await turnsOfBatch(3));
  expect(ends.at(-1)).toBe(3);
  expect(Math.max(...ends)).toBe(3);
});

it("a batch does not wait for ever, though connections arrive without end", async () => {
  const runtime = systemRuntime();
  const startedAt = performance.now();
  let hasEnded = false;
  runtime.atEndOfTurn(() => {
    hasEnded = true;
  });
  while (!hasEnded) {
    runtime.accepted();
    await nextTurn();
    expect(performance.now() - startedAt).toBeLessThan(5_000);
  }
});
