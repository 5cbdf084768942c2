import { describe, expect, it } from "vitest";
import type { ClaimOutcome, Sessionless, Which } from "../../src/core/engine/index.ts";
import { Story } from "./story.ts";

const FILE: Sessionless = { kind: "file", note: "42", tag: "deploy", mark: "0a" };
const ANY: Which = { by: "any" };

/** A claim with defaults for what the test does not care about. */
function claim(
  story: Story,
  name: string,
  { wait = 0, lease = 60, ...own }: Partial<Sessionless> & { wait?: number; lease?: number } = {},
) {
  const sessionless = { kind: "file", note: name, ...own };
  const command = { session: `file:${name}`, request: name, leaseSeconds: lease, waitMs: wait * 1000, sessionless };
  return story.run({ do: "claim", command }) as ClaimOutcome;
}
const remove = (story: Story, which: Which = ANY, kind = "file") =>
  story.run({ do: "remove", selector: { kind, which } });
const refresh = (story: Story, options: { which?: Which; kind?: string; lease?: number; tag?: string } = {}) => {
  const { which = ANY, kind = "file", lease, tag } = options;
  return story.run({ do: "refresh", command: { kind, which, leaseSeconds: lease, tag } });
};
const collect = (story: Story, request: string) => story.run({ do: "collect", request });
const fenceOf = (outcome: unknown) => (outcome as { hold: { fence: string } }).hold.fence;

describe("a holder without a session", () => {
  it("is granted a free lock, and the next is told who has it", () => {
    const story = new Story();
    const granted = claim(story, "a", FILE);
    expect(granted).toMatchObject({ status: "granted", hold: { session: "file:a", sessionless: FILE } });
    expect(claim(story, "b")).toMatchObject({ status: "timeout", hold: { fence: fenceOf(granted) } });
    expect(story.holders()).toEqual(["file:a"]);
  });

  it("is restored in full from its rows, waiting or holding", () => {
    const story = new Story();
    claim(story, "a", FILE);
    claim(story, "b", { tag: "next", wait: 9 });
    story.reload();
    expect(story.engine.current(story.context())?.sessionless).toEqual(FILE);
    remove(story);
    story.reload();
    expect(story.engine.current(story.context())?.sessionless).toEqual({ kind: "file", note: "b", tag: "next" });
  });

  it("is not told when its hold ends, by its lease or by force", () => {
    const story = new Story();
    claim(story, "a", { lease: 5 });
    story.later(5).tick();
    expect(story.events).toEqual([]);
    story.steal(fenceOf(claim(story, "b")).padEnd(32, "0"));
    expect([story.events, story.holders()]).toEqual([[], []]);
  });

  it("shares one queue with sessions, first come, first served", () => {
    const story = new Story();
    const token = story.hold("session");
    expect(claim(story, "a", { wait: 9 })).toEqual({ status: "queued" });
    story.acquire("later", { wait: 9 });
    story.release(token);
    expect(story.holders()).toEqual(["file:a"]);
    expect(collect(story, "a")).toMatchObject({ status: "granted", hold: { session: "file:a" } });
    remove(story);
    expect(story.holders()).toEqual(["later"]);
  });

  it("stays when a session leaves", () => {
    const story = new Story();
    claim(story, "a");
    story.leave("somebody");
    expect(story.holders()).toEqual(["file:a"]);
  });

  it("costs one row to grant, one to refresh, one to remove", () => {
    const story = new Story();
    claim(story, "a");
    expect(story.rowsWritten).toBe(1);
    refresh(story, { tag: "new" });
    expect(story.rowsWritten).toBe(1);
    remove(story);
    expect(story.rowsWritten).toBe(1);
  });

  it("shows its tag in every view, cut if it is long", () => {
    const story = new Story();
    claim(story, "a", { tag: "x".repeat(1_000) });
    claim(story, "b", { tag: "next", wait: 9 });
    const { holders, queue } = story.engine.view({ detail: true });
    expect([holders[0]?.tag?.length, queue[0]?.tag]).toEqual([256, "next"]);
    expect(story.engine.newestHolds(9)[0]?.tag).toHaveLength(256);
    expect(story.observed()).toEqual([expect.objectContaining({ type: "granted", tag: "x".repeat(256) })]);
  });
});

