/** HTTP sessions outlive the process that serves them. */
import { describe, it } from "vitest";
import { Clients } from "../../support/clients.ts";
import { HOSTS } from "../../support/hosts.ts";
import { poll, sleep } from "../../support/poll.ts";
import { expectError, expectJson, expectNoContent, grantIn } from "../../support/replies.ts";
import { Api } from "../../support/rest.ts";
import { stopwatch } from "../../support/stopwatch.ts";
import { ask, joinQueue } from "../../support/wire-client.ts";

const GONE = { error: "session_gone" };
const TIMEOUT = { status: "timeout" };
const LABEL = "X-Holdfast-Label";
const TRY = { acquire_timeout_s: 0 };

describe.each(HOSTS)("HTTP sessions and restarts, on $name", (host) => {
  describe.concurrent("after a kill -9", () => {
    it("an HTTP session still holds what it held and still stands where it stood", async ({ expect }) => {
      await using server = await host.start();
      const api = new Api(server);
      const [s, queued, waiting, other] = await api.sessions(4);
      const lease = { lease_ttl_s: 60 };
      const held = await s.lock("held", lease);
      const slot = grantIn(await s.post("/v1/semaphores/slots", { ...TRY, ...lease, limit: 2 }));
      const acquired = grantIn(await s.post("/v1/locks/acquired/enqueue", lease), "acquired");
      const [first, second] = [await s.lock("queued", lease), await s.lock("waited", lease)];
      expectJson(await queued.post("/v1/locks/queued/enqueue", {}), 200, { status: "queued" });
      expectJson(await waiting.post("/v1/locks/waited/enqueue", {}), 200, { status: "queued" });
      const cut = waiting.start("/v1/locks/waited/wait", { timeout_s: 60 });
      await poll("the wait to reach its key", 20_000, async () =>
        (await api.get("/v1/keys/waited")).body.includes("timeout_in_s") ? true : undefined,
      );
      await server.restart();
      await expect(cut.reply).rejects.toThrow();

      for (const session of [s, queued, waiting]) expectNoContent(await session.ping());
      expect((await api.stats()).connections).toBe(4);
      for (const key of ["held", "acquired"]) expectJson(await other.post(`/v1/locks/${key}`, TRY), 200, TIMEOUT);
      expectJson(await s.post("/v1/locks/held/renew", { token: held }), 200, { remaining_s: 33 });
      await s.release("held", held);
      await s.release("slots", slot);
      expect(grantIn(await s.post("/v1/locks/acquired/wait", { timeout_s: 0 }), "ok", 60)).toBe(acquired);

      const behind = await other.waitInLine("queued", 60);
      await s.release("queued", first);
      const token = grantIn(await queued.post("/v1/locks/queued/wait", { timeout_s: 5 }));
      await queued.release("queued", token);
      grantIn(await behind.reply);

      const again = waiting.start("/v1/locks/waited/wait", { timeout_s: 60 });
      await sleep(0.2);
      await s.release("waited", second);
      grantIn(await again.reply);
    });

    it("the place of a wait whose time was over before anybody was back stands, in its order", async ({ expect }) => {
      await using server = await host.start();
      const api = new Api(server);
      const [holder, waiting, behind] = await api.sessions(3);
      const token = await holder.lock("k", { lease_ttl_s: 60 });
      expectJson(await waiting.post("/v1/locks/k/enqueue", {}), 200, { status: "queued" });
      expectJson(await behind.post("/v1/locks/k/enqueue", {}), 200, { status: "queued" });
      const cut = waiting.start("/v1/locks/k/wait", { timeout_s: 4 });
      await poll("the wait to reach its key", 20_000, async () =>
        (await api.get("/v1/keys/k")).body.includes("timeout_in_s") ? true : undefined,
      );
      await server.kill9();
      await expect(cut.reply).rejects.toThrow();
      await sleep(4.2);
      await server.restart();

      // Whoever looks first, the service or the client that asks again.
      const again = waiting.start("/v1/locks/k/wait", { timeout_s: 60 });
      await poll("the wait to have its place", 20_000, async () =>
        (await api.get("/v1/keys/k")).body.includes("timeout_in_s") ? true : undefined,
      );
      expect(await api.queue("k")).toHaveLength(2);
      const next = behind.start("/v1/locks/k/wait", { timeout_s: 60 });
      await holder.release("k", token);
      await waiting.release("k", grantIn(await again.reply));
      grantIn(await next.reply);
    });

    it("polls and sockets that were cut off hold up nobody who polls now", async ({ expect }) => {
      await using server = await host.start();
      const api = new Api(server);
      const [holder, poller, next] = [await api.session(), await api.session(), await api.session({ [LABEL]: "next" })];
      const token = await holder.lock("k", { lease_ttl_s: 60 });
      using clients = new Clients(server);
      await joinQueue(await clients.tcp(), "k", "60");
      const cut = await poller.waitInLine("k", 60);
      await joinQueue(await clients.ws(), "k", "60");
      await server.restart();
      await expect(cut.reply).rejects.toThrow();

      const polling = next.start("/v1/locks/k", { acquire_timeout_s: 60 });
      await poll("the poll to be in line", 20_000, async () =>
        (await api.get("/v1/keys/k")).body.includes('"label":"next"') ? true : undefined,
      );
      const elapsed = stopwatch();
      await holder.release("k", token);
      const reply = await polling.reply;
      expect(grantIn(reply) > token).toBe(true);
      expect(elapsed()).toBeLessThanOrEqual(2_000);
      expectNoContent(await poller.ping());
    });

    it("a session that had been deleted stays deleted, and one that was left goes by itself", async () => {
      await using server = await host.start({ variables: { HTTP_SESSION_IDLE_S: "1" } });
      const api = new Api(server);
      const [deleted, left] = await api.sessions(2);
      await deleted.lock("deleted", { lease_ttl_s: 60 });
      await left.lock("left", { lease_ttl_s: 60 });
      expectNoContent(await deleted.end());
      await server.restart();

      expectJson(await deleted.ping(), 410, GONE);
      // Nobody but the alarm looks at the session that was left.
      await poll("the lock of the session that was left", 5_000, async () =>
        (await api.get("/v1/keys/left")).body.includes('"holders":0') ? true : undefined,
      );
      expectJson(await left.ping(), 410, GONE);
      const newcomer = await api.session();
      for (const key of ["deleted", "left"]) await newcomer.lock(key);
    });
  });

  describe.concurrent("a service that drains", () => {
    it("takes on nothing new, finishes what it has, and goes on when it is told to", async ({ expect }) => {
      await using server = await host.start();
      const api = new Api(server);
      const [s, queued] = await api.sessions(2);
      const lease = { lease_ttl_s: 60 };
      const [held, contended] = [await s.lock("held", lease), await s.lock("contended", lease)];
      expectJson(await queued.post("/v1/locks/contended/enqueue", {}), 200, { status: "queued" });
      await server.restart({ DRAINING: "true" });

      expectJson(await api.get("/ready"), 503, { status: "draining" });
      expectError(await api.post("/v1/sessions"), 503, "draining");
      for (const [path, body] of [
        ["locks/new", TRY],
        ["locks/new/enqueue", {}],
        ["semaphores/new", { ...TRY, limit: 2 }],
        ["semaphores/new/enqueue", { limit: 2 }],
      ] as const) {
        expectError(await s.post(`/v1/${path}`, body), 503, "draining");
      }
      using clients = new Clients(server);
      for (const client of [await clients.tcp(), await clients.ws()]) {
        expect(await ask(client, "l", "new", "0")).toBe("error_draining");
      }
      const waiting = queued.start("/v1/locks/contended/wait", { timeout_s: 60 });
      expectJson(await s.post("/v1/locks/held/renew", { token: held }), 200, { remaining_s: 33 });
      await s.release("held", held);
      await s.release("contended", contended);
      const token = grantIn(await waiting.reply);
      expectNoContent(await queued.ping());
      await server.restart({ DRAINING: "false" });

      expectJson(await api.get("/ready"), 200, { status: "ok" });
      expectJson(await s.post("/v1/locks/contended", TRY), 200, TIMEOUT);
      await queued.release("contended", token);
      await s.lock("new");
      expectNoContent(await s.end());
    });
  });
});
