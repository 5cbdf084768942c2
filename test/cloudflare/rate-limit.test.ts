import { evictDurableObject, runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { configOf, type Env } from "../../src/cloudflare/env.ts";
import { RateLimitObject } from "../../src/cloudflare/rate-limit.ts";
import { retryAfter } from "../../src/cloudflare/service/rate-limit.ts";
import type { Take } from "../../src/core/rate-limit.ts";
import { expectLog } from "../support/expected-logs.ts";
import { fresh } from "./support.ts";

const START = Date.UTC(2030, 0, 1);

beforeEach(() => {
  vi.useFakeTimers({ toFake: ["Date"], now: START });
});

afterEach(() => {
  vi.useRealTimers();
  vi.restoreAllMocks();
});

const pass = (ms: number) => vi.setSystemTime(Date.now() + ms);
const bucket = (address = fresh("address")) => env.RATE_LIMIT.getByName(address);
type BucketStub = ReturnType<typeof bucket>;

/** How many of so many requests at the same moment are allowed. */
async function allowed(stub: BucketStub, requests: number, rate: number, burst = 0): Promise<number> {
  const takes: Take[] = await Promise.all(Array.from({ length: requests }, () => stub.take({ rate, burst })));
  return takes.filter(({ isAllowed }) => isAllowed).length;
}

const stored = (stub: BucketStub) =>
  runInDurableObject(stub, async (_, { storage }) => [...(await storage.list()).keys()]);
const alarmOf = (stub: BucketStub) => runInDurableObject(stub, (_, { storage }) => storage.getAlarm());

describe("a bucket", () => {
  it("is full when new: so many requests as its size pass at once, and not one more", async () => {
    expect(await allowed(bucket(), 50, 10, 20)).toBe(20);
  });

  it("without a size is as large as the rate", async () => {
    expect(await allowed(bucket(), 50, 7)).toBe(7);
  });

  it("gets exactly its rate in the long run, however requests are spread", async () => {
    const stub = bucket();
    await allowed(stub, 10, 3, 10);
    let passed = 0;
    for (let ms = 0; ms < 10_000; ms += 37) {
      pass(37);
      passed += await allowed(stub, 1, 3, 10);
    }
    expect(passed).toBe(30);
  });

  it("does not grow beyond its size", async () => {
    const stub = bucket();
    await allowed(stub, 5, 5, 5);
    pass(3_600_000);
    expect(await allowed(stub, 50, 5, 5)).toBe(5);
  });

  it("has a token at the very millisecond it is due, not before", async () => {
    const stub = bucket();
    expect(await allowed(stub, 3, 4, 2)).toBe(2);
    pass(249);
    expect(await stub.take({ rate: 4, burst: 2 })).toEqual({ isAllowed: false, retryAfterS: 1 });
    pass(1);
    expect(await stub.take({ rate: 4, burst: 2 })).toEqual({ isAllowed: true });
    expect(await stub.take({ rate: 4, burst: 2 })).toEqual({ isAllowed: false, retryAfterS: 1 });
  });

  it("loses nothing to requests that are refused", async () => {
    const stub = bucket();
    await allowed(stub, 1, 1);
    for (let n = 0; n < 99; n++) {
      pass(10);
      expect((await stub.take({ rate: 1, burst: 0 })).isAllowed).toBe(false);
    }
    pass(10);
    expect((await stub.take({ rate: 1, burst: 0 })).isAllowed).toBe(true);
  });

  it("keeps its promise of when to come back", async () => {
    const stub = bucket();
    await allowed(stub, 2, 1, 2);
    const refusal = await stub.take({ rate: 1, burst: 2 });
    if (refusal.isAllowed) throw new Error("not refused");
    pass(refusal.retryAfterS * 1000);
    expect((await stub.take({ rate: 1, burst: 2 })).isAllowed).toBe(true);
  });

  it("takes no notice of a clock that is set back", async () => {
    const stub = bucket();
    await allowed(stub, 2, 1, 2);
    pass(-3_600_000);
    expect((await stub.take({ rate: 1, burst: 2 })).isAllowed).toBe(false);
    pass(1000);
    expect((await stub.take({ rate: 1, burst: 2 })).isAllowed).toBe(true);
  });
});

describe("a bucket's row", () => {
  it("is not written while the bucket fills again in five seconds", async () => {
    const stub = bucket();
    expect(await allowed(stub, 10, 2, 10)).toBe(10);
    expect(await stored(stub)).toEqual([]);
    expect(await alarmOf(stub)).toBeNull();
  });

  it("keeps a larger debt over a restart", async () => {
    const stub = bucket();
    expect(await allowed(stub, 100, 2, 30)).toBe(30);
    await evictDurableObject(stub);
    expect(await allowed(stub, 100, 2, 30)).toBe(0);
    pass(2_000);
    await evictDurableObject(stub);
    expect(await allowed(stub, 100, 2, 30)).toBe(4);
  });

  it("is not written for refused requests", async () => {
    const stub = bucket();
    await allowed(stub, 30, 2, 30);
    await runInDurableObject(stub, async (object, { storage }) => {
      const put = vi.spyOn(storage, "put");
      for (let n = 0; n < 20; n++) object.take({ rate: 2, burst: 30 });
      expect(put).not.toHaveBeenCalled();
      put.mockRestore();
    });
  });

  it("goes with everything else after ten minutes without a request, and then the bucket is full", async () => {
    vi.setSystemTime(vi.getRealSystemTime());
    const stub = bucket();
    await allowed(stub, 1000, 1, 1000);
    expect(await alarmOf(stub)).toBe(Date.now() + 600_000);
    pass(300_000);
    expect(await allowed(stub, 1000, 1, 1000)).toBe(300);
    pass(300_000);
    expect(await runDurableObjectAlarm(stub)).toBe(true);
    expect(await stored(stub)).toEqual(["bucket"]);
    expect(await alarmOf(stub)).toBe(Date.now() + 300_000);
    pass(300_000);
    expect(await runDurableObjectAlarm(stub)).toBe(true);
    expect(await stored(stub)).toEqual([]);
    expect(await alarmOf(stub)).toBeNull();
    expect(await allowed(stub, 2000, 1, 1000)).toBe(1000);
  });

  it("goes on time although the object has slept", async () => {
    vi.setSystemTime(vi.getRealSystemTime());
    const stub = bucket();
    await allowed(stub, 100, 1, 100);
    await evictDurableObject(stub);
    pass(600_000);
    expect(await runDurableObjectAlarm(stub)).toBe(true);
    expect(await stored(stub)).toEqual([]);
  });
});

describe("the limit per address", () => {
  const config = (rate: number, burst = 0) => ({
    ...configOf(env),
    httpRateLimitPerIp: rate,
    httpRateLimitBurst: burst,
  });

  it("refuses an address that has used up its burst, and no other; it needs no guard of the platform", async () => {
    expect((env as Env).RATE_LIMIT_GUARD).toBeUndefined();
    const address = fresh("address");
    const answers = [];
    for (let n = 0; n < 3; n++) answers.push(await retryAfter(env, config(1, 2), address));
    expect(answers).toEqual([undefined, undefined, 1]);
    expect(await retryAfter(env, config(1, 2), fresh("address"))).toBeUndefined();
    pass(1_000);
    expect(await retryAfter(env, config(1, 2), address)).toBeUndefined();
  });

  it("touches nothing while it is off", async () => {
    const take = vi.spyOn(RateLimitObject.prototype, "take");
    for (let n = 0; n < 10; n++) expect(await retryAfter(env, config(0), "192.0.2.1")).toBeUndefined();
    expect(take).not.toHaveBeenCalled();
  });

  it("lets requests pass when a bucket cannot be reached, and says so", async () => {
    vi.spyOn(RateLimitObject.prototype, "take").mockImplementation(() => {
      throw new Error("unreachable");
    });
    expect(await retryAfter(env, config(1), fresh("address"))).toBeUndefined();
    expectLog("rate_limit_unreachable", { error: "Error: unreachable" });
  });
});
