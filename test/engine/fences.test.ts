import { describe, expect, it } from "vitest";
import { fenceFromHex, fenceToHex } from "../../src/core/engine/index.ts";
import { fenceOf, Story } from "./story.ts";

const TOP = 2n ** 64n - 1n;

describe("fences", () => {
  it("are the wall clock in nanoseconds, exactly, far beyond 2^53", () => {
    const story = new Story({ start: 1_763_251_200_123 });
    expect(fenceOf(story.hold("a"))).toBe(1_763_251_200_123_000_000n);
  });

  it("rise by exactly one within a millisecond, where doubles could not tell them apart", () => {
    const story = new Story();
    let last = fenceOf(story.hold("a"));
    const salts = new Set<string>();
    for (let round = 0; round < 10_000; round += 1) {
      story.leave("a");
      const token = story.hold("a");
      expect(fenceOf(token)).toBe(last + 1n);
      last = fenceOf(token);
      salts.add(token.slice(16));
    }
    expect(salts.size).toBe(10_000);
  });

  it("sort as text in grant order, even at the lowest values", () => {
    const story = new Story({ start: 0 });
    const tokens: string[] = [];
    for (let round = 0; round < 40; round += 1) {
      tokens.push(story.hold("a"));
      story.leave("a");
    }
    expect(tokens[0]).toMatch(/^0000000000000001/);
    expect(tokens).toEqual([...tokens].sort());
  });

  it("each belong to one slot of a semaphore", () => {
    const story = new Story({ limit: 5 });
    const fences = [1, 2, 3, 4, 5].map((n) => fenceOf(story.hold("a", { request: `r${n}` })));
    expect(fences).toEqual([0n, 1n, 2n, 3n, 4n].map((n) => (fences[0] as bigint) + n));
  });

  it("stay above the floor, and above all earlier ones when the floor is lowered", () => {
    const story = new Story({ fenceFloor: 2n ** 62n });
    const high = story.hold("a");
    expect(fenceOf(high)).toBe(2n ** 62n + 1n);
    story.release(high);
    const lowered = { ...story.context(), fenceFloor: 0n };
    const command = { session: "b", request: "b-l", limit: 1, leaseSeconds: 5, waitMs: 0, mayWait: true };
    expect(story.engine.acquire(command, lowered)).toMatchObject({ status: "granted" });
    expect(story.engine.lastFence).toBe(2n ** 62n + 2n);
  });

  it("never fall when the clock is set back, with or without a reload", () => {
    const story = new Story();
    const first = story.hold("a");
    story.release(first);
    story.later(-3600);
    const second = story.hold("b");
    story.release(second);
    story.reload();
    story.later(-3600);
    const third = story.hold("c");
    expect(fenceOf(second)).toBe(fenceOf(first) + 1n);
    expect(fenceOf(third)).toBe(fenceOf(first) + 2n);
  });

  it("are not granted again after the directory has raised the mark", () => {
    const story = new Story();
    story.engine.raiseFence(2n ** 63n);
    story.engine.raiseFence(5n);
    expect(fenceOf(story.hold("a"))).toBe(2n ** 63n + 1n);
  });

  it("survive conversion to text", () => {
    for (const fence of [0n, 1n, 2n ** 53n + 1n, 2n ** 63n, TOP]) {
      expect(fenceToHex(fence)).toMatch(/^[0-9a-f]{16}$/);
      expect(fenceFromHex(fenceToHex(fence))).toBe(fence);
    }
  });
});

describe("at the top of 64 bits", () => {
  it("the last fence is granted; the next acquire fails, holds nothing, and nothing wraps", () => {
    const story = new Story({ limit: 2 });
    story.engine.raiseFence(TOP - 1n);
    expect(story.hold("a")).toMatch(/^ffffffffffffffff/);
    for (const _ of [1, 2, 3]) expect(story.acquire("b")).toEqual({ status: "fence_persistence" });
    expect(story.enqueue("c")).toEqual({ status: "fence_persistence" });
    expect(story.holders()).toEqual(["a"]);
    expect(story.engine.lastFence).toBe(TOP);
    expect(story.wait("c")).toEqual({ status: "not_enqueued" });
  });

  it("a waiter that cannot be promoted stays queued, and still times out", () => {
    const story = new Story();
    story.engine.raiseFence(TOP - 1n);
    const token = story.hold("a");
    story.acquire("b", { wait: 10 });
    story.acquire("c", { wait: 20 });
    expect(story.release(token)).toEqual({ status: "released" });
    expect(story.holders()).toEqual([]);
    expect(story.waiting()).toBe(2);
    expect(story.pickUp("b-l")).toEqual({ status: "queued" });
    story.later(10).tick();
    expect(story.notices()).toEqual(["b-l timeout"]);
    expect(story.waiting()).toBe(1);
  });

  it("a new request does not overtake waiters that could not be promoted", () => {
    const story = new Story();
    story.engine.raiseFence(TOP - 1n);
    const token = story.hold("a");
    story.acquire("b", { wait: 10 });
    story.release(token);
    expect(story.acquire("c", { wait: 10 })).toEqual({ status: "queued" });
    expect(story.waiting()).toBe(2);
  });

  it("the floor counts as a used fence", () => {
    const story = new Story({ fenceFloor: TOP });
    expect(story.acquire("a")).toEqual({ status: "fence_persistence" });
    expect(story.holders()).toEqual([]);
  });

  it("a waiter that could not be promoted is served in order as soon as there is a fence", () => {
    const story = new Story();
    const token = story.hold("a");
    story.acquire("b", { wait: 100 });
    story.acquire("c", { wait: 100 });
    // A floor set far too high by mistake, and then corrected.
    story.engine.release(token, "a", { ...story.context(), fenceFloor: TOP });
    expect(story.engine.view()).toMatchObject({ holders: [], waiters: 2 });
    story.tick();
    expect(story.notices()).toEqual(["b-l granted"]);
    expect(story.holders()).toEqual(["b"]);
  });
});
