/** What counting costs a key that is rarely used, in a service that does nothing else. */
import { env } from "cloudflare:workers";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { settleReports } from "../../../src/cloudflare/metrics/isolate-tally.ts";
import { MetricsObject } from "../../../src/cloudflare/metrics/metrics-object.ts";
import { renderMetrics } from "../../../src/http/middleware/metrics.ts";
import { parseExposition, sampleValue } from "../../metrics/parse.ts";
import { pass, stopClock } from "../clock.ts";
import { call, RestClient } from "../rest.ts";
import { Client, fresh, rowsWritten, service, tokenOf } from "../support.ts";

const CYCLES = 40;
const MINUTE = 60_000;

let stories = 0;

beforeEach(async () => {
  stopClock();
  // Collectors store on a clock: a story begins after the one before.
  pass(stories * (CYCLES + 1) * MINUTE);
  stories += 1;
  await settleReports(env);
});

afterEach(() => {
  vi.restoreAllMocks();
  vi.useRealTimers();
});

/** Counts calls to collectors, and rows that they write. */
function watchCollectors() {
  const cost = { requests: 0, rows: 0 };
  const report = MetricsObject.prototype.report;
  vi.spyOn(MetricsObject.prototype, "report").mockImplementation(async function (this: MetricsObject, sums) {
    cost.requests += 1;
    const { ctx } = this as unknown as { readonly ctx: DurableObjectState };
    cost.rows += await rowsWritten(ctx, () => report.call(this, sums));
  } as typeof report);
  return cost;
}

async function grants(): Promise<number> {
  const families = parseExposition(await renderMetrics(service(), { isDraining: false, estimates: true }));
  return sampleValue(families, "dflockd_grants_total", { kind: "lock", how: "immediate" }) ?? 0;
}

async function socketCycle(): Promise<() => Promise<void>> {
  const [client, key] = [await Client.open(), fresh("key")];
  return async () => {
    const token = tokenOf(await client.ask(`l\n${key}\n0\n`));
    expect(await client.ask(`r\n${key}\n${token}\n`)).toBe("ok");
  };
}

/** Each with a session of its own: one that says nothing for a minute has ended. */
async function restCycle(): Promise<() => Promise<void>> {
  const key = fresh("key");
  return async () => {
    const client = await RestClient.open();
    const { body } = await client.post(key, { acquire_timeout_s: 0 });
    expect((await client.post(`${key}/release`, { token: body.token })).status).toBe(204);
    expect((await call("DELETE", `/v1/sessions/${client.id}`)).status).toBe(204);
  };
}

it.each([
  ["over a WebSocket", socketCycle],
  ["over REST", restCycle],
])("a cycle a minute costs at most 0.1 requests and 0.1 rows for metrics, %s", async (_, prepare) => {
  const cycle = await prepare();
  await cycle();
  const before = await grants();
  const cost = watchCollectors();
  for (let n = 0; n < CYCLES; n++) {
    await cycle();
    pass(MINUTE);
  }
  await settleReports(env);
  const { requests, rows } = cost;
  expect(requests).toBeGreaterThan(0);
  expect(requests / CYCLES).toBeLessThanOrEqual(0.1);
  expect(rows).toBeGreaterThan(0);
  expect(rows / CYCLES).toBeLessThanOrEqual(0.1);
  expect(await grants()).toBe(before + CYCLES);
});