describe("a claim of a semaphore", () => {
  const worker = (story: Story, name: string, { limit = 2, wait = 0, mayWait }: WorkerTerms = {}) => {
    const sessionless = { kind: "worker", note: "", tag: "billing" };
    const terms = { session: `worker:${name}`, request: name, leaseSeconds: 60, waitMs: wait * 1000, sessionless };
    const command = { ...terms, limit, ...(mayWait === false && { mayWait }) };
    return story.run({ do: "claim", command }) as ClaimOutcome;
  };
  interface WorkerTerms {
    limit?: number;
    wait?: number;
    mayWait?: false;
  }
  const tokenOf = (outcome: ClaimOutcome) => (outcome.status === "granted" ? outcome.token : "");

  it("is granted while a slot is free, and waits for one after that", () => {
    const story = new Story({ limit: 2 });
    const granted = [worker(story, "a"), worker(story, "b")];
    expect(granted.map(({ status }) => status)).toEqual(["granted", "granted"]);
    expect(worker(story, "c", { wait: 9 })).toEqual({ status: "queued" });
    story.release(tokenOf(granted[0] as ClaimOutcome));
    expect(collect(story, "c")).toMatchObject({ status: "granted", hold: { session: "worker:c" } });
    expect(story.holders()).toEqual(["worker:b", "worker:c"]);
  });

  it("is told the token of its own hold, and the token of no other", () => {
    const story = new Story({ limit: 2 });
    const [a, b] = [worker(story, "a"), worker(story, "b")];
    expect(tokenOf(a)).toHaveLength(32);
    expect(worker(story, "a")).toEqual(a);
    expect(tokenOf(b)).not.toBe(tokenOf(a));
    expect(worker(story, "c")).not.toHaveProperty("token");
  });

  it("that may not wait is told so, and leaves nothing behind", () => {
    const story = new Story({ limit: 2 });
    worker(story, "a");
    worker(story, "b");
    story.observed();
    expect(worker(story, "c", { wait: 9, mayWait: false })).toEqual({ status: "would_wait", at: story.now });
    expect([story.rowsWritten, story.observed(), story.engine.view().waiters]).toEqual([0, [], 0]);
  });

  it("of another limit than the key's is refused, and told the key's", () => {
    const story = new Story({ limit: 2 });
    worker(story, "a");
    expect(worker(story, "b", { limit: 3 })).toMatchObject({ status: "limit_mismatch", limit: 2 });
  });
});

describe("the same claim again", () => {
  it("changes nothing: by its mark, if it is of the same kind, or by its request", () => {
    const story = new Story();
    const granted = claim(story, "a", FILE);
    story.later(10);
    const again = claim(story, "b", { ...FILE, note: "other" });
    expect(again).toMatchObject({ status: "standing", hold: { fence: fenceOf(granted), sessionless: FILE } });
    // Stored once: from now on the first request cannot withdraw it.
    expect(story.rowsWritten).toBe(1);
    expect(claim(story, "c", { ...FILE, kind: "terraform" }).status).toBe("timeout");
    expect(claim(story, "a", FILE)).toMatchObject({ status: "granted", hold: { fence: fenceOf(granted) } });
    expect(claim(story, "d", FILE)).toMatchObject({ status: "standing", hold: { fence: fenceOf(granted) } });
    expect(story.rowsWritten).toBe(0);
  });

  it("keeps a hold granted meanwhile, even if the first request is gone and is cancelled later", () => {
    for (const heard of ["claim", "refresh"] as const) {
      const story = new Story();
      claim(story, "holder");
      claim(story, "first", { ...FILE, wait: 40 });
      claim(story, "other", { wait: 40 });
      remove(story);
      const told = heard === "claim" ? claim(story, "again", FILE) : refresh(story, { lease: 60 });
      const fence = fenceOf(told);
      story.answer("first", "gone");
      story.later(10).tick();
      story.run({ do: "cancel", request: "first" });
      story.reload();
      story.run({ do: "cancel", request: "first" });
      expect(story.holders()).toEqual(["file:first"]);
      expect(story.engine.current(story.context())).toMatchObject({ fence, sessionless: FILE });
      expect(collect(story, "first")).toMatchObject({ status: "granted", hold: { fence } });
      remove(story);
      expect(story.holders()).toEqual(["file:other"]);
    }
  });

  it("without a mark is another claim", () => {
    const story = new Story();
    claim(story, "a");
    expect(claim(story, "b").status).toBe("timeout");
  });

  it("finds its place in the queue, and then its hold", () => {
    const story = new Story();
    claim(story, "a");
    claim(story, "b", { wait: 9 });
    expect(claim(story, "b", { wait: 9 })).toEqual({ status: "queued" });
    expect(story.waiting()).toBe(1);
    remove(story);
    expect(claim(story, "b", { wait: 9 })).toEqual({ status: "queued" });
    expect(collect(story, "b")).toMatchObject({ status: "granted" });
  });
});

