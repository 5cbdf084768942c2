import { describe, expect, it } from "vitest";
import { KeyEngine, limitIfNew, outcomeWithoutKey, perform } from "../../src/core/engine/index.ts";

const CONTEXT = { now: 1_000, salt: () => "0".repeat(16), fenceFloor: 0n, maxWaiters: 0, gcMaxIdleMs: 60_000 };
const newKey = (fence = 0n) => new KeyEngine({ limit: 1, fence, lastActivity: 0, slots: [], waiters: [], lapsed: [] });
const command = { session: "s", request: "r", limit: 1, leaseSeconds: 30, waitMs: 0, mayWait: true };
const acquire = { type: "acquire", command } as const;

describe("the command table", () => {
  it("runs a command on its engine", () => {
    const engine = newKey();
    const outcome = perform(engine, acquire, CONTEXT);
    expect(outcome).toMatchObject({ status: "granted", leaseSeconds: 30 });
    expect(perform(engine, { type: "describe", detail: false }, CONTEXT)).toMatchObject({ holderCount: 1 });
  });

  it("knows which commands create a key, and with what limit", () => {
    expect(limitIfNew({ type: "acquire", command: { ...command, limit: 3 } })).toBe(3);
    expect(limitIfNew({ type: "relay", question: { relay: "p", type: "propose" } })).toBe(1);
    expect(limitIfNew({ type: "relay", question: { relay: "p", type: "off" } })).toBeUndefined();
    expect(limitIfNew({ type: "pickUp", request: "r" })).toBeUndefined();
  });

  it("answers for a key that does not exist", () => {
    expect(outcomeWithoutKey(acquire)).toEqual({ status: "max_locks" });
    expect(outcomeWithoutKey({ type: "renew", token: "t", leaseSeconds: 1 })).toEqual({ status: "not_held" });
    expect(outcomeWithoutKey({ type: "relay", question: { relay: "p", type: "propose" } })).toBeUndefined();
    expect(outcomeWithoutKey({ type: "relay", question: { relay: "p", type: "off" } })).toEqual({
      status: "not_held",
      floor: 0n,
    });
  });

  it("refuses what would be granted when no fence is left", () => {
    expect(perform(newKey(2n ** 64n - 1n), acquire, CONTEXT)).toEqual({ status: "fence_persistence" });
  });
});
