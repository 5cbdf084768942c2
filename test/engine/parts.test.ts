import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { Deadlines, type Due } from "../../src/engine/deadlines.ts";
import { type Linked, LinkedList } from "../../src/engine/linked-list.ts";

class Timer implements Due {
  dueAt: number;
  scheduledAt = Number.POSITIVE_INFINITY;
  constructor(dueAt: number) {
    this.dueAt = dueAt;
  }
}

class Member implements Linked<Member> {
  readonly name: number;
  ahead: Member | undefined;
  behind: Member | undefined;
  constructor(name: number) {
    this.name = name;
  }
}

describe("deadlines", () => {
  it("without subjects never come", () => {
    const deadlines = new Deadlines<Timer>();
    expect(deadlines.earliest()).toBe(Number.POSITIVE_INFINITY);
    expect(deadlines.takeDue(Number.MAX_VALUE)).toBeUndefined();
  });

  it("come at their millisecond, not before, each once", () => {
    const deadlines = new Deadlines<Timer>();
    const timer = new Timer(100);
    deadlines.schedule(timer);
    deadlines.schedule(timer);
    expect(deadlines.takeDue(99)).toBeUndefined();
    expect(deadlines.takeDue(100)).toBe(timer);
    expect(deadlines.takeDue(1_000)).toBeUndefined();
  });

  it("that move later are not seen at their old time", () => {
    const deadlines = new Deadlines<Timer>();
    const timer = new Timer(100);
    deadlines.schedule(timer);
    timer.dueAt = 500;
    expect(deadlines.takeDue(499)).toBeUndefined();
    expect(deadlines.earliest()).toBe(500);
    expect(deadlines.takeDue(500)).toBe(timer);
  });

  it("of subjects that want nothing any more do not pile up behind an early one", () => {
    const deadlines = new Deadlines<Timer>();
    deadlines.schedule(new Timer(1));
    for (let n = 0; n < 10_000; n++) {
      const timer = new Timer(1_000_000);
      deadlines.schedule(timer);
      timer.dueAt = Number.POSITIVE_INFINITY;
    }
    expect(deadlines.size).toBeLessThan(200);
    expect(deadlines.earliest()).toBe(1);
  });

  it("of subjects that want nothing any more are forgotten", () => {
    const deadlines = new Deadlines<Timer>();
    const timer = new Timer(100);
    deadlines.schedule(timer);
    timer.dueAt = Number.POSITIVE_INFINITY;
    expect(deadlines.takeDue(1_000)).toBeUndefined();
    expect(deadlines.earliest()).toBe(Number.POSITIVE_INFINITY);
  });

  it("agree with a plain sorted list, whatever moves", () => {
    const change = fc.oneof(
      fc.record({ kind: fc.constant("move" as const), which: fc.nat(9), to: fc.nat(100) }),
      fc.record({ kind: fc.constant("stop" as const), which: fc.nat(9) }),
      fc.record({ kind: fc.constant("take" as const), now: fc.nat(100) }),
    );
    fc.assert(
      fc.property(fc.array(change, { maxLength: 60 }), (changes) => {
        const deadlines = new Deadlines<Timer>();
        const timers = Array.from({ length: 10 }, () => new Timer(Number.POSITIVE_INFINITY));
        for (const step of changes) {
          if (step.kind === "take") {
            const due = timers.map((timer) => timer.dueAt).filter((at) => at <= step.now);
            const taken: number[] = [];
            for (let timer = deadlines.takeDue(step.now); timer; timer = deadlines.takeDue(step.now)) {
              taken.push(timer.dueAt);
              timer.dueAt = Number.POSITIVE_INFINITY;
            }
            expect(taken).toEqual(due.sort((a, b) => a - b));
          } else {
            const timer = timers[step.which] as Timer;
            timer.dueAt = step.kind === "move" ? step.to : Number.POSITIVE_INFINITY;
            deadlines.schedule(timer);
          }
          expect(deadlines.earliest()).toBe(Math.min(...timers.map((timer) => timer.dueAt)));
        }
      }),
      { numRuns: 500 },
    );
  });
});

describe("the queue", () => {
  it("is empty at first", () => {
    const queue = new LinkedList<Member>();
    expect([queue.length, queue.head, [...queue]]).toEqual([0, undefined, []]);
  });

  it("keeps the order of those who stay, whoever leaves from wherever, and takes back who comes again", () => {
    fc.assert(
      fc.property(fc.array(fc.nat(40), { maxLength: 80 }), (moves) => {
        const queue = new LinkedList<Member>();
        const members = new Map<number, Member>();
        let expected: number[] = [];
        for (const name of moves) {
          const member = members.get(name);
          if (member) {
            queue.remove(member);
            members.delete(name);
            expected = expected.filter((other) => other !== name);
          } else {
            const joined = new Member(name);
            members.set(name, joined);
            queue.push(joined);
            expected.push(name);
          }
          expect([...queue].map((other) => other.name)).toEqual(expected);
          expect(queue.length).toBe(expected.length);
          expect(queue.head?.name).toBe(expected[0]);
        }
      }),
      { numRuns: 300 },
    );
  });

  it("lets a member in where it belongs, whatever the order in which they come", () => {
    fc.assert(
      fc.property(fc.uniqueArray(fc.nat(40), { maxLength: 30 }), (names) => {
        const queue = new LinkedList<Member>();
        for (const name of names) queue.insert(new Member(name), (other) => other.name > name);
        const order = names.toSorted((a, b) => a - b);
        expect([...queue].map(({ name }) => name)).toEqual(order);
        expect([queue.length, queue.head?.name]).toEqual([order.length, order[0]]);
        for (const member of [...queue]) queue.remove(member);
        expect([queue.length, queue.head]).toEqual([0, undefined]);
      }),
      { numRuns: 100 },
    );
  });
});
