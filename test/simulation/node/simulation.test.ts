import { expect, it } from "vitest";
import { simulateNode } from "./simulation.ts";

const SEEDS = 400;

it(`holds what is promised in ${SEEDS} worlds of failed commits, commands that throw, crashes and clocks set back`, async () => {
  let grants = 0;
  for (let seed = 1; seed <= SEEDS; seed++) {
    const { problem, grants: more } = await simulateNode(seed);
    if (problem) expect.fail([...problem.story.slice(-80), problem.message, `seed ${seed}`].join("\n"));
    grants += more;
  }
  expect(grants).toBeGreaterThan(10 * SEEDS);
}, 120_000);

it("tells the same story for the same seed", async () => {
  expect(await simulateNode(11)).toEqual(await simulateNode(11));
});
