import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { Deadlines, type Due } from "../../src/core/engine/deadlines.ts";

class Timer implements Due {
  dueAt: number;
  scheduledAt = Number.POSITIVE_INFINITY;
  constructor(dueAt: number) {
    this.dueAt = dueAt;
  }
}

describe("deadlines", () => {
  it("never come if there are none", () => {
    const deadlines = new Deadlines<Timer>();
    expect(deadlines.earliest()).toBe(Number.POSITIVE_INFINITY);
    expect(deadlines.takeDue(Number.MAX_VALUE)).toBeUndefined();
  });

  it("come due exactly once, at their millisecond and not before", () => {
    const deadlines = new Deadlines<Timer>();
    const timer = new Timer(100);
    deadlines.schedule(timer);
    deadlines.schedule(timer);
    expect(deadlines.takeDue(99)).toBeUndefined();
    expect(deadlines.takeDue(100)).toBe(timer);
    expect(deadlines.takeDue(1_000)).toBeUndefined();
  });

  it("that move later do not come due at the old time", () => {
    const deadlines = new Deadlines<Timer>();
    const timer = new Timer(100);
    deadlines.schedule(timer);
    timer.dueAt = 500;
    expect(deadlines.takeDue(499)).toBeUndefined();
    expect(deadlines.earliest()).toBe(500);
    expect(deadlines.takeDue(500)).toBe(timer);
  });

  it("that are withdrawn do not pile up behind an early one", () => {
    const deadlines = new Deadlines<Timer>();
    deadlines.schedule(new Timer(1));
    for (let n = 0; n < 10_000; n++) {
      const timer = new Timer(1_000_000);
      deadlines.schedule(timer);
      timer.dueAt = Number.POSITIVE_INFINITY;
    }
    expect(deadlines.size).toBeLessThan(200);
    expect(deadlines.earliest()).toBe(1);
  });

  it("that are withdrawn never come due", () => {
    const deadlines = new Deadlines<Timer>();
    const timer = new Timer(100);
    deadlines.schedule(timer);
    timer.dueAt = Number.POSITIVE_INFINITY;
    expect(deadlines.takeDue(1_000)).toBeUndefined();
    expect(deadlines.earliest()).toBe(Number.POSITIVE_INFINITY);
  });

  it("agree with a plain sorted list, however they move", () => {
    const change = fc.oneof(
      fc.record({ kind: fc.constant("move" as const), which: fc.nat(9), to: fc.nat(100) }),
      fc.record({ kind: fc.constant("stop" as const), which: fc.nat(9) }),
      fc.record({ kind: fc.constant("take" as const), now: fc.nat(100) }),
    );
    fc.assert(
      fc.property(fc.array(change, { maxLength: 60 }), (changes) => {
        const deadlines = new Deadlines<Timer>();
        const timers = Array.from({ length: 10 }, () => new Timer(Number.POSITIVE_INFINITY));
        for (const step of changes) {
          if (step.kind === "take") {
            const due = timers.map((timer) => timer.dueAt).filter((at) => at <= step.now);
            const taken: number[] = [];
            for (let timer = deadlines.takeDue(step.now); timer; timer = deadlines.takeDue(step.now)) {
              taken.push(timer.dueAt);
              timer.dueAt = Number.POSITIVE_INFINITY;
            }
            expect(taken).toEqual(due.sort((a, b) => a - b));
          } else {
            const timer = timers[step.which] as Timer;
            timer.dueAt = step.kind === "move" ? step.to : Number.POSITIVE_INFINITY;
            deadlines.schedule(timer);
          }
          expect(deadlines.earliest()).toBe(Math.min(...timers.map((timer) => timer.dueAt)));
        }
      }),
      { numRuns: 500 },
    );
  });
});
