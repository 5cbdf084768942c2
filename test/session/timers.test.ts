import { describe, expect, it } from "vitest";
import { Timers } from "../../src/core/session/timers.ts";

describe("the timers of a session", () => {
  it("run when they are due, oldest first", () => {
    const { timers, ran } = story();
    for (const time of [30, 10, 50, 20, 40]) timers.at(time, () => ran.push(time));
    expect(timers.next).toBe(10);
    timers.run(9);
    expect(ran).toEqual([]);
    timers.run(40);
    expect(ran).toEqual([10, 20, 30, 40]);
    expect(timers.next).toBe(50);
    timers.run(60);
    expect([ran.at(-1), timers.next]).toEqual([50, Number.POSITIVE_INFINITY]);
  });

  it("do not run once they are stopped, also by one that is due with them", () => {
    const { timers, ran } = story();
    timers.stop(timers.at(10, () => ran.push(10)));
    expect(timers.next).toBe(Number.POSITIVE_INFINITY);
    timers.at(20, () => timers.stop(later));
    const later = timers.at(30, () => ran.push(30));
    timers.run(40);
    expect(ran).toEqual([]);
  });

  it("that are set by one of them wait for the next time, even if they are due", () => {
    const { timers, ran } = story();
    const again = () => {
      ran.push(ran.length);
      timers.at(10, again);
    };
    timers.at(10, again);
    timers.run(20);
    expect(ran).toEqual([0]);
    timers.run(20);
    expect(ran).toEqual([0, 1]);
  });

  it("cost little however many there are: the next one is known without looking at all", () => {
    const { timers } = story();
    const count = 50_000;
    const startedAt = performance.now();
    let looked = 0;
    for (let time = 1; time <= count; time++) {
      timers.at(time, () => {});
      looked += timers.next;
    }
    expect(looked).toBe(count);
    // A scan each time would be over a thousand million steps.
    expect(performance.now() - startedAt).toBeLessThan(2_500);
  });
});

function story() {
  return { timers: new Timers(), ran: [] as number[] };
}