describe("a claim that waits", () => {
  it("is told the holder when it times out", () => {
    const story = new Story();
    const first = claim(story, "a");
    claim(story, "b", { wait: 3 });
    story.later(3).tick();
    expect(story.notices()).toEqual(["b timeout"]);
    expect(collect(story, "b")).toMatchObject({ status: "timeout", hold: { fence: fenceOf(first) } });
    story.answer("b", "taken");
    expect(story.engine.hasNews).toBe(false);
  });

  it("is told that the key is free, if the holder's lease has ended too", () => {
    const story = new Story();
    claim(story, "a", { lease: 5 });
    claim(story, "b", { wait: 3 });
    story.later(9).tick();
    expect(collect(story, "b")).toEqual({ status: "timeout" });
  });

  it("has a lease that starts when it is told", () => {
    const story = new Story();
    claim(story, "a");
    claim(story, "b", { wait: 9, lease: 10 });
    remove(story);
    story.later(4);
    expect(collect(story, "b")).toMatchObject({ hold: { expiresAt: story.now + 10_000 } });
  });

  it("is subject to the cap on waiters; one that does not wait is not", () => {
    const story = new Story({ maxWaiters: 1 });
    const first = claim(story, "a");
    claim(story, "b", { wait: 9 });
    expect(claim(story, "c", { wait: 9 })).toEqual({ status: "max_waiters" });
    expect(claim(story, "d")).toMatchObject({ status: "timeout", hold: { fence: fenceOf(first) } });
  });

  it("is told that it has no hold if that is removed before the pick-up", () => {
    const story = new Story();
    claim(story, "a");
    claim(story, "b", { wait: 9 });
    remove(story);
    expect(remove(story).status).toBe("removed");
    expect(story.notices()).toEqual(["b granted", "b lease_expired"]);
    expect(collect(story, "b")).toEqual({ status: "lease_expired" });
  });

  it("leaves the queue, or gives its hold back, when it is cancelled", () => {
    const story = new Story();
    claim(story, "a");
    claim(story, "b", { wait: 9 });
    claim(story, "c", { wait: 9 });
    story.cancel("b");
    remove(story);
    expect(story.holders()).toEqual(["file:c"]);
    story.cancel("c");
    expect(story.holders()).toEqual([]);
  });
});

describe("refreshing and removing", () => {
  it("affect the hold that is meant, and no other", () => {
    const story = new Story();
    expect([refresh(story).status, remove(story).status]).toEqual(["not_held", "not_held"]);
    const fence = fenceOf(claim(story, "a", FILE));
    for (const which of [
      { by: "fence", fences: [] },
      { by: "fence", fences: ["0000000000000001"] },
      { by: "mark", mark: "0b" },
    ] as const) {
      expect([refresh(story, { which }).status, remove(story, which).status]).toEqual(["mismatch", "mismatch"]);
    }
    const kinds = [refresh(story, { kind: "terraform" }).status, remove(story, ANY, "terraform").status];
    expect(kinds).toEqual(["foreign", "foreign"]);
    expect(refresh(story, { which: { by: "mark", mark: "0a" } }).status).toBe("refreshed");
    expect(remove(story, { by: "fence", fences: ["0000000000000001", fence] }).status).toBe("removed");
    expect(story.holders()).toEqual([]);
  });

  it("never affect a session's hold, nor a semaphore's", () => {
    const story = new Story();
    const token = story.hold("session");
    const which: Which = { by: "fence", fences: [token.slice(0, 16)] };
    expect([refresh(story, { which }).status, remove(story, which).status]).toEqual(["foreign", "foreign"]);
    const semaphore = new Story({ limit: 2 });
    const [, second] = [semaphore.hold("s"), semaphore.hold("s", { request: "s2" })];
    expect(claim(semaphore, "a")).toMatchObject({ status: "limit_mismatch", hold: { fence: second.slice(0, 16) } });
    expect([refresh(semaphore).status, remove(semaphore).status]).toEqual(["limit_mismatch", "foreign"]);
  });

  it("set lease and tag; the last lease is the default for the next", () => {
    const story = new Story();
    claim(story, "a", { ...FILE, lease: 60 });
    story.later(10);
    expect(refresh(story, { lease: 5, tag: "new" })).toMatchObject({
      hold: { leaseSeconds: 5, expiresAt: story.now + 5_000, sessionless: { ...FILE, tag: "new" } },
    });
    story.later(3);
    expect(refresh(story)).toMatchObject({ hold: { leaseSeconds: 5, expiresAt: story.now + 5_000 } });
    story.later(5);
    expect(refresh(story).status).toBe("not_held");
  });
});
