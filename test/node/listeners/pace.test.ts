import { expect, it } from "vitest";
import { Pace } from "../../../src/node/listeners/http/pace.ts";

it("however many requests arrive at once, a bounded number is begun in each turn, in order", () => {
  let turn: (() => void) | undefined;
  const pace = new Pace((callback) => {
    expect(turn).toBeUndefined();
    turn = callback;
  });
  const begun: number[] = [];
  for (let index = 0; index < 1_000; index += 1) pace.begin(() => begun.push(index));
  const perTurn: number[] = [begun.length];
  while (turn) {
    const callback = turn;
    turn = undefined;
    const before = begun.length;
    callback();
    perTurn.push(begun.length - before);
    // One that comes meanwhile takes its place behind those that wait.
    if (perTurn.length === 2) pace.begin(() => begun.push(1_000));
  }
  expect(begun).toEqual(Array.from({ length: 1_001 }, (_, index) => index));
  expect(Math.max(...perTurn)).toBe(64);
});

it("a request that arrives alone is begun at once", () => {
  const pace = new Pace();
  let begun = 0;
  pace.begin(() => {
    begun += 1;
  });
  expect(begun).toBe(1);
});
