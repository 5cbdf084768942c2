import { describe, expect, it } from "vitest";
import { SmallMap } from "../../src/core/engine/small-map.ts";

const entriesOf = <K, V>(map: { keys(): Iterable<K>; values(): Iterable<V> }) => [[...map.keys()], [...map.values()]];

describe("a small map", () => {
  it("does what a Map does, whatever its size was before", () => {
    const [small, map] = [new SmallMap<string, number>(), new Map<string, number>()];
    const steps = "a+ a+ a- a- a+ b+ a+ c+ b- a- c- c- d+ e+ d- d+ x e+ f+".split(" ");
    for (const [value, step] of steps.entries()) {
      const [key, sign] = [step.slice(0, 1), step.slice(1)];
      for (const each of [small, map]) {
        if (sign === "+") each.set(key, value);
        else if (sign === "-") each.delete(key);
        else each.clear();
      }
      expect([step, ...entriesOf(small)]).toEqual([step, ...entriesOf(map)]);
      expect(small.size).toBe(map.size);
      for (const asked of "abcdef") {
        expect(small.get(asked)).toBe(map.get(asked));
        expect(small.has(asked)).toBe(map.has(asked));
      }
    }
  });
});
