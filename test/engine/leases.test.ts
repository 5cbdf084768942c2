import { describe, expect, it } from "vitest";
import { fenceOf, Story } from "./story.ts";

const LONGEST = 9_223_372_036;
const WAKE = { gcMaxIdleMs: 60_000, graceMs: 0 };

describe("leases", () => {
  it("end at their millisecond: renewable just before, refused then", () => {
    const story = new Story();
    const token = story.hold("a", { lease: 2 });
    story.now += 1_999;
    expect(story.renew(token, 1)).toEqual({ status: "renewed", leaseSeconds: 1 });
    story.now += 999;
    expect(story.acquire("b")).toEqual({ status: "timeout" });
    story.now += 1;
    expect(story.renew(token, 1)).toEqual({ status: "not_held" });
    expect(story.acquire("b").status).toBe("granted");
  });

  it("that end together all end before anyone is promoted; then every slot is filled, in order", () => {
    const story = new Story({ limit: 3 });
    for (const n of [1, 2, 3]) story.hold("a", { request: `a${n}`, lease: 1 });
    for (const n of [1, 2, 3, 4, 5]) story.acquire(`w${n}`, { wait: 100, lease: 50 });
    story.later(1).tick();
    expect(story.holders()).toEqual(["w1", "w2", "w3"]);
    expect(story.waiting()).toBe(2);
    expect(story.notices()).toEqual(["w1-l granted", "w2-l granted", "w3-l granted"]);
  });

  it("that end at the same time as a release promote one waiter, not two", () => {
    const story = new Story();
    const token = story.hold("a", { lease: 5 });
    story.acquire("b", { wait: 100 });
    story.acquire("c", { wait: 100 });
    story.later(5);
    expect(story.release(token, "a")).toEqual({ status: "not_held" });
    expect(story.holders()).toEqual(["b"]);
    expect(story.waiting()).toBe(1);
  });

  it("survive a clock that is set back, and the fence still rises", () => {
    const story = new Story();
    const token = story.hold("a", { lease: 10 });
    story.acquire("b", { wait: 100_000 });
    story.later(-3600).tick();
    expect(story.holders()).toEqual(["a"]);
    story.later(3609).tick();
    expect(story.holders()).toEqual(["a"]);
    story.later(1).tick();
    expect(story.holders()).toEqual(["b"]);
    expect(fenceOf(story.pickUp("b-l").token)).toBeGreaterThan(fenceOf(token));
  });

  it("end when the clock is set forward, and one waiter is promoted", () => {
    const story = new Story();
    story.hold("a", { lease: 1800 });
    story.acquire("b", { wait: 10_000 });
    story.acquire("c", { wait: 10_000 });
    story.later(3600).tick();
    expect(story.holders()).toEqual(["b"]);
    expect(story.waiting()).toBe(1);
    expect(story.notices()).toEqual(["b-l granted"]);
  });

  it("may last three centuries, to the millisecond, even after a reload", () => {
    const story = new Story();
    const token = story.hold("a", { lease: LONGEST, isWatched: true });
    expect(story.engine.nextWake(WAKE)).toBe(story.now + LONGEST * 1000);
    story.reload();
    expect(story.engine.nextWake(WAKE)).toBe(story.now + LONGEST * 1000);
    story.now += LONGEST * 1000 - 1;
    expect(story.acquire("b")).toEqual({ status: "timeout" });
    expect(story.engine.isPrunable(story.context())).toBe(false);
    story.now += 1;
    expect(story.release(token)).toEqual({ status: "not_held" });
  });

  it("start in full when a promotion is picked up late", () => {
    const story = new Story();
    const token = story.hold("a");
    story.acquire("b", { wait: 10, lease: 1 });
    story.release(token);
    story.later(0.8);
    expect(story.pickUp("b-l")).toMatchObject({ status: "granted", leaseSeconds: 1 });
    story.later(0.9);
    expect(story.acquire("c")).toEqual({ status: "timeout" });
  });

  it("start at the pick-up, even if everything has stopped for a short while", () => {
    const story = new Story();
    const token = story.hold("a");
    story.acquire("b", { wait: 60, lease: 1 });
    story.acquire("c", { wait: 60 });
    story.release(token);
    story.reload();
    story.later(4.9).tick();
    expect(story.notices().every((notice) => notice === "b-l granted")).toBe(true);
    expect(story.pickUp("b-l")).toMatchObject({ status: "granted", leaseSeconds: 1 });
    expect(story.engine.nextWake(WAKE)).toBe(story.now + 1_000);
  });

  it("that have not started five seconds after the promotion pass the slot on, with a notice", () => {
    const story = new Story();
    const token = story.hold("a");
    story.acquire("b", { wait: 60, lease: 1 });
    story.acquire("c", { wait: 60 });
    story.release(token);
    story.notices();
    story.later(5);
    expect(story.pickUp("b-l")).toEqual({ status: "lease_expired" });
    expect(story.notices()).toEqual(["b-l lease_expired", "c-l granted"]);
    story.answer("b-l", "taken");
    expect(story.pickUp("b-l")).toEqual({ status: "unknown" });
    expect(story.holders()).toEqual(["c"]);
  });

  it("start when the session says that its client is away", () => {
    const story = new Story();
    const token = story.hold("a");
    story.acquire("b", { wait: 60, lease: 1 });
    story.acquire("c", { wait: 60 });
    story.release(token);
    for (const seconds of [0, 0.9]) {
      story.later(seconds);
      story.answer("b-l", "later");
    }
    story.reload();
    expect(story.engine.nextWake(WAKE)).toBeLessThanOrEqual(story.now + 100);
    story.later(0.1).tick();
    expect(story.holders()).toEqual(["c"]);
  });

  it("can be shortened by a renewal, and the key wakes for it", () => {
    const story = new Story();
    const token = story.hold("a", { lease: 60, isWatched: true });
    story.renew(token, 1);
    expect(story.engine.nextWake(WAKE)).toBe(story.now + 1_000);
  });

  it("that were extended do not end at the old time", () => {
    const story = new Story();
    const token = story.hold("a", { lease: 1, isWatched: true });
    story.renew(token, 60);
    story.later(2).tick();
    expect(story.holders()).toEqual(["a"]);
    expect(story.engine.nextWake(WAKE)).toBe(story.now + 58_000);
  });

  it("of several slots wake the key one after the other", () => {
    const story = new Story({ limit: 2 });
    story.hold("a", { request: "a1", lease: 1, isWatched: true });
    story.hold("a", { request: "a2", lease: 3, isWatched: true });
    expect(story.engine.nextWake(WAKE)).toBe(story.now + 1_000);
    story.later(1).tick();
    expect(story.engine.nextWake(WAKE)).toBe(story.now + 2_000);
  });

  it("that nobody waits for wake the key only if their session wants to hear of their end", () => {
    const story = new Story({ limit: 2 });
    story.hold("a", { request: "a1", lease: 1 });
    expect(story.engine.nextWake(WAKE)).toBe(Number.POSITIVE_INFINITY);
    story.hold("b", { request: "b1", lease: 3, isWatched: true });
    expect(story.engine.nextWake(WAKE)).toBe(story.now + 3_000);
    story.run({ do: "watch", session: "a" });
    expect(story.rowsWritten).toBe(1);
    story.reload();
    expect(story.engine.nextWake(WAKE)).toBe(story.now + 1_000);
    story.run({ do: "watch", session: "a" });
    expect(story.rowsWritten).toBe(0);
  });

  it("that somebody waits for wake the key, until the last waiter has left", () => {
    const story = new Story();
    story.hold("a", { lease: 1 });
    story.acquire("b", { wait: 60 });
    expect(story.engine.nextWake(WAKE)).toBe(story.now + 1_000);
    story.cancel("b-l");
    expect(story.engine.nextWake(WAKE)).toBe(Number.POSITIVE_INFINITY);
    story.acquire("b", { wait: 60 });
    story.later(1).tick();
    expect(story.holders()).toEqual(["b"]);
  });
});

