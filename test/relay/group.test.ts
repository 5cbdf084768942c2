import assert from "node:assert/strict";
import { describe, expect, it } from "vitest";
import type { Defects, Deployment } from "./deployment.ts";
import { Group, type Weather } from "./group.ts";

const WEATHERS: Readonly<Record<string, Weather>> = {
  calm: { loss: 0, duplicates: 0, delays: 0, crashes: false, lossInside: 0 },
  lossy: { loss: 0.15, duplicates: 0, delays: 0.05, crashes: false, lossInside: 0.08 },
  "doubling and reordering": { loss: 0.05, duplicates: 0.3, delays: 0.25, crashes: false, lossInside: 0.02 },
  crashing: { loss: 0.02, duplicates: 0.05, delays: 0.05, crashes: true, lossInside: 0.02 },
};

/** More of them: `SEEDS=5000 npx vitest run --project pure test/relay`. */
const SEEDS = Number(process.env.SEEDS ?? 40);
const LIVES_MS = 20_000;
/** Every client that waits has its turn within this time, once messages flow: each holds for some seconds at most. */
const TURN_MS = 12_000;

/** Runs a group; throws if two deployments hold at once or a fence falls. */
function run(seed: number, size: number, weather: Weather, defects?: Defects): Group {
  const group = new Group(seed, size, weather, defects);
  try {
    group.live(LIVES_MS);
  } catch (error) {
    throw new Error(`seed ${seed}: ${error instanceof Error ? error.message : error}`, { cause: error });
  }
  return group;
}

describe.each([3, 5])("a group of %i deployments", (size) => {
  describe.each(Object.entries(WEATHERS))("on a network that is %s", (_, weather) => {
    it("never has two holders, has fences that rise, and serves everyone once messages flow", () => {
      let grants = 0;
      for (let seed = 1; seed <= SEEDS; seed++) {
        const group = run(seed, size, weather);
        group.calmDown();
        const waiting = group.waiting.filter(({ isOnce }) => !isOnce);
        group.pass(TURN_MS * (1 + waiting.length));
        expect(
          group.waiting.map(({ session }) => session),
          `seed ${seed}`,
        ).toEqual([]);
        // Nothing is left anywhere: the longest lease and a second more have passed.
        for (const { id, engine } of group.deployments) expect([id, engine.view().holderCount]).toEqual([id, 0]);
        grants += group.grants;
      }
      expect(grants / SEEDS).toBeGreaterThan(3);
    }, 120_000);
  });
});

describe("a deployment whose own clients hand the lock to each other", () => {
  const STEADY: Weather = { loss: 0, duplicates: 0, delays: 0, crashes: false, lossInside: 0, isSteady: true };

  it.each([
    [1, 2_000],
    [20, 2_000],
    [150, 3_000],
    [500, 6_000],
  ])("with holds of %i ms, lets a client of another one have it within %i ms", (holdMs, withinMs) => {
    for (let seed = 1; seed <= SEEDS; seed++) {
      const group = new Group(seed, 3, STEADY);
      const [busy, other] = group.deployments as [Deployment, Deployment];
      for (let count = 0; count < 5; count++) group.cycle(busy, holdMs);
      group.pass(1_000);
      const client = group.cycle(other, holdMs);
      group.pass(withinMs);
      expect(client.state, `seed ${seed}`).not.toBe("waiting");
    }
  });

  it("goes on as before once no other deployment wants it", () => {
    const group = new Group(1, 3, STEADY);
    const [busy] = group.deployments as [Deployment];
    for (let count = 0; count < 5; count++) group.cycle(busy, 20);
    group.pass(10_000);
    // About 70. With a pause of 200 ms each time, it would be 30.
    expect(group.grants).toBeGreaterThan(55);
  });
});

describe("the simulation", () => {
  const weather: Weather = { loss: 0.05, duplicates: 0.25, delays: 0.25, crashes: true, lossInside: 0.02 };
  const reordering: Weather = { loss: 0, duplicates: 0.5, delays: 0.35, crashes: false, lossInside: 0 };

  it.each<[string, Defects, Weather]>([
    ["a majority of too few", { countsMinority: true }, weather],
    ["peers that keep a lock for too short a time", { commitsTooShort: true }, weather],
    ["peers that are not told fences", { hidesFences: true }, weather],
    ["questions that overtake each other", { ignoresOrder: true }, reordering],
    ["deployments that forget in a crash what is held", { forgetsHolds: true }, weather],
  ])(
    "finds %s",
    (_, defects, around) => {
      const isFound = (seed: number) => {
        try {
          run(seed, 3, around, defects);
          return false;
        } catch (error) {
          if (error instanceof Error && error.cause instanceof assert.AssertionError) return true;
          throw error;
        }
      };
      const seeds = Array.from({ length: 400 }, (_, index) => index + 1);
      expect(seeds.some(isFound)).toBe(true);
    },
    120_000,
  );
});
