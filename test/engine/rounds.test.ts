import { describe, expect, it } from "vitest";
import type { KeyEvent, RoundEvent } from "../../src/core/engine/index.ts";
import { Story } from "./story.ts";

/** A key whose requests need a quorum. */
class RoundStory extends Story {
  ask(session: string, { once = false, leaseMs = 5_000 } = {}): string {
    const quorum = once ? "once" : "until_agreed";
    const command = {
      session,
      request: `${session}-r`,
      limit: 1,
      leaseSeconds: leaseMs / 1000,
      waitMs: 0,
      mayWait: true,
    };
    return this.run({ do: "acquire", command: { ...command, quorum } }).status;
  }

  /** Events since they were last taken. */
  take(): KeyEvent[] {
    const { events } = this;
    this.events = [];
    return events;
  }

  /** The round that has just begun. */
  begun(): Extract<RoundEvent, { type: "round" }> {
    const round = this.take().find((event) => event.type === "round");
    if (round?.type !== "round") throw new Error("no round has begun");
    return round;
  }

  fence(of: RoundEvent, floor = 0n): bigint {
    return this.run({ do: "fenceRound", of, floor }) as unknown as bigint;
  }

  agree(request: string, fence: bigint): boolean {
    const of = { request, mark: fence.toString(16).padStart(16, "0") };
    return this.run({ do: "agreeRound", of }) as unknown as boolean;
  }

  fail(of: RoundEvent, pauseMs = 100): void {
    this.run({ do: "failRound", of, end: { status: "refused", fence: 7n, pauseMs } });
  }

  collect(session: string): { status: string; token?: string } {
    return this.run({ do: "pickUp", request: `${session}-r` });
  }
}

const seconds = (count: number) => count * 1000;

