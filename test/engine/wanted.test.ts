import { describe, expect, it } from "vitest";
import { Story } from "./story.ts";

const ASKS = { asksWanted: true } as const;

/** Holders told since the last look, by session. */
function told(story: Story): string[] {
  const { events } = story;
  story.events = [];
  return events.flatMap((event) => (event.type === "wanted" ? [event.session] : []));
}

describe("a holder that asked is told that somebody wants the key", () => {
  it("when the first one waits, and not for every other", () => {
    const story = new Story();
    const token = story.hold("a", ASKS);
    story.acquire("b", { wait: 60 });
    expect(story.events).toEqual([{ type: "wanted", session: "a", token }]);
    expect(told(story)).toEqual(["a"]);
    story.acquire("c", { wait: 60 });
    story.enqueue("d");
    expect(told(story)).toEqual([]);
  });

  it("also when somebody only tried", () => {
    const story = new Story();
    story.hold("a", ASKS);
    expect(story.acquire("b")).toEqual({ status: "timeout" });
    expect(told(story)).toEqual(["a"]);
  });

  it("and nobody else is", () => {
    const story = new Story({ limit: 3 });
    story.hold("a", ASKS);
    story.hold("b");
    story.hold("c", ASKS);
    story.acquire("d", { wait: 60 });
    expect(told(story)).toEqual(["a", "c"]);
  });

  it("with its grant, if somebody waits behind it", () => {
    const story = new Story();
    const first = story.hold("a");
    story.acquire("b", { wait: 60, ...ASKS });
    story.acquire("c", { wait: 60 });
    story.release(first, "a");
    expect(told(story)).toEqual([]);
    expect(story.pickUp("b-l")).toMatchObject({ status: "granted", isWanted: true });
    expect(story.acquire("b", { wait: 60, ...ASKS })).toMatchObject({ status: "granted", isWanted: true });
    expect(told(story)).toEqual([]);
  });

  it("with what it has stolen, if somebody waits behind it", () => {
    const story = new Story();
    story.hold("a");
    story.acquire("b", { wait: 60 });
    expect(story.acquire("c", { steals: true, ...ASKS })).toMatchObject({ status: "granted", isWanted: true });
  });

  it("with every renewal while somebody waits, whatever became of the event", () => {
    const story = new Story();
    const token = story.hold("a", ASKS);
    expect(story.renew(token)).toEqual({ status: "renewed", leaseSeconds: 33 });
    story.acquire("b", { wait: 60 });
    story.reload();
    for (const _ of [1, 2]) expect(story.renew(token)).toEqual({ status: "renewed", leaseSeconds: 33, isWanted: true });
  });

  it("once more by an event after a renewal that found nobody waiting", () => {
    const story = new Story();
    const token = story.hold("a", ASKS);
    story.acquire("b", { wait: 60 });
    story.cancel("b-l");
    expect(told(story)).toEqual(["a"]);
    expect(story.renew(token)).toMatchObject({ isWanted: true });
    expect(story.renew(token)).not.toHaveProperty("isWanted");
    story.acquire("c", { wait: 60 });
    expect(told(story)).toEqual(["a"]);
  });

  it("after its object was lost, if it has not been told", () => {
    const story = new Story();
    story.hold("a", ASKS);
    story.reload();
    story.acquire("b", { wait: 60 });
    expect(told(story)).toEqual(["a"]);
  });

  it("also as a waiter whose object was lost before it was served", () => {
    const story = new Story();
    const first = story.hold("a");
    story.acquire("b", { wait: 60, ...ASKS });
    story.reload();
    story.release(first, "a");
    story.pickUp("b-l");
    told(story);
    story.acquire("c", { wait: 60 });
    expect(told(story)).toEqual(["b"]);
  });
});

it("costs no row: an uncontended cycle writes as many as without, and neither does telling", () => {
  const story = new Story();
  const token = story.hold("a", ASKS);
  expect(story.rowsWritten).toBe(1);
  story.acquire("b");
  expect(story.rowsWritten).toBe(0);
  story.release(token, "a");
  expect(story.rowsWritten).toBe(1);
  story.hold("c");
  story.acquire("d", { wait: 60 });
  expect(told(story)).toEqual(["a"]);
});
