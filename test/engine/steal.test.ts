import { describe, expect, it } from "vitest";
import { Story } from "./story.ts";

describe("a hold that is stolen", () => {
  it("is lost to its session, which is told, and goes to the next waiter in the same step", () => {
    const story = new Story();
    const start = story.now;
    const token = story.hold("a", { lease: 9 });
    story.acquire("b", { wait: 60 });
    story.later(2);
    expect(story.steal(token)).toEqual({ status: "stolen", session: "a", since: start, expiresAt: start + 9_000 });
    expect(story.holders()).toEqual(["b"]);
    expect(story.events).toMatchObject([
      { type: "lost", session: "a", token, reason: "stolen" },
      { type: "notice", session: "b", request: "b-l", kind: "granted" },
    ]);
    expect(story.renew(token)).toEqual({ status: "not_held" });
    expect(story.release(token, "a")).toEqual({ status: "not_held" });
    expect(story.steal(token)).toEqual({ status: "not_held" });
  });

  it("is the one with that fence and no other", () => {
    const story = new Story({ limit: 3 });
    const tokens = ["a", "b", "c"].map((name) => story.hold(name));
    story.steal(tokens[1] as string);
    expect(story.holders()).toEqual(["a", "c"]);
    expect(story.steal("0".repeat(32))).toEqual({ status: "not_held" });
    expect(story.holders()).toEqual(["a", "c"]);
    expect(story.rowsWritten).toBe(0);
  });

  it("is not found once its lease has ended, and no other hold is taken for it", () => {
    const story = new Story();
    const token = story.hold("a", { lease: 1 });
    story.acquire("b", { wait: 60 });
    story.later(1);
    expect(story.steal(token)).toEqual({ status: "not_held" });
    expect(story.holders()).toEqual(["b"]);
  });

  it("before it was picked up ends the wait with a final answer, even after a reload", () => {
    const story = new Story();
    const first = story.hold("a");
    story.acquire("b", { wait: 60 });
    story.acquire("c", { wait: 60 });
    story.release(first);
    story.notices();
    const [promoted] = story.engine.view().holders;
    expect(story.steal(promoted?.fence ?? "")).toMatchObject({ status: "stolen", session: "b" });
    expect(story.notices()).toEqual(["b-l lease_expired", "c-l granted"]);
    story.reload();
    expect(story.pickUp("b-l")).toEqual({ status: "lease_expired" });
    story.answer("b-l", "taken");
    expect(story.pickUp("b-l")).toEqual({ status: "unknown" });
    expect(story.holders()).toEqual(["c"]);
  });

  it("after its enqueue and before its wait makes that wait `lease_expired`, once", () => {
    for (const isAcquired of [true, false]) {
      const story = new Story();
      const first = isAcquired ? undefined : story.hold("a");
      story.enqueue("b");
      if (first) story.release(first);
      story.steal(story.engine.view().holders[0]?.fence ?? "");
      story.reload();
      expect(story.wait("b")).toEqual({ status: "lease_expired" });
      expect(story.wait("b", { request: "again" })).toEqual({ status: "not_enqueued" });
    }
  });

  it("during a wait for it ends that wait", () => {
    const story = new Story();
    const first = story.hold("a");
    story.enqueue("b");
    story.wait("b", { wait: 60 });
    story.release(first);
    story.notices();
    story.steal(story.engine.view().holders[0]?.fence ?? "");
    expect(story.notices()).toEqual(["b-w lease_expired"]);
    expect(story.pickUp("b-w")).toEqual({ status: "lease_expired" });
    expect(story.enqueue("b", { request: "new" }).status).toBe("granted");
  });
});
