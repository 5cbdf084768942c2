/** The guided story goes on by what happens, whoever does it. */
import { describe, expect, it } from "vitest";
import type { ClientEvent } from "../../../src/console/playground/state/event.ts";
import { type Hint, hintOf } from "../../../src/console/playground/state/hint.ts";
import type { Standing } from "../../../src/console/playground/state/player.ts";
import { UNWRITTEN } from "../../../src/console/playground/state/resource.ts";
import { advance, BEGINNING, nextStep, type Step, type Story } from "../../../src/console/playground/state/story.ts";

type Told = readonly [who: string, event: ClientEvent];

const acquired: ClientEvent = { type: "acquired", fence: "1", waitedMs: 0 };
const waits: ClientEvent = { type: "waits", ahead: 0 };
const QUEUE: readonly Told[] = [
  ["Ada", acquired],
  ["Ben", waits],
  ["Cleo", waits],
];

function storyOf(...told: readonly Told[]): Story {
  return told.reduce((story, [who, event]) => advance(story, { who, ...event }), BEGINNING);
}

describe("a step is done", () => {
  it("when somebody has the lock", () => {
    expect(nextStep(BEGINNING)).toBe("acquire");
    expect(storyOf(["Finn", acquired]).done).toEqual(["acquire"]);
  });

  it("when two wait at a time, not one after the other", () => {
    expect(storyOf(["Ben", waits], ["Ben", { type: "gave up" }], ["Cleo", waits]).done).toEqual([]);
    expect(storyOf(...QUEUE).done).toEqual(["acquire", "queue"]);
    expect(storyOf(["Ben", waits], ["Ben", waits]).done).toEqual([]);
  });

  it("when a release hands the lock to somebody who waited", () => {
    const released = storyOf(...QUEUE, ["Ada", { type: "released" }]);
    expect(released.done).not.toContain("hand-over");
    expect(advance(released, { who: "Ben", ...acquired }).done).toContain("hand-over");
    expect(advance(released, { who: "Dan", ...acquired }).done).not.toContain("hand-over");
  });

  it("when somebody gets what a frozen holder did not give", () => {
    const frozen = storyOf(...QUEUE, ["Ada", { type: "froze" }]);
    expect(advance(frozen, { who: "Ben", ...acquired }).done).toContain("expiry");
    const thawed = advance(frozen, { who: "Ada", type: "thawed" });
    expect(advance(thawed, { who: "Ben", ...acquired }).done).not.toContain("expiry");
  });

  it("but not when another slot was released, or a client closed", () => {
    const shared = storyOf(["Dan", acquired], ...QUEUE, ["Ada", { type: "froze" }]);
    const released = advance(shared, { who: "Dan", type: "released" });
    expect(advance(released, { who: "Ben", ...acquired }).done).not.toContain("expiry");
    const closed = advance(shared, { who: "Ada", type: "left" });
    expect(advance(closed, { who: "Ben", ...acquired }).done).toEqual(["acquire", "queue"]);
  });

  it("when an old fence is refused", () => {
    const refused = storyOf(["Ben", { type: "refused", fence: "1", highest: "2" }]);
    expect(refused.done).toEqual(["refusal"]);
    expect(nextStep(refused)).toBe("acquire");
  });
});

describe("the hint", () => {
  const before = (step: Step): Story => {
    const steps: Step[] = ["acquire", "queue", "hand-over", "expiry", "refusal"];
    return { ...BEGINNING, done: steps.slice(0, steps.indexOf(step)) };
  };
  const holding = (fence: string): Standing => ({ kind: "holding", fence });
  const nothing: Standing = { kind: "nothing" };
  const waiting: Standing = { kind: "waiting" };
  const seen = (name: string, standing: Standing, isFrozen = false) => ({
    name,
    standing,
    isFrozen,
    fence: standing.kind === "holding" || standing.kind === "lost" ? standing.fence : undefined,
  });

  it.each<[string, Step, ReturnType<typeof seen>[], string | undefined, Hint | undefined]>([
    [
      "lets the first who is free acquire",
      "queue",
      [seen("Ada", holding("1")), seen("Ben", nothing)],
      undefined,
      { who: "Ben", action: "acquire" },
    ],
    [
      "lets the holder release when somebody waits",
      "hand-over",
      [seen("Ada", holding("1")), seen("Ben", waiting)],
      undefined,
      { who: "Ada", action: "release" },
    ],
    [
      "finds somebody to wait first",
      "expiry",
      [seen("Ada", nothing), seen("Ben", holding("1"))],
      undefined,
      { who: "Ada", action: "acquire" },
    ],
    [
      "freezes the holder",
      "expiry",
      [seen("Ben", holding("2")), seen("Cleo", waiting)],
      undefined,
      { who: "Ben", action: "freeze" },
    ],
    [
      "waits for the lease to end",
      "expiry",
      [seen("Ben", holding("2"), true), seen("Cleo", waiting)],
      undefined,
      undefined,
    ],
    [
      "lets the new holder write first",
      "refusal",
      [seen("Ben", holding("2"), true), seen("Cleo", holding("3"))],
      undefined,
      { who: "Cleo", action: "write" },
    ],
    [
      "then thaws the old one",
      "refusal",
      [seen("Ben", holding("2"), true), seen("Cleo", holding("3"))],
      "3",
      { who: "Ben", action: "thaw" },
    ],
    [
      "and lets it write",
      "refusal",
      [seen("Ben", { kind: "lost", reason: "expired", fence: "2" }), seen("Cleo", holding("3"))],
      "3",
      { who: "Ben", action: "write" },
    ],
  ])("%s", (_what, step, players, highest, hint) => {
    expect(hintOf(before(step), players, { ...UNWRITTEN, highest })).toEqual(hint);
  });
});
