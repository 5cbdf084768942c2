/** Probes, stats, metrics, the OpenAPI document, and what is not there. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { openApiDocument } from "../../../src/http/openapi/document.ts";
import { parseExposition, sampleValue } from "../../metrics/parse.ts";
import { HOSTS } from "../../support/hosts.ts";
import { sleep } from "../../support/poll.ts";
import { expectError, expectJson } from "../../support/replies.ts";
import { Api } from "../../support/rest.ts";
import type { TestServer } from "../../support/server.ts";

/** Stats and metrics show everything that was answered so long ago. */
const FRESHNESS_S = 1;

describe.each(HOSTS)("operations over HTTP, on $name", (host) => {
  let server: TestServer;
  let api: Api;
  beforeAll(async () => {
    server = await host.start();
    api = new Api(server);
  });
  afterAll(() => server.stop());

  /** Tells a story on a service of its own, on which nothing has happened yet. */
  async function onNewService(
    story: (api: Api) => Promise<void>,
    variables: Record<string, string> = {},
  ): Promise<void> {
    await using own = await host.start({ variables });
    await story(new Api(own));
  }

  describe("the probes", () => {
    it("health is answered, as JSON that nobody is to interpret otherwise [HC01]", async () => {
      const reply = await api.get("/health");
      expectJson(reply, 200, { status: "ok" });
      expect(reply.headers).toMatchObject({
        "content-type": "application/json",
        "x-content-type-options": "nosniff",
        "cache-control": "no-store",
      });
    });

    it("HEAD is answered like GET, but without a body, here and wherever there is a GET [HC02]", async () => {
      for (const path of ["/health", "/ready", "/metrics", "/v1/openapi.json", "/v1/stats"]) {
        const reply = await api.ask("HEAD", path);
        expect(reply, path).toMatchObject({ status: 200, body: "" });
        // The length of a body that is not sent may stay unsaid, and the platform does not say it (workerd 2026-11).
        const { "content-length": _, ...headers } = (await api.get(path)).headers;
        expect(reply.headers, path).toEqual(headers);
      }
    });

    it("ready is answered [HC03]", async () => {
      expectJson(await api.get("/ready"), 200, { status: "ok" });
    });

    describe("of a service that drains", () => {
      let draining: TestServer;
      beforeAll(async () => {
        draining = await host.start({ variables: { DRAINING: "true" } });
      });
      afterAll(() => draining.stop());

      it("ready says so with 503 [HC04]", async () => {
        expectJson(await new Api(draining).get("/ready"), 503, { status: "draining" });
      });

      it("health is what it was [HC05]", async () => {
        expectJson(await new Api(draining).get("/health"), 200, { status: "ok" });
      });
    });
  });

  // A deployed Worker cannot refuse to start. Node can, and its operator is there to read why.
  if (host.name === "Cloudflare")
    describe("a service with a bad variable", () => {
      it("lives, is not ready, and names the variable to everybody else [HC06]", async () => {
        await onNewService(
          async (misconfigured) => {
            expectJson(await misconfigured.get("/health"), 200, { status: "ok" });
            expectJson(await misconfigured.get("/ready"), 503, { status: "misconfigured" });
            const detail = "invalid configuration variable READ_TIMEOUT_S";
            expectJson(await misconfigured.get("/v1/stats"), 500, { error: "misconfigured", detail });
          },
          { READ_TIMEOUT_S: "0" },
        );
      });

      it("names a variable that has no meaning here [HC07]", async () => {
        await onNewService(
          async (misconfigured) => {
            expectError(await misconfigured.post("/v1/sessions"), 500, "misconfigured", "AUTH_TOKEN_FILE");
          },
          { AUTH_TOKEN_FILE: "x" },
        );
      });
    });

  if (host.name === "Node")
    describe("a bad variable", () => {
      it.each([
        ["READ_TIMEOUT_S", "0", /^READ_TIMEOUT_S must be a whole number from 1 to [0-9]+$/],
        ["AUTH_TOKEN_FILE", "x", /^AUTH_TOKEN_FILE .+$/],
      ])("such as %s keeps the service from starting, and is named in one line", async (name, value, line) => {
        await expect(host.start({ variables: { [name]: value } })).rejects.toThrow(line);
      });
    });

  describe.concurrent("stats", () => {
    it("of a new service are empty [HC08]", async () => {
      await onNewService(async (fresh) => {
        expectJson(await fresh.get("/v1/stats"), 200, {
          connections: 0,
          locks: [],
          semaphores: [],
          idle_locks: [],
          idle_semaphores: [],
        });
      });
    });

    it("count a session as a connection [HC09]", async () => {
      await onNewService(async (fresh) => {
        await fresh.session();
        await sleep(FRESHNESS_S);
        expect(await fresh.stats()).toMatchObject({ connections: 1 });
      });
    });

    it("show a lock with its owner, its lease and its waiters [HC10]", async () => {
      await onNewService(async (fresh) => {
        const [s, s2] = await fresh.sessions(2);
        await s.lock("k");
        await s2.waitInLine("k", 60);
        await sleep(FRESHNESS_S);
        const { connections, locks } = await fresh.stats();
        expect(connections).toBe(2);
        expect(locks).toEqual([
          { key: "k", owner_conn_id: expect.any(Number), lease_expires_in_s: expect.any(Number), waiters: 1 },
        ]);
        const { owner_conn_id = 0, lease_expires_in_s = Number.NaN } = locks[0] ?? {};
        expect(Number.isSafeInteger(owner_conn_id) && owner_conn_id >= 1).toBe(true);
        expect(lease_expires_in_s).toBeLessThanOrEqual(33);
        expect(lease_expires_in_s).toBeGreaterThan(25);
        await s2.end();
      });
    });

    it("show a semaphore with its limit and its holders [HC11]", async () => {
      await onNewService(async (fresh) => {
        const s = await fresh.session();
        await s.take("p", 3);
        await s.take("p", 3);
        await sleep(FRESHNESS_S);
        expect((await fresh.stats()).semaphores).toEqual([{ key: "p", limit: 3, holders: 2, waiters: 0 }]);
      });
    });

    it("show a released lock among the idle ones [HC12]", async () => {
      await onNewService(async (fresh) => {
        const s = await fresh.session();
        await s.release("k", await s.lock("k"));
        await sleep(FRESHNESS_S);
        const { locks, idle_locks } = await fresh.stats();
        expect(locks).toEqual([]);
        expect(idle_locks).toEqual([{ key: "k", idle_s: expect.any(Number) }]);
      });
    });
  });

  describe.concurrent("metrics", () => {
    it("of a new service say that it is ready and nobody is connected [HC13]", async () => {
      await onNewService(async (fresh) => {
        const reply = await fresh.get("/metrics");
        expect(reply.status).toBe(200);
        expect(reply.headers["content-type"]).toBe("text/plain; version=0.0.4; charset=utf-8");
        expect(() => parseExposition(reply.body)).not.toThrow();
        expect(reply.body.split("\n")).toEqual(expect.arrayContaining(["dflockd_ready 1", "dflockd_connections 0"]));
      });
    });

    it("show a lock that has been held for a second, its session and its grant [HC14]", async () => {
      await onNewService(async (fresh) => {
        await (await fresh.session()).lock("k");
        await sleep(FRESHNESS_S);
        const lines = (await fresh.get("/metrics")).body.split("\n");
        expect(lines).toEqual(
          expect.arrayContaining([
            "dflockd_locks_held 1",
            "dflockd_http_sessions 1",
            'dflockd_grants_total{kind="lock",how="immediate"} 1',
          ]),
        );
      });
    });

    it("put requests with whatever method to unknown paths into one series [HC22]", async () => {
      // Methods that Node or workerd has never heard of are answered with 501 before the Worker sees them (2026-11), so the
      // fifty requests share the unusual ones that both let through.
      const methods = (
        "PUT PATCH PURGE COPY LOCK MKCOL MOVE PROPFIND PROPPATCH SEARCH UNLOCK ACL REPORT MKACTIVITY CHECKOUT MERGE " +
        "NOTIFY SUBSCRIBE UNSUBSCRIBE QUERY"
      ).split(" ");
      await onNewService(async (fresh) => {
        for (let count = 0; count < 50; count += 1) {
          expectError(await fresh.ask(methods[count % methods.length] ?? "", "/nope"), 404, "not_found");
        }
        const families = parseExposition((await fresh.get("/metrics")).body);
        const labels = { method: "OTHER", path: "unmatched", status: "404" };
        expect(sampleValue(families, "dflockd_http_requests_total", labels)).toBe(50);
        const counted = families.find(({ name }) => name === "dflockd_http_requests_total")?.samples ?? [];
        expect(counted.filter((sample) => sample.labels.status === "404")).toHaveLength(1);
      });
    });
  });

  it("the OpenAPI document is served, may be cached for a minute, and is the one of this version [HC15]", async () => {
    const reply = await api.get("/v1/openapi.json");
    expect(reply.status).toBe(200);
    expect(reply.headers["cache-control"]).toBe("public, max-age=60");
    expect(JSON.parse(reply.body)).toMatchObject({ openapi: "3.1.0" });
    // All replies in these tests are judged by the document in the source: it has to be the one that is served.
    expect(reply.body).toBe(openApiDocument());
  });

  describe("what is not there", () => {
    it("an unknown path answers 404 [HC16]", async () => {
      expectJson(await api.get("/nope"), 404, {
        error: "not_found",
        detail: 'there is nothing at "/nope"; /docs lists all routes',
      });
      expectError(await api.get(`/${"n".repeat(99)}`), 404, "not_found", `"/${"n".repeat(63)}"…`);
    });

    it("GET on a lock answers 405 and allows POST [HC17]", async () => {
      const reply = await api.get("/v1/locks/k");
      expectJson(reply, 405, {
        error: "method_not_allowed",
        detail: 'method "GET" is not allowed here; use POST',
      });
      expect(reply.headers.allow).toBe("POST");
    });

    it("POST on a probe answers 405 and allows GET and HEAD [HC18]", async () => {
      const reply = await api.post("/health");
      expectJson(reply, 405, { error: "method_not_allowed" });
      expect(reply.headers.allow).toBe("GET, HEAD");
    });

    it("GET on a session answers 405 and allows DELETE [HC19]", async () => {
      const reply = await api.get(`/v1/sessions/${"a".repeat(32)}`);
      expectJson(reply, 405, { error: "method_not_allowed" });
      expect(reply.headers.allow).toBe("DELETE");
    });

    it("OPTIONS without CORS is a method like any other [HC20]", async () => {
      const reply = await api.ask("OPTIONS", "/v1/stats");
      expectJson(reply, 405, { error: "method_not_allowed" });
      expect(reply.headers.allow).toBe("GET, HEAD");
    });

    it("the read index of a cluster answers 404 [HC21]", async () => {
      expectJson(await api.get("/v1/readindex"), 404, { error: "not_found" });
    });
  });
});
