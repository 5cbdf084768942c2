import { describe, expect, it } from "vitest";
import { isGrowing } from "../soak/backlogs.ts";

const figures = (of: (sample: number) => number) => Array.from({ length: 100 }, (_, sample) => of(sample));

describe("a backlog", () => {
  it("that grows from beginning to end is found", () => {
    expect(
      isGrowing(
        figures((sample) => 10 * sample),
        100,
      ),
    ).toBe(true);
  });

  it("that comes in waves, or is high from the beginning, is not growing", () => {
    expect(
      isGrowing(
        figures((sample) => (sample % 10) * 50),
        100,
      ),
    ).toBe(false);
    expect(
      isGrowing(
        figures(() => 10_000),
        100,
      ),
    ).toBe(false);
  });

  it("of a few seconds of work is not growing", () => {
    expect(
      isGrowing(
        figures((sample) => sample),
        100,
      ),
    ).toBe(false);
  });
});
