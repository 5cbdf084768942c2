import type { Config } from "../../core/config/config.ts";
import { log } from "../../log.ts";
import type { Env } from "../env.ts";
import { objectsOf } from "../placement.ts";

/**
 * The platform's guard counts per location and per 10 or 60 seconds, and does not say when it lets the next request
 * pass. Our own bucket has a token after one second at most, so this is the earliest time at which a retry can succeed.
 * A client that hits the guard again gets the same answer and has used no token.
 */
const GUARD_RETRY_AFTER_S = 1;

/** If the bucket does not answer in this time, the request passes. */
const ANSWERS_WITHIN_MS = 2_000;

/**
 * Undefined if a request of this address may pass; otherwise the whole seconds after which the next one can. If the
 * limiter cannot be reached, everything passes: it protects the service and must not take it down.
 */
export async function retryAfter(env: Env, config: Config, address: string): Promise<number | undefined> {
  const { httpRateLimitPerIp: rate, httpRateLimitBurst: burst } = config;
  if (rate === 0) return undefined;
  try {
    if (await isStoppedByGuard(env, address)) return GUARD_RETRY_AFTER_S;
    const taking = objectsOf(env, "RATE_LIMIT").getByName(address).take({ rate, burst });
    const take = await Promise.race([taking, scheduler.wait(ANSWERS_WITHIN_MS)]);
    return !take || take.isAllowed ? undefined : take.retryAfterS;
  } catch (error) {
    log("warn", "rate_limit_unreachable", { error: String(error) });
    return undefined;
  }
}

/** The guard comes before our bucket, never replaces it: if no rate is configured, it is not asked either. */
async function isStoppedByGuard({ RATE_LIMIT_GUARD: guard }: Env, address: string): Promise<boolean> {
  if (!guard) return false;
  try {
    return !(await guard.limit({ key: address })).success;
  } catch (error) {
    log("warn", "rate_limit_guard_unreachable", { error: String(error) });
    return false;
  }
}
