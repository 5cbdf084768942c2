import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { history } from "./model/steps.ts";
import { replay, World } from "./model/world.ts";

const RUNS = 6_000;

describe("a key, whatever happens to it", () => {
  it("answers as the rules say, keeps its invariants after every step, and is empty when all have left", () => {
    fc.assert(
      fc.property(history, ({ limit, rules, steps }) => {
        const world = new World(limit, rules);
        for (const step of steps) world.take(step);
        world.endAll();
      }),
      { numRuns: RUNS },
    );
  }, 120_000);

  it("stores the same rows when the same history is replayed on a fresh key", () => {
    fc.assert(
      fc.property(history, ({ limit, rules, steps }) => {
        const world = new World(limit, rules);
        for (const step of steps) world.take(step);
        const again = replay(world.log, limit, rules);
        expect(again.rows.dump()).toEqual(world.key.rows.dump());
        expect(again.engine.lastFence).toBe(world.key.engine.lastFence);
      }),
      { numRuns: Math.ceil(RUNS / 10) },
    );
  }, 120_000);
});