describe("waits", () => {
  it.each([3_000_000, LONGEST])("of %i seconds do not end at once and are still granted", (wait) => {
    const story = new Story();
    const token = story.hold("a", { lease: LONGEST });
    expect(story.acquire("b", { wait })).toEqual({ status: "queued" });
    story.tick();
    story.now += wait * 1000 - 1;
    story.tick();
    expect(story.waiting()).toBe(1);
    story.release(token);
    expect(story.pickUp("b-l").status).toBe("granted");
  });

  it("end at their millisecond", () => {
    const story = new Story();
    story.hold("a", { lease: 60 });
    story.acquire("b", { wait: 2 });
    story.now += 1_999;
    story.tick();
    expect(story.notices()).toEqual([]);
    expect(story.engine.nextWake(WAKE)).toBe(story.now + 1);
    story.now += 1;
    story.tick();
    expect(story.notices()).toEqual(["b-l timeout"]);
  });

  it("get a slot that became free at their deadline, even if the key looks late", () => {
    const story = new Story();
    story.hold("a", { lease: 5 });
    story.acquire("b", { wait: 5 });
    story.later(30).tick();
    expect(story.notices()).toEqual(["b-l granted"]);
  });

  it("that ended before the slot became free do not get it, even if the key looks late", () => {
    const story = new Story();
    story.hold("a", { lease: 5 });
    story.acquire("b", { wait: 4 });
    story.acquire("c", { wait: 20 });
    story.later(10).tick();
    expect(story.notices()).toEqual(["b-l timeout", "c-l granted"]);
  });

  it("of two requests of one session are separate", () => {
    const story = new Story();
    const token = story.hold("a", { lease: 60 });
    story.acquire("b", { request: "b1", wait: 50 });
    story.acquire("b", { request: "b2", wait: 1 });
    story.acquire("c", { wait: 50 });
    story.later(1).tick();
    expect(story.notices()).toEqual(["b2 timeout"]);
    story.release(token);
    expect(story.notices()).toEqual(["b1 granted"]);
  });

  it("that time out without an answer are notified less and less often, then given up", () => {
    const story = new Story({ gcMaxIdleMs: 10_000_000 });
    story.hold("a", { lease: 100_000 });
    story.acquire("b", { wait: 1 });
    const gaps: number[] = [];
    for (let last = story.now; story.key.rows.waiters.size > 0; last = story.now) {
      story.now = story.engine.nextWake(WAKE);
      gaps.push(story.now - last);
      story.tick();
    }
    expect(gaps[1]).toBeLessThanOrEqual(1_000);
    expect(Math.max(...gaps)).toBeLessThanOrEqual(10_000);
    expect(gaps.slice(1)).toEqual(gaps.slice(1).sort((x, y) => x - y));
    expect(story.notices().length).toBe(30);
    expect(story.holders()).toEqual(["a"]);
  });
});
