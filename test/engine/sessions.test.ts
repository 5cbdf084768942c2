import { describe, expect, it } from "vitest";
import { Story } from "./story.ts";

describe("a session that leaves", () => {
  it("is not promoted by its own end", () => {
    const story = new Story();
    story.hold("a");
    story.acquire("a", { request: "a2", wait: 10 });
    story.enqueue("a");
    story.leave("a");
    expect([story.holders(), story.waiting(), story.notices()]).toEqual([[], 0, []]);
  });

  it("keeps only holds whose token it knows, when told to keep them", () => {
    const story = new Story({ limit: 2 });
    story.hold("a", { request: "a1", lease: 5 });
    const other = story.hold("b");
    story.acquire("a", { request: "a2", wait: 10 });
    story.release(other);
    expect(story.holders()).toEqual(["a", "a"]);
    story.leave("a", { keepsReported: true });
    expect(story.holders()).toEqual(["a"]);
    story.later(5).tick();
    expect(story.holders()).toEqual([]);
  });

  it("can leave twice, and a late second time takes nothing from a newer holder", () => {
    const story = new Story();
    story.hold("a");
    story.leave("a");
    story.hold("b");
    story.leave("a");
    expect(story.rowsWritten).toBe(0);
    expect(story.holders()).toEqual(["b"]);
  });

  it("takes along the memory of a two-phase grant that ran out unseen, also one that runs out just then", () => {
    const story = new Story();
    story.enqueue("a", { lease: 1 });
    story.later(1);
    story.leave("a");
    expect([...story.key.rows.lapsed]).toEqual([]);
  });

  it("leaves no unheard end behind when its promotion has run out just then", () => {
    const story = new Story();
    const token = story.hold("a");
    story.acquire("b", { wait: 10, lease: 1 });
    story.release(token);
    story.later(1);
    story.leave("b");
    expect(story.key.rows.waiters.size).toBe(0);
  });

  it("with a hundred requests is gone with all of them", () => {
    const story = new Story({ limit: 10 });
    for (let n = 0; n < 100; n += 1) story.acquire("a", { request: `a${n}`, wait: 100 });
    story.acquire("b", { wait: 100 });
    story.leave("a");
    expect([story.holders(), story.waiting(), story.key.rows.waiters.size]).toEqual([["b"], 0, 1]);
  });
});

describe("a two-phase place", () => {
  it("that came up and was not waited for in time is told once, then forgotten", () => {
    const story = new Story();
    const token = story.hold("a");
    story.enqueue("b", { lease: 1 });
    story.acquire("c", { wait: 100 });
    story.release(token);
    story.later(1).tick();
    expect(story.holders()).toEqual(["c"]);
    expect(story.wait("b")).toEqual({ status: "lease_expired" });
    expect(story.wait("b")).toEqual({ status: "not_enqueued" });
  });

  it("that lapsed is forgotten after the idle time, whatever else lapsed and in whatever order it was seen", () => {
    const story = new Story({ limit: 2 });
    const tokens = [story.hold("x", { request: "x1" }), story.hold("x", { request: "x2" })];
    story.enqueue("late", { lease: 20 });
    story.enqueue("early", { lease: 10 });
    for (const token of tokens) story.release(token);
    story.answer("early-e", "noted");
    // Both are found expired by one look; `late` has an unanswered notice and is seen first.
    story.later(20).tick();
    story.later(51);
    expect(story.wait("early")).toEqual({ status: "not_enqueued" });
    expect(story.wait("late")).toEqual({ status: "lease_expired" });
  });

  it("is still there after a reload when an older one of the session timed out unheard", () => {
    const story = new Story();
    const token = story.hold("a");
    story.enqueue("b", { request: "old" });
    story.wait("b", { request: "old-w", wait: 1 });
    story.later(1).tick();
    expect(story.notices()).toEqual(["old-w timeout"]);
    story.release(token);
    const acquired = story.enqueue("b", { request: "new" });
    expect(acquired.status).toBe("granted");
    story.reload();
    expect(story.wait("b", { request: "new-w" })).toEqual(acquired);
  });

  it("survives a reload between enqueue and wait, queued or promoted", () => {
    const story = new Story();
    const token = story.hold("a");
    story.enqueue("b", { lease: 9 });
    story.reload();
    expect(story.enqueue("b", { request: "again" })).toEqual({ status: "already_enqueued" });
    story.release(token);
    story.reload();
    expect(story.wait("b")).toMatchObject({ status: "granted", leaseSeconds: 9 });
  });

  it("that was refused leaves no record", () => {
    const story = new Story({ maxWaiters: 1 });
    story.hold("a");
    story.acquire("b", { wait: 10 });
    expect(story.enqueue("c")).toEqual({ status: "max_waiters" });
    expect(story.enqueue("c", { limit: 3 })).toEqual({ status: "limit_mismatch" });
    expect(story.wait("c")).toEqual({ status: "not_enqueued" });
    expect(story.rowsWritten).toBe(0);
  });
});

