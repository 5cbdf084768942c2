/** A key that was used once keeps little in memory. It answers as if it had kept everything. */
import { DatabaseSync } from "node:sqlite";
import { describe, expect, it, vi } from "vitest";
import { World } from "./support/world.ts";

function usedOnce() {
  const world = new World();
  const ann = world.connect();
  ann.ask("l", "k", "10");
  world.runtime.settle();
  const { token } = ann;
  ann.ask("r", "k", token);
  world.runtime.settle();
  const key = world.host.keys.get("k");
  if (!key) throw new Error("the key is gone");
  return { world, ann, key, token };
}

describe("a key that was used once and is free", () => {
  it("has no engine in memory", () => {
    expect(usedOnce().key.isInUse).toBe(false);
  });

  it("grants with a higher fence, and denies the old token", () => {
    const { world, ann, key, token } = usedOnce();
    ann.ask("r", "k", token);
    world.runtime.settle();
    expect(ann.last).toBe("error");
    ann.ask("l", "k", "10");
    world.runtime.settle();
    expect(ann.token > token).toBe(true);
    expect(key.isInUse).toBe(true);
  });

  it("has none after others have looked at it or tried an old token", async () => {
    const { world, ann, key, token } = usedOnce();
    const describing = world.service.keys.describe("k", { history: true });
    world.runtime.settle();
    expect(await describing).toMatchObject({ holderCount: 0, history: { grants: [{ waitedMs: 0 }] } });
    ann.ask("r", "k", token);
    world.runtime.settle();
    expect(ann.last).toBe("error");
    expect(key.isInUse).toBe(false);
  });

  it("is read without preparing a statement: a report reads thousands", async () => {
    const { world } = usedOnce();
    const preparing = vi.spyOn(DatabaseSync.prototype, "prepare");
    const describing = world.service.keys.describe("k", { history: false });
    world.runtime.settle();
    expect(await describing).toMatchObject({ holderCount: 0 });
    expect(preparing).not.toHaveBeenCalled();
    preparing.mockRestore();
  });

  it("is pruned together with those beside it, and nothing else is", () => {
    const world = new World({ GC_MAX_IDLE_S: "10", GC_INTERVAL_S: "2" });
    const ann = world.connect();
    for (let number = 0; number < 20; number += 1) {
      ann.ask("l", `k${number}`, "10 60");
      world.runtime.settle();
      if (number % 5 > 0) ann.ask("r", `k${number}`, ann.token);
      world.runtime.settle();
    }
    world.runtime.advance(13_000);
    world.runtime.settle();
    const held = ["k0", "k5", "k10", "k15"];
    expect([...world.host.keys].map(({ name }) => name)).toEqual(held);
    expect([...world.store.load().keys].map(({ name }) => name)).toEqual(held);
  });

  it("keeps its engine once it is used again", () => {
    const { world, ann, key } = usedOnce();
    ann.ask("l", "k", "10");
    world.runtime.settle();
    ann.ask("r", "k", ann.token);
    world.runtime.settle();
    expect(key.isInUse).toBe(true);
  });

  it("counts until it has been idle for long, and is pruned then", async () => {
    const { world } = usedOnce();
    const { gcMaxIdleMs, gcIntervalMs } = world.host.config;
    const keysNow = async () => {
      const asking = world.service.directory.gauges({ mayEstimate: false });
      world.runtime.settle();
      return (await asking).keys;
    };
    expect(await keysNow()).toBe(1);
    world.runtime.advance(gcMaxIdleMs + gcIntervalMs);
    world.runtime.settle();
    expect(await keysNow()).toBe(0);
    expect(world.host.keys.get("k")).toBeUndefined();
  });

  it("keeps its engine while a client has yet to hear of a place that lapsed", () => {
    const world = new World();
    const [ann, ben] = [world.connect(), world.connect()];
    ann.ask("l", "k", "10");
    world.runtime.settle();
    ben.ask("e", "k", "1");
    world.runtime.settle();
    ann.ask("r", "k", ann.token);
    world.runtime.settle();
    world.runtime.advance(6_000);
    world.runtime.settle();
    expect(world.host.keys.get("k")?.isInUse).toBe(true);
    ben.ask("w", "k", "10");
    world.runtime.settle();
    expect(ben.last).toBe("error_lease_expired");
  });
});
