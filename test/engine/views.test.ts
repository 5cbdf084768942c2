import { describe, expect, it } from "vitest";
import { Story } from "./story.ts";

describe("the view of a key", () => {
  it("names each hold by its fence, never by its token, and shows since when it is held", () => {
    const story = new Story();
    const start = story.now;
    const first = story.hold("a");
    expect(story.engine.view().holders).toEqual([
      { session: "a", since: start, leaseSeconds: 33, expiresAt: start + 33_000, fence: first.slice(0, 16) },
    ]);
    story.later(1).acquire("b", { wait: 60, lease: 9 });
    story.later(1).release(first);
    expect(story.engine.view().holders).toMatchObject([{ session: "b", since: start + 2_000 }]);
    story.later(1);
    const { token = "" } = story.pickUp("b-l");
    story.reload();
    const view = story.engine.view({ detail: true });
    expect(view.holders).toMatchObject([{ session: "b", since: start + 2_000, expiresAt: start + 12_000 }]);
    expect(JSON.stringify(view)).not.toContain(token);
  });

  it("shows since when a waiter is promoted that has not been picked up: holders of one slot never overlap", () => {
    const story = new Story();
    const start = story.now;
    const first = story.hold("a");
    story.later(1).enqueue("b", { lease: 9 });
    story.acquire("c", { wait: 60, lease: 1 });
    story.later(1).release(first);
    const since = () => story.engine.view().holders.map((holder) => holder.since);
    expect(since()).toEqual([start + 2_000]);
    story.later(1).answer("b-e", "noted");
    story.reload();
    expect(since()).toEqual([start + 2_000]);
    story.later(9).tick();
    expect(story.holders()).toEqual(["c"]);
    expect(since()).toEqual([start + 12_000]);
    expect(story.steal(story.key.rows.slots.get(0)?.token ?? "")).toMatchObject({ since: start + 12_000 });
  });

  it("does so too when fences run ahead of the clock", () => {
    const story = new Story({ fenceFloor: 2n ** 63n });
    const start = story.now;
    const first = story.hold("a");
    story.later(1).enqueue("b");
    story.later(1).release(first);
    story.reload();
    expect(story.engine.view().holders).toMatchObject([{ session: "b", since: start + 2_000 }]);
  });

  it("shows holders in grant order, even after a reload", () => {
    const story = new Story({ limit: 3 });
    const first = story.hold("a", { lease: 600 });
    for (const session of ["b", "c"]) story.hold(session, { lease: 600 });
    story.release(first);
    story.hold("d", { lease: 600 });
    const sessions = () => story.engine.view().holders.map(({ session }) => session);
    expect(sessions()).toEqual(["b", "c", "d"]);
    story.reload();
    expect(sessions()).toEqual(["b", "c", "d"]);
  });

  it("shows the queue in order when asked to, and only then", () => {
    const story = new Story();
    const start = story.now;
    story.hold("a", { lease: 600 });
    story.acquire("b", { wait: 60 });
    story.later(1).enqueue("c");
    expect(story.engine.view()).toMatchObject({ waiters: 2, queue: [] });
    expect(story.engine.view({ detail: true }).queue).toEqual([
      { session: "b", joinedAt: start, deadline: start + 60_000 },
      { session: "c", joinedAt: start + 1_000, deadline: undefined },
    ]);
    story.wait("c", { wait: 5 });
    expect(story.engine.view({ detail: true }).queue[1]).toMatchObject({ deadline: start + 6_000 });
  });

  it("shows at most a hundred holders and a hundred waiters, and counts all", () => {
    const story = new Story({ limit: 150 });
    for (let n = 0; n < 300; n += 1) story.acquire(`s${n}`, { wait: 60 });
    const view = story.engine.view({ detail: true });
    expect([view.holderCount, view.holders.length, view.waiters, view.queue.length]).toEqual([150, 100, 150, 100]);
    expect(view.queue[0]?.session).toBe("s150");
  });
});

describe("the newest holds", () => {
  it("are those whose token was handed over, in that order, even across a reload", () => {
    const story = new Story({ limit: 3 });
    const start = story.now;
    const tokens = [story.hold("a"), story.later(1).hold("b"), story.later(1).hold("c")];
    for (const waiter of ["d", "e"]) {
      story.enqueue(waiter);
      story.wait(waiter, { wait: 60 });
    }
    story.later(1).release(tokens[0] ?? "");
    story.release(tokens[1] ?? "");
    // It came second, and picks up first.
    const { token = "" } = story.later(1).pickUp("e-w");
    const holds = [
      { session: "c", fence: tokens[2]?.slice(0, 16), since: start + 2_000, isImmediate: true },
      { session: "e", fence: token.slice(0, 16), since: start + 4_000, isImmediate: false },
    ];
    expect(story.engine.newestHolds(9)).toEqual(holds);
    story.reload();
    expect(story.engine.newestHolds(9)).toEqual(holds);
    story.later(1).pickUp("d-w");
    expect(story.engine.newestHolds(9).map(({ session }) => session)).toEqual(["c", "e", "d"]);
  });

  it("are as many as asked for, however many there are and in whichever slots", () => {
    const story = new Story({ limit: 50 });
    const oldest = Array.from({ length: 10 }, (_, n) => story.later(1).hold(`old-${n}`));
    for (let n = 0; n < 40; n += 1) story.later(1).hold(`s${n}`, { lease: 600 });
    // Their slots are the first ones, and so come first after a reload.
    for (const token of oldest) story.release(token);
    for (let n = 40; n < 44; n += 1) story.later(1).hold(`s${n}`, { lease: 600 });
    story.reload();
    for (const most of [1, 3, 44]) {
      const newest = Array.from({ length: most }, (_, n) => `s${44 - most + n}`);
      expect(story.engine.newestHolds(most).map(({ session }) => session)).toEqual(newest);
    }
  });
});
