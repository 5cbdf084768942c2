import { expect, it } from "vitest";
import { SessionContext } from "../../src/core/session/context.ts";
import type { Effect } from "../../src/core/session/effects.ts";
import { Holdings } from "../../src/core/session/holdings.ts";
import { Leaving } from "../../src/core/session/leaving.ts";
import { origin, Stored } from "./stored.ts";

const KEYS = Array.from({ length: 200 }, (_, index) => `key-${index}`);

/** A session that has used all keys before its object was restarted, and leaves them. */
class Story {
  readonly stored = new Stored();
  readonly left: string[] = [];
  readonly unreachable = new Set<string>();
  readonly wakes: number[] = [];
  mostAtOnce = 0;
  isDone = false;
  readonly #context: SessionContext;
  readonly #leaving: Leaving;
  readonly #calls: Extract<Effect, { type: "callKey" }>[] = [];

  constructor() {
    for (const key of KEYS) this.stored.take({ type: "storeKey", key });
    this.#context = new SessionContext(origin(this.stored, { now: 1_000 }));
    this.#leaving = new Leaving(this.#context, new Holdings(this.#context));
  }

  depart(): void {
    this.isDone = false;
    this.#leaving.begin();
    this.#takeEffects();
  }

  /** Lets keys answer until all have been left, or this many. */
  answer(count = Number.POSITIVE_INFINITY): void {
    for (let answered = 0; answered < count; answered++) {
      const call = this.#calls.shift();
      if (!call) return;
      if (this.unreachable.has(call.key)) this.#context.keyFailed(call.call, "unreachable");
      else {
        this.left.push(call.key);
        this.#context.keyAnswered(call.call, undefined);
      }
      this.#takeEffects();
    }
  }

  #takeEffects(): void {
    for (const effect of this.#context.takeEffects()) {
      this.stored.take(effect);
      if (effect.type === "callKey") this.#calls.push(effect);
      else if (effect.type === "wake") this.wakes.push(effect.at ?? effect.by ?? 0);
      else if (effect.type === "left") this.isDone = true;
    }
    this.mostAtOnce = Math.max(this.mostAtOnce, this.#calls.length);
  }
}

it("a session leaves each key once, also when its close and its alarm meet, and few at a time", () => {
  const story = new Story();
  story.depart();
  story.depart();
  story.answer();
  expect(story.left.sort()).toEqual([...KEYS].sort());
  expect(story.mostAtOnce).toBe(8);
  expect(story.stored.isEmpty).toBe(true);
  expect(story.isDone).toBe(true);
});

it("a departure that was cut off goes on where it was", () => {
  const story = new Story();
  story.depart();
  story.answer(150);
  // What a new life of the object would find in storage at this moment.
  expect(story.stored.keys().length).toBeLessThanOrEqual(KEYS.length - 128);
  expect(story.stored.get("ending")).toBe(true);
  expect(story.wakes).toEqual([2_000]);
});

it("a key that cannot be reached is all that is tried again", () => {
  const story = new Story();
  story.unreachable.add("key-77");
  story.depart();
  story.answer();
  expect(story.stored.keys()).toEqual(["key-77"]);
  expect(story.isDone).toBe(true);
  expect(story.wakes).toEqual([2_000, 2_250]);
  story.unreachable.clear();
  story.depart();
  story.answer();
  expect(story.left.filter((key) => key === "key-77")).toHaveLength(1);
  expect(story.left).toHaveLength(KEYS.length);
  expect(story.stored.isEmpty).toBe(true);
});
