import { describe, expect, it } from "vitest";
import { Tally } from "../../src/core/metrics/tally.ts";

describe("a tally", () => {
  it("adds up by series", () => {
    const tally = new Tally();
    expect(tally.isEmpty).toBe(true);
    tally.count("grants_total", { kind: "lock", how: "immediate" });
    tally.count("grants_total", { kind: "lock", how: "immediate" }, 2);
    tally.count("grants_total", { kind: "semaphore", how: "queued" });
    tally.count("rate_limited_total", {});
    tally.count("protocol_errors_total", { code: 12 });
    expect(tally.isEmpty).toBe(false);
    expect(tally.read()).toEqual({
      "grants_total|lock|immediate": 3,
      "grants_total|semaphore|queued": 1,
      rate_limited_total: 1,
      "protocol_errors_total|12": 1,
    });
  });

  it("is nothing once taken, and whole again once what was taken is merged back", () => {
    const tally = new Tally();
    tally.observe("lock_hold_seconds", { kind: "lock" }, 0.3);
    tally.observe("lock_hold_seconds", { kind: "lock" }, 4000);
    const taken = tally.take();
    expect(taken).toEqual({
      "lock_hold_seconds|lock|0.5": 1,
      "lock_hold_seconds|lock|+Inf": 1,
      "lock_hold_seconds|lock|sum": 4000.3,
    });
    expect(tally.isEmpty).toBe(true);
    tally.count("keys_pruned_total", {});
    tally.merge(taken);
    expect(tally.read()).toEqual({ ...taken, keys_pruned_total: 1 });
  });

  it("never falls, and takes in nothing that is no number", () => {
    const tally = new Tally();
    tally.count("keys_pruned_total", {}, 5);
    tally.count("keys_pruned_total", {}, -3);
    tally.merge({ keys_pruned_total: Number.NaN, rate_limited_total: Number.POSITIVE_INFINITY });
    tally.observe("expiry_lateness_seconds", {}, Number.NaN);
    tally.observe("expiry_lateness_seconds", {}, -1);
    expect(tally.read()).toEqual({ keys_pruned_total: 5, "expiry_lateness_seconds|0.005": 1 });
  });

  it("takes in no series that the table does not know", () => {
    const tally = new Tally();
    tally.merge(JSON.parse('{"__proto__": 1, "grants_total|x|y": 1, "nope": 1, "keys": 1, "build_info|1": 1}'));
    expect(tally.isEmpty).toBe(true);
  });

  it("is bounded, and goes on counting what it knows", () => {
    const tally = new Tally();
    for (let n = 0; n < 20_000; n++) {
      tally.count("http_requests_total", { method: "GET", path: `/mistake/${n}`, status: 200 });
    }
    expect(Object.keys(tally.read()).length).toBe(10_000);
    expect(tally.isFull).toBe(true);
    tally.count("http_requests_total", { method: "GET", path: "/mistake/7", status: 200 });
    expect(tally.read()["http_requests_total|GET|/mistake/7|200"]).toBe(2);
  });

  it("lets the compiler refuse unknown families, labels and values", () => {
    const tally = new Tally();
    // @ts-expect-error: no such family
    expect(() => tally.count("nope_total", {})).toThrow();
    // @ts-expect-error: not a value of that label
    tally.count("grants_total", { kind: "lock", how: "stolen" });
    // @ts-expect-error: a label is missing
    tally.count("grants_total", { kind: "lock" });
    // @ts-expect-error: a histogram is observed, not counted
    tally.count("lock_wait_seconds", { kind: "lock" });
    // @ts-expect-error: a gauge is not counted
    expect(() => tally.observe("keys", {}, 1)).toThrow();
    expect(tally.isEmpty).toBe(true);
  });
});