describe("a request that needs a quorum", () => {
  it("has the slot for its round, but is not granted before the others have agreed", () => {
    const story = new RoundStory();
    expect(story.ask("ada")).toBe("queued");
    const round = story.begun();
    expect(round).toMatchObject({ session: "ada", request: "ada-r", leaseMs: 5_000 });
    expect(story.collect("ada").status).toBe("queued");
    expect(story.acquire("ben").status).toBe("timeout");
    const fence = story.fence(round);
    expect(story.agree("ada-r", fence)).toBe(true);
    expect(story.take()).toMatchObject([{ type: "notice", session: "ada", kind: "granted" }]);
    // The reply may have been lost: then the relay says it again.
    expect(story.agree("ada-r", fence)).toBe(true);
    expect(story.take()).toEqual([]);
    const { status, token } = story.collect("ada");
    expect([status, BigInt(`0x${token?.slice(0, 16)}`)]).toEqual(["granted", fence]);
  });

  it("gets a fence above everything that the others have stored", () => {
    const story = new RoundStory();
    story.ask("ada");
    const floor = 9_000_000_000_000_000_000n;
    const fence = story.fence(story.begun(), floor);
    expect(fence).toBe(floor + 1n);
    story.agree("ada-r", fence);
    story.collect("ada");
    story.run({ do: "release", token: story.key.engine.view().holders[0]?.fence ?? "", session: "ada" });
    expect(story.engine.lastFence).toBe(fence);
  });

  it("loses the slot a second or so after the last word from its round, and begins another one", () => {
    const story = new RoundStory();
    story.ask("ada");
    const first = story.begun();
    story.now += 1_000;
    expect(story.run({ do: "keepRound", of: first })).toBe(true);
    story.now += 1_249;
    expect(story.run({ do: "keepRound", of: first })).toBe(true);
    story.now += 1_250;
    story.run({ do: "tick" });
    const [over, again] = story.take();
    expect(over).toMatchObject({ type: "round_over", mark: first.mark });
    expect(again).toMatchObject({ type: "round", request: "ada-r" });
    // What was said in the round before concerns nobody.
    expect(story.run({ do: "keepRound", of: first })).toBe(false);
    expect(typeof story.fence(first)).not.toBe("bigint");
    expect(story.agree("ada-r", BigInt(`0x${first.mark}`))).toBe(false);
  });

  it("is not granted by an agreement that comes too late for the holds of the others", () => {
    const story = new RoundStory();
    story.ask("ada");
    const fence = story.fence(story.begun());
    story.now += 1_001;
    expect(story.agree("ada-r", fence)).toBe(false);
  });

  it("has a lease that never outlasts what the others have agreed to, however late and often it is picked up", () => {
    const story = new RoundStory();
    story.ask("ada", { leaseMs: 5_000 });
    const fence = story.fence(story.begun());
    const fencedAt = story.now;
    story.now += 400;
    story.agree("ada-r", fence);
    story.now += 3_000;
    story.collect("ada");
    const expiresAt = () => story.engine.view().holders[0]?.expiresAt;
    expect(expiresAt()).toBe(fencedAt + 6_000);
    story.run({ do: "reload" });
    story.now += 500;
    story.collect("ada");
    expect(expiresAt()).toBe(fencedAt + 6_000);
  });

  it("starts its lease when it is picked up", () => {
    const story = new RoundStory();
    story.ask("ada", { leaseMs: 5_000 });
    const fence = story.fence(story.begun());
    story.now += 400;
    story.agree("ada-r", fence);
    story.now += 100;
    story.collect("ada");
    expect(story.engine.view().holders[0]?.expiresAt).toBe(story.now + 5_000);
  });

  it("keeps its place when the others refuse, pauses, and stops nobody but those behind it", () => {
    const story = new RoundStory();
    story.ask("ada");
    story.acquire("ben", { wait: 60 });
    story.fail(story.begun(), 100);
    expect(story.take()).toEqual([]);
    expect(story.engine.view()).toMatchObject({ holderCount: 0, waiters: 2 });
    // The key has no occupant: another deployment may have it.
    expect(story.run({ do: "relay", question: { relay: "s1", type: "propose" } }).status).toBe("agreed");
    story.run({ do: "relay", question: { relay: "s1", type: "off" } });
    expect(story.take()).toEqual([]);
    story.now += 100;
    story.run({ do: "tick" });
    expect(story.begun()).toMatchObject({ request: "ada-r" });
  });

  it("wakes the key when its pause is over", () => {
    const story = new RoundStory();
    story.ask("ada");
    story.fail(story.begun(), 77);
    expect(story.engine.nextWake({ gcMaxIdleMs: 60_000, graceMs: 0 })).toBe(story.now + 77);
  });

  it("that asks once is told why it was refused, and leaves nothing", () => {
    const story = new RoundStory();
    story.ask("ada", { once: true });
    story.fail(story.begun());
    const [notice] = story.take();
    expect(notice).toMatchObject({ kind: "timeout", refusal: { status: "refused", fence: 7n } });
    expect(story.collect("ada").status).toBe("timeout");
    story.run({ do: "answer", request: "ada-r", answer: "taken" });
    expect(story.engine.view()).toMatchObject({ holderCount: 0, waiters: 0 });
  });

  it("that asks once does not wait behind anybody", () => {
    const story = new RoundStory();
    story.hold("ada");
    expect(story.ask("ben", { once: true })).toBe("timeout");
    expect(story.engine.view().waiters).toBe(0);
  });

  it("ends its round when its session leaves, is cancelled or is overruled by an operator", () => {
    for (const end of [
      { do: "leave", session: "ada", keepsReported: false },
      { do: "cancel", request: "ada-r" },
    ] as const) {
      const story = new RoundStory();
      story.ask("ada");
      const { mark } = story.begun();
      story.run(end);
      expect(story.take()).toMatchObject([{ type: "round_over", mark }]);
      expect(story.engine.view()).toMatchObject({ holderCount: 0, waiters: 0 });
    }
  });

  it("tells the relay when the hold it became has ended, by whatever", () => {
    const story = new RoundStory();
    story.ask("ada", { leaseMs: seconds(3) });
    const fence = story.fence(story.begun());
    story.agree("ada-r", fence);
    story.collect("ada");
    story.take();
    story.now += seconds(3);
    story.run({ do: "tick" });
    expect(story.take()).toContainEqual(expect.objectContaining({ type: "round_over", request: "ada-r" }));
  });

  it("survives the loss of the object in every phase", () => {
    const story = new RoundStory();
    story.ask("ada");
    const round = story.begun();
    story.run({ do: "reload" });
    story.run({ do: "tick" });
    // The session is not told of a grant that is none.
    expect(story.take()).toEqual([]);
    const fence = story.fence(round);
    story.run({ do: "reload" });
    expect(story.agree("ada-r", fence)).toBe(true);
    story.run({ do: "reload" });
    story.run({ do: "tick" });
    expect(story.collect("ada").status).toBe("granted");
  });

  it("costs seven rows from the request to the release, and four where others hold it", () => {
    const story = new RoundStory();
    const rows = (call: () => unknown): number => {
      call();
      return story.rowsWritten;
    };
    const asked = rows(() => story.ask("ada"));
    const round = story.begun();
    let fence = 0n;
    const fenced = rows(() => {
      fence = story.fence(round);
    });
    const agreed = rows(() => story.agree("ada-r", fence));
    let token = "";
    const picked = rows(() => {
      token = story.collect("ada").token ?? "";
    });
    const released = rows(() => story.run({ do: "release", token, session: "ada" }));
    expect([asked, fenced, agreed, picked, released]).toEqual([2, 1, 1, 2, 1]);
    const relay = "s1";
    const questions = [
      { relay, type: "propose" },
      { relay, type: "schedule" },
      { relay, type: "commit", leaseMs: 5_000 },
      { relay, type: "off" },
    ] as const;
    expect(questions.map((question) => rows(() => story.run({ do: "relay", question })))).toEqual([1, 1, 1, 1]);
  });

  it("is prolonged only as far as the others have agreed to", () => {
    const story = new RoundStory();
    story.ask("ada", { leaseMs: seconds(3) });
    story.agree("ada-r", story.fence(story.begun()));
    const { token = "" } = story.collect("ada");
    const { rounds } = story.engine;
    expect(rounds.agreed(token, "ben", story.context())).toBeUndefined();
    expect(rounds.agreed(token, "ada", story.context())).toMatchObject({ remainingMs: seconds(3) });
    const askedAt = story.now;
    story.now += 2_000;
    expect(rounds.prolong(token, seconds(10), askedAt, story.context())).toBe(true);
    expect(story.engine.view().holders[0]?.expiresAt).toBe(askedAt + seconds(11));
  });

  it("that is withdrawn while it pauses lets the next one have its round at once", () => {
    const story = new RoundStory();
    story.ask("ada");
    story.ask("ben");
    story.fail(story.begun(), 100);
    expect(story.take()).toEqual([]);
    story.cancel("ada-r");
    expect(story.begun()).toMatchObject({ session: "ben" });
  });

  it("waits for a moment after a hold for which another deployment was refused", () => {
    const story = new RoundStory();
    const token = story.hold("ada");
    story.ask("ben");
    expect(story.run({ do: "relay", question: { relay: "s1", type: "propose" } }).status).toBe("held");
    story.run({ do: "release", token, session: "ada" });
    story.ask("cat");
    expect(story.take()).toEqual([]);
    expect(story.engine.nextWake({ gcMaxIdleMs: 60_000, graceMs: 0 })).toBe(story.now + 200);
    story.now += 199;
    expect(story.run({ do: "relay", question: { relay: "s1", type: "propose" } }).status).toBe("agreed");
    story.run({ do: "relay", question: { relay: "s1", type: "off" } });
    expect(story.take()).toEqual([]);
    story.now += 1;
    story.run({ do: "tick" });
    expect(story.begun()).toMatchObject({ session: "ben" });
  });

  it("begins at once after a hold for which no other deployment was refused", () => {
    const story = new RoundStory();
    const token = story.hold("ada");
    story.ask("ben");
    story.run({ do: "relay", question: { relay: "s1", type: "propose" } });
    story.run({ do: "release", token, session: "ada" });
    story.now += 200;
    story.run({ do: "tick" });
    const fence = story.fence(story.begun());
    story.agree("ben-r", fence);
    const { token: second = "" } = story.collect("ben");
    story.ask("cat");
    story.take();
    story.run({ do: "release", token: second, session: "ben" });
    expect(story.begun()).toMatchObject({ session: "cat" });
  });

  it("has no more than one last phase: the others count from its fence", () => {
    const story = new RoundStory();
    story.ask("ada");
    const fence = story.fence(story.begun());
    const of = { request: "ada-r", mark: fence.toString(16).padStart(16, "0") };
    story.now += 900;
    expect(story.key.run({ do: "keepRound", of }, story.context()).outcome).toBe(false);
    expect(story.key.run({ do: "fenceRound", of, floor: 0n }, story.context()).outcome).toBeUndefined();
    story.now += 200;
    expect(story.agree("ada-r", fence)).toBe(false);
  });
});
