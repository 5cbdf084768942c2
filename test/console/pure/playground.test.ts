/** The parts of the playground that need no page. */
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { AuthError, CapacityError, DrainingError, LimitMismatchError } from "../../../src/client/index.ts";
import { sentenceOf } from "../../../src/console/playground/state/event.ts";
import { partsOf } from "../../../src/console/playground/state/fence.ts";
import { withGrant } from "../../../src/console/playground/state/grants.ts";
import { type LogLine, logged } from "../../../src/console/playground/state/log.ts";
import { Pause } from "../../../src/console/playground/state/pause.ts";
import { aheadOf, placeOf, type QueuePosition } from "../../../src/console/playground/state/position.ts";
import { UNWRITTEN, written } from "../../../src/console/playground/state/resource.ts";
import { failureInWords, standingInWords } from "../../../src/console/playground/state/words.ts";

describe("the protected thing", () => {
  it("accepts a fence that is not lower, refuses what is, and remembers the highest", () => {
    const once = written(UNWRITTEN, "Ada", "0b");
    const again = written(once, "Ada", "0b");
    expect(again).toMatchObject({ highest: "0b", writes: 2, verdict: { isAccepted: true } });
    const next = written(again, "Ben", "0c");
    const refused = written(next, "Ada", "0b");
    expect(refused).toEqual({
      highest: "0c",
      lastWriter: "Ben",
      writes: 3,
      verdict: { who: "Ada", fence: "0b", isAccepted: false },
    });
  });
});

describe("fences", () => {
  it("are shown with the digits set off that tell them apart", () => {
    const seen = ["18e87b99b3bf15c0", "18e87b9d10aa15c0"];
    expect(partsOf("18e87b9d10aa15c0", seen)).toEqual({ same: "18e87b9", distinct: "d10a", rest: "a15c0" });
    expect(partsOf("18e87b9d10aa15c0", seen.slice(1))).toEqual({ same: "", distinct: "", rest: "18e87b9d10aa15c0" });
    expect(partsOf("1", ["1", "2"])).toEqual({ same: "", distinct: "", rest: "1" });
  });

  it("are kept in their order, each once", () => {
    const grants = ["3", "1", "3", "2"].reduce<ReturnType<typeof withGrant>>(
      (known, fence) => withGrant(known, { who: "Ada", fence }),
      [],
    );
    expect(grants.map(({ fence }) => fence)).toEqual(["1", "2", "3"]);
  });
});

describe("the log", () => {
  it("has the newest line first, and a hundred at most", () => {
    const event = { who: "Ada", type: "released" } as const;
    const lines = Array.from({ length: 120 }).reduce<readonly LogLine[]>(
      (lines, _, at) => logged(lines, event, at),
      [],
    );
    expect(lines).toHaveLength(100);
    expect([lines[0]?.number, lines[0]?.at, lines.at(-1)?.number]).toEqual([120, 119, 21]);
  });

  it("tells how long somebody waited, if he did", () => {
    const got = (waitedMs: number) => sentenceOf({ who: "Ben", type: "acquired", fence: "1", waitedMs });
    expect(got(20)).toEqual(["Ben acquired it with fence ", { fence: "1" }]);
    expect(got(3_200)).toEqual(["Ben got it after 3.2 s, with fence ", { fence: "1" }]);
  });
});

describe("a paused client", () => {
  it("finds all that was due meanwhile when it goes on, in order, but not what was called off", () => {
    vi.useFakeTimers();
    onTestFinished(() => void vi.useRealTimers());
    const pause = new Pause();
    const said: string[] = [];
    const due = (name: string) => pause.clock.after(1, () => said.push(name));
    due("before");
    vi.advanceTimersByTime(1);
    pause.pause();
    due("first");
    pause.run(() => said.push("second"));
    const callOff = due("called off");
    vi.advanceTimersByTime(1);
    callOff();
    expect(said).toEqual(["before"]);
    pause.resume();
    expect(said).toEqual(["before", "second", "first"]);
    expect(pause.isPaused).toBe(false);
  });
});

