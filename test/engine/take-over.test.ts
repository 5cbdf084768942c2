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
