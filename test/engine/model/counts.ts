/** Checks what is counted for statistics, over the whole history of one key. */
import assert from "node:assert/strict";
import type { Observation } from "../../../src/core/engine/index.ts";
import type { Result } from "../stored-engine.ts";
import type { KeyModel } from "./key-model.ts";

export class Counts {
  #slotsTaken = 0;
  #slotsFreed = 0;
  /** Fences of grants that have not ended. */
  readonly #open = new Set<string>();

  /** Everything that one command did is counted, and nothing else. */
  check({ observations, events }: Result, { observations: expected, grants }: KeyModel): void {
    const repeated = observations.filter(({ type }) => type === "notice_repeated").length;
    const rest = observations.filter(({ type }) => type !== "notice_repeated");
    assert.deepEqual(rest.map(textOf).sort(), expected.map(textOf).sort());
    assert.ok(repeated <= events.filter(({ type }) => type === "notice").length, "repeated notices are notices");
    this.#slotsTaken += grants.length;
    for (const observation of observations) this.#add(observation);
    assert.ok(this.#slotsFreed <= this.#slotsTaken, "a slot becomes free once");
  }

  /** The key is free: every grant has ended. */
  settle(): void {
    assert.deepEqual([...this.#open], []);
    assert.equal(this.#slotsFreed, this.#slotsTaken);
  }

  #add(observation: Observation): void {
    if (observation.type === "granted") {
      assert.ok(observation.waitMs >= 0);
      assert.ok(!this.#open.has(observation.fence), "a grant has a fence of its own");
      this.#open.add(observation.fence);
    }
    if (observation.type !== "ended") return;
    this.#slotsFreed += 1;
    if (observation.holdMs === undefined) return;
    assert.ok(observation.holdMs >= 0);
    assert.ok(this.#open.delete(observation.fence), "what ends was granted, and has one end at most");
  }
}

const textOf = (observation: Observation): string => JSON.stringify(Object.entries(observation).sort());
