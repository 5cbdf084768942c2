import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { type Gauges, renderExposition } from "../../src/core/metrics/exposition.ts";
import { FAMILIES, METHODS } from "../../src/core/metrics/families.ts";
import { Tally } from "../../src/core/metrics/tally.ts";
import { parseExposition, sampleValue } from "./parse.ts";

const GAUGES: Gauges = {
  ready: 1,
  draining: 0,
  uptime_seconds: 1.5,
  connections: 0,
  http_sessions: 0,
  ws_connections: 0,
  tcp_connections: 0,
  locks_held: 0,
  lock_waiters: 0,
  semaphore_holders: 0,
  semaphore_waiters: 0,
  keys: 0,
  keys_sampled: 0,
  keys_unreachable: 0,
  wal_bytes: 0,
  build_info: { version: "1.2.3" },
  listing_backlog: 0,
};

const NAMES = Object.keys(FAMILIES).map((name) => `dflockd_${name}`);
const render = (tally: Tally) => renderExposition(tally.read(), GAUGES);

describe("an exposition", () => {
  it("labels a gauge that is an estimate, and has no sample of one that is not known", () => {
    const text = renderExposition({}, { ...GAUGES, locks_held: { estimate: 512 }, lock_waiters: undefined });
    const families = parseExposition(text);
    expect(sampleValue(families, "dflockd_locks_held", { estimated: "true" })).toBe(512);
    expect(families.find(({ name }) => name === "dflockd_lock_waiters")?.samples).toEqual([]);
    expect(text).toContain("# TYPE dflockd_lock_waiters gauge\n");
  });

  it("names every family in the order of the table, with help and type, also when nothing was counted", () => {
    const families = parseExposition(render(new Tally()));
    expect(families.map(({ name }) => name)).toEqual(NAMES);
    for (const { name, type } of families) {
      expect(type).toBe(FAMILIES[name.replace("dflockd_", "") as keyof typeof FAMILIES].type);
    }
  });

  it("prints gauges and counters without labels as 0, and nothing else, when nothing was counted", () => {
    const samples = parseExposition(render(new Tally())).flatMap(({ samples }) => samples);
    const printed = samples.map(({ name, value }) => `${name} ${value}`);
    expect(printed).toEqual([
      "dflockd_ready 1",
      "dflockd_draining 0",
      "dflockd_uptime_seconds 1.5",
      "dflockd_connections 0",
      "dflockd_http_sessions 0",
      "dflockd_ws_connections 0",
      "dflockd_tcp_connections 0",
      "dflockd_locks_held 0",
      "dflockd_lock_waiters 0",
      "dflockd_semaphore_holders 0",
      "dflockd_semaphore_waiters 0",
      "dflockd_keys 0",
      "dflockd_keys_sampled 0",
      "dflockd_keys_unreachable 0",
      "dflockd_rate_limited_total 0",
      "dflockd_keys_pruned_total 0",
      "dflockd_commits_failed_total 0",
      "dflockd_wal_bytes 0",
      "dflockd_build_info 1",
      "dflockd_listing_backlog 0",
      "dflockd_key_call_retries_total 0",
    ]);
  });

  it("writes series as the specification does, labels in the order of its table", () => {
    const tally = new Tally();
    tally.count("grants_total", { kind: "lock", how: "immediate" });
    tally.count("http_requests_total", { method: "OTHER", path: "unmatched", status: 404 }, 50);
    const lines = render(tally).split("\n");
    expect(lines).toContain('dflockd_grants_total{kind="lock",how="immediate"} 1');
    expect(lines).toContain('dflockd_http_requests_total{method="OTHER",path="unmatched",status="404"} 50');
    expect(lines).toContain('dflockd_build_info{version="1.2.3"} 1');
    expect(lines).toContain("dflockd_ready 1");
  });

  it("sorts the series of a family by their label values", () => {
    const tally = new Tally();
    const asked = [
      ["POST", "/v1/locks/{key}", 200],
      ["GET", "/v1/stats", 200],
      ["GET", "/health", 503],
      ["GET", "/health", 200],
      ["DELETE", "/v1/sessions/{id}", 410],
    ] as const;
    for (const [method, path, status] of asked) tally.count("http_requests_total", { method, path, status });
    const printed = parseExposition(render(tally))[0]?.samples.map(({ labels }) => Object.values(labels).join(" "));
    expect(printed).toEqual([
      "DELETE /v1/sessions/{id} 410",
      "GET /health 200",
      "GET /health 503",
      "GET /v1/stats 200",
      "POST /v1/locks/{key} 200",
    ]);
  });

  it("has the specified buckets, each with all that is shorter, a bound belonging to its own", () => {
    const tally = new Tally();
    for (const seconds of [0.005, 0.0051, 0.5, 61]) tally.observe("expiry_lateness_seconds", {}, seconds);
    const family = parseExposition(render(tally)).find(({ name }) => name === "dflockd_expiry_lateness_seconds");
    expect(family?.samples.map(({ name, labels, value }) => [name.replace(/.*_/, ""), labels.le, value])).toEqual([
      ["bucket", "0.005", 1],
      ["bucket", "0.01", 2],
      ["bucket", "0.05", 2],
      ["bucket", "0.1", 2],
      ["bucket", "0.5", 3],
      ["bucket", "1", 3],
      ["bucket", "2", 3],
      ["bucket", "5", 3],
      ["bucket", "30", 3],
      ["bucket", "60", 3],
      ["bucket", "+Inf", 4],
      ["sum", undefined, 0.005 + 0.0051 + 0.5 + 61],
      ["count", undefined, 4],
    ]);
  });

  it("divides waits, holds and HTTP requests as specified", () => {
    const wait = "0.001 0.005 0.01 0.025 0.05 0.1 0.25 0.5 1 2.5 5 10 30 60 300 1800";
    expect(FAMILIES.lock_wait_seconds.buckets.join(" ")).toBe(wait);
    expect(FAMILIES.lock_hold_seconds.buckets.join(" ")).toBe(wait);
    const http = "0.005 0.01 0.025 0.05 0.1 0.25 0.5 1 2.5 5 10 30 60";
    expect(FAMILIES.http_request_duration_seconds.buckets.join(" ")).toBe(http);
  });

  it("leaves out what the table does not know, whatever was reported", () => {
    const text = renderExposition(
      {
        "grants_total|lock|immediate": 3,
        "grants_total|lock|stolen": 1,
        "grants_total|lock": 1,
        "grants_total|lock|immediate|more": 1,
        "lock_wait_seconds|lock|0.3": 1,
        "lock_wait_seconds|lock": 1,
        "http_requests_total|BREW|/health|200": 1,
        "http_requests_total|GET|health|200": 1,
        "http_requests_total|GET|/health|999": 1,
        keys: 9,
        __proto__: 1,
        "constructor|a": 1,
        "": 1,
      },
      GAUGES,
    );
    const samples = parseExposition(text).flatMap(({ samples }) => samples);
    expect(samples.length).toBe(22);
    expect(text).toContain('dflockd_grants_total{kind="lock",how="immediate"} 3\n');
    expect(text).toContain("dflockd_keys 0\n");
  });

  it("escapes what would break a line", () => {
    const tally = new Tally();
    tally.count("http_requests_total", { method: "GET", path: '/a\\b"c', status: 200 });
    const text = renderExposition(tally.read(), { ...GAUGES, build_info: { version: 'x\\"\ny' } });
    expect(text).toContain('path="/a\\\\b\\"c"');
    expect(sampleValue(parseExposition(text), "dflockd_build_info", { version: 'x\\"\ny' })).toBe(1);
  });
});

