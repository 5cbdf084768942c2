import { describe, expect, it } from "vitest";
import { bucketsOf, quantileOf, samplesOf, since, sumOf } from "../../../src/console/shared/metrics.ts";

const SCRAPE = `# HELP dflockd_grants_total Slots granted.
# TYPE dflockd_grants_total counter
dflockd_grants_total{kind="lock",how="immediate"} 40
dflockd_grants_total{kind="semaphore",how="queued"} 2.5e0
dflockd_connections 3
# TYPE dflockd_lock_wait_seconds histogram
dflockd_lock_wait_seconds_bucket{kind="lock",le="0.1"} 50
dflockd_lock_wait_seconds_bucket{kind="lock",le="1"} 90
dflockd_lock_wait_seconds_bucket{kind="lock",le="+Inf"} 100
dflockd_lock_wait_seconds_bucket{kind="semaphore",le="0.1"} 0
dflockd_lock_wait_seconds_bucket{kind="semaphore",le="1"} 0
dflockd_lock_wait_seconds_bucket{kind="semaphore",le="+Inf"} 0
dflockd_lock_wait_seconds_sum{kind="lock"} 31
not a sample
`;

describe("a scrape", () => {
  it("is read into samples, with their labels", () => {
    const samples = samplesOf(SCRAPE);
    expect(samples[0]).toEqual({ name: "dflockd_grants_total", labels: { kind: "lock", how: "immediate" }, value: 40 });
    expect(samples).toHaveLength(10);
    expect(sumOf(samples, "dflockd_grants_total")).toBe(42.5);
    expect(sumOf(samples, "dflockd_connections")).toBe(3);
    expect(sumOf(samples, "nothing")).toBe(0);
  });
});

describe("a quantile", () => {
  const buckets = bucketsOf(samplesOf(SCRAPE), "dflockd_lock_wait_seconds");
  it.each([
    [0.5, 0.1],
    [0.25, 0.05],
    [0.7, 0.55],
    [0.9, 1],
    // Beyond the last bound nobody knows more.
    [0.99, 1],
  ])("%f of all is below %f", (part, value) => {
    expect(quantileOf(buckets, part)).toBeCloseTo(value);
  });

  it("of nothing is nothing", () => {
    expect(quantileOf(new Map(), 0.5)).toBeUndefined();
    expect(quantileOf(since(buckets, buckets), 0.5)).toBeUndefined();
  });

  it("of what came since another scrape knows nothing of what was before", () => {
    const later = new Map([...buckets].map(([le, value]) => [le, value + (le >= 1 ? 10 : 0)]));
    expect(quantileOf(since(buckets, later), 0.5)).toBeCloseTo(0.55);
  });
});
