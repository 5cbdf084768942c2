/** With a platform rate limiter of 5 requests a minute bound as RATE_LIMIT_GUARD. */
import { env } from "cloudflare:workers";
import { afterEach, describe, expect, it, vi } from "vitest";
import { configOf, type Env } from "../../../src/cloudflare/env.ts";
import { RateLimitObject } from "../../../src/cloudflare/rate-limit.ts";
import { retryAfter } from "../../../src/cloudflare/service/rate-limit.ts";
import { expectLog } from "../../support/expected-logs.ts";
import { fresh } from "../support.ts";

afterEach(() => {
  vi.restoreAllMocks();
});

const config = (rate: number, burst = 0) => ({ ...configOf(env), httpRateLimitPerIp: rate, httpRateLimitBurst: burst });

describe("the platform's guard", () => {
  it("stops an address that our bucket would let pass, and takes nothing from the bucket", async () => {
    const take = vi.spyOn(RateLimitObject.prototype, "take");
    const address = fresh("address");
    const answers = [];
    for (let n = 0; n < 7; n++) answers.push(await retryAfter(env, config(1000), address));
    expect(answers).toEqual([...Array(5).fill(undefined), 1, 1]);
    expect(take).toHaveBeenCalledTimes(5);
    expect(await retryAfter(env, config(1000), fresh("address"))).toBeUndefined();
  });

  it("stands in front of our bucket, not instead of it", async () => {
    const address = fresh("address");
    expect(await retryAfter(env, config(1), address)).toBeUndefined();
    expect(await retryAfter(env, config(1), address)).toBe(1);
  });

  it("is not asked while there is no rate", async () => {
    const address = fresh("address");
    for (let n = 0; n < 10; n++) expect(await retryAfter(env, config(0), address)).toBeUndefined();
    expect(await retryAfter(env, config(1000), address)).toBeUndefined();
  });

  it("leaves the decision to our bucket when it fails", async () => {
    expectLog("rate_limit_guard_unreachable", { error: "Error: unreachable" });
    const RATE_LIMIT_GUARD: RateLimit = { limit: () => Promise.reject(new Error("unreachable")) };
    const failing: Env = { ...env, RATE_LIMIT: env.RATE_LIMIT, RATE_LIMIT_GUARD };
    const address = fresh("address");
    expect(await retryAfter(failing, config(1), address)).toBeUndefined();
    expect(await retryAfter(failing, config(1), address)).toBe(1);
  });
});
