import { performance } from "node:perf_hooks";
import { describe, expect, it } from "vitest";
import { Story } from "./story.ts";

const WAITERS = 10_000;

function crowd(wait: number, waiters = WAITERS): { story: Story; token: string } {
  const story = new Story();
  const token = story.hold("first");
  for (let n = 0; n < waiters; n += 1) story.acquire(`s${n}`, { request: `r${n}`, wait, lease: 30 });
  story.events = [];
  return { story, token };
}

function grantThrough({ story, token }: { story: Story; token: string }, waiters: number) {
  const times: number[] = [];
  let mostRows = 0;
  let current = token;
  for (let n = 0; n < waiters; n += 1) {
    const before = performance.now();
    story.release(current);
    const rows = story.rowsWritten;
    current = story.pickUp(`r${n}`).token as string;
    mostRows = Math.max(mostRows, rows, story.rowsWritten);
    story.answer(`r${n}`, "taken");
    times.push(performance.now() - before);
    expect(story.notices()).toEqual([`r${n} granted`]);
  }
  return { times, mostRows };
}

const median = (times: number[]) => times.sort((a, b) => a - b)[times.length >> 1] as number;

describe(`a queue of ${WAITERS}`, () => {
  it("is served in order, with the same few rows and about the same time for each", () => {
    // Warm up first, so that the queue is what is measured.
    grantThrough(crowd(1_000_000, 2_000), 2_000);
    const { mostRows, times } = grantThrough(crowd(1_000_000), WAITERS);
    expect(mostRows).toBeLessThanOrEqual(2);
    const [longest, shortest] = [median(times.slice(0, 1_000)), median(times.slice(-1_000))];
    expect(longest / shortest).toBeLessThan(5);
    expect(shortest / longest).toBeLessThan(5);
  });

  it("times out in one step, with one notice each and no row written", () => {
    const { story, token } = crowd(10);
    story.later(10).tick();
    expect(story.rowsWritten).toBe(0);
    const notices = story.notices();
    expect(notices.length).toBe(WAITERS);
    expect(new Set(notices).size).toBe(WAITERS);
    expect(story.waiting()).toBe(0);
    expect(story.release(token)).toEqual({ status: "released" });
    expect(story.holders()).toEqual([]);
  });

  it("has exactly one promotion and one notice per release", () => {
    const { story, token } = crowd(1_000_000);
    story.release(token, "first");
    expect(story.events).toMatchObject([{ type: "notice", session: "s0", request: "r0", kind: "granted" }]);
    expect(story.holders()).toEqual(["s0"]);
  });

  it("comes back from its rows in the same order", () => {
    const { story, token } = crowd(1_000_000);
    story.cancel("r1");
    story.reload();
    story.release(token);
    story.leave("s0");
    expect(story.notices()).toEqual(["r0 granted", "r2 granted"]);
    expect(story.waiting()).toBe(WAITERS - 3);
  });

  it("writes one row when a waiter in the middle leaves", () => {
    const { story } = crowd(1_000_000);
    story.cancel("r5000");
    expect(story.rowsWritten).toBe(1);
    expect(story.waiting()).toBe(WAITERS - 1);
  });
});
