import type { Outcome, Promises } from "./contract.ts";
import { DEFAULT_LEASE, granted, hold, LONG, PATIENT, queue, soonFree, stillWaits, TRY } from "./steps.ts";

const withoutCancel: Promises = {
  "a free key is granted at once, with the default lease": async ({ session, freshKey, expect }) => {
    const outcome = await (await session()).acquire(freshKey(), TRY);
    expect(outcome).toEqual({ status: "ok", token: expect.stringMatching(/^[0-9a-f]{32}$/), lease: DEFAULT_LEASE });
  },

  "a held key is granted to nobody else": async ({ session, freshKey, expect }) => {
    const [a, b, key] = [await session(), await session(), freshKey()];
    await hold(a, key);
    expect(await b.acquire(key, TRY)).toEqual({ status: "timeout" });
  },

  "a released key can be taken again": async ({ session, freshKey, expect }) => {
    const [a, b, key] = [await session(), await session(), freshKey()];
    expect(await a.release(key, await hold(a, key))).toEqual({ status: "ok" });
    await hold(b, key);
  },

  "keys do not hinder each other": async ({ session, freshKey }) => {
    const [a, b] = [await session(), await session()];
    await hold(a, freshKey());
    await hold(b, freshKey());
  },

  "a waiter is answered when the holder releases, not before": async (story) => {
    const [a, b, key] = [await story.session(), await story.session(), story.freshKey()];
    const token = await hold(a, key);
    const waiter = await queue(b, key);
    await stillWaits(story, waiter.outcome);
    await a.release(key, token);
    story.expect((await waiter.outcome).status).toBe("ok");
  },

  "waiters are served in the order in which they came": async ({ session, freshKey, expect }) => {
    const key = freshKey();
    const holder = await session();
    let token = await hold(holder, key);
    const served: number[] = [];
    const waiters: { session: Awaited<ReturnType<typeof session>>; outcome: Promise<Outcome> }[] = [];
    for (let place = 0; place < 8; place += 1) {
      const waiting = await session();
      const { outcome } = await queue(waiting, key);
      outcome.then(() => served.push(place));
      waiters.push({ session: waiting, outcome });
    }
    await holder.release(key, token);
    for (const waiter of waiters) {
      token = granted(await waiter.outcome).token;
      await waiter.session.release(key, token);
    }
    expect(served).toEqual([0, 1, 2, 3, 4, 5, 6, 7]);
  },

  "a newcomer never overtakes a waiter": async ({ session, freshKey, expect }) => {
    const [a, b, c, key] = [await session(), await session(), await session(), freshKey()];
    const token = await hold(a, key);
    const waiter = await queue(b, key);
    const released = a.release(key, token);
    const newcomer = c.acquire(key, TRY);
    expect(await newcomer).toEqual({ status: "timeout" });
    expect(await released).toEqual({ status: "ok" });
    expect((await waiter.outcome).status).toBe("ok");
  },

  "a wait without a grant ends at its time and leaves no trace": async (story) => {
    const [a, b, c, key] = [await story.session(), await story.session(), await story.session(), story.freshKey()];
    const token = await hold(a, key);
    const waiter = await queue(b, key, { waitSeconds: 4 });
    await stillWaits(story, waiter.outcome, 0.6);
    await story.sleep(3.5);
    story.expect(await waiter.outcome).toEqual({ status: "timeout" });
    await a.release(key, token);
    await hold(c, key);
  },

  "the longest wait allowed does not end at once": async (story) => {
    const [a, b, key] = [await story.session(), await story.session(), story.freshKey()];
    const token = await hold(a, key);
    const waiter = await queue(b, key, { waitSeconds: 9_223_372_036 });
    await stillWaits(story, waiter.outcome);
    await a.release(key, token);
    story.expect((await waiter.outcome).status).toBe("ok");
  },

  "a lock is not re-entrant: its holder queues behind itself": async ({ session, freshKey, expect }) => {
    const [a, key] = [await session(), freshKey()];
    const token = await hold(a, key);
    expect(await a.acquire(key, TRY)).toEqual({ status: "timeout" });
    const again = await queue(a, key);
    await a.release(key, token);
    expect((await again.outcome).status).toBe("ok");
  },

  "a second release of a token fails and does not hurt the next holder": async ({ session, freshKey, expect }) => {
    const [a, b, key] = [await session(), await session(), freshKey()];
    const token = await hold(a, key);
    await a.release(key, token);
    const next = await hold(b, key);
    expect(await a.release(key, token)).toEqual({ status: "error" });
    expect(await b.renew(key, next, 9)).toEqual({ status: "ok", lease: 9 });
  },

  "a token nobody was given releases and renews nothing": async ({ session, freshKey, expect }) => {
    const [a, key] = [await session(), freshKey()];
    const token = await hold(a, key);
    const invented = `${token.slice(0, 16)}${"0".repeat(16)}`;
    expect(await a.release(key, invented)).toEqual({ status: "error" });
    expect(await a.renew(key, invented, 5)).toEqual({ status: "error" });
    expect(await a.release(freshKey(), token)).toEqual({ status: "error" });
    expect(await a.release(key, token)).toEqual({ status: "ok" });
  },

  "whoever knows the token may renew and release": async ({ session, freshKey, expect }) => {
    const [a, b, key] = [await session(), await session(), freshKey()];
    const token = await hold(a, key);
    expect(await b.renew(key, token, 40)).toEqual({ status: "ok", lease: 40 });
    expect(await b.release(key, token)).toEqual({ status: "ok" });
    expect(await a.release(key, token)).toEqual({ status: "error" });
  },

  "one request that times out leaves the other of the same session in its place": async (story) => {
    const [a, b, c, key] = [await story.session(), await story.session(), await story.session(), story.freshKey()];
    const token = await hold(a, key);
    const patient = b.acquire(key, PATIENT);
    const hasty = await queue(b, key, { waitSeconds: 1 });
    const behind = await queue(c, key);
    await story.sleep(1.2);
    story.expect(await hasty.outcome).toEqual({ status: "timeout" });
    await a.release(key, token);
    const { token: second } = granted(await patient);
    await stillWaits(story, behind.outcome);
    await b.release(key, second);
    story.expect((await behind.outcome).status).toBe("ok");
  },
};

const withCancel: Promises = {
  "one request that is cancelled leaves the other of the same session in its place": async (story) => {
    const [a, b, key] = [await story.session(), await story.session(), story.freshKey()];
    const token = await hold(a, key);
    const cancel = new AbortController();
    const cancelled = b.acquire(key, { limit: 1, waitSeconds: LONG, signal: cancel.signal });
    const kept = await queue(b, key);
    cancel.abort();
    story.expect(await cancelled).toEqual({ status: "cancelled" });
    await a.release(key, token);
    story.expect((await kept.outcome).status).toBe("ok");
  },

  "a cancelled request never becomes a holder": async (story) => {
    const [a, b, c, key] = [await story.session(), await story.session(), await story.session(), story.freshKey()];
    const token = await hold(a, key);
    const cancel = new AbortController();
    const cancelled = await queue(b, key, { signal: cancel.signal });
    cancel.abort();
    story.expect(await cancelled.outcome).toEqual({ status: "cancelled" });
    await a.release(key, token);
    await soonFree(story, c, key);
  },
};

export const lockPromises = ({ canCancel }: { readonly canCancel: boolean }): Promises =>
  canCancel ? { ...withoutCancel, ...withCancel } : withoutCancel;
