import { describe, expect, it } from "vitest";
import { Story } from "./story.ts";

describe("a request that is sent again", () => {
  it("gets the grant it already had, and no second slot", () => {
    const story = new Story({ limit: 2 });
    const first = story.acquire("a", { request: "r", lease: 9 });
    const wrote = story.rowsWritten;
    expect(story.acquire("a", { request: "r", lease: 9 })).toEqual(first);
    expect([wrote, story.rowsWritten]).toEqual([1, 0]);
    expect(story.holders()).toEqual(["a"]);
  });

  it("keeps its one place in the queue", () => {
    const story = new Story();
    const token = story.hold("a");
    story.acquire("b", { request: "r", wait: 10 });
    expect(story.acquire("b", { request: "r", wait: 10 })).toEqual({ status: "queued" });
    expect(story.waiting()).toBe(1);
    story.release(token);
    // Promoted by now, but only the pick-up hands the token over.
    expect(story.acquire("b", { request: "r", wait: 10 })).toEqual({ status: "queued" });
    const granted = story.pickUp("r");
    expect(story.acquire("b", { request: "r", wait: 10 })).toEqual(granted);
  });

  it("gets the same reply, for an enqueue and for its wait", () => {
    const story = new Story();
    const acquired = story.enqueue("a");
    expect(story.enqueue("a")).toEqual(acquired);
    const waited = story.wait("a");
    expect(waited).toEqual(acquired);
    expect(story.wait("a")).toEqual(waited);
    expect(story.enqueue("b")).toEqual({ status: "queued" });
    expect(story.enqueue("b")).toEqual({ status: "queued" });
    expect(story.wait("b", { wait: 5 })).toEqual({ status: "queued" });
    expect(story.wait("b", { wait: 5 })).toEqual({ status: "queued" });
    expect(story.wait("b", { request: "another", wait: 5 })).toEqual({ status: "not_enqueued" });
  });

  it("does not get a hold that has expired meanwhile", () => {
    const story = new Story();
    const first = story.acquire("a", { request: "r", lease: 1 });
    story.later(1);
    const again = story.acquire("a", { request: "r", lease: 1 });
    expect(again.token).not.toBe(first.token);
  });

  it("can be picked up twice, with the same token and a full lease", () => {
    const story = new Story();
    story.release(story.hold("a"));
    const token = story.hold("a", { request: "a2" });
    story.acquire("b", { wait: 10, lease: 2 });
    story.release(token);
    const first = story.pickUp("b-l");
    expect(story.pickUp("b-l")).toEqual(first);
    expect(story.holders()).toEqual(["b"]);
  });
});

