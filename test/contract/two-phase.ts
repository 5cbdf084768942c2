import type { Promises } from "./contract.ts";
import { DEFAULT_LEASE, granted, hold, LOCK, LONG, queue, stillWaits, TRY } from "./steps.ts";

const NOT_ENQUEUED = { status: "error_not_enqueued" };

export const twoPhasePromises: Promises = {
  "enqueue on a free key acquires it, and wait returns the same token": async ({ session, freshKey, expect }) => {
    const [a, key] = [await session(), freshKey()];
    const acquired = await a.enqueue(key, LOCK);
    expect(acquired.status).toBe("acquired");
    const { token } = granted(acquired);
    expect(await a.wait(key, { waitSeconds: 0 })).toEqual({ status: "ok", token, lease: DEFAULT_LEASE });
    expect(await a.release(key, token)).toEqual({ status: "ok" });
  },

  "enqueue takes the place in the queue, wait only asks for it": async (story) => {
    const [a, b, c, key] = [await story.session(), await story.session(), await story.session(), story.freshKey()];
    const token = await hold(a, key);
    story.expect(await b.enqueue(key, LOCK)).toEqual({ status: "queued" });
    const later = await queue(c, key);
    await a.release(key, token);
    await stillWaits(story, later.outcome);
    const grant = granted(await b.wait(key, { waitSeconds: 5 }));
    await b.release(key, grant.token);
    story.expect((await later.outcome).status).toBe("ok");
  },

  "a place that came up before wait is still there for it": async (story) => {
    const [a, b, key] = [await story.session(), await story.session(), story.freshKey()];
    const token = await hold(a, key);
    await b.enqueue(key, { limit: 1, leaseSeconds: 50 });
    await a.release(key, token);
    await story.sleep(0.2);
    story.expect(granted(await b.wait(key, { waitSeconds: 0 })).lease).toBe(50);
  },

  "wait blocks until the holder releases": async (story) => {
    const [a, b, key] = [await story.session(), await story.session(), story.freshKey()];
    const token = await hold(a, key);
    await b.enqueue(key, LOCK);
    const waiting = b.wait(key, { waitSeconds: LONG });
    await stillWaits(story, waiting);
    await a.release(key, token);
    story.expect((await waiting).status).toBe("ok");
  },

  "a wait that times out gives the place up": async ({ session, freshKey, sleep, expect }) => {
    const [a, b, c, key] = [await session(), await session(), await session(), freshKey()];
    const token = await hold(a, key);
    await b.enqueue(key, LOCK);
    const waiting = b.wait(key, { waitSeconds: 1 });
    await b.arrived(key);
    await sleep(1.1);
    expect(await waiting).toEqual({ status: "timeout" });
    expect(await b.wait(key, { waitSeconds: 0 })).toEqual(NOT_ENQUEUED);
    await a.release(key, token);
    await hold(c, key);
  },

  "wait without enqueue is refused": async ({ session, freshKey, expect }) => {
    expect(await (await session()).wait(freshKey(), { waitSeconds: 5 })).toEqual(NOT_ENQUEUED);
  },

  "a place belongs to the session that took it": async ({ session, freshKey, expect }) => {
    const [a, b, c, key] = [await session(), await session(), await session(), freshKey()];
    const token = await hold(a, key);
    await b.enqueue(key, LOCK);
    expect(await c.wait(key, { waitSeconds: 0 })).toEqual(NOT_ENQUEUED);
    await a.release(key, token);
    expect((await b.wait(key, { waitSeconds: 5 })).status).toBe("ok");
  },

  "a second enqueue is refused while queued and while acquired": async ({ session, freshKey, expect }) => {
    const [a, b, key] = [await session(), await session(), freshKey()];
    const { token } = granted(await a.enqueue(key, LOCK));
    expect(await a.enqueue(key, LOCK)).toEqual({ status: "error_already_enqueued" });
    await b.enqueue(key, LOCK);
    expect(await b.enqueue(key, LOCK)).toEqual({ status: "error_already_enqueued" });
    await a.wait(key, { waitSeconds: 0 });
    expect(await a.enqueue(key, LOCK)).toEqual({ status: "queued" });
    await a.release(key, token);
    expect((await b.wait(key, { waitSeconds: 5 })).status).toBe("ok");
  },

  "two waits for one place: one grant, the other refused at once": async ({ session, freshKey, expect }) => {
    const [a, b, key] = [await session(), await session(), freshKey()];
    const token = await hold(a, key);
    await b.enqueue(key, LOCK);
    const first = b.wait(key, { waitSeconds: LONG });
    await b.arrived(key);
    expect(await b.wait(key, { waitSeconds: LONG })).toEqual(NOT_ENQUEUED);
    expect(await b.enqueue(key, LOCK)).toEqual({ status: "error_already_enqueued" });
    await a.release(key, token);
    expect((await first).status).toBe("ok");
  },

  "releasing an acquired token forgets the place, whoever releases": async ({ session, freshKey, expect }) => {
    const [a, b, key] = [await session(), await session(), freshKey()];
    const { token } = granted(await a.enqueue(key, LOCK));
    expect(await b.release(key, token)).toEqual({ status: "ok" });
    expect(await a.wait(key, { waitSeconds: 0 })).toEqual(NOT_ENQUEUED);
    expect((await a.enqueue(key, LOCK)).status).toBe("acquired");
  },

  "releasing one slot leaves the place of another session alone": async ({ session, freshKey, expect }) => {
    const [a, b, key] = [await session(), await session(), freshKey()];
    const mine = granted(await a.enqueue(key, { limit: 2 }));
    const other = granted(await b.enqueue(key, { limit: 2 }));
    await a.release(key, other.token);
    expect(await a.wait(key, { waitSeconds: 0 })).toEqual({ status: "ok", ...tokenAndLease(mine) });
    expect(await b.wait(key, { waitSeconds: 0 })).toEqual(NOT_ENQUEUED);
  },

  "an acquired slot that ran out is told once, then forgotten": async ({ session, freshKey, sleep, expect }) => {
    const [a, key] = [await session(), freshKey()];
    await a.enqueue(key, { limit: 1, leaseSeconds: 1 });
    await sleep(1.1);
    expect(await a.wait(key, { waitSeconds: 5 })).toEqual({ status: "error_lease_expired" });
    expect(await a.wait(key, { waitSeconds: 5 })).toEqual(NOT_ENQUEUED);
  },

  "a slot that came up and was never waited for passes on when its lease ends": async (story) => {
    const [a, b, c, key] = [await story.session(), await story.session(), await story.session(), story.freshKey()];
    const token = await hold(a, key);
    await b.enqueue(key, { limit: 1, leaseSeconds: 4 });
    const behind = await queue(c, key);
    await a.release(key, token);
    await stillWaits(story, behind.outcome, 0.6);
    await story.sleep(4.6);
    story.expect((await behind.outcome).status).toBe("ok");
    story.expect(await b.enqueue(key, LOCK)).toEqual({ status: "queued" });
  },

  "wait gives the full lease from the moment of its answer": async ({ session, freshKey, sleep, expect }) => {
    const [a, b, c, key] = [await session(), await session(), await session(), freshKey()];
    const token = await hold(a, key);
    await b.enqueue(key, { limit: 1, leaseSeconds: 8 });
    await a.release(key, token);
    // Each pause is longer than half the lease, and leaves seconds to spare for a machine that stalls.
    await sleep(4.5);
    expect(granted(await b.wait(key, { waitSeconds: 0 })).lease).toBe(8);
    await sleep(4.5);
    expect(await c.acquire(key, TRY)).toEqual({ status: "timeout" });
  },
};

const tokenAndLease = ({ token, lease }: { token: string; lease: number }) => ({ token, lease });
