import { describe, expect, it } from "vitest";
import { Story } from "./story.ts";

const fence = expect.stringMatching(/^[0-9a-f]{16}$/);
const at = expect.any(Number);
const immediate = { type: "granted", how: "immediate", session: "a", fence, at, waitMs: 0 };
const ended = (reason: string, holdMs?: number) => ({ type: "ended", fence, reason, holdMs });
const queued = (waitMs: number) => ({ type: "granted", how: "queued", session: "b", fence, at, waitMs });

describe("a grant is counted when its token is handed over", () => {
  it("at once, and not again when the same request is sent again", () => {
    const story = new Story();
    story.acquire("a", { request: "r" });
    story.acquire("a", { request: "r" });
    expect(story.observed()).toEqual([immediate]);
  });

  it("by an enqueue that finds a free slot, and not by the wait after it", () => {
    const story = new Story();
    story.enqueue("a");
    story.later(3);
    story.wait("a");
    expect(story.observed()).toEqual([immediate]);
  });

  it("or offered, once, even if it is picked up after a reload", () => {
    const story = new Story();
    const token = story.hold("a");
    story.acquire("b", { wait: 60 });
    story.observed();
    story.later(2).release(token);
    story.reload();
    story.later(1);
    story.pickUp("b-l");
    story.pickUp("b-l");
    expect(story.observed()).toEqual([ended("released", 2_000), queued(2_000), { type: "notice_repeated" }]);
  });

  it("by the first pick-up of a wait, with the time since the request came, even across a reload", () => {
    const story = new Story();
    const token = story.hold("a");
    story.enqueue("b");
    story.wait("b", { wait: 60 });
    story.later(2).release(token);
    story.reload();
    story.observed();
    story.later(1);
    story.pickUp("b-w");
    story.pickUp("b-w");
    expect(story.observed()).toEqual([{ type: "notice_repeated" }, queued(3_000)]);
  });

  it("by the wait, if the waiter has been promoted", () => {
    const story = new Story();
    const token = story.hold("a");
    story.enqueue("b");
    story.later(2).release(token);
    story.answer("b-e", "noted");
    story.later(5);
    story.observed();
    story.wait("b");
    expect(story.observed()).toEqual([queued(7_000)]);
  });
});

describe("the end of a hold is counted once, with the time since the token was handed over", () => {
  const held = (lease = 33) => {
    const story = new Story();
    const first = story.hold("a");
    story.acquire("b", { wait: 60, lease });
    story.later(1).release(first);
    const { token = "" } = story.pickUp("b-l");
    story.reload();
    story.acquire("c", { wait: 60 });
    story.later(4);
    story.observed();
    return { story, token };
  };

  it("when its own or another session releases it", () => {
    for (const session of ["b", "somebody"]) {
      const { story, token } = held();
      story.release(token, session);
      expect(story.observed()).toEqual([ended("released", 4_000), { ...queued(4_000), session: "c" }]);
    }
  });

  it("when its session leaves", () => {
    const { story } = held();
    story.leave("b");
    expect(story.observed()).toEqual([ended("disconnect", 4_000), { ...queued(4_000), session: "c" }]);
  });

  it("when it is withdrawn", () => {
    const { story } = held();
    story.cancel("b-l");
    expect(story.observed()).toEqual([ended("gone", 4_000), { ...queued(4_000), session: "c" }]);
  });

  it("when it is stolen", () => {
    const { story, token } = held();
    story.steal(token);
    expect(story.observed()).toEqual([ended("stolen", 4_000), { ...queued(4_000), session: "c" }]);
  });

  it("when its lease ends, at that time; how late the slot was handed over is counted too", () => {
    const { story } = held(3);
    story.tick();
    const late = { type: "handed_over_late", ms: 1_000 };
    expect(story.observed()).toEqual([ended("expired", 3_000), { ...queued(4_000), session: "c" }, late]);
  });

  it("never as negative, even if the clock was set back", () => {
    const { story, token } = held();
    story.later(-3_600).release(token);
    expect(story.observed()).toEqual([ended("released", 0), { ...queued(0), session: "c" }]);
  });
});