describe("an idle key", () => {
  it("may be forgotten after its time, not before, and not while somebody holds or waits", () => {
    const story = new Story();
    const token = story.hold("a", { lease: 1_000 });
    story.later(500);
    expect(story.engine.isPrunable(story.context())).toBe(false);
    story.release(token);
    story.later(60);
    expect(story.engine.isPrunable(story.context())).toBe(false);
    story.now += 1;
    expect(story.engine.isPrunable(story.context())).toBe(true);
  });

  it("is not kept by wrong tokens and refused requests", () => {
    const story = new Story({ limit: 2 });
    story.release(story.hold("a"));
    for (let round = 0; round < 60; round += 1) {
      story.later(1);
      story.release("nothing");
      story.renew("nothing");
      story.acquire("b", { limit: 1 });
      story.wait("b");
    }
    story.now += 1;
    expect(story.engine.isPrunable(story.context())).toBe(true);
  });

  it("takes any limit after its time, keeps its fence, and a smaller limit holds", () => {
    const story = new Story({ limit: 3 });
    const tokens = [1, 2, 3].map((n) => story.hold("a", { request: `a${n}` }));
    for (const token of tokens) story.release(token);
    expect(story.acquire("b", { limit: 1 })).toEqual({ status: "limit_mismatch" });
    story.now += 60_001;
    const { token = "" } = story.acquire("b", { limit: 1 });
    expect(tokens.every((old) => old < token)).toBe(true);
    expect(story.acquire("c", { limit: 1 })).toEqual({ status: "timeout" });
    story.reload();
    expect(story.acquire("c", { limit: 1 })).toEqual({ status: "timeout" });
    expect(story.engine.limit).toBe(1);
  });
});

describe("losses", () => {
  it("are told to the owner when a lease ends or somebody else releases, not for its own doing", () => {
    const story = new Story({ limit: 4 });
    const expiring = story.hold("a", { request: "a1", lease: 1 });
    const own = story.hold("a", { request: "a2" });
    const foreign = story.hold("a", { request: "a3" });
    story.hold("a", { request: "a4" });
    story.release(own, "a");
    story.release(foreign, "b");
    story.later(1).tick();
    story.leave("a");
    expect(story.events).toEqual([
      { type: "lost", session: "a", token: foreign, reason: "released" },
      { type: "lost", session: "a", token: expiring, reason: "expired" },
    ]);
  });

  it("of a token that nobody was told are no losses", () => {
    const story = new Story();
    const token = story.hold("a");
    story.enqueue("b", { lease: 1 });
    story.release(token, "a");
    story.later(1).tick();
    expect(story.events.filter(({ type }) => type === "lost")).toEqual([]);
  });
});

describe("rows", () => {
  it("are two for an uncontended cycle", () => {
    const story = new Story();
    const token = story.hold("a");
    const wrote = story.rowsWritten;
    story.release(token);
    expect([wrote, story.rowsWritten]).toEqual([1, 1]);
  });

  it("are none for what changes nothing", () => {
    const story = new Story();
    story.hold("a", { lease: 60 });
    story.acquire("b");
    expect(story.rowsWritten).toBe(0);
    story.release("nothing");
    expect(story.rowsWritten).toBe(0);
    story.later(5).tick();
    expect(story.rowsWritten).toBe(0);
  });
});
