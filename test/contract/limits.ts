import type { Promises } from "./contract.ts";
import { hold, queue, stillWaits } from "./steps.ts";

const MISMATCH = { status: "error_limit_mismatch" };

export const limitPromises: Promises = {
  "a semaphore has as many holders as its limit, and no more": async ({ session, freshKey, expect }) => {
    const [a, b, c, key] = [await session(), await session(), await session(), freshKey()];
    const token = await hold(a, key, { limit: 2 });
    await hold(b, key, { limit: 2 });
    expect(await c.acquire(key, { limit: 2, waitSeconds: 0 })).toEqual({ status: "timeout" });
    await a.release(key, token);
    await hold(c, key, { limit: 2 });
  },

  "one session may hold several slots": async ({ session, freshKey, expect }) => {
    const [a, key] = [await session(), freshKey()];
    const first = await hold(a, key, { limit: 3 });
    const second = await hold(a, key, { limit: 3 });
    expect(first < second).toBe(true);
  },

  "a free slot goes to the first waiter only": async (story) => {
    const [a, b, c, key] = [await story.session(), await story.session(), await story.session(), story.freshKey()];
    const first = await hold(a, key, { limit: 2 });
    const second = await hold(a, key, { limit: 2 });
    const next = await queue(b, key, { limit: 2 });
    const last = await queue(c, key, { limit: 2 });
    await a.release(key, second);
    story.expect((await next.outcome).status).toBe("ok");
    await stillWaits(story, last.outcome);
    await a.release(key, first);
    story.expect((await last.outcome).status).toBe("ok");
  },

  "slots that run out together are handed out together, in order": async (story) => {
    const [a, b, c, d] = [await story.session(), await story.session(), await story.session(), await story.session()];
    const key = story.freshKey();
    for (const _ of [1, 2]) await hold(a, key, { limit: 2, leaseSeconds: 1 });
    const waiters = [await queue(b, key, { limit: 2 }), await queue(c, key, { limit: 2 })];
    const last = await queue(d, key, { limit: 2 });
    await story.sleep(2.2);
    for (const waiter of waiters) story.expect((await waiter.outcome).status).toBe("ok");
    await stillWaits(story, last.outcome);
  },

  "a request with another limit is refused and changes nothing": async ({ session, freshKey, expect }) => {
    const [a, b, key] = [await session(), await session(), freshKey()];
    const token = await hold(a, key, { limit: 2 });
    expect(await b.acquire(key, { limit: 3, waitSeconds: 0 })).toEqual(MISMATCH);
    expect(await b.acquire(key, { limit: 1, waitSeconds: 5 })).toEqual(MISMATCH);
    expect(await b.enqueue(key, { limit: 1 })).toEqual(MISMATCH);
    expect(await b.wait(key, { waitSeconds: 0 })).toEqual({ status: "error_not_enqueued" });
    await hold(b, key, { limit: 2 });
    expect(await a.release(key, token)).toEqual({ status: "ok" });
  },

  "the limit of a key outlives its last holder": async ({ session, freshKey, expect }) => {
    const [a, key] = [await session(), freshKey()];
    await a.release(key, await hold(a, key, { limit: 2 }));
    expect(await a.acquire(key, { limit: 1, waitSeconds: 0 })).toEqual(MISMATCH);
  },

  "being enqueued already is told before another limit is": async ({ session, freshKey, expect }) => {
    const [a, key] = [await session(), freshKey()];
    await a.enqueue(key, { limit: 2 });
    expect(await a.enqueue(key, { limit: 3 })).toEqual({ status: "error_already_enqueued" });
  },
};
