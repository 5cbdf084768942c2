import { expect, it } from "vitest";
import { simulate } from "./simulation.ts";

const SEEDS = 1_000;

it(`holds what is promised in ${SEEDS} worlds of delayed, lost and repeated messages, crashes and sleeps`, () => {
  let grants = 0;
  for (let seed = 1; seed <= SEEDS; seed++) {
    const { problem, grants: more } = simulate(seed);
    if (problem) expect.fail([...problem.story.slice(-80), problem.message, `seed ${seed}`].join("\n"));
    grants += more;
  }
  expect(grants).toBeGreaterThan(5 * SEEDS);
}, 120_000);

it("tells the same story for the same seed", () => {
  expect(simulate(11)).toEqual(simulate(11));
});