describe("a request that is cancelled", () => {
  it("leaves the rest of a queue of a hundred in order", () => {
    const story = new Story();
    let token = story.hold("holder", { lease: 9_000 });
    for (let n = 0; n < 100; n += 1) story.acquire(`s${n}`, { wait: 9_000, lease: 9_000 });
    story.cancel("s50-l");
    const served: string[] = [];
    for (let n = 0; n < 99; n += 1) {
      story.release(token);
      const [session] = story.holders();
      served.push(session as string);
      token = story.pickUp(`${session}-l`).token as string;
    }
    expect(served).toEqual(Array.from({ length: 100 }, (_, n) => `s${n}`).filter((name) => name !== "s50"));
  });

  it("passes its slot on at once, and only once, if it was already granted", () => {
    const story = new Story();
    const token = story.hold("a");
    for (const name of ["b", "c", "d"]) story.acquire(name, { wait: 10 });
    story.release(token);
    story.cancel("b-l");
    story.cancel("b-l");
    expect(story.holders()).toEqual(["c"]);
    expect(story.waiting()).toBe(1);
  });

  it("changes nothing if it is unknown", () => {
    const story = new Story();
    story.hold("a");
    story.acquire("b", { wait: 10 });
    story.cancel("who?");
    expect([story.rowsWritten, story.holders(), story.waiting()]).toEqual([0, ["a"], 1]);
  });

  it("makes room under the cap on waiters at once", () => {
    const story = new Story({ maxWaiters: 1 });
    story.hold("a");
    story.acquire("b", { wait: 10 });
    expect(story.acquire("c", { wait: 10 })).toEqual({ status: "max_waiters" });
    expect(story.acquire("c")).toEqual({ status: "max_waiters" });
    story.cancel("b-l");
    expect(story.acquire("c", { wait: 10 })).toEqual({ status: "queued" });
  });

  it("leaves neither a place nor a record if it was a wait", () => {
    const story = new Story();
    const token = story.hold("a");
    story.enqueue("b");
    story.wait("b", { wait: 10 });
    story.cancel("b-w");
    expect(story.wait("b")).toEqual({ status: "not_enqueued" });
    story.release(token);
    expect(story.holders()).toEqual([]);
  });

  it("leaves neither a place nor a record if it was a wait that never arrived", () => {
    const story = new Story();
    const token = story.hold("a");
    story.enqueue("b");
    story.acquire("c", { wait: 10 });
    story.cancel("b-w", { placeOf: "b" });
    expect(story.wait("b")).toEqual({ status: "not_enqueued" });
    story.release(token);
    expect(story.holders()).toEqual(["c"]);
  });

  it("gives back what its place has become if it was a wait that never arrived, even after a reload", () => {
    const story = new Story();
    const token = story.hold("a");
    story.enqueue("b");
    story.enqueue("c");
    story.acquire("d", { wait: 10 });
    story.release(token);
    story.answer("b-e", "noted");
    story.reload();
    story.cancel("b-w", { placeOf: "b" });
    expect(story.holders()).toEqual(["c"]);
    story.cancel("c-w", { placeOf: "c" });
    expect(story.holders()).toEqual(["d"]);
  });

  it("does not take the place of another wait", () => {
    const story = new Story();
    const token = story.hold("a");
    story.enqueue("b");
    story.wait("b", { request: "first", wait: 10 });
    story.cancel("second", { placeOf: "b" });
    expect(story.waiting()).toBe(1);
    story.release(token);
    story.cancel("second", { placeOf: "b" });
    expect(story.pickUp("first").status).toBe("granted");
  });

  it("gives back all there is if it was a wait, even what its enqueue was granted", () => {
    for (const arrives of [true, false]) {
      const story = new Story();
      story.enqueue("a");
      if (arrives) story.wait("a");
      story.cancel("a-w", { placeOf: "a" });
      expect(story.holders()).toEqual([]);
      expect(story.wait("a", { request: "again" })).toEqual({ status: "not_enqueued" });
    }
  });

  it("never leaves a wait in progress unanswered if it was the enqueue before it", () => {
    const story = new Story();
    const token = story.hold("a");
    story.enqueue("b");
    story.wait("b", { wait: 10 });
    story.cancel("b-e");
    story.release(token);
    story.later(11).tick();
    story.later(60).tick();
    expect(story.notices().filter((notice) => notice.startsWith("b-w "))).not.toEqual([]);
  });
});

describe("a wait that is withdrawn although its client is there", () => {
  const SPARED = { sparesKnown: true, sparesPlace: true } as const;

  /** B waits in its place, behind A and ahead of C. */
  function waiting() {
    const story = new Story();
    const token = story.hold("a");
    story.enqueue("b", { lease: 9 });
    story.wait("b", { wait: 10 });
    story.acquire("c", { wait: 60 });
    story.notices();
    return { story, token };
  }

  it("leaves the place as it was, even after a reload, and the next wait need not take over", () => {
    const { story, token } = waiting();
    story.cancel("b-w", SPARED);
    story.reload();
    story.later(11).tick();
    expect(story.notices()).toEqual([]);
    expect(story.wait("b", { request: "again", wait: 10 })).toEqual({ status: "queued" });
    story.release(token);
    expect(story.notices()).toEqual(["again granted"]);
    expect(story.pickUp("again")).toMatchObject({ status: "granted", leaseSeconds: 9 });
  });

  it("leaves the place if its time is over, and nobody was told", () => {
    const { story, token } = waiting();
    story.later(11).tick();
    story.cancel("b-w", SPARED);
    story.release(token);
    expect(story.holders()).toEqual(["b"]);
    expect(story.wait("b", { request: "again" }).status).toBe("granted");
  });

  it("leaves what the place has become, for as long as its lease", () => {
    for (const asksAgain of [true, false]) {
      const { story, token } = waiting();
      story.release(token);
      story.cancel("b-w", SPARED);
      expect(story.holders()).toEqual(["b"]);
      if (asksAgain)
        expect(story.wait("b", { request: "again" })).toMatchObject({ status: "granted", leaseSeconds: 9 });
      story.later(9).tick();
      expect(story.holders()).toEqual(["c"]);
      expect(story.wait("b", { request: "late" }).status).toBe(asksAgain ? "not_enqueued" : "lease_expired");
    }
  });

  it("leaves nothing once its client has left", () => {
    const { story, token } = waiting();
    story.cancel("b-w", SPARED);
    story.cancel("b-w", { sparesKnown: true, placeOf: "b" });
    story.release(token);
    expect(story.holders()).toEqual(["c"]);
  });

  it("leaves nothing if it was no wait", () => {
    const { story, token } = waiting();
    story.cancel("c-l", SPARED);
    story.enqueue("d");
    story.cancel("d-e", SPARED);
    story.cancel("b-w");
    story.release(token);
    expect(story.holders()).toEqual([]);
  });
});

