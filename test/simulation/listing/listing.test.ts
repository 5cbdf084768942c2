import { expect, it } from "vitest";
import { simulateListing } from "./simulation.ts";

const SEEDS = 300;

it(`a key is listed, deletes itself and is used again in ${SEEDS} worlds of late, lost and doubled messages`, async () => {
  let grants = 0;
  for (let seed = 1; seed <= SEEDS; seed++) {
    const { problem, grants: more } = await simulateListing(seed);
    if (problem) expect.fail([...problem.story.slice(-80), problem.message, `seed ${seed}`].join("\n"));
    grants += more;
  }
  expect(grants).toBeGreaterThan(5 * SEEDS);
}, 120_000);