describe("reading an exposition back", () => {
  const labels = fc.record({
    method: fc.constantFrom(...METHODS),
    path: fc.constantFrom("/health", "/v1/locks/{key}", "/v1/locks/{key}/release", "unmatched"),
    status: fc.constantFrom("200", "404", "503"),
  });
  const seconds = fc.oneof(
    fc.constantFrom(...FAMILIES.http_request_duration_seconds.buckets),
    fc.double({ min: 0, max: 200, noNaN: true }),
    fc.constantFrom(0, 1e-9, 1e22),
  );

  it("gives the sums that were counted", () => {
    fc.assert(
      fc.property(fc.array(fc.tuple(labels, fc.integer({ min: 1, max: 2 ** 40 }))), (counts) => {
        const tally = new Tally();
        const expected = new Map<string, number>();
        for (const [series, by] of counts) {
          tally.count("http_requests_total", series, by);
          const id = JSON.stringify(series);
          expected.set(id, (expected.get(id) ?? 0) + by);
        }
        const families = parseExposition(render(tally));
        expect(families[0]?.samples.length).toBe(expected.size);
        for (const [id, sum] of expected) {
          expect(sampleValue(families, "dflockd_http_requests_total", JSON.parse(id))).toBe(sum);
        }
      }),
    );
  });

  it("gives buckets that only rise, hold what lies below their bound, and end at the count", () => {
    fc.assert(
      fc.property(fc.array(fc.tuple(labels, seconds), { minLength: 1 }), (observations) => {
        const tally = new Tally();
        for (const [series, value] of observations) tally.observe("http_request_duration_seconds", series, value);
        const families = parseExposition(render(tally));
        const samples = families[1]?.samples ?? [];
        const ids = new Set(observations.map(([series]) => JSON.stringify(series)));
        expect(samples.length).toBe(ids.size * (FAMILIES.http_request_duration_seconds.buckets.length + 3));
        for (const { name, labels, value } of samples) {
          const { le, ...series } = labels;
          const seen = observations.filter(([other]) => sameSeries(other, series)).map(([, observed]) => observed);
          if (name.endsWith("_sum")) expect(value).toBeCloseTo(sum(seen));
          else expect(value).toBe(le === undefined ? seen.length : seen.filter((s) => s <= boundOf(le)).length);
        }
      }),
    );
  });
});

const boundOf = (le: string) => (le === "+Inf" ? Number.POSITIVE_INFINITY : Number(le));
const sum = (values: readonly number[]) => values.reduce((total, value) => total + value, 0);
const sameSeries = (a: Record<string, string>, b: Record<string, string>) =>
  a.method === b.method && a.path === b.path && a.status === b.status;
