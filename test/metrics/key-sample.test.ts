/** The directory's count of keys, and the random part of them that estimates are made from. */
import fc from "fast-check";
import { expect, it } from "vitest";
import { KeySample } from "../../src/cloudflare/directory/key-sample.ts";

const names = (count: number) => Array.from({ length: count }, (_, index) => `k${index}`);

/** Numbers between 0 and 1 that are the same in every run. */
function randomFrom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
}

it("counts every key, and draws only keys that are listed, each at most once", () => {
  const step = fc.record({ isJoin: fc.boolean(), index: fc.nat(400) });
  fc.assert(
    fc.property(fc.nat(300), fc.array(step, { maxLength: 600 }), fc.nat(), (count, steps, seed) => {
      const listed = new Set(names(count));
      let sample = new KeySample(listed, randomFrom(seed));
      for (const { isJoin, index } of steps) {
        const key = `k${index}`;
        if (isJoin && !listed.has(key)) {
          listed.add(key);
          sample.add(key);
        } else if (!isJoin && listed.delete(key)) sample.remove(key);
        if (sample.isWornOut) sample = new KeySample(listed, randomFrom(seed));
      }
      expect(sample.count).toBe(listed.size);
      const drawn = sample.sample(100);
      expect(new Set(drawn).size).toBe(drawn.length);
      expect(drawn.filter((key) => !listed.has(key))).toEqual([]);
      if (listed.size <= 100) expect(drawn.length).toBe(listed.size);
      else expect(drawn.length).toBeGreaterThanOrEqual(16);
    }),
  );
});

it("draws every key equally often, whether it was there from the start or came while others left", () => {
  const drawnOf = new Map<string, number>();
  const ROUNDS = 2_000;
  for (let round = 0; round < ROUNDS; round += 1) {
    const sample = new KeySample(names(400), randomFrom(round * 7_919 + 1));
    for (const key of names(200)) sample.remove(key);
    for (let index = 0; index < 200; index += 1) sample.add(`new${index}`);
    for (let turn = 0; turn < 4 * (round % 3); turn += 1) sample.sample(16);
    for (const key of sample.sample(16)) drawnOf.set(key, (drawnOf.get(key) ?? 0) + 1);
  }
  const share = (isMeant: (key: string) => boolean) =>
    [...drawnOf].reduce((sum, [key, count]) => (isMeant(key) ? sum + count : sum), 0) / (ROUNDS * 16);
  // Half of the keys that are left were there from the start.
  expect(share((key) => key.startsWith("new"))).toBeGreaterThan(0.47);
  expect(share((key) => key.startsWith("new"))).toBeLessThan(0.53);
  expect(share((key) => Number(key.slice(1)) < 300)).toBeGreaterThan(0.22);
  expect(share((key) => Number(key.slice(1)) < 300)).toBeLessThan(0.28);
  expect(drawnOf.size).toBe(400);
});

it("draws the same keys as last time but for one in four times, and all of its random part in the end", () => {
  const sample = new KeySample(names(10_000), randomFrom(1));
  const seen = new Set<string>();
  let last: string[] = sample.sample(12);
  for (let turn = 1; turn < 512; turn += 1) {
    const drawn = sample.sample(12);
    expect(drawn.filter((key) => last.includes(key))).toHaveLength(turn % 4 === 0 ? 11 : 12);
    for (const key of drawn) seen.add(key);
    last = drawn;
  }
  expect(seen.size).toBe(128);
});
