/** What a key answers to a call that its host makes again because the first answer was lost. */
import { describe, expect, it } from "vitest";
import { Story } from "./story.ts";

const RELEASED = { status: "released" };
const NOT_HELD = { status: "not_held" };

/** `a` holds, `b` waits. */
function held() {
  const story = new Story();
  const token = story.hold("a");
  story.acquire("b", { wait: 60 });
  const release = (id: string, of = token) => story.run({ do: "release", token: of, session: "a", id });
  return { story, token, release };
}

describe("a release that is made again", () => {
  it("answers `released`, and the next holder keeps what it got in the same step", () => {
    const { story, release } = held();
    expect(release("first")).toEqual(RELEASED);
    expect(release("first")).toEqual(RELEASED);
    expect(story.rowsWritten).toBe(0);
    expect(story.holders()).toEqual(["b"]);
  });

  it("answers `released` also if the key has slept in between, free or held by the next", () => {
    const { story, release } = held();
    release("first");
    story.reload();
    expect(release("first")).toEqual(RELEASED);
    const next = story.pickUp("b-l").token ?? "";
    expect(release("second", next)).toEqual(RELEASED);
    story.reload();
    expect(release("second", next)).toEqual(RELEASED);
    expect(release("first")).toEqual(RELEASED);
    expect(story.holders()).toEqual([]);
  });

  it("writes no more rows than one that cannot be made again", () => {
    const story = new Story();
    const token = story.hold("a");
    story.run({ do: "release", token, session: "a", id: "first" });
    expect(story.rowsWritten).toBe(1);
  });

  it("is remembered while the slot is released a few times more, and not for ever", () => {
    const story = new Story();
    const tokens = Array.from({ length: 5 }, (_, turn) => {
      const token = story.hold("a", { request: `r${turn}` });
      story.run({ do: "release", token, session: "a", id: `id${turn}` });
      return token;
    });
    const again = tokens.map((token, turn) => story.run({ do: "release", token, session: "a", id: `id${turn}` }));
    expect(again).toEqual([NOT_HELD, RELEASED, RELEASED, RELEASED, RELEASED]);
    expect(story.key.rows.slots.get(0)?.releases).toHaveLength(4);
  });

  it("is another one if it has another id, or is about another hold: the client itself releases twice", () => {
    const { story, token, release } = held();
    release("first");
    expect(release("second")).toEqual(NOT_HELD);
    expect(story.release(token)).toEqual(NOT_HELD);
    expect(release("first", "0".repeat(32))).toEqual(NOT_HELD);
  });

  it("answers `not_held` if it came too late the first time", () => {
    const { story, release } = held();
    story.later(33);
    expect([release("first"), release("first")]).toEqual([NOT_HELD, NOT_HELD]);
  });

  it("answers the same if its session gives the hold back, and tries both ways", () => {
    const { story, token, release } = held();
    const giveBack = () => story.run({ do: "giveBack", token, session: "a", id: "first" });
    expect([giveBack(), giveBack(), release("first")]).toEqual([RELEASED, RELEASED, RELEASED]);
    expect(story.run({ do: "giveBack", token, session: "a", id: "second" })).toEqual(NOT_HELD);
  });
});

describe("a removal that is made again", () => {
  const claim = (story: Story, name: string, wait = 0) => {
    const sessionless = { kind: "file", note: name };
    const command = { session: `file:${name}`, request: name, leaseSeconds: 60, waitMs: wait * 1000, sessionless };
    return story.run({ do: "claim", command });
  };

  it("removes nothing else, whichever hold it is about, and answers `removed`", () => {
    const story = new Story();
    claim(story, "a");
    claim(story, "b", 60);
    const selector = { kind: "file", which: { by: "any" } } as const;
    const remove = (id: string) => story.run({ do: "remove", selector, id });
    expect(remove("first")).toMatchObject({ status: "removed", hold: { session: "file:a" } });
    story.reload();
    expect(remove("first")).toEqual({ status: "removed" });
    expect(story.holders()).toEqual(["file:b"]);
    expect(remove("second")).toMatchObject({ status: "removed", hold: { session: "file:b" } });
  });
});

describe("other calls that are made again", () => {
  it("a renewal restarts the lease again; after a release by its own session there is nothing to renew", () => {
    const { story, token, release } = held();
    const renewed = story.renew(token, 9);
    expect(story.later(1).renew(token, 9)).toEqual(renewed);
    release("first");
    expect(story.renew(token, 9)).toEqual(NOT_HELD);
  });

  it("a forced release ends the one hold that it names, and then finds nothing", () => {
    const { story, token } = held();
    expect(story.steal(token).status).toBe("stolen");
    expect(story.steal(token)).toEqual(NOT_HELD);
    expect(story.holders()).toEqual(["b"]);
  });

  it("a withdrawal and a departure find nothing the second time", () => {
    const { story } = held();
    for (const _ of ["once", "twice"]) story.cancel("b-l");
    expect([story.holders(), story.waiting()]).toEqual([["a"], 0]);
    for (const _ of ["once", "twice"]) story.leave("a");
    expect(story.rowsWritten).toBe(0);
    expect(story.holders()).toEqual([]);
  });

  it("a refresh restarts the lease again", () => {
    const story = new Story();
    const sessionless = { kind: "file", note: "a", mark: "0a" };
    const command = { session: "file:a", request: "r", leaseSeconds: 60, waitMs: 0, sessionless };
    const granted = story.run({ do: "claim", command });
    const which = { by: "mark", mark: "0a" } as const;
    const refresh = () =>
      story.run({ do: "refresh", command: { kind: "file", which, leaseSeconds: 9, tag: undefined } });
    expect(refresh()).toEqual(refresh());
    // And so does a claim, even if somebody else has been told of the hold meanwhile.
    expect(granted).toMatchObject({ status: "granted" });
    expect(story.run({ do: "claim", command })).toMatchObject({ status: "granted", hold: { session: "file:a" } });
  });

  it("a steal is the one call that is never made again: its grant is only fetched", () => {
    const { story } = held();
    const stolen = story.acquire("thief", { request: "steal", steals: true });
    expect(story.acquire("thief", { request: "steal", steals: true })).toEqual(stolen);
    expect(story.pickUp("steal")).toEqual(stolen);
  });
});
