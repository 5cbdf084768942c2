import { afterEach, describe, expect, it, vi } from "vitest";
import { MetricsObject } from "../../../src/cloudflare/metrics/metrics-object.ts";
import { type FinishedRequest, recordRequest, renderMetrics } from "../../../src/http/middleware/metrics.ts";
import { VERSION } from "../../../src/version.ts";
import { parseExposition, sampleValue } from "../../metrics/parse.ts";
import { expectLog } from "../../support/expected-logs.ts";
import { pass, stopClock } from "../clock.ts";
import { fresh, never, service, until } from "../support.ts";

afterEach(() => {
  vi.restoreAllMocks();
  vi.useRealTimers();
});

const scrape = async ({ isDraining = false } = {}) =>
  parseExposition(await renderMetrics(service(), { isDraining, estimates: true }));

/** What requests leave behind; a request ends when its own part of it is done. */
const work: Promise<unknown>[] = [];
const waitUntil = (promise: Promise<unknown>) => void work.push(promise);

const record = (request: Partial<FinishedRequest>) =>
  recordRequest(service(waitUntil).meter, { method: "GET", path: "/health", status: 200, seconds: 0.003, ...request });

describe("a scrape", () => {
  it("shows every request that was finished before it began, at once", async () => {
    const path = `/${fresh("route")}`;
    const labels = { method: "POST", path, status: "204" };
    for (let n = 1; n <= 5; n++) {
      record({ method: "POST", path, status: 204, seconds: 0.2 });
      const families = await scrape();
      expect(sampleValue(families, "dflockd_http_requests_total", labels)).toBe(n);
      expect(sampleValue(families, "dflockd_http_request_duration_seconds_count", labels)).toBe(n);
      const bucket = "dflockd_http_request_duration_seconds_bucket";
      expect(sampleValue(families, bucket, { ...labels, le: "0.1" })).toBe(0);
      expect(sampleValue(families, bucket, { ...labels, le: "0.25" })).toBe(n);
    }
  });

  it("waits for what other requests are just sending", async () => {
    const path = `/${fresh("route")}`;
    const report = MetricsObject.prototype.report;
    vi.spyOn(MetricsObject.prototype, "report").mockImplementation(async function (this: MetricsObject, sums) {
      await scheduler.wait(200);
      return report.call(this, sums);
    } as typeof report);
    stopClock();
    record({ path });
    // By now the request sends a report.
    pass(600_000);
    record({ path: "/other" });
    await until(() => vi.mocked(MetricsObject.prototype.report).mock.calls.length > 0, { timeout: 5_000, interval: 5 });
    const families = await scrape();
    expect(sampleValue(families, "dflockd_http_requests_total", { method: "GET", path, status: "200" })).toBe(1);
  });

  it("does not wait for a report that was lost, though the clock was set back", async () => {
    const report = vi.spyOn(MetricsObject.prototype, "report").mockImplementationOnce(() => never());
    stopClock();
    record({});
    pass(600_000);
    record({});
    await until(() => report.mock.calls.length > 0, { timeout: 5_000, interval: 5 });
    pass(-3_600_000);
    expect(sampleValue(await scrape(), "dflockd_ready")).toBe(1);
    // The lost report never ends.
    work.splice(0);
  });

  it("knows a method that was made up as OTHER only", async () => {
    const path = `/${fresh("route")}`;
    for (let n = 0; n < 50; n++) record({ method: `BREW${n}`, path, status: 404 });
    const families = await scrape();
    const samples = families[0]?.samples.filter(({ labels }) => labels.path === path);
    expect(samples).toEqual([
      { name: "dflockd_http_requests_total", labels: { method: "OTHER", path, status: "404" }, value: 50 },
    ]);
  });

  it("shows what else the Worker has counted", async () => {
    const before = sampleValue(await scrape(), "dflockd_rate_limited_total") ?? 0;
    service(waitUntil).meter.count("rate_limited_total", {});
    service(waitUntil).meter.count("auth_failures_total", { transport: "http" });
    const families = await scrape();
    expect(sampleValue(families, "dflockd_rate_limited_total")).toBe(before + 1);
    expect(sampleValue(families, "dflockd_auth_failures_total", { transport: "http" })).toBeGreaterThan(0);
  });

  it("tells version, readiness and age", async () => {
    const families = await scrape();
    expect(sampleValue(families, "dflockd_build_info", { version: VERSION })).toBe(1);
    expect(sampleValue(families, "dflockd_ready")).toBe(1);
    expect(sampleValue(families, "dflockd_draining")).toBe(0);
    expect(sampleValue(families, "dflockd_uptime_seconds")).toBeLessThan(60);
    const draining = await scrape({ isDraining: true });
    expect(sampleValue(draining, "dflockd_ready")).toBe(0);
    expect(sampleValue(draining, "dflockd_draining")).toBe(1);
  });

  it("fails rather than show less than before when a collector does not answer", async () => {
    vi.spyOn(MetricsObject.prototype, "read").mockImplementationOnce(() => {
      throw new Error("out of order");
    });
    await expect(scrape()).rejects.toThrow("out of order");
  });
});

describe("many requests in a row", () => {
  it("share their reports and lose none", async () => {
    const path = `/${fresh("route")}`;
    stopClock();
    const report = vi.spyOn(MetricsObject.prototype, "report");
    for (let n = 0; n < 500; n++) {
      record({ path });
      pass(50);
    }
    await Promise.all(work);
    expect(report.mock.calls.length).toBeGreaterThan(0);
    expect(report.mock.calls.length).toBeLessThanOrEqual(3);
    const families = await scrape();
    expect(sampleValue(families, "dflockd_http_requests_total", { method: "GET", path, status: "200" })).toBe(500);
  });

  it("carry on with what could not be reported", async () => {
    expectLog("metrics_not_reported", { error: "Error: out of order" });
    const path = `/${fresh("route")}`;
    vi.spyOn(MetricsObject.prototype, "report").mockImplementationOnce(() => {
      throw new Error("out of order");
    });
    const labels = { method: "GET", path, status: "200" };
    record({ path });
    expect(sampleValue(await scrape(), "dflockd_http_requests_total", labels)).toBeUndefined();
    expect(sampleValue(await scrape(), "dflockd_http_requests_total", labels)).toBe(1);
  });
});
