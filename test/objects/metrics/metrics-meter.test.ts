import { env } from "cloudflare:workers";
import { afterEach, describe, expect, it, vi } from "vitest";
import type { Sums } from "../../../src/metrics/tally.ts";
import { Meter } from "../../../src/objects/metrics/meter.ts";
import { MetricsObject } from "../../../src/objects/metrics/metrics-object.ts";
import { fresh, until } from "../support.ts";

afterEach(() => {
  vi.restoreAllMocks();
});

const lock = { kind: "lock", how: "immediate" } as const;
const SERIES = "grants_total|lock|immediate";

/** A meter in the test's own request, what it keeps the request awake for, and a collector of its own. */
function open() {
  const collector = env.METRICS.getByName(fresh("collector"));
  const ownEnv = { ...env, METRICS: { getByName: () => collector } as unknown as typeof env.METRICS };
  const work: Promise<unknown>[] = [];
  const meter = new Meter(ownEnv, "name", (promise) => work.push(promise));
  const sums = async () => (await collector.read()).sums;
  return { meter, sums, settled: () => Promise.all(work) };
}

/** Every report that collectors receive from now on. */
function watchReports(): Sums[] {
  const reports: Sums[] = [];
  const report = MetricsObject.prototype.report;
  vi.spyOn(MetricsObject.prototype, "report").mockImplementation(function (this: MetricsObject, sums) {
    reports.push(sums);
    return report.call(this, sums);
  });
  return reports;
}

describe("a meter", () => {
  it("tells a collector what it has counted and observed", async () => {
    const { meter, sums, settled } = open();
    meter.count("grants_total", lock);
    meter.count("keys_pruned_total", {}, 3);
    meter.observe("lock_wait_seconds", { kind: "semaphore" }, 0.02);
    await settled();
    expect(await sums()).toEqual({
      [SERIES]: 1,
      keys_pruned_total: 3,
      "lock_wait_seconds|semaphore|0.025": 1,
      "lock_wait_seconds|semaphore|sum": 0.02,
    });
  });

  it("reports at once what is counted after a pause, all that one step counts in one report", async () => {
    const reports = watchReports();
    const { meter, settled } = open();
    const waits = vi.spyOn(scheduler, "wait");
    meter.count("grants_total", lock);
    meter.observe("lock_wait_seconds", { kind: "lock" }, 0);
    await settled();
    expect(waits).not.toHaveBeenCalled();
    expect(reports).toEqual([{ [SERIES]: 1, "lock_wait_seconds|lock|0.001": 1 }]);
  });

  it("sends few reports however often it is used, and loses nothing", async () => {
    const reports = watchReports();
    const { meter, sums, settled } = open();
    const startedAt = Date.now();
    for (let n = 0; n < 1_000; n++) {
      meter.count("grants_total", lock);
      if (n % 10 === 0) await scheduler.wait(1);
    }
    await until(async () => (await sums())[SERIES] === 1_000, { timeout: 3_000, interval: 20 });
    await settled();
    expect(reports.length).toBeGreaterThan(0);
    // One at once, then one a second, however slow the machine is.
    expect(reports.length).toBeLessThanOrEqual(2 + (Date.now() - startedAt) / 1_000);
    expect(reports.reduce((total, report) => total + (report[SERIES] ?? 0), 0)).toBe(1_000);
  });

  it("adds what could not be reported to a later report, and is never in its object's way", async () => {
    const reports = watchReports();
    const { meter, sums, settled } = open();
    vi.spyOn(MetricsObject.prototype, "report").mockImplementationOnce(() => {
      throw new Error("out of order");
    });
    meter.count("grants_total", lock);
    await scheduler.wait(50);
    expect(await sums()).toEqual({});
    meter.count("grants_total", lock);
    await settled();
    expect(await sums()).toEqual({ [SERIES]: 2 });
    expect(reports).toEqual([{ [SERIES]: 2 }]);
  });

  it("gives up on a collector that never answers, until there is something to count again", async () => {
    const { meter, sums, settled } = open();
    const failing = vi.spyOn(MetricsObject.prototype, "report").mockImplementation(() => {
      throw new Error("out of order");
    });
    meter.count("grants_total", lock);
    await settled();
    expect(failing).toHaveBeenCalledTimes(4);
    failing.mockRestore();
    expect(await sums()).toEqual({});
    meter.count("grants_total", lock);
    await settled();
    expect(await sums()).toEqual({ [SERIES]: 2 });
  });
});
