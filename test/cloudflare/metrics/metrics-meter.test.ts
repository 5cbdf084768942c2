import { env } from "cloudflare:workers";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { settleReports } from "../../../src/cloudflare/metrics/isolate-tally.ts";
import { Meter } from "../../../src/cloudflare/metrics/meter.ts";
import { MetricsObject } from "../../../src/cloudflare/metrics/metrics-object.ts";
import type { Sums } from "../../../src/core/metrics/tally.ts";
import { expectLog } from "../../support/expected-logs.ts";
import { pass, stopClock } from "../clock.ts";
import { fresh } from "../support.ts";

const SECOND = 1_000;
const MINUTE = 60 * SECOND;

beforeEach(async () => {
  stopClock();
  // All tests of this file share an isolate.
  await settleReports(env);
  pass(1);
});

afterEach(() => {
  vi.restoreAllMocks();
  vi.useRealTimers();
});

const lock = { kind: "lock", how: "immediate" } as const;
const SERIES = "grants_total|lock|immediate";

/** A collector of one's own, meters that report to it, and what those keep their objects awake for. */
function open() {
  const collector = env.METRICS.getByName(fresh("collector"));
  const ownEnv = { ...env, METRICS: { getByName: () => collector } as unknown as typeof env.METRICS };
  const work: Promise<unknown>[] = [];
  const meter = () => new Meter(ownEnv, (promise) => void work.push(promise));
  const sums = async () => (await collector.read()).sums;
  return { meter, sums, work, settled: () => Promise.all(work), settleAll: () => settleReports(ownEnv) };
}

/** Every report that collectors receive from now on. */
function watchReports(): Sums[] {
  const reports: Sums[] = [];
  const report = MetricsObject.prototype.report;
  vi.spyOn(MetricsObject.prototype, "report").mockImplementation(function (this: MetricsObject, counted) {
    reports.push(counted.sums);
    return report.call(this, counted);
  });
  return reports;
}

describe("what an isolate has counted", () => {
  it("reaches a collector whole when somebody asks for it", async () => {
    const { meter, sums, settleAll } = open();
    meter().count("grants_total", lock);
    meter().count("keys_pruned_total", {}, 3);
    meter().observe("lock_wait_seconds", { kind: "semaphore" }, 0.02);
    await settleAll();
    expect(await sums()).toEqual({
      [SERIES]: 1,
      keys_pruned_total: 3,
      "lock_wait_seconds|semaphore|0.025": 1,
      "lock_wait_seconds|semaphore|sum": 0.02,
    });
  });

  it("is reported by whoever counts when a report is due, for all others too", async () => {
    const reports = watchReports();
    const { meter, settled } = open();
    const [quiet, busy] = [meter(), meter()];
    quiet.count("keys_pruned_total", {});
    for (let n = 0; n < 198; n++) busy.count("grants_total", lock);
    pass(10 * SECOND);
    expect(reports).toEqual([]);
    busy.count("grants_total", lock);
    await settled();
    expect(reports).toEqual([{ [SERIES]: 199, keys_pruned_total: 1 }]);
  });

  it("is reported every ten seconds however much there is, and none of it is lost", async () => {
    const reports = watchReports();
    const { meter, sums, settled, settleAll } = open();
    const busy = meter();
    for (let n = 0; n < 5_000; n++) {
      busy.count("grants_total", lock);
      pass(10);
      if (n % 100 === 0) await settled();
    }
    expect(reports.length).toBeGreaterThanOrEqual(4);
    expect(reports.length).toBeLessThanOrEqual(5);
    await settleAll();
    expect(await sums()).toEqual({ [SERIES]: 5_000 });
  });

  it("is reported after ten minutes if it is little", async () => {
    const { meter, settled, settleAll } = open();
    meter().count("grants_total", lock);
    await settleAll();
    const reports = watchReports();
    pass(10 * MINUTE - 1);
    meter().count("grants_total", lock);
    expect(reports).toEqual([]);
    pass(1);
    meter().count("grants_total", lock);
    await settled();
    expect(reports).toEqual([{ [SERIES]: 2 }]);
  });

  it("keeps nobody awake until then", () => {
    const waits = vi.spyOn(scheduler, "wait");
    const { meter, work } = open();
    meter().count("grants_total", lock);
    expect(work).toEqual([]);
    expect(waits).not.toHaveBeenCalled();
  });

  it("is in a later report if it could not be reported, and is never in its object's way", async () => {
    expectLog("metrics_not_reported", { error: "Error: out of order" });
    const { meter, sums, settled, work } = open();
    const failing = vi.spyOn(MetricsObject.prototype, "report").mockImplementationOnce(() => {
      throw new Error("out of order");
    });
    const each = meter();
    each.count("grants_total", lock);
    pass(10 * MINUTE);
    each.count("grants_total", lock);
    expect(work).toHaveLength(1);
    await each.settled();
    expect(await sums()).toEqual({});
    expect(failing).toHaveBeenCalledTimes(1);
    pass(10 * MINUTE);
    each.count("grants_total", lock);
    await settled();
    expect(await sums()).toEqual({ [SERIES]: 3 });
  });

  it("is reported also when the clock was set back", async () => {
    const reports = watchReports();
    const { meter, settled } = open();
    pass(-60 * MINUTE);
    meter().count("grants_total", lock);
    pass(10 * MINUTE);
    meter().count("grants_total", lock);
    await settled();
    expect(reports).toEqual([{ [SERIES]: 2 }]);
  });
});
