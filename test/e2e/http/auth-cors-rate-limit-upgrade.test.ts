/** Who may ask, from which pages, how often, and how a connection becomes a WebSocket. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { Clients } from "../../support/clients.ts";
import { HOSTS } from "../../support/hosts.ts";
import type { HttpReply } from "../../support/http-client.ts";
import { sleep } from "../../support/poll.ts";
import { expectJson, expectNoContent } from "../../support/replies.ts";
import { Api } from "../../support/rest.ts";
import type { TestServer } from "../../support/server.ts";

const UNAUTHORIZED = { error: "unauthorized" };
const [A, B, C] = ["https://a.example", "https://b.example", "https://c.example"];

describe.each(HOSTS)("access over HTTP, on $name", (host) => {
  /** A server with these variables for the tests of a `describe`. */
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

  const corsHeaders = ({ headers }: HttpReply) =>
    Object.fromEntries(Object.entries(headers).filter(([name]) => name.startsWith("access-control-")));

  /** What every page that is let in may do, and for how long it may remember that. */
  const GRANTED = {
    "access-control-allow-methods": "GET, POST, DELETE, OPTIONS",
    // The last one is not dflockd's: with it a client may give itself a name.
    "access-control-allow-headers": "Authorization, Content-Type, X-Dflockd-Session",
    "access-control-max-age": "300",
    "access-control-expose-headers": "Retry-After",
  };

  describe("a service with a token", () => {
    const guarded = serverWith({ AUTH_TOKEN: "secret" });

    it("refuses who shows none, after a pause [HC98]", async () => {
      const reply = await guarded.api.get("/v1/stats");
      expectJson(reply, 401, UNAUTHORIZED);
      expect(reply.headers["www-authenticate"]).toBe("Bearer");
      expect(reply.ms).toBeGreaterThanOrEqual(80);
    });

    it("refuses who shows another one, after the same pause [HC99]", async () => {
      const reply = await guarded.api.get("/v1/stats", { Authorization: "Bearer wrong" });
      expectJson(reply, 401, UNAUTHORIZED);
      expect(reply.headers["www-authenticate"]).toBe("Bearer");
      expect(reply.ms).toBeGreaterThanOrEqual(80);
    });

    it("tells a missing token from a wrong one and from one that is not sent as Bearer, and repeats none", async () => {
      const detailOf = async (path: string, headers: Record<string, string>) => {
        const reply = await guarded.api.get(path, headers);
        expect(reply.status).toBe(401);
        return (JSON.parse(reply.body) as { detail: string }).detail;
      };
      const stats = (Authorization?: string) => detailOf("/v1/stats", Authorization ? { Authorization } : {});
      const [missing, wrong, bare, basic, empty] = await Promise.all(
        [undefined, "Bearer s3cr3t", "s3cr3t", "Basic czNjcjN0", "Bearer"].map(stats),
      );
      expect(missing).toBe("no token was sent; send the header `Authorization: Bearer <token>`");
      expect(wrong).toMatch(/^the token is refused: .*AUTH_TOKEN/);
      expect(bare).toMatch(/does not begin with Bearer; send the header/);
      expect(basic).toBe(bare);
      expect(empty).toMatch(/has no token after Bearer; send the header/);
      expect(await detailOf("/v1/files/k", { Authorization: "Basic czNjcjN0" })).toMatch(/^the password is refused: /);
      expect([missing, wrong, bare, basic, empty].join()).not.toMatch(/s3cr3t|czNjcjN0/);
    });

    it("tells a WebSocket client whether its token or its ticket is refused", async () => {
      const detailOf = (reply: HttpReply) => (JSON.parse(reply.body) as { detail: string }).detail;
      const wrong = await guarded.api.upgrade({ Authorization: "Bearer wrong" });
      expect([wrong.status, detailOf(wrong)]).toEqual([401, expect.stringMatching(/^the token is refused/)]);
    });

    it("does not mind blanks around it, nor how the scheme is written [HC100]", async () => {
      expect((await guarded.api.get("/v1/stats", { Authorization: "bearer   secret " })).status).toBe(200);
    });

    it("tells a stranger neither its load nor which routes it has [HC101]", async () => {
      expectJson(await guarded.api.get("/metrics"), 401, UNAUTHORIZED);
      expectJson(await guarded.api.get("/nope"), 401, UNAUTHORIZED);
      expectJson(await guarded.api.post("/v1/stats"), 401, UNAUTHORIZED);
    });

    it("answers probes, and shows its document, to everybody [HC102]", async () => {
      for (const path of ["/health", "/ready", "/v1/openapi.json"]) {
        expect((await guarded.api.get(path)).status).toBe(200);
      }
    });

    it("lets a socket in by its bearer token, or else asks for auth first [HC116]", async () => {
      expectJson(await guarded.api.upgrade({ Authorization: "Bearer wrong" }), 401, UNAUTHORIZED);
      using clients = new Clients(guarded.server);
      const [known, unknown] = [await clients.ws({ headers: { Authorization: "Bearer secret" } }), await clients.ws()];
      known.send("ping\n_\n_\n");
      expect(await known.next()).toBe("ok\n");
      unknown.send("ping\n_\n_\n");
      expect(await unknown.next()).toBe("error_auth\n");
      await unknown.closed();
    });
  });

  describe("a service without settings", () => {
    const plain = serverWith({});

    it("does not look at tokens [HC103]", async () => {
      expect((await plain.api.get("/v1/stats", { Authorization: "Bearer anything" })).status).toBe(200);
    });

    it("says nothing about origins [HC104]", async () => {
      const reply = await plain.api.get("/v1/stats", { Origin: A });
      expect(reply.status).toBe(200);
      expect(corsHeaders(reply)).toEqual({});
      expect(reply.headers).not.toHaveProperty("vary");
    });

    it("asks for an upgrade where only a WebSocket is spoken [HC114]", async () => {
      // No look at the `Upgrade` header: workerd keeps it from leaving with anything but a 101 (2026-11).
      expectJson(await plain.api.get("/v1/ws"), 426, { error: "upgrade_required" });
    });

    it("speaks dflockd.v2 over a WebSocket to whoever offers it, and does not mind other offers [HC115]", async () => {
      const chosen = async (headers: Record<string, string>) => {
        const reply = await plain.api.upgrade(headers);
        expect(reply.status).toBe(101);
        return reply.headers["sec-websocket-protocol"];
      };
      expect(await chosen({ "Sec-WebSocket-Protocol": "dflockd.v2" })).toBe("dflockd.v2");
      expect(await chosen({})).toBeUndefined();
      expect(await chosen({ "Sec-WebSocket-Protocol": "x.y" })).toBeUndefined();
    });
  });

  describe("a service whose token is not ASCII", () => {
    const guarded = serverWith({ AUTH_TOKEN: "пароль" });
    /** As curl sends it: in the bytes of UTF-8. */
    const bytes = (token: string) => ({ Authorization: `Bearer ${Buffer.from(token).toString("latin1")}` });

    it("takes it over HTTP, at an upgrade and in the first frame", async () => {
      expect((await guarded.api.get("/v1/stats", bytes("пароль"))).status).toBe(200);
      expect((await guarded.api.upgrade(bytes("пароль"))).status).toBe(101);
      using clients = new Clients(guarded.server);
      for (const client of await clients.mixed(2)) {
        client.send("auth\n_\nпароль\n");
        expect(await client.next()).toBe("ok\n");
      }
    });

    it("refuses others", async () => {
      expectJson(await guarded.api.get("/v1/stats", bytes("пароли")), 401, UNAUTHORIZED);
      expect((await guarded.api.upgrade(bytes("пароли"))).status).toBe(401);
    });
  });

  describe("a service that lists origins", () => {
    const listing = serverWith({ HTTP_CORS_ALLOWED_ORIGINS: `${A}, ${B}` });

    it("lets pages of a listed origin read its replies, errors too [HC105]", async () => {
      for (const [path, status] of [
        ["/v1/stats", 200],
        ["/nope", 404],
      ] as const) {
        const reply = await listing.api.get(path, { Origin: B });
        expect(reply.status).toBe(status);
        expect(corsHeaders(reply)).toEqual({ "access-control-allow-origin": B, ...GRANTED });
        expect(reply.headers.vary).toBe("Origin");
      }
    });

    it("answers pages of others as if they had no origin [HC106]", async () => {
      const reply = await listing.api.get("/v1/stats", { Origin: C });
      expect(reply.status).toBe(200);
      expect(corsHeaders(reply)).toEqual({});
    });
  });

  describe("a service that is open to all origins", () => {
    const open = serverWith({ HTTP_CORS_ALLOWED_ORIGINS: "*" });

    it("says so [HC107]", async () => {
      const reply = await open.api.get("/v1/stats", { Origin: C });
      expect(reply.status).toBe(200);
      expect(corsHeaders(reply)).toEqual({ "access-control-allow-origin": "*", ...GRANTED });
    });

    it("takes OPTIONS for a preflight only when it is one [HC109]", async () => {
      const reply = await open.api.ask("OPTIONS", "/v1/stats");
      expectJson(reply, 405, { error: "method_not_allowed" });
      expect(reply.headers.allow).toBe("GET, HEAD");
    });
  });

  it("a preflight needs no token [HC108]", async () => {
    await using server = await host.start({ variables: { HTTP_CORS_ALLOWED_ORIGINS: "*", AUTH_TOKEN: "secret" } });
    const headers = { Origin: C, "Access-Control-Request-Method": "POST" };
    const reply = await new Api(server).ask("OPTIONS", "/v1/locks/k", undefined, headers);
    expectNoContent(reply);
    expect(corsHeaders(reply)).toEqual({ "access-control-allow-origin": "*", ...GRANTED });
  });

  it("a WebSocket is opened only from listed origins, or from no page at all [HC117]", async () => {
    await using server = await host.start({ variables: { HTTP_CORS_ALLOWED_ORIGINS: A } });
    const api = new Api(server);
    expectJson(await api.upgrade({ Origin: C }), 403, { error: "origin_forbidden" });
    expect((await api.upgrade({ Origin: A })).status).toBe(101);
    expect((await api.upgrade()).status).toBe(101);
  });

  const RATE = { HTTP_RATE_LIMIT_PER_IP: "1", HTTP_RATE_LIMIT_BURST: "2", CLIENT_IP_HEADER: "CF-Connecting-IP" };

  /** One request more than an address may make at once; the statuses of the replies, sorted. */
  async function exhaust(api: Api): Promise<number[]> {
    const replies = await Promise.all([1, 2, 3].map(() => api.get("/v1/stats")));
    return replies.map(({ status }) => status).toSorted();
  }

  describe("a service with a rate limit", () => {
    const limited = serverWith(RATE);
    const from = (address: string) => limited.api.with({ "CF-Connecting-IP": address });

    it("answers a burst, refuses the next, and says when to come back [HC110]", async () => {
      const api = from("192.0.2.10");
      const replies = await Promise.all([1, 2, 3].map(() => api.get("/v1/stats")));
      expect(replies.map(({ status }) => status).toSorted()).toEqual([200, 200, 429]);
      const refused = replies.find(({ status }) => status === 429) as HttpReply;
      expectJson(refused, 429, { error: "rate_limited" });
      expect(refused.headers["retry-after"]).toBe("1");
      await sleep(Number(refused.headers["retry-after"]));
      expect((await api.get("/v1/stats")).status).toBe(200);
    });

    it("answers probes of an address that has used up its requests, and does not count them [HC111]", async () => {
      const api = from("192.0.2.11");
      const probes = Array.from({ length: 10 }, (_, index) => api.get(index % 2 === 0 ? "/health" : "/ready"));
      const [statuses, answers] = await Promise.all([exhaust(api), Promise.all(probes)]);
      expect(statuses).toEqual([200, 200, 429]);
      for (const answer of answers) expectJson(answer, 200, { status: "ok" });
    });

    it("counts each address for itself [HC113]", async () => {
      const other = from("192.0.2.2");
      const [statuses, ...replies] = await Promise.all([
        exhaust(from("192.0.2.1")),
        other.get("/v1/stats"),
        other.get("/v1/stats"),
      ]);
      expect(statuses).toEqual([200, 200, 429]);
      expect(replies.map(({ status }) => status)).toEqual([200, 200]);
    });
  });

  it("who asks too often is told so before he is asked who he is [HC112]", async () => {
    await using server = await host.start({ variables: { ...RATE, AUTH_TOKEN: "secret" } });
    expect(await exhaust(new Api(server, { "CF-Connecting-IP": "192.0.2.12" }))).toEqual([401, 401, 429]);
  });

  it("no more sockets are opened than the service may have [HC118]", async () => {
    await using server = await host.start({ variables: { MAX_CONNECTIONS: "1" } });
    using clients = new Clients(server);
    await clients.ws();
    expectJson(await new Api(server).upgrade(), 503, { error: "max_connections" });
  });

  it("a service that drains still opens sockets, and says there that it drains [HC119]", async () => {
    await using server = await host.start({ variables: { DRAINING: "true" } });
    using clients = new Clients(server);
    const client = await clients.ws();
    client.send("l\nk\n0\n");
    expect(await client.next()).toBe("error_draining\n");
  });
});
