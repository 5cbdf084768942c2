/** Locks over HTTP: acquire, release, renew, and the two steps of enqueue and wait. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { Clients } from "../../support/clients.ts";
import { HOSTS } from "../../support/hosts.ts";
import { sleep } from "../../support/poll.ts";
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
import { ask, joinQueue, lock, tokenOf } from "../../support/wire-client.ts";

describe.each(HOSTS)("locks over HTTP, on $name", (host) => {
  let server: TestServer;
  let api: Api;
  beforeAll(async () => {
    server = await host.start();
    api = new Api(server);
  });
  afterAll(() => server.stop());

  const TIMEOUT = { status: "timeout" };
  const NOT_HELD = { error: "not_held" };

  describe.concurrent("acquire", () => {
    it("of a free lock is granted at once, with the default lease [HC40]", async () => {
      const s = await api.session();
      const reply = await s.post(`/v1/locks/${freshKey()}`, { acquire_timeout_s: 10 });
      grantIn(reply, "ok", 33);
      expectAfter(reply, 0, 5);
    });

    it("is granted with the lease that was asked for [HC41]", async () => {
      const s = await api.session();
      grantIn(await s.post(`/v1/locks/${freshKey()}`, { acquire_timeout_s: 10, lease_ttl_s: 60 }), "ok", 60);
    });

    it("with a lease of 0 gets the default lease [HC42]", async () => {
      const s = await api.session();
      grantIn(await s.post(`/v1/locks/${freshKey()}`, { acquire_timeout_s: 0, lease_ttl_s: 0 }), "ok", 33);
    });

    it("need not name a single field [HC43]", async () => {
      const [[s, s2], k] = [await api.sessions(2), freshKey()];
      grantIn(await s.post(`/v1/locks/${k}`, {}), "ok", 33);
      const second = await s2.post(`/v1/locks/${k}`, {});
      expectJson(second, 200, TIMEOUT);
      expectAfter(second, 0, 5);
    });

    it("takes null for an object without fields [HC44]", async () => {
      const s = await api.session();
      grantIn(await s.post(`/v1/locks/${freshKey()}`, "null"), "ok", 33);
    });

    it("of a held lock gives up at once when it may not wait [HC45]", async () => {
      const [[s, s2], k] = [await api.sessions(2), freshKey()];
      await s2.lock(k);
      expectJson(await s.post(`/v1/locks/${k}`, { acquire_timeout_s: 0 }), 200, TIMEOUT);
    });

    it("of a held lock gives up when its time is over, and not before [HC46]", async () => {
      const [[s, s2], k] = [await api.sessions(2), freshKey()];
      await s2.lock(k);
      const reply = await s.post(`/v1/locks/${k}`, { acquire_timeout_s: 1 });
      expectJson(reply, 200, TIMEOUT);
      expectAfter(reply, 0.9, 2);
    });
  });

  describe.concurrent("release", () => {
    it("works once [HC47]", async () => {
      const [s, k] = [await api.session(), freshKey()];
      const token = await s.lock(k);
      expectNoContent(await s.post(`/v1/locks/${k}/release`, { token }));
      expectJson(await s.post(`/v1/locks/${k}/release`, { token }), 404, NOT_HELD);
    });

    it("is open to whoever has the token [HC48]", async () => {
      const [[s, s2], k] = [await api.sessions(2), freshKey()];
      const token = await s.lock(k);
      expectNoContent(await s2.post(`/v1/locks/${k}/release`, { token }));
      await s2.lock(k);
    });

    it("comes too late after the lease [HC49]", async () => {
      const [s, k] = [await api.session(), freshKey()];
      const token = await s.lock(k, { lease_ttl_s: 1 });
      await sleep(1.3);
      expectJson(await s.post(`/v1/locks/${k}/release`, { token }), 404, NOT_HELD);
    });
  });

  describe.concurrent("renew", () => {
    it("sets the lease that was asked for [HC50]", async () => {
      const [s, k] = [await api.session(), freshKey()];
      const token = await s.lock(k);
      expectJson(await s.post(`/v1/locks/${k}/renew`, { token, lease_ttl_s: 60 }), 200, { remaining_s: 60 });
    });

    it("without a lease sets the default one, whatever it was before [HC51]", async () => {
      const [s, k] = [await api.session(), freshKey()];
      const token = await s.lock(k, { lease_ttl_s: 60 });
      expectJson(await s.post(`/v1/locks/${k}/renew`, { token }), 200, { remaining_s: 33 });
      // The lock has it too, not only the reply.
      const { held_by } = JSON.parse((await api.get(`/v1/keys/${k}`)).body);
      expect(held_by).toEqual([expect.objectContaining({ lease_expires_in_s: expect.any(Number) })]);
      expect(held_by[0].lease_expires_in_s).toBeLessThanOrEqual(33);
    });

    it("does nothing with a token that nobody was given [HC52]", async () => {
      const [s, k] = [await api.session(), freshKey()];
      expectJson(await s.post(`/v1/locks/${k}/renew`, { token: "0".repeat(32) }), 404, NOT_HELD);
      await s.lock(k);
      expectJson(await s.post(`/v1/locks/${k}/renew`, { token: "0".repeat(32) }), 404, NOT_HELD);
    });
  });

  describe.concurrent("enqueue and wait", () => {
    it("enqueue for a free lock acquires it, and needs no body [HC53]", async () => {
      const s = await api.session();
      grantIn(await s.post(`/v1/locks/${freshKey()}/enqueue`), "acquired", 33);
      grantIn(await s.post(`/v1/locks/${freshKey()}/enqueue`, ""), "acquired", 33);
    });

    it("wait picks up what enqueue asked for, with its lease [HC54]", async () => {
      const [[s, s2], k] = [await api.sessions(2), freshKey()];
      const token = await s2.lock(k);
      expectJson(await s.post(`/v1/locks/${k}/enqueue`, { lease_ttl_s: 7 }), 200, { status: "queued" });
      expectNoContent(await s2.post(`/v1/locks/${k}/release`, { token }));
      grantIn(await s.post(`/v1/locks/${k}/wait`, { timeout_s: 5 }), "ok", 7);
    });

    it("wait without enqueue is refused [HC55]", async () => {
      const [s, k] = [await api.session(), freshKey()];
      expectError(await s.post(`/v1/locks/${k}/wait`, { timeout_s: 0 }), 409, "not_enqueued");
    });

    it("enqueue is refused while an earlier one is open [HC56]", async () => {
      const [[s, s2], k] = [await api.sessions(2), freshKey()];
      await s2.lock(k);
      expectJson(await s.post(`/v1/locks/${k}/enqueue`, {}), 200, { status: "queued" });
      expectError(await s.post(`/v1/locks/${k}/enqueue`, {}), 409, "already_enqueued");
      expect(await api.queue(k)).toHaveLength(1);
    });

    it("a wait that ends in vain gives the place up [HC57]", async () => {
      const [[s, s2], k] = [await api.sessions(2), freshKey()];
      await s2.lock(k);
      expectJson(await s.post(`/v1/locks/${k}/enqueue`, {}), 200, { status: "queued" });
      const reply = await s.post(`/v1/locks/${k}/wait`, { timeout_s: 1 });
      expectJson(reply, 200, TIMEOUT);
      expectAfter(reply, 0.9, 2);
      expectError(await s.post(`/v1/locks/${k}/wait`, { timeout_s: 1 }), 409, "not_enqueued");
      expect(await api.queue(k)).toEqual([]);
    });

    it("a wait for a grant whose lease ran out says so, once [HC58]", async () => {
      const [s, k] = [await api.session(), freshKey()];
      grantIn(await s.post(`/v1/locks/${k}/enqueue`, { lease_ttl_s: 1 }), "acquired", 1);
      await sleep(1.3);
      expectError(await s.post(`/v1/locks/${k}/wait`, { timeout_s: 0 }), 409, "lease_expired");
      expectError(await s.post(`/v1/locks/${k}/wait`, { timeout_s: 0 }), 409, "not_enqueued");
    });
  });

  describe.concurrent("a key", () => {
    it("may be called like an operation [HC59]", async () => {
      const s = await api.session();
      const token = grantIn(await s.post("/v1/locks/release", { acquire_timeout_s: 0 }), "ok", 33);
      expectNoContent(await s.post("/v1/locks/release/release", { token }));
    });

    it("may contain a slash, written as %2F [HC60]", async () => {
      const s = await api.session();
      grantIn(await s.post("/v1/locks/a%2Fb", { acquire_timeout_s: 0 }), "ok", 33);
      await sleep(1);
      expect((await api.stats()).locks.map(({ key }) => key)).toContain("a/b");
    });

    it("has one queue: who came first over TCP is served before who came later over HTTP [HC61]", async () => {
      using clients = new Clients(server);
      const [holder, waiter, s, k] = [await clients.tcp(), await clients.tcp(), await api.session(), freshKey()];
      const held = await lock(holder, k);
      await joinQueue(waiter, k, "60");
      const polling = await s.waitInLine(k, 60);

      expect(await ask(holder, "r", k, held)).toBe("ok");
      const token = tokenOf(await waiter.next());
      await expectWaiting(polling);
      expect(await ask(waiter, "r", k, token)).toBe("ok");
      expect(grantIn(await polling.reply, "ok", 33) > token).toBe(true);
    });
  });

  it("a service that drains grants nothing new, but lets sessions keep and give back what they have [HC62]", async () => {
    await using own = await host.start();
    const [s] = await new Api(own).sessions(1);
    const token = await s.lock("k");
    await own.restart({ DRAINING: "true" });
    const draining = { error: "draining" };
    expectJson(await s.post("/v1/locks/j", { acquire_timeout_s: 0 }), 503, draining);
    expectJson(await s.post("/v1/locks/j/enqueue", {}), 503, draining);
    expectJson(await s.post("/v1/locks/k/renew", { token }), 200, { remaining_s: 33 });
    expectNoContent(await s.post("/v1/locks/k/release", { token }));
  });

  it("no more keys are used than the service may have [HC63]", async () => {
    await using own = await host.start({ variables: { MAX_LOCKS: "1" } });
    const s = await new Api(own).session();
    const token = await s.lock("k");
    expectError(await s.post("/v1/locks/j", { acquire_timeout_s: 0 }), 503, "max_locks");
    expectNoContent(await s.post("/v1/locks/k/release", { token }));
  });

  it("no more requests wait for a key than may [HC64]", async () => {
    await using own = await host.start({ variables: { MAX_WAITERS: "1" } });
    const [s, s2] = await new Api(own).sessions(2);
    await s.lock("k");
    const polling = await s2.waitInLine("k", 60);
    expectError(await s.post("/v1/locks/k", { acquire_timeout_s: 0 }), 503, "max_waiters");
    await expectWaiting(polling);
    expectNoContent(await s2.end());
  });
});
