import { describe, expect, it } from "vitest";
import { Story } from "./story.ts";

/** B has enqueued behind A and waits for its place, but its session has forgotten that wait. */
function forgottenWait({ wait = 60 } = {}) {
  const story = new Story();
  const token = story.hold("a", { lease: 600 });
  story.enqueue("b", { lease: 9 });
  story.wait("b", { request: "old", wait });
  story.notices();
  return { story, token };
}

const anew = { request: "new", wait: 10, takesOver: true } as const;

describe("a wait that takes over from a forgotten one", () => {
  it("hears of the place from now on, and the forgotten one never again, also after a reload", () => {
    const { story, token } = forgottenWait();
    story.acquire("c", { wait: 60 });
    expect(story.wait("b", anew)).toEqual({ status: "queued" });
    story.reload();
    expect(story.pickUp("old")).toEqual({ status: "unknown" });
    story.cancel("old");
    story.answer("old", "gone");
    story.release(token);
    expect(story.notices()).toEqual(["new granted"]);
    expect(story.holders()).toEqual(["b"]);
    expect(story.pickUp("new")).toMatchObject({ status: "granted", leaseSeconds: 9 });
  });

  it("has its own deadline, sooner or later than the old one", () => {
    for (const wait of [60, 5]) {
      const { story } = forgottenWait({ wait });
      story.wait("b", anew);
      story.now += 9_999;
      story.tick();
      expect(story.notices()).toEqual([]);
      story.now += 1;
      story.tick();
      expect(story.notices()).toEqual(["new timeout"]);
    }
  });

  it("gets the hold that was promoted for the forgotten one, whose late `gone` takes nothing away", () => {
    const { story, token } = forgottenWait();
    story.release(token);
    story.reload();
    expect(story.wait("b", anew)).toMatchObject({ status: "granted", leaseSeconds: 9 });
    story.notices();
    story.answer("old", "gone");
    story.later(5).tick();
    expect(story.notices()).toEqual([]);
    expect(story.holders()).toEqual(["b"]);
    expect(story.key.rows.waiters.size).toBe(0);
  });

  it("that does not wait at all gives the place up", () => {
    const { story, token } = forgottenWait();
    expect(story.wait("b", { request: "new", takesOver: true })).toEqual({ status: "timeout" });
    story.release(token);
    expect([story.holders(), story.notices()]).toEqual([[], []]);
  });

  it("is like any other where there is nothing to take over", () => {
    const story = new Story();
    expect(story.wait("b", anew)).toEqual({ status: "not_enqueued" });
    const { token } = story.enqueue("b");
    expect(story.wait("b", { ...anew, request: "first" })).toMatchObject({ status: "granted", token });
    expect(story.wait("b", anew)).toEqual({ status: "not_enqueued" });
  });

  it("is not assumed: without a word of it, the second wait is refused and the first goes on", () => {
    const { story, token } = forgottenWait();
    expect(story.wait("b", { request: "new", wait: 10 })).toEqual({ status: "not_enqueued" });
    story.release(token);
    expect(story.notices()).toEqual(["old granted"]);
  });
});

describe("a wait that was cut off and whose time is over", () => {
  it("costs no place: the next wait finds it before those who came later, although nobody looked meanwhile", () => {
    const { story } = forgottenWait({ wait: 5 });
    story.acquire("c", { wait: 3_600 });
    story.reload();
    story.later(700);
    // A's lease has ended as well, and later than the wait.
    expect(story.wait("b", anew)).toMatchObject({ status: "granted", leaseSeconds: 9 });
    expect(story.holders()).toEqual(["b"]);
  });

  it("costs no place when the key notices first, and hears that nobody listens", () => {
    const { story, token } = forgottenWait({ wait: 5 });
    story.acquire("c", { wait: 3_600 });
    story.later(5).tick();
    expect(story.notices()).toEqual(["old timeout"]);
    story.answer("old", "noted");
    story.reload();
    story.later(100).tick();
    expect([story.notices(), story.waiting()]).toEqual([[], 2]);
    expect(story.wait("b", anew)).toEqual({ status: "queued" });
    story.release(token);
    expect(story.notices()).toEqual(["new granted"]);
  });

  it("costs no place when the next wait comes before that is heard", () => {
    const { story, token } = forgottenWait({ wait: 5 });
    story.acquire("c", { wait: 3_600 });
    story.later(5).tick();
    expect(story.wait("b", anew)).toEqual({ status: "queued" });
    story.answer("old", "noted");
    story.notices();
    story.release(token);
    expect(story.notices()).toEqual(["new granted"]);
  });

  it("becomes a hold at once if the key is free by then, for the wait to come", () => {
    const { story, token } = forgottenWait({ wait: 5 });
    story.later(5).tick();
    story.release(token);
    story.notices();
    story.answer("old", "noted");
    expect(story.notices()).toEqual(["old granted"]);
    story.answer("old", "noted");
    expect(story.wait("b", anew)).toMatchObject({ status: "granted", leaseSeconds: 9 });
  });

  it("is withdrawn with its place by a client that had left, also if that is heard last", () => {
    const { story } = forgottenWait({ wait: 5 });
    story.later(5).tick();
    story.answer("old", "noted");
    story.cancel("old");
    expect(story.waiting()).toBe(0);
    expect(story.wait("b", anew)).toEqual({ status: "not_enqueued" });
  });

  it("is over for good once its client has heard so", () => {
    const { story } = forgottenWait({ wait: 5 });
    story.later(5).tick();
    story.answer("old", "taken");
    expect(story.wait("b", anew)).toEqual({ status: "not_enqueued" });
  });

  it("says `lease_expired` to the next one if the hold had come and gone meanwhile", () => {
    for (const notices of ["unheard", "heard by nobody"]) {
      const { story, token } = forgottenWait();
      story.release(token);
      story.later(10).tick();
      if (notices === "heard by nobody") story.answer("old", "noted");
      expect(story.wait("b", anew)).toEqual({ status: "lease_expired" });
      expect(story.wait("b", { ...anew, request: "third" })).toEqual({ status: "not_enqueued" });
    }
  });
});
