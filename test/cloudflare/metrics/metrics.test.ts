import { abortAllDurableObjects, evictDurableObject, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, describe, expect, it, vi } from "vitest";
import { allCollectors, collectorOf } from "../../../src/cloudflare/metrics/collectors.ts";
import type { Sums } from "../../../src/core/metrics/tally.ts";
import { fresh, rowsWritten, until } from "../support.ts";

afterEach(() => {
  vi.useRealTimers();
});

const collector = () => env.METRICS.getByName(fresh("collector"));
const storedSums = (stub: DurableObjectStub) =>
  runInDurableObject(stub, (_, { storage }): Sums => {
    const { sums } = storage.sql.exec<{ sums: string }>("SELECT sums FROM tally").one();
    return JSON.parse(sums);
  });
const pruned = (by: number) => ({ keys_pruned_total: by });

describe("a collector", () => {
  it("adds up what it is told", async () => {
    const stub = collector();
    const before = Date.now();
    await stub.report({ sums: { "grants_total|lock|immediate": 2, keys_pruned_total: 1 } });
    await stub.report({ sums: { "grants_total|lock|immediate": 3, "lock_wait_seconds|lock|sum": 0.25 } });
    const { sums, startedAt } = await stub.read();
    expect(sums).toEqual({
      "grants_total|lock|immediate": 5,
      keys_pruned_total: 1,
      "lock_wait_seconds|lock|sum": 0.25,
    });
    expect(startedAt).toBeGreaterThanOrEqual(before);
    expect(startedAt).toBeLessThanOrEqual(Date.now());
  });

  it("has nothing to say before it was told anything", async () => {
    expect((await collector().read()).sums).toEqual({});
  });

  it("takes in nothing that the service does not measure", async () => {
    const stub = collector();
    await stub.report({ sums: { "grants_total|secret|immediate": 2, nope: 1, keys: 5 } });
    expect((await stub.read()).sums).toEqual({});
  });

  it("loses nothing when it is dropped from memory", async () => {
    const stub = collector();
    await stub.report({ sums: pruned(1) });
    await stub.report({ sums: pruned(1) });
    await evictDurableObject(stub);
    expect((await stub.read()).sums).toEqual(pruned(2));
  });

  it("never shows a sum that a crash could take back, and none twice", async () => {
    const name = fresh("collector");
    const stub = () => env.METRICS.getByName(name);
    for (let life = 1; life <= 3; life++) {
      for (let n = 0; n < 4; n++) await stub().report({ sums: pruned(1) });
      expect((await stub().read()).sums).toEqual(pruned(4 * life));
      await abortAllDurableObjects();
      expect((await stub().read()).sums).toEqual(pruned(4 * life));
    }
  });

  it("loses at a crash only what came in since it last stored", async () => {
    const name = fresh("collector");
    const stub = () => env.METRICS.getByName(name);
    await stub().report({ sums: pruned(1) });
    await stub().report({ sums: pruned(10) });
    await abortAllDurableObjects();
    expect((await stub().read()).sums).toEqual(pruned(1));
  });

  it("writes a row for the first of many reports, one for a reading, and none for a reading without news", async () => {
    const stub = env.METRICS.getByName(fresh("collector"));
    await runInDurableObject(stub, async (object, state) => {
      const reportOften = () => {
        for (let n = 0; n < 100; n++) object.report({ sums: pruned(1) });
      };
      expect(await rowsWritten(state, reportOften)).toBe(1);
      expect(await rowsWritten(state, () => object.read())).toBe(1);
      expect(await rowsWritten(state, () => object.read())).toBe(0);
    });
  });

  it("stores at once what comes in after a pause", async () => {
    vi.useFakeTimers({ toFake: ["Date"] });
    const name = fresh("collector");
    const stub = () => env.METRICS.getByName(name);
    await stub().report({ sums: pruned(1) });
    vi.setSystemTime(Date.now() + 6_000);
    await stub().report({ sums: pruned(1) });
    await abortAllDurableObjects();
    expect((await stub().read()).sums).toEqual(pruned(2));
  });

  it("stores within 5 s, also when the clock is set back", async () => {
    vi.useFakeTimers({ toFake: ["Date"] });
    const stub = collector();
    await stub.report({ sums: pruned(1) });
    vi.setSystemTime(Date.now() - 3_600_000);
    await stub.report({ sums: pruned(1) });
    await until(async () => (await storedSums(stub)).keys_pruned_total === 2, { timeout: 7_000, interval: 50 });
  });
});

describe("the collectors", () => {
  it("are eight, and each name has always the same one", () => {
    const ids = allCollectors(env).map(({ id }) => String(id));
    expect(new Set(ids).size).toBe(8);
    const used = new Set<string>();
    for (let n = 0; n < 200; n++) used.add(String(collectorOf(env, `key-${n}`).id));
    expect(used).toEqual(new Set(ids));
    expect(String(collectorOf(env, "k").id)).toBe(String(collectorOf(env, "k").id));
  });
});
