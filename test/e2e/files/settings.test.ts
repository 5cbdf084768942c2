/** Files and the service's settings: who may do what, from which pages, and when nothing new is taken. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { basic, CREATE, Files, fenceIn, lockTextIn } from "../../support/files.ts";
import { HOSTS } from "../../support/hosts.ts";
import { expectError, expectJson, expectNoContent } from "../../support/replies.ts";
import { Api, freshKey } from "../../support/rest.ts";
import type { TestServer } from "../../support/server.ts";

const UNAUTHORIZED = { error: "unauthorized" };
const PAGE = "https://a.example";

describe.each(HOSTS)("files and settings, on $name", (host) => {
  function serverWith(variables: Record<string, string>): { readonly server: TestServer; readonly api: Api } {
    let server: TestServer;
    beforeAll(async () => {
      server = await host.start({ variables });
    });
    afterAll(() => server.stop());
    return {
      get server() {
        return server;
      },
      get api() {
        return new Api(server);
      },
    };
  }

  describe("a service with a token", () => {
    const guarded = serverWith({ AUTH_TOKEN: "secret", HTTP_CORS_ALLOWED_ORIGINS: PAGE });
    const bearer = (token: string) => ({ Authorization: `Bearer ${token}` });

    it("takes it as bearer token or as password, whatever the user name [E38]", async () => {
      const { api } = guarded;
      expectJson(await api.get("/v1/files/a"), 401, UNAUTHORIZED);
      for (const headers of [bearer("secret"), basic("secret"), basic("secret", ""), basic("secret", "ädä")]) {
        expectJson(await api.get("/v1/files/a", headers), 404, { error: "not_held" });
      }
      const wrong = [basic("wrong"), basic(""), { Authorization: "Basic %%%" }, { Authorization: "Basic c2VjcmV0" }];
      for (const headers of [...wrong, bearer("wrong")]) {
        const reply = await api.get("/v1/files/a", headers);
        expectJson(reply, 401, UNAUTHORIZED);
        expect(reply.ms).toBeGreaterThanOrEqual(80);
      }
    });

    it("takes a password nowhere else", async () => {
      const { api } = guarded;
      expectJson(await api.get("/v1/stats", basic("secret")), 401, UNAUTHORIZED);
      expectJson(await api.get("/v1/files", basic("secret")), 401, UNAUTHORIZED);
    });

    it("lets a ticket do what it is for", async () => {
      const { api } = guarded;
      const trusted = api.with(bearer("secret"));
      const ticketFor = async (operations: string[]) => {
        const { body } = await trusted.post("/v1/tickets", { keys: ["ci/*"], operations });
        return (JSON.parse(body) as { ticket: string }).ticket;
      };
      const [locker, reader, other] = [
        await ticketFor(["lock"]),
        await ticketFor(["stats"]),
        await ticketFor(["semaphore"]),
      ];
      const as = (ticket: string) => new Files(api.with(bearer(ticket)));
      const fence = fenceIn(await as(locker).create("ci%2F1"), 201);
      expect((await new Files(api.with(basic(locker))).get("ci%2F1")).status).toBe(200);
      expect((await as(reader).get("ci%2F1")).status).toBe(200);
      expectJson(await as(other).get("ci%2F1"), 403, { error: "forbidden" });
      for (const ticket of [reader, other]) {
        expectJson(await as(ticket).create("ci%2F2"), 403, { error: "forbidden" });
        expectJson(await as(ticket).refresh("ci%2F1", "*"), 403, { error: "forbidden" });
        expectJson(await as(ticket).remove("ci%2F1"), 403, { error: "forbidden" });
      }
      expectJson(await as(locker).create("deploy"), 403, { error: "forbidden" });
      const terraform = await api.ask("LOCK", "/v1/terraform/deploy", { ID: "a1" }, basic(locker));
      expectJson(terraform, 403, { error: "forbidden" });
      expectNoContent(await as(locker).remove("ci%2F1", `"${fence}"`));
    });

    it("lets a page of an allowed origin write files, and read what it needs for that", async () => {
      const asked = { Origin: PAGE, "Access-Control-Request-Method": "PUT" };
      const preflight = await guarded.api.ask("OPTIONS", "/v1/files/a", undefined, asked);
      expect(preflight.status).toBe(204);
      expect(preflight.headers).toMatchObject({
        "access-control-allow-origin": PAGE,
        "access-control-allow-methods": "GET, POST, DELETE, OPTIONS, PUT",
        "access-control-allow-headers":
          "Authorization, Content-Type, X-Dflockd-Session, If-Match, If-None-Match, X-Stale-Timeout",
      });
      const reply = await guarded.api.get("/v1/files/a", { Origin: PAGE, ...bearer("secret") });
      expect(reply.headers["access-control-expose-headers"]).toBe("Retry-After, ETag, X-Stale-Timeout, X-Expires-In");
      const elsewhere = await guarded.api.ask("OPTIONS", "/v1/locks/a", undefined, asked);
      expect(elsewhere.headers["access-control-allow-methods"]).toBe("GET, POST, DELETE, OPTIONS");
    });
  });

  describe("a service that drains", () => {
    const drained = serverWith({});

    it("takes no new files; those there are can be read, refreshed and removed [E39]", async () => {
      const { server } = drained;
      const files = () => new Files(new Api(server));
      const fence = await files().held("a");
      await server.restart({ DRAINING: "true" });
      expectJson(await files().create("b"), 503, { error: "draining" });
      expectJson(await files().create("b?wait=5"), 503, { error: "draining" });
      expectJson(await new Api(server).ask("LOCK", "/v1/terraform/t", { ID: "a1" }), 503, { error: "draining" });
      expect(fenceIn(await files().get("a"), 200)).toBe(fence);
      expect(fenceIn(await files().refresh("a", `"${fence}"`), 200)).toBe(fence);
      expectNoContent(await files().remove("a"));
    });
  });

  describe("a service with limits", () => {
    const limited = serverWith({ MAX_LOCKS: "2", HTTP_RATE_LIMIT_PER_IP: "1", HTTP_RATE_LIMIT_BURST: "12" });

    it("counts files among its keys and their requests among its requests", async () => {
      const { api } = limited;
      const files = new Files(api);
      await files.held(freshKey());
      await files.held(freshKey());
      expectError(await files.create(freshKey()), 503, "max_locks");
      expectError(await files.create(`${freshKey()}?wait=5`), 503, "max_locks");
      expectError(await api.ask("LOCK", "/v1/terraform/t", { ID: "a1" }), 503, "max_locks");
      const replies = await Promise.all(Array.from({ length: 30 }, () => files.get("a")));
      expect(replies.map(({ status }) => status)).toContain(429);
    });
  });

  it("an open service minds no credentials", async () => {
    await using server = await host.start();
    const api = new Api(server);
    expect(lockTextIn(await api.ask("PUT", "/v1/files/a", undefined, { ...CREATE, ...basic("any") }), 201).pid).toBe(
      "0",
    );
  });
});
