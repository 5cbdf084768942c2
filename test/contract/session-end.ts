import type { Promises } from "./contract.ts";
import { granted, hold, LOCK, queue, soonFree, stillWaits } from "./steps.ts";

export const sessionEndPromises: Promises = {
  "the end of a session releases what it holds to the first waiter": async ({ session, freshKey, expect }) => {
    const [a, b, key] = [await session(), await session(), freshKey()];
    const held = await hold(a, key);
    const waiter = await queue(b, key);
    await a.end();
    expect(held < granted(await waiter.outcome).token).toBe(true);
  },

  "the end of a session releases all of its slots and acquired places": async (story) => {
    const [a, b, key] = [await story.session(), await story.session(), story.freshKey()];
    await hold(a, key, { limit: 2 });
    await a.enqueue(key, { limit: 2 });
    const waiters = [await queue(b, key, { limit: 2 }), await queue(b, key, { limit: 2 })];
    await a.end();
    for (const waiter of waiters) story.expect((await waiter.outcome).status).toBe("ok");
  },

  "a waiter whose session ended is never granted, and the next one is not held up": async (story) => {
    const [a, b, c, key] = [await story.session(), await story.session(), await story.session(), story.freshKey()];
    const token = await hold(a, key);
    await queue(b, key);
    const next = await queue(c, key);
    await b.end();
    await a.release(key, token);
    story.expect((await next.outcome).status).toBe("ok");
  },

  "a place whose session ended is given up": async (story) => {
    const [a, b, c, key] = [await story.session(), await story.session(), await story.session(), story.freshKey()];
    const token = await hold(a, key);
    await b.enqueue(key, LOCK);
    await b.end();
    await a.release(key, token);
    await soonFree(story, c, key);
  },

  "a session's own waiter is not promoted by its own end": async (story) => {
    const [a, b, key] = [await story.session(), await story.session(), story.freshKey()];
    await hold(a, key);
    await a.enqueue(key, LOCK);
    await queue(a, key);
    await a.end();
    await soonFree(story, b, key);
  },

  "the end of one session leaves the others as they were": async (story) => {
    const [a, b, c, key] = [await story.session(), await story.session(), await story.session(), story.freshKey()];
    const token = await hold(a, key);
    const waiter = await queue(b, key);
    await c.acquire(story.freshKey(), { limit: 1, waitSeconds: 0 });
    await c.end();
    await stillWaits(story, waiter.outcome);
    story.expect(await a.release(key, token)).toEqual({ status: "ok" });
    story.expect((await waiter.outcome).status).toBe("ok");
  },

  "a lock taken on after another session released it is not lost by the end of the first": async (story) => {
    const [a, b, c, key] = [await story.session(), await story.session(), await story.session(), story.freshKey()];
    await b.release(key, await hold(a, key));
    const token = await hold(b, key);
    await a.end();
    await story.sleep(0.3);
    story.expect((await c.acquire(key, { limit: 1, waitSeconds: 0 })).status).toBe("timeout");
    story.expect(await b.release(key, token)).toEqual({ status: "ok" });
  },
};