describe("words", () => {
  const report = {
    key: "k",
    kind: "lock",
    limit: 1,
    holders: 1,
    waiters: 2,
    held_by: [
      { owner_conn_id: 1, label: "Ada x", fence: "1", since: "", held_s: 1, lease_s: 5, lease_expires_in_s: 2.5 },
    ],
    queue: [
      { position: 1, owner_conn_id: 2, since: "", waited_s: 1 },
      { position: 2, owner_conn_id: 3, label: "Ben x", since: "", waited_s: 1 },
    ],
  } as const;
  const snapshot = { report, at: 1_000 };

  it("say where somebody stands as the service sees it", () => {
    expect(placeOf(snapshot, "Ada x")).toEqual({ kind: "slot", fence: "1", lease: { ms: 5_000, endsAt: 3_500 } });
    expect(placeOf(snapshot, "Ben x")).toEqual({ kind: "queue", position: 2, of: 2 });
    expect(placeOf(snapshot, "Cleo x")).toBeUndefined();
    expect(placeOf({ report: null, at: 0 }, "Ada x")).toBeUndefined();
  });

  it("say that somebody waits whom the report does not list, as it lists the first of many only", () => {
    const crowd = { report: { ...report, waiters: 520 }, at: 1_000 };
    const place = placeOf(crowd, "Cleo x");
    expect(place).toEqual({ kind: "unlisted", behind: 2, of: 520 });
    const titleOf = (kind: "waiting" | "enqueued") =>
      standingInWords({ standing: { kind }, isFrozen: false }, place).title;
    expect(titleOf("waiting")).toBe("Waiting, behind the first 2 of 520");
    expect(titleOf("enqueued")).toBe("Place taken, behind the first 2 of 520");
    expect(placeOf(crowd, "Ben x")).toEqual({ kind: "queue", position: 2, of: 520 });
    const frozen = { standing: { kind: "holding", fence: "1" }, isFrozen: true } as const;
    expect(standingInWords(frozen, place).title).toBe("Believes it still holds");
  });

  it("say how many stand ahead, or at least how many", () => {
    const waits = (place: QueuePosition) => sentenceOf({ who: "Ada", type: "waits", ...aheadOf(place) });
    expect(waits({ kind: "queue", position: 1, of: 2 })).toEqual(["Ada waits, next in the queue"]);
    expect(waits({ kind: "queue", position: 3, of: 3 })).toEqual(["Ada waits, 2 ahead in the queue"]);
    expect(waits({ kind: "unlisted", behind: 100, of: 520 })).toEqual(["Ada waits, at least 100 ahead in the queue"]);
  });

  it("say what a frozen client believes, and what the service knows better", () => {
    const frozen = { standing: { kind: "holding", fence: "1" }, isFrozen: true } as const;
    expect(standingInWords(frozen, placeOf(snapshot, "Ada x")).title).toBe("Holding, frozen");
    expect(standingInWords(frozen, undefined).title).toBe("Believes it still holds");
    const sleeping = { standing: { kind: "waiting" }, isFrozen: true } as const;
    expect(standingInWords(sleeping, placeOf(snapshot, "Ada x")).title).toBe("The turn has come");
  });

  it("say every failure of the client", () => {
    expect(failureInWords(new AuthError("no"), "k")).toBe("This token or ticket does not cover the key \u2068k\u2069.");
    expect(failureInWords(new LimitMismatchError("k"), "k")).toContain("another number of slots");
    expect(failureInWords(new CapacityError("max_waiters", "k"), "k")).toContain("The queue of \u2068k\u2069");
    expect(failureInWords(new CapacityError("max_locks", "k"), "k")).toContain("as many keys");
    expect(failureInWords(new DrainingError(), "k")).toContain("no new work");
    expect(failureInWords(new RangeError("a lease is a time above zero"), "k")).toBe("a lease is a time above zero");
  });
});
