import { describe, expect, it } from "vitest";
import { Story } from "./story.ts";

describe("a session that leaves", () => {
  it("is not promoted by its own leaving", () => {
    const story = new Story();
    story.hold("a");
    story.acquire("a", { request: "a2", wait: 10 });
    story.enqueue("a");
    story.leave("a");
    expect([story.holders(), story.waiting(), story.notices()]).toEqual([[], 0, []]);
  });

  it("keeps only holds whose token it has, or may have, if asked to", () => {
    const story = new Story({ limit: 3 });
    story.hold("a", { request: "a1", lease: 5 });
    const others = [story.hold("b", { request: "b1" }), story.hold("b", { request: "b2" })];
    story.acquire("a", { request: "a2", wait: 10, lease: 3 });
    story.enqueue("a", { request: "a3", lease: 3 });
    for (const other of others) story.release(other);
    expect(story.holders()).toEqual(["a", "a", "a"]);
    story.leave("a", { keepsReported: true });
    expect(story.holders()).toEqual(["a", "a"]);
    story.later(5).tick();
    expect(story.holders()).toEqual([]);
  });

  it("can leave twice; a late second leave takes nothing from a newer holder", () => {
    const story = new Story();
    story.hold("a");
    story.leave("a");
    story.hold("b");
    story.leave("a");
    expect(story.rowsWritten).toBe(0);
    expect(story.holders()).toEqual(["b"]);
  });

  it("leaves no lapsed two-phase grant behind, even one that expires just then", () => {
    const story = new Story();
    story.enqueue("a", { lease: 1 });
    story.later(1);
    story.leave("a");
    expect([...story.key.rows.lapsed]).toEqual([]);
  });

  it("leaves no unanswered notice behind if its promotion expires just then", () => {
    const story = new Story();
    const token = story.hold("a");
    story.acquire("b", { wait: 10, lease: 1 });
    story.release(token);
    story.later(1);
    story.leave("b");
    expect(story.key.rows.waiters.size).toBe(0);
  });

  it("takes all of its hundred requests along", () => {
    const story = new Story({ limit: 10 });
    for (let n = 0; n < 100; n += 1) story.acquire("a", { request: `a${n}`, wait: 100 });
    story.acquire("b", { wait: 100 });
    story.leave("a");
    expect([story.holders(), story.waiting(), story.key.rows.waiters.size]).toEqual([["b"], 0, 0]);
  });
});

describe("an enqueued request", () => {
  it("whose hold expires before its wait says so once, then is forgotten", () => {
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

  it("that lapsed is forgotten after the idle time, whatever else lapsed and in whatever order", () => {
    const story = new Story({ limit: 2 });
    const tokens = [story.hold("x", { request: "x1" }), story.hold("x", { request: "x2" })];
    story.enqueue("late", { lease: 20 });
    story.enqueue("early", { lease: 10 });
    for (const token of tokens) story.release(token);
    story.answer("early-e", "noted");
    // One tick finds both expired; `late` has an unanswered notice and is seen first.
    story.later(20).tick();
    story.later(51);
    expect(story.wait("early")).toEqual({ status: "not_enqueued" });
    expect(story.wait("late")).toEqual({ status: "lease_expired" });
  });

  it("survives a reload even if an older one of its session timed out unheard", () => {
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
  it("may be forgotten after its time, not before, and not while it has holders or waiters", () => {
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
  it("are told to the owner if its lease ends or another session releases, not if it releases itself", () => {
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

  it("are not told of a token that was never handed over", () => {
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

  it("are not written if nothing changes", () => {
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
