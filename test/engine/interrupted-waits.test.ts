import { describe, expect, it } from "vitest";
import { Story } from "./story.ts";

/** B has enqueued behind A and waits, but its session has forgotten that wait. */
function forgottenWait({ wait = 60 } = {}) {
  const story = new Story();
  const token = story.hold("a", { lease: 600 });
  story.enqueue("b", { lease: 9 });
  story.wait("b", { request: "old", wait });
  story.notices();
  return { story, token };
}

const next = { request: "new", wait: 10, takesOver: true } as const;

describe("a wait that replaces a forgotten one", () => {
  it("gets all further notices, and the forgotten one gets none, even after a reload", () => {
    const { story, token } = forgottenWait();
    story.acquire("c", { wait: 60 });
    expect(story.wait("b", next)).toEqual({ status: "queued" });
    story.reload();
    expect(story.pickUp("old")).toEqual({ status: "unknown" });
    story.cancel("old");
    story.answer("old", "gone");
    story.release(token);
    expect(story.notices()).toEqual(["new granted"]);
    expect(story.holders()).toEqual(["b"]);
    expect(story.pickUp("new")).toMatchObject({ status: "granted", leaseSeconds: 9 });
  });

  it("has its own deadline, earlier or later than the old one", () => {
    for (const wait of [60, 5]) {
      const { story } = forgottenWait({ wait });
      story.wait("b", next);
      story.now += 9_999;
      story.tick();
      expect(story.notices()).toEqual([]);
      story.now += 1;
      story.tick();
      expect(story.notices()).toEqual(["new timeout"]);
    }
  });

  it("gets the hold of the forgotten one; a late `gone` for that one changes nothing", () => {
    const { story, token } = forgottenWait();
    story.release(token);
    story.reload();
    expect(story.wait("b", next)).toMatchObject({ status: "granted", leaseSeconds: 9 });
    story.notices();
    story.answer("old", "gone");
    story.later(5).tick();
    expect(story.notices()).toEqual([]);
    expect(story.holders()).toEqual(["b"]);
    expect(story.key.rows.waiters.size).toBe(0);
  });

  it("and has no time to wait leaves the queue", () => {
    const { story, token } = forgottenWait();
    expect(story.wait("b", { request: "new", takesOver: true })).toEqual({ status: "timeout" });
    story.release(token);
    expect([story.holders(), story.notices()]).toEqual([[], []]);
  });

  it("is like any other wait if there is nothing to replace", () => {
    const story = new Story();
    expect(story.wait("b", next)).toEqual({ status: "not_enqueued" });
    const { token } = story.enqueue("b");
    expect(story.wait("b", { ...next, request: "first" })).toMatchObject({ status: "granted", token });
    expect(story.wait("b", next)).toEqual({ status: "not_enqueued" });
  });

  it("must say so: otherwise the second wait is refused and the first continues", () => {
    const { story, token } = forgottenWait();
    expect(story.wait("b", { request: "new", wait: 10 })).toEqual({ status: "not_enqueued" });
    story.release(token);
    expect(story.notices()).toEqual(["old granted"]);
  });
});

describe("a wait that was cut off and has timed out", () => {
  it("keeps its place ahead of later waiters, even if the key was not looked at meanwhile", () => {
    const { story } = forgottenWait({ wait: 5 });
    story.acquire("c", { wait: 3_600 });
    story.reload();
    story.later(700);
    // A's lease has ended as well, and later than the wait.
    expect(story.wait("b", next)).toMatchObject({ status: "granted", leaseSeconds: 9 });
    expect(story.holders()).toEqual(["b"]);
  });

  it("keeps its place if the key times it out first and is told that the client did not hear", () => {
    const { story, token } = forgottenWait({ wait: 5 });
    story.acquire("c", { wait: 3_600 });
    story.later(5).tick();
    expect(story.notices()).toEqual(["old timeout"]);
    story.answer("old", "noted");
    story.reload();
    story.later(100).tick();
    expect([story.notices(), story.waiting()]).toEqual([[], 2]);
    expect(story.wait("b", next)).toEqual({ status: "queued" });
    story.release(token);
    expect(story.notices()).toEqual(["new granted"]);
  });

  it("keeps its place if the next wait comes before that answer", () => {
    const { story, token } = forgottenWait({ wait: 5 });
    story.acquire("c", { wait: 3_600 });
    story.later(5).tick();
    expect(story.wait("b", next)).toEqual({ status: "queued" });
    story.answer("old", "noted");
    story.notices();
    story.release(token);
    expect(story.notices()).toEqual(["new granted"]);
  });

  it("becomes a hold for the next wait at once if the key is free by then", () => {
    const { story, token } = forgottenWait({ wait: 5 });
    story.later(5).tick();
    story.release(token);
    story.notices();
    story.answer("old", "noted");
    expect(story.notices()).toEqual(["old granted"]);
    story.answer("old", "noted");
    expect(story.wait("b", next)).toMatchObject({ status: "granted", leaseSeconds: 9 });
  });

  it("leaves the queue if its client cancels, even if the cancel arrives last", () => {
    const { story } = forgottenWait({ wait: 5 });
    story.later(5).tick();
    story.answer("old", "noted");
    story.cancel("old");
    expect(story.waiting()).toBe(0);
    expect(story.wait("b", next)).toEqual({ status: "not_enqueued" });
  });

  it("is over once its client has been told", () => {
    const { story } = forgottenWait({ wait: 5 });
    story.later(5).tick();
    story.answer("old", "taken");
    expect(story.wait("b", next)).toEqual({ status: "not_enqueued" });
  });

  it("makes the next one `lease_expired` if its hold has expired meanwhile", () => {
    for (const notices of ["unheard", "not heard"]) {
      const { story, token } = forgottenWait();
      story.release(token);
      story.later(10).tick();
      if (notices === "not heard") story.answer("old", "noted");
      expect(story.wait("b", next)).toEqual({ status: "lease_expired" });
      expect(story.wait("b", { ...next, request: "third" })).toEqual({ status: "not_enqueued" });
    }
  });
});
