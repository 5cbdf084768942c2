import type { Config } from "../../config.ts";
import { log } from "../../log.ts";
import type { Env } from "../../objects/env.ts";

/**
 * The platform's guard counts per location and per 10 or 60 seconds, and does not say when it lets the next one pass.
 * Our own bucket has a token after a second at the latest, so this is the soonest that coming back can succeed; who
 * then meets the guard again is told the same, and has taken nothing.
 */
const GUARD_RETRY_AFTER_S = 1;

/** A bucket that takes longer to answer does not hold up its address. */
const ANSWERS_WITHIN_MS = 2_000;

/**
 * Undefined if a request of this address may pass; otherwise the whole seconds after which the next one can. A limiter
 * that cannot be reached lets everything pass: it protects the service and must not take it down.
 */
export async function retryAfter(env: Env, config: Config, address: string): Promise<number | undefined> {
  const { httpRateLimitPerIp: rate, httpRateLimitBurst: burst } = config;
  if (rate === 0) return undefined;
  try {
    if (await isStoppedByGuard(env, address)) return GUARD_RETRY_AFTER_S;
    const taking = env.RATE_LIMIT.getByName(address).take(rate, burst);
    const take = await Promise.race([taking, scheduler.wait(ANSWERS_WITHIN_MS)]);
    return !take || take.isAllowed ? undefined : take.retryAfterS;
  } catch (error) {
    log("warn", "rate_limit_unreachable", { error: String(error) });
    return undefined;
  }
}

/** The guard stands in front of our bucket, never instead of it: without a rate of ours it is not asked either. */
async function isStoppedByGuard({ RATE_LIMIT_GUARD: guard }: Env, address: string): Promise<boolean> {
  if (!guard) return false;
  try {
    return !(await guard.limit({ key: address })).success;
  } catch (error) {
    log("warn", "rate_limit_guard_unreachable", { error: String(error) });
    return false;
  }
}
