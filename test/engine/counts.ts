/** Keeps the books on what statistics are told of one key, over a whole history. */
import assert from "node:assert/strict";
import type { Observation } from "../../src/engine/index.ts";
import type { KeyModel } from "./model.ts";
import type { Result } from "./stored-engine.ts";

export class Counts {
  #slotsTaken = 0;
  #slotsFreed = 0;
  /** Fences of grants that have not ended. */
  readonly #standing = new Set<string>();

  /** One command: all that happened is counted, and nothing else. */
  check({ observations, events }: Result, { observations: expected, grants }: KeyModel): void {
    const repeated = observations.filter(({ type }) => type === "notice_repeated").length;
    const rest = observations.filter(({ type }) => type !== "notice_repeated");
    assert.deepEqual(rest.map(textOf).sort(), expected.map(textOf).sort());
    assert.ok(repeated <= events.filter(({ type }) => type === "notice").length, "repeated notices are notices");
    this.#slotsTaken += grants.length;
    for (const observation of observations) this.#add(observation);
    assert.ok(this.#slotsFreed <= this.#slotsTaken, "a slot becomes free once");
  }

  /** Nobody holds any more: every grant has had its end. */
  settle(): void {
    assert.deepEqual([...this.#standing], []);
    assert.equal(this.#slotsFreed, this.#slotsTaken);
  }

  #add(observation: Observation): void {
    if (observation.type === "granted") {
      assert.ok(observation.waitMs >= 0);
      assert.ok(!this.#standing.has(observation.fence), "a grant has a fence of its own");
      this.#standing.add(observation.fence);
    }
    if (observation.type !== "ended") return;
    this.#slotsFreed += 1;
    if (observation.holdMs === undefined) return;
    assert.ok(observation.holdMs >= 0);
    assert.ok(this.#standing.delete(observation.fence), "what ends was granted, and has one end at most");
  }
}

const textOf = (observation: Observation): string => JSON.stringify(Object.entries(observation).sort());