describe("a wait whose client does not know that it is withdrawn", () => {
  it("leaves a hold that the client knows from its enqueue, and that the next wait gets, even after a reload", () => {
    const story = new Story();
    const { token } = story.enqueue("a", { lease: 9 });
    story.wait("a");
    story.reload();
    story.cancel("a-w", { sparesKnown: true });
    story.cancel("a-w", { sparesKnown: true });
    expect(story.holders()).toEqual(["a"]);
    expect(story.wait("a", { request: "again" })).toEqual({ status: "granted", token, leaseSeconds: 9 });
    story.release(token ?? "");
    // Later holds of the slot are like any other.
    story.hold("b");
    story.cancel("b-l", { sparesKnown: true });
    expect(story.holders()).toEqual([]);
  });

  it("leaves that hold beside a place that was taken after it", () => {
    const story = new Story();
    const { token } = story.enqueue("a");
    story.wait("a");
    story.enqueue("a", { request: "behind itself" });
    story.cancel("a-w", { sparesKnown: true });
    expect([story.holders(), story.waiting()]).toEqual([["a"], 1]);
    story.release(token ?? "");
    expect(story.notices()).toEqual(["behind itself promoted"]);
  });

  it("leaves that hold also if it never arrived, but no place in the queue, nor what that has become", () => {
    const story = new Story();
    const { token = "" } = story.enqueue("a");
    story.cancel("a-w", { placeOf: "a", sparesKnown: true });
    expect(story.wait("a", { request: "again" })).toMatchObject({ status: "granted", token });
    story.enqueue("b");
    story.enqueue("c");
    story.acquire("d", { wait: 10 });
    story.cancel("b-w", { placeOf: "b", sparesKnown: true });
    story.release(token);
    expect(story.holders()).toEqual(["c"]);
    story.cancel("c-w", { placeOf: "c", sparesKnown: true });
    expect(story.holders()).toEqual(["d"]);
  });

  it("gives back a hold that nobody has been told of", () => {
    const story = new Story();
    const token = story.hold("a");
    story.enqueue("b");
    story.release(token);
    story.wait("b");
    story.cancel("b-w", { sparesKnown: true });
    expect(story.holders()).toEqual([]);
  });
});

describe("a notice", () => {
  it("answered `gone` passes the slot on once, however often it is answered", () => {
    const story = new Story();
    const token = story.hold("a");
    for (const name of ["b", "c", "d"]) story.acquire(name, { wait: 10 });
    story.release(token);
    story.answer("b-l", "gone");
    story.answer("b-l", "gone");
    expect(story.holders()).toEqual(["c"]);
  });

  it("answered `gone` after the token was handed over changes nothing", () => {
    const story = new Story();
    const token = story.hold("a");
    story.acquire("b", { wait: 10 });
    story.release(token);
    story.pickUp("b-l");
    story.answer("b-l", "gone");
    expect(story.holders()).toEqual(["b"]);
  });

  it("without an answer is repeated within a second, and again after a reload", () => {
    const story = new Story();
    const token = story.hold("a");
    story.acquire("b", { wait: 10 });
    story.release(token);
    expect(story.notices()).toEqual(["b-l granted"]);
    story.later(1).tick();
    expect(story.notices()).toEqual(["b-l granted"]);
    story.reload();
    story.tick();
    expect(story.notices()).toEqual(["b-l granted"]);
  });

  it("of a promotion that was noted is not repeated, even after a reload", () => {
    const story = new Story();
    const token = story.hold("a");
    story.enqueue("b");
    story.release(token);
    story.answer("b-e", "noted");
    story.notices();
    story.later(5).tick();
    story.reload();
    story.tick();
    expect(story.notices()).toEqual([]);
    expect(story.wait("b").status).toBe("granted");
  });

  it("for an ended hold is about that hold, not about a later one of the same session", () => {
    const story = new Story();
    const token = story.hold("a");
    story.acquire("b", { request: "b1", wait: 10, lease: 1 });
    story.acquire("b", { request: "b2", wait: 10, lease: 30 });
    story.release(token);
    story.later(1).tick();
    expect(story.holders()).toEqual(["b"]);
    story.answer("b1", "gone");
    expect(story.holders()).toEqual(["b"]);
    expect(story.pickUp("b1")).toEqual({ status: "unknown" });
    expect(story.pickUp("b2").status).toBe("granted");
  });
});
