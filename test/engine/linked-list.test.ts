import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { type Linked, LinkedList } from "../../src/core/engine/linked-list.ts";

class Member implements Linked<Member> {
  readonly name: number;
  ahead: Member | undefined;
  behind: Member | undefined;
  constructor(name: number) {
    this.name = name;
  }
}

describe("a linked list", () => {
  it("is empty at first", () => {
    const queue = new LinkedList<Member>();
    expect([queue.length, queue.head, [...queue]]).toEqual([0, undefined, []]);
  });

  it("keeps its order through removals anywhere, and takes removed items back at the end", () => {
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

  it("inserts items in order, whatever order they come in", () => {
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
