import type { Promises } from "./contract.ts";
import { DEFAULT_LEASE, granted, hold, queue, stillWaits, TRY } from "./steps.ts";

/** A lease that outlasts the next step even if the machine stalls for seconds. */
const SHORT = 4;
/** A short lease has run out and the sweep that follows it has had its second. */
const PAST_LEASE_AND_SWEEP = SHORT + 1.2;

export const leasePromises: Promises = {
  "a lease asked for is the lease given": async ({ session, freshKey, expect }) => {
    const outcome = await (await session()).acquire(freshKey(), { ...TRY, leaseSeconds: 60 });
    expect(granted(outcome).lease).toBe(60);
  },

  "a lease that runs out frees the key": async ({ session, freshKey, sleep, expect }) => {
    const [a, b, key] = [await session(), await session(), freshKey()];
    const token = await hold(a, key, { leaseSeconds: SHORT });
    expect(await b.acquire(key, TRY)).toEqual({ status: "timeout" });
    await sleep(SHORT + 0.1);
    await hold(b, key);
    expect(await a.release(key, token)).toEqual({ status: "error" });
  },

  "a lease that runs out hands over to the first waiter, not before": async (story) => {
    const [a, b, c, key] = [await story.session(), await story.session(), await story.session(), story.freshKey()];
    await hold(a, key, { leaseSeconds: SHORT });
    const first = await queue(b, key);
    const second = await queue(c, key);
    await stillWaits(story, first.outcome, 0.6);
    await story.sleep(PAST_LEASE_AND_SWEEP - 0.6);
    story.expect((await first.outcome).status).toBe("ok");
    await stillWaits(story, second.outcome);
  },

  "a hold that ran out never revives": async ({ session, freshKey, sleep, expect }) => {
    const [a, b, key] = [await session(), await session(), freshKey()];
    const token = await hold(a, key, { leaseSeconds: 1 });
    await sleep(1.1);
    expect(await a.renew(key, token, 30)).toEqual({ status: "error" });
    await hold(b, key);
  },

  "renewing extends the lease": async ({ session, freshKey, sleep, expect }) => {
    const [a, b, key] = [await session(), await session(), freshKey()];
    const token = await hold(a, key, { leaseSeconds: SHORT });
    expect(await a.renew(key, token, 2 * SHORT)).toEqual({ status: "ok", lease: 2 * SHORT });
    await sleep(SHORT + 0.5);
    expect(await b.acquire(key, TRY)).toEqual({ status: "timeout" });
    expect(await a.release(key, token)).toEqual({ status: "ok" });
  },

  "renewing can shorten the lease": async (story) => {
    const [a, b, key] = [await story.session(), await story.session(), story.freshKey()];
    const token = await hold(a, key, { leaseSeconds: 60 });
    const waiter = await queue(b, key);
    story.expect(await a.renew(key, token, SHORT)).toEqual({ status: "ok", lease: SHORT });
    await stillWaits(story, waiter.outcome, 0.6);
    await story.sleep(PAST_LEASE_AND_SWEEP - 0.6);
    story.expect((await waiter.outcome).status).toBe("ok");
  },

  "renewing without a lease sets the default one": async ({ session, freshKey, expect }) => {
    const [a, key] = [await session(), freshKey()];
    const token = await hold(a, key, { leaseSeconds: 60 });
    expect(await a.renew(key, token)).toEqual({ status: "ok", lease: DEFAULT_LEASE });
  },
};
