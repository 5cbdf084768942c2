import { describe, expect, it } from "vitest";
import { Story } from "./story.ts";

describe("the view of a key", () => {
  it("names each hold by its fence, never by its token, and tells since when it is held", () => {
    const story = new Story();
    const start = story.now;
    const first = story.hold("a");
    expect(story.engine.view().holders).toEqual([
      { session: "a", since: start, expiresAt: start + 33_000, fence: first.slice(0, 16) },
    ]);
    story.later(1).acquire("b", { wait: 60, lease: 9 });
    story.later(1).release(first);
    expect(story.engine.view().holders).toMatchObject([{ session: "b", since: start + 1_000 }]);
    story.later(1);
    const { token = "" } = story.pickUp("b-l");
    story.reload();
    const view = story.engine.view({ detail: true });
    expect(view.holders).toMatchObject([{ session: "b", since: start + 3_000, expiresAt: start + 12_000 }]);
    expect(JSON.stringify(view)).not.toContain(token);
  });

  it("shows the queue in its order when asked for, and only then", () => {
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

  it("shows a hundred holders and a hundred waiters at most, and counts all", () => {
    const story = new Story({ limit: 150 });
    for (let n = 0; n < 300; n += 1) story.acquire(`s${n}`, { wait: 60 });
    const view = story.engine.view({ detail: true });
    expect([view.holderCount, view.holders.length, view.waiters, view.queue.length]).toEqual([150, 100, 150, 100]);
    expect(view.queue[0]?.session).toBe("s150");
  });
});