describe("a grant and its end name the same hold", () => {
  it("by its fence, with its session and the time of the hand-over, even across a reload", () => {
    const story = new Story({ limit: 2 });
    const start = story.now;
    const [first, second] = [story.hold("a"), story.hold("b")];
    story.acquire("c", { wait: 60 });
    story.later(2).release(first);
    story.later(1);
    const { token: third = "" } = story.pickUp("c-l");
    expect(story.observed()).toMatchObject([
      { type: "granted", session: "a", fence: first.slice(0, 16), at: start },
      { type: "granted", session: "b", fence: second.slice(0, 16), at: start },
      { type: "ended", fence: first.slice(0, 16), holdMs: 2_000 },
      { type: "granted", session: "c", fence: third.slice(0, 16), at: start + 2_000, waitMs: 2_000 },
      { type: "notice_repeated" },
    ]);
    story.reload();
    story.later(1).leave("b");
    story.release(third);
    expect(story.observed()).toMatchObject([
      { type: "ended", fence: second.slice(0, 16), reason: "disconnect" },
      { type: "ended", fence: third.slice(0, 16), reason: "released" },
    ]);
  });
});

describe("a promotion that was not picked up is counted as ended, without a hold time", () => {
  const promoted = () => {
    const story = new Story();
    const token = story.hold("a");
    story.enqueue("b", { lease: 5 });
    story.wait("b", { wait: 60 });
    story.release(token);
    story.observed();
    return story;
  };

  it("when its client is gone", () => {
    const story = promoted();
    story.answer("b-w", "gone");
    expect(story.observed()).toEqual([ended("gone")]);
  });

  it("when the time to pick it up runs out", () => {
    const story = promoted();
    story.later(5).tick();
    expect(story.observed()).toEqual([ended("gone")]);
  });

  it("when its session leaves", () => {
    const story = promoted();
    story.leave("b");
    expect(story.observed()).toEqual([ended("disconnect")]);
  });
});

describe("also counted", () => {
  it("are renewals, successful or not", () => {
    const story = new Story();
    const token = story.hold("a");
    story.observed();
    story.renew(token);
    story.renew("nothing");
    expect(story.observed()).toEqual([
      { type: "renewed", result: "ok" },
      { type: "renewed", result: "error" },
    ]);
  });

  it("are immediate time-outs, of an acquire and of a wait", () => {
    const story = new Story();
    story.hold("a");
    story.enqueue("b");
    story.observed();
    story.acquire("c");
    story.wait("b");
    expect(story.observed()).toEqual([{ type: "timeout" }, { type: "timeout" }]);
  });

  it("are time-outs after a wait, each once, however its client learns of it", () => {
    const story = new Story();
    story.hold("a", { lease: 60 });
    for (const name of ["b", "c", "d"]) story.acquire(name, { wait: 1 });
    story.observed();
    story.later(1).tick();
    expect(story.observed()).toEqual([]);
    story.answer("b-l", "taken");
    story.answer("b-l", "taken");
    expect(story.observed()).toEqual([{ type: "timeout" }]);
    expect(story.pickUp("c-l")).toEqual({ status: "timeout" });
    story.pickUp("c-l");
    story.answer("c-l", "taken");
    expect(story.observed()).toEqual([{ type: "timeout" }]);
    story.answer("d-l", "gone");
    expect(story.observed()).toEqual([]);
  });

  it("are notices that had to be repeated", () => {
    const story = new Story();
    const token = story.hold("a");
    story.acquire("b", { wait: 60 });
    story.release(token);
    story.observed();
    story.later(1).tick();
    story.later(2).tick();
    expect(story.observed()).toEqual([{ type: "notice_repeated" }, { type: "notice_repeated" }]);
  });
});
