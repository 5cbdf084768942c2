import { describe, expect, it } from "vitest";
import type { NoticeEvent } from "../../src/core/engine/index.ts";
import { Story } from "./story.ts";

/** `a` has released the lock, and it has been offered to `b`. */
function offered({ lease = 10, limit = 1 } = {}) {
  const story = new Story({ limit });
  const first = story.hold("a");
  for (let n = 1; n < limit; n += 1) story.hold(`other ${n}`);
  story.acquire("b", { wait: 60, lease });
  story.later(1);
  story.events = [];
  story.release(first, "a");
  const rowsWritten = story.rowsWritten;
  const notice = story.events.find((event): event is NoticeEvent => event.type === "notice");
  if (!notice?.offer) throw new Error("nothing was offered");
  return { story, notice, token: notice.offer.token, rowsWritten };
}

/** The notices since they were last read. */
function notices(story: Story): NoticeEvent[] {
  const { events } = story;
  story.events = [];
  return events.filter((event): event is NoticeEvent => event.type === "notice");
}

const answer = (story: Story, answer: "taken" | "gone" | "later", token?: string) =>
  story.run({ do: "answer", request: "b-l", answer, offered: token });

describe("a hand-over", () => {
  it("is one commit of two rows, and the notice carries the grant", () => {
    const { story, notice, token, rowsWritten } = offered();
    expect(notice).toEqual({
      type: "notice",
      session: "b",
      request: "b-l",
      kind: "granted",
      offer: { token, leaseSeconds: 10, at: story.now },
    });
    expect(rowsWritten).toBe(2);
    expect(story.key.rows.waiters.size).toBe(0);
  });

  it("costs nothing more when the session has told its client", () => {
    const { story, token } = offered();
    answer(story, "taken", token);
    expect(story.rowsWritten).toBe(0);
    expect(story.later(9).renew(token)).toMatchObject({ status: "renewed" });
  });

  it("is not repeated once the session has answered", () => {
    const { story, token } = offered({ lease: 60 });
    notices(story);
    answer(story, "taken", token);
    story.later(30).tick();
    expect(notices(story)).toEqual([]);
  });

  it("is told again without the grant: the session asks the key whether it still stands", () => {
    const { story } = offered();
    notices(story);
    story.later(1).tick();
    expect(notices(story)).toEqual([
      { type: "notice", session: "b", request: "b-l", kind: "granted", mayBeTold: true },
    ]);
  });

  it("goes on to the next if the session says that nobody was told", () => {
    const { story, token } = offered();
    story.acquire("c", { wait: 60 });
    answer(story, "gone", token);
    expect(story.holders()).toEqual(["c"]);
  });

  it("is not undone by an answer about an earlier grant to the same request", () => {
    const { story } = offered();
    answer(story, "gone", "another token");
    answer(story, "taken", "another token");
    expect(story.holders()).toEqual(["b"]);
    notices(story);
    story.later(1).tick();
    expect(notices(story)).toHaveLength(1);
  });
});

describe("the lease of an offered hold", () => {
  it("starts when the session has told its client, and is written only if it ends later than stored", () => {
    const { story, token } = offered({ lease: 10 });
    story.later(0.5);
    answer(story, "taken", token);
    expect([story.rowsWritten, story.engine.view().holders[0]?.expiresAt]).toEqual([0, story.now + 10_000]);
    const late = offered({ lease: 10 });
    late.story.later(3);
    answer(late.story, "taken", late.token);
    expect([late.story.rowsWritten, late.story.engine.view().holders[0]?.expiresAt]).toEqual([
      1,
      late.story.now + 10_000,
    ]);
  });

  it("never ends earlier after a restart than the client was told", () => {
    const { story, token } = offered({ lease: 10 });
    story.later(0.9);
    answer(story, "taken", token);
    const toldUntil = story.now + 10_000;
    story.reload();
    expect(story.engine.view().holders[0]?.expiresAt).toBeGreaterThanOrEqual(toldUntil);
  });

  it("is not prolonged by restarts, however often the session is asked again", () => {
    const { story, token } = offered({ lease: 10 });
    answer(story, "taken", token);
    for (let restarts = 0; restarts < 5; restarts += 1) {
      story.reload();
      story.later(2).tick();
      answer(story, "taken");
    }
    story.later(2).tick();
    expect(story.holders()).toEqual([]);
  });

  it("is at least as long as the time to pick a hold up", () => {
    const { story } = offered({ lease: 1 });
    expect(story.later(4).pickUp("b-l")).toMatchObject({ status: "granted" });
  });
});

describe("a client that may have been told", () => {
  it("is asked about again after a restart", () => {
    const { story, token } = offered();
    answer(story, "taken", token);
    notices(story);
    story.reload();
    story.tick();
    expect(notices(story)).toMatchObject([{ request: "b-l", mayBeTold: true }]);
    answer(story, "taken");
    story.later(5).tick();
    expect(notices(story)).toEqual([]);
  });

  it("proves that it was by showing its token: no session is asked any more", () => {
    for (const show of ["release", "renew"] as const) {
      const { story, token } = offered();
      story.reload();
      notices(story);
      expect(story[show](token)).not.toEqual({ status: "not_held" });
      story.later(2).tick();
      expect(notices(story)).toEqual([]);
    }
  });

  it("hears both of its loss and of the end of its wait when the hold expires: one of them concerns it", () => {
    const { story, token } = offered({ lease: 5 });
    story.events = [];
    story.later(6).tick();
    expect(story.events).toMatchObject([
      { type: "notice", request: "b-l", kind: "lease_expired" },
      { type: "lost", session: "b", token, reason: "expired" },
    ]);
    story.reload();
    story.events = [];
    story.tick();
    expect(story.events).toMatchObject([{ type: "notice", request: "b-l", kind: "lease_expired" }]);
    answer(story, "taken");
    expect(story.key.rows.waiters.size).toBe(0);
  });

  it("gets its grant again, with a full lease, when it repeats its request", () => {
    const { story, token } = offered({ lease: 10 });
    story.later(3);
    expect(story.acquire("b", { wait: 60, lease: 10 })).toEqual({ status: "queued" });
    expect(story.pickUp("b-l")).toEqual({ status: "granted", token, leaseSeconds: 10 });
    expect(story.engine.view().holders[0]?.expiresAt).toBe(story.now + 10_000);
    expect(story.acquire("b", { wait: 60, lease: 10 })).toMatchObject({ status: "granted", token });
  });
});
