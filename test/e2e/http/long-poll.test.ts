/** Requests that wait: what ends them, and what becomes of their place when their client leaves. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { HOSTS } from "../../support/hosts.ts";
import { poll, sleep } from "../../support/poll.ts";
import {
  expectAfter,
  expectError,
  expectJson,
  expectNoContent,
  expectWaiting,
  grantIn,
} from "../../support/replies.ts";
import { Api, freshKey } from "../../support/rest.ts";
import type { TestServer } from "../../support/server.ts";
import { stopwatch } from "../../support/stopwatch.ts";

const TIMEOUT = { status: "timeout" };
const GONE = { error: "session_gone" };

describe.each(HOSTS)("requests that wait, on $name", (host) => {
  let server: TestServer;
  let api: Api;
  beforeAll(async () => {
    server = await host.start();
    api = new Api(server);
  });
  afterAll(() => server.stop());

  describe("a session that is deleted", () => {
    it("has its poll answered within a tenth of a second, and no place in the queue [HC120]", async () => {
      const [[s, s2], k] = [await api.sessions(2), freshKey()];
      await s.lock(k);
      const polling = await s2.waitInLine(k, 60);
      expectNoContent(await s2.end());
      const elapsed = stopwatch();
      const reply = await polling.reply;
      expectJson(reply, 410, GONE);
      expect(elapsed()).toBeLessThanOrEqual(100);
      await poll("stats without the waiter", 1_000, async () =>
        (await api.stats()).locks.find(({ key }) => key === k)?.waiters === 0 ? true : undefined,
      );
    });

    it("gives up what it enqueued for, so that others get it [HC121]", async () => {
      const [[s, s2, s3], k] = [await api.sessions(3), freshKey()];
      const token = await s.lock(k);
      expectJson(await s2.post(`/v1/locks/${k}/enqueue`, {}), 200, { status: "queued" });
      const polling = s2.start(`/v1/locks/${k}/wait`, { timeout_s: 60 });
      await poll("the wait to have reached the key", 3_000, async () => {
        const { queue } = JSON.parse((await api.get(`/v1/keys/${k}`)).body) as { queue: { timeout_in_s?: number }[] };
        return queue[0]?.timeout_in_s;
      });
      expectNoContent(await s2.end());
      expectJson(await polling.reply, 410, GONE);
      expectNoContent(await s.post(`/v1/locks/${k}/release`, { token }));
      grantIn(await s3.post(`/v1/locks/${k}`, { acquire_timeout_s: 0 }), "ok", 33);
    });

    it("leaves its lock to the first in line only [HC130]", async () => {
      const [[s, s2, s3], k] = [await api.sessions(3), freshKey()];
      await s.lock(k);
      const [first, second] = [await s2.waitInLine(k, 60), await s3.waitInLine(k, 60)];
      expectNoContent(await s.end());
      const token = grantIn(await first.reply, "ok", 33);
      await expectWaiting(second);
      expect(await api.queue(k)).toHaveLength(1);
      await s2.release(k, token);
      grantIn(await second.reply, "ok", 33);
    });
  });

  describe("a client that goes away while it waits", () => {
    it("is passed over within a second, and its session lives on [HC122]", async () => {
      for (const departure of host.hangUps) {
        const [[s, s2, s3], k] = [await api.sessions(3), freshKey(departure)];
        const token = await s.lock(k);
        const abandoned = await s2.waitInLine(k, 60);
        const [leaver] = await api.queue(k);
        abandoned[departure]();
        const polling = s3.start(`/v1/locks/${k}`, { acquire_timeout_s: 60 });
        await poll("the other one to be in line", 3_000, async () =>
          (await api.queue(k)).some((owner) => owner !== leaver) ? true : undefined,
        );
        const elapsed = stopwatch();
        expectNoContent(await s.post(`/v1/locks/${k}/release`, { token }));
        const reply = await polling.reply;
        grantIn(reply, "ok", 33);
        expect(elapsed()).toBeLessThanOrEqual(1_000);
        expectNoContent(await s2.ping());
      }
    });

    it("is out of the queue within a second, however long it could have waited; its session lives on [HC131]", async () => {
      for (const departure of host.hangUps) {
        const [[s, s2], k] = [await api.sessions(2), freshKey(departure)];
        const token = await s.lock(k);
        const abandoned = await s2.waitInLine(k, 60);
        abandoned[departure]();
        await poll("the queue to be empty", 1_000, async () => ((await api.queue(k)).length === 0 ? true : undefined));
        expectNoContent(await s2.ping());
        expectJson(await s.post(`/v1/locks/${k}/renew`, { token }), 200, { remaining_s: 33 });
      }
    });

    it("takes nothing with it when nobody else waits [HC123]", async () => {
      await Promise.all(
        host.hangUps.map(async (departure) => {
          const [[s, s2, s3], k] = [await api.sessions(3), freshKey(departure)];
          const token = await s.lock(k);
          (await s2.waitInLine(k, 60))[departure]();
          expectNoContent(await s.post(`/v1/locks/${k}/release`, { token }));
          await sleep(1);
          grantIn(await s3.post(`/v1/locks/${k}`, { acquire_timeout_s: 0 }), "ok", 33);
        }),
      );
    });
  });

  describe.concurrent("while a session polls", () => {
    it("its other requests are answered at once [HC124]", async () => {
      const [[s, s2], k, j] = [await api.sessions(2), freshKey("k"), freshKey("j")];
      await s.lock(k);
      const polling = await s2.waitInLine(k, 60);
      const acquired = await s2.post(`/v1/locks/${j}`, { acquire_timeout_s: 0 });
      const token = grantIn(acquired, "ok", 33);
      const renewed = await s2.post(`/v1/locks/${j}/renew`, { token });
      expectJson(renewed, 200, { remaining_s: 33 });
      const released = await s2.post(`/v1/locks/${j}/release`, { token });
      expectNoContent(released);
      for (const reply of [acquired, renewed, released]) expectAfter(reply, 0, 1);
      await expectWaiting(polling);
      expectNoContent(await s2.end());
    });

    it("a second wait for the same place is refused at once, and the first gets the lock [HC125]", async () => {
      const [[s, s2], k] = [await api.sessions(2), freshKey()];
      const token = await s.lock(k);
      expectJson(await s2.post(`/v1/locks/${k}/enqueue`, {}), 200, { status: "queued" });
      const waits = [1, 2].map(() => s2.start(`/v1/locks/${k}/wait`, { timeout_s: 10 }));
      const refused = await Promise.race(waits.map(async (wait) => ({ wait, reply: await wait.reply })));
      expectError(refused.reply, 409, "not_enqueued");
      expectAfter(refused.reply, 0, 1);
      expectNoContent(await s.post(`/v1/locks/${k}/release`, { token }));
      const other = waits.find((wait) => wait !== refused.wait);
      if (!other) throw new Error("both waits were refused");
      grantIn(await other.reply, "ok", 33);
    });
  });

  describe.concurrent("a poll", () => {
    it("is granted when the holder's lease runs out [HC126]", async () => {
      const [[s, s2], k] = [await api.sessions(2), freshKey()];
      const askedAt = performance.now();
      const token = await s.lock(k, { lease_ttl_s: 1 });
      const reply = await s2.post(`/v1/locks/${k}`, { acquire_timeout_s: 10 });
      expect(performance.now() - askedAt).toBeGreaterThanOrEqual(1_000);
      grantIn(reply, "ok", 33);
      expectAfter(reply, 0, 3);
      expectJson(await s.post(`/v1/locks/${k}/release`, { token }), 404, { error: "not_held" });
    });

    it("ends by itself when its time is over, and its session stays [HC129]", async () => {
      const [[s, s2], k] = [await api.sessions(2), freshKey()];
      await s.lock(k);
      const reply = await s2.post(`/v1/locks/${k}`, { acquire_timeout_s: 2 });
      expectJson(reply, 200, TIMEOUT);
      expectAfter(reply, 1.9, 3);
    });
  });

  describe("a server that stands still in the moment of the grant", () => {
    it("costs nobody who waits its turn, however short its lease, and says `timeout` to nobody too soon [HC136]", async () => {
      await using own = await host.start();
      const rest = new Api(own);
      const [s, s2] = await rest.sessions(2);
      // Released one after another, so that the stop catches each at another point of its way.
      const keys = Array.from({ length: 16 }, (_, n) => `k${n}`);
      const waiting = await Promise.all(
        keys.map(async (key) => {
          const token = await s.lock(key);
          const polling = s2.start(`/v1/locks/${key}`, { acquire_timeout_s: 20, lease_ttl_s: 1 });
          await rest.waitersOn(key, 1);
          return { key, token, polling };
        }),
      );
      const releasing = waiting.map(async ({ key, token }, n) => {
        await sleep(n / 1_000);
        return s.post(`/v1/locks/${key}/release`, { token });
      });
      await sleep(keys.length / 1_000);
      await own.stall(1.5);
      for (const reply of await Promise.all(releasing)) expectNoContent(reply);
      for (const { polling } of waiting) grantIn(await polling.reply, "ok", 1);
    });
  });
});
