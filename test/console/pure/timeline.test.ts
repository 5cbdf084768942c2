/** The picture of a key's grants, and the numbers beside it. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { type Ending, type GrantRecord, type KeyState, withPast } from "../../../src/console/key/history.ts";
import { spreadOf } from "../../../src/console/key/percentiles.ts";
import { timelineOf } from "../../../src/console/key/timeline.ts";

const NOW = Date.parse("2026-11-16T12:00:00.000Z");
const at = (secondsAgo: number) => new Date(NOW - secondsAgo * 1000).toISOString();
const now = at(0);

interface Made {
  readonly ago: number;
  readonly waited?: number;
  readonly held?: number;
  readonly ended?: Ending;
}

let fences = 0;
function grant({ ago, waited, held, ended = "released" }: Made): GrantRecord {
  fences += 1;
  return {
    fence: String(fences).padStart(16, "0"),
    owner_conn_id: 7,
    granted_at: at(ago),
    ...(waited !== undefined && { waited_s: waited }),
    ...(held !== undefined && { held_s: held, ended }),
  };
}

describe("the history of a key", () => {
  const state = (...grants: GrantRecord[]) => ({ history: { now, grants } }) as unknown as KeyState;

  it("keeps what has ended and is not told any more, in its order", () => {
    const [first, second, third] = [grant({ ago: 30, held: 1 }), grant({ ago: 20, held: 1 }), grant({ ago: 10 })];
    const before = state(first, second, third);
    expect(withPast(state({ ...third, held_s: 4, ended: "released" }), before).history?.grants).toEqual([
      first,
      second,
      { ...third, held_s: 4, ended: "released" },
    ]);
    expect(withPast(state(), before).history?.grants).toEqual([first, second]);
    expect(withPast(before, undefined)).toBe(before);
  });

  it("does not grow for ever", () => {
    const many = Array.from({ length: 390 }, (_, index) => grant({ ago: 1_000 - index, held: 1 }));
    const more = Array.from({ length: 200 }, (_, index) => grant({ ago: 500 - index, held: 1 }));
    const { history } = withPast(state(...more), state(...many));
    expect(history?.grants).toHaveLength(400);
    expect(history?.grants.at(-1)).toEqual(more.at(-1));
  });
});

describe("the timeline", () => {
  it("shows a grant from its hand-over to its end, and one that stands until now", () => {
    const { bars, to } = timelineOf({ now, grants: [grant({ ago: 30, held: 10 }), grant({ ago: 5 })] });
    expect(bars.map((bar) => [to - bar.from, to - bar.to, bar.outcome])).toEqual([
      [30, 20, "released"],
      [5, 0, "held"],
    ]);
  });

  it("tells apart what was given back, what ran out, and what was lost", () => {
    const endings: Ending[] = ["released", "expired", "disconnect", "gone", "stolen"];
    const grants = endings.map((ended, index) => grant({ ago: 50 - index * 10, held: 1, ended }));
    const outcomes = timelineOf({ now, grants }).bars.map(({ outcome }) => outcome);
    expect(outcomes).toEqual(["released", "expired", "lost", "lost", "lost"]);
  });

  it("goes back as far as the oldest grant, in steps that people know", () => {
    const spanOf = (ago: number) => {
      const { from, to } = timelineOf({ now, grants: [grant({ ago, held: 1 })] });
      return to - from;
    };
    expect([1, 16, 60, 61, 250, 800, 9_000].map(spanOf)).toEqual([15, 30, 60, 120, 300, 900, 3_600]);
  });

  it("leaves out what ended before", () => {
    expect(timelineOf({ now, grants: [grant({ ago: 9_000, held: 10 })] }).bars).toEqual([]);
  });

  it("has one lane for a lock that nobody had to wait for", () => {
    const grants = [grant({ ago: 30.001, held: 10.001 }), grant({ ago: 20, held: 15.3 }), grant({ ago: 4.7 })];
    expect(timelineOf({ now, grants }).lanes).toBe(1);
  });

  it("shows who waited in a lane beside the one he waited for", () => {
    const { bars, lanes } = timelineOf({
      now,
      grants: [grant({ ago: 30, held: 10, waited: 0 }), grant({ ago: 20, held: 5, waited: 8 })],
    });
    expect([lanes, bars.map(({ lane }) => lane)]).toEqual([2, [0, 1]]);
    expect(bars[1]).toMatchObject({ waitedFrom: NOW / 1000 - 28, from: NOW / 1000 - 20 });
  });

  it("leaves waits out where too many waited at once", () => {
    const grants = Array.from({ length: 20 }, (_, turn) => grant({ ago: 30 - turn, held: 1, waited: turn }));
    expect(timelineOf({ now, grants })).toMatchObject({ lanes: 1, isWithoutWaits: true });
  });

  it("never lets two grants of a lane overlap", () => {
    const made = fc.record({ ago: fc.integer({ min: 1, max: 50 }), held: fc.integer({ min: 0, max: 50 }) });
    fc.assert(
      fc.property(fc.array(made, { maxLength: 40 }), (all) => {
        const { bars } = timelineOf({ now, grants: all.map(grant) });
        for (const bar of bars) {
          const others = bars.filter((other) => other !== bar && other.lane === bar.lane);
          for (const other of others) expect(other.from >= bar.to || other.to <= bar.from).toBe(true);
        }
      }),
    );
  });
});

describe("percentiles", () => {
  it("are values that were measured, by their rank", () => {
    const values = Array.from({ length: 200 }, (_, index) => index + 1).toReversed();
    expect(spreadOf(values)).toEqual({ count: 200, p50: 100, p95: 190, p99: 198, max: 200 });
  });
  it("of one value are that value", () => {
    expect(spreadOf([0.25])).toEqual({ count: 1, p50: 0.25, p95: 0.25, p99: 0.25, max: 0.25 });
  });
  it("of few values are among the highest where they should be", () => {
    expect(spreadOf([3, 1, 2])).toEqual({ count: 3, p50: 2, p95: 3, p99: 3, max: 3 });
  });
  it("of nothing are nothing", () => {
    expect(spreadOf([])).toBeUndefined();
  });
});
