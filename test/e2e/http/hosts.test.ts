/** Which names an open service answers to, and which pages may open a WebSocket to it. */
import { describe, expect, it } from "vitest";
import { HOSTS } from "../../support/hosts.ts";
import { expectJson } from "../../support/replies.ts";
import { Api } from "../../support/rest.ts";

const HOST_FORBIDDEN = { error: "host_forbidden" };
const ORIGIN_FORBIDDEN = { error: "origin_forbidden" };
const EVIL = "evil.example";
const ROUTES = ["/", "/health", "/ready", "/metrics", "/v1/openapi.json", "/v1/stats", "/v1/keys/k", "/no/such/route"];

/** What `holdfast serve` and `npm run dev` set if there is no token. */
const OPEN = { HTTP_ALLOWED_HOSTS: "localhost" };

describe.each(HOSTS)("names and pages, on $name", (host) => {
  async function open(variables: Record<string, string>) {
    const server = await host.start({ variables });
    return {
      server,
      api: new Api(server),
      here: `127.0.0.1:${server.httpPort}`,
      port: server.httpPort,
      [Symbol.asyncDispose]: () => server.stop(),
    };
  }

  describe("a service for this machine, without a token", () => {
    it("answers to this machine's names and to addresses, not to a name from elsewhere [HC134]", async () => {
      await using service = await open(OPEN);
      const { api, port, server } = service;
      expectJson(await api.get("/v1/stats", { Host: EVIL }), 421, HOST_FORBIDDEN);
      for (const name of ["localhost", `LOCALHOST:${port}`, "app.localhost.", "192.0.2.7", `[2001:db8::7]:${port}`])
        expect((await api.get("/v1/stats", { Host: name })).status, name).toBe(200);
      for (const path of ROUTES) expectJson(await api.get(path, { Host: EVIL }), 421, HOST_FORBIDDEN);
      expectJson(await api.post("/v1/sessions", undefined, { Host: EVIL }), 421, HOST_FORBIDDEN);
      // Its page and the service would share an origin: that counts for nothing.
      expectJson(await api.upgrade({ Host: EVIL, Origin: `http://${EVIL}` }), 421, HOST_FORBIDDEN);
      expectJson(await api.upgrade({ Host: EVIL }), 421, HOST_FORBIDDEN);
      await expect
        .poll(() => server.log)
        .toMatch(/"event":"host_forbidden","host":"evil\.example","advice":"[^"]*--http-allowed-hosts/);
    });

    it("answers to the names that it is told are its own [HC135]", async () => {
      await using service = await open({ HTTP_ALLOWED_HOSTS: "locks.lan" });
      const { api } = service;
      expect((await api.get("/v1/stats", { Host: "locks.lan" })).status).toBe(200);
      expect((await api.get("/v1/stats", { Host: "Locks.LAN.:6389" })).status).toBe(200);
      expectJson(await api.get("/v1/stats", { Host: EVIL }), 421, HOST_FORBIDDEN);
      expect((await api.upgrade({ Host: "locks.lan", Origin: "http://locks.lan" })).status).toBe(101);
      expectJson(await api.upgrade({ Host: "locks.lan", Origin: `http://${EVIL}` }), 403, ORIGIN_FORBIDDEN);
    });

    it("answers to every name if told so", async () => {
      await using service = await open({ HTTP_ALLOWED_HOSTS: "*" });
      expect((await service.api.get("/v1/stats", { Host: EVIL })).status).toBe(200);
    });

    it("opens WebSockets to programs and to pages of this machine, not to a page from elsewhere [HC132]", async () => {
      await using service = await open(OPEN);
      const { api, here, port } = service;
      const upgrade = async (headers: Record<string, string>) => (await api.upgrade({ Host: here, ...headers })).status;
      expectJson(await api.upgrade({ Host: here, Origin: `http://${EVIL}` }), 403, ORIGIN_FORBIDDEN);
      expect(await upgrade({})).toBe(101);
      expect(await upgrade({ Origin: `http://${here}` })).toBe(101);
      for (const origin of [
        "http://localhost:5173",
        "https://app.localhost",
        "http://127.0.0.2:81",
        "http://[::1]:8080",
      ])
        expect(await upgrade({ Origin: origin }), origin).toBe(101);
      for (const origin of ["null", "https://localhost.evil.example", "http://192.168.0.9", "file://"])
        expect(await upgrade({ Origin: origin }), origin).toBe(403);
      // On another machine, a page of the machine that its reader sits at is a stranger's.
      expect(await upgrade({ Host: `192.0.2.7:${port}`, Origin: "http://localhost:5173" })).toBe(403);
      expect(await upgrade({ Host: `192.0.2.7:${port}`, Origin: `http://192.0.2.7:${port}` })).toBe(101);
    });

    it("leaves the choice of pages to the list of origins, where there is one", async () => {
      await using service = await open({ ...OPEN, HTTP_CORS_ALLOWED_ORIGINS: "https://app.example" });
      const { api, here } = service;
      const upgrade = async (origin: string) => (await api.upgrade({ Host: here, Origin: origin })).status;
      expect(await upgrade("https://app.example")).toBe(101);
      expect(await upgrade(`http://${here}`)).toBe(101);
      expect(await upgrade("http://localhost:5173")).toBe(403);
      await using everybodys = await open({ ...OPEN, HTTP_CORS_ALLOWED_ORIGINS: "*" });
      expect((await everybodys.api.upgrade({ Host: "localhost", Origin: `http://${EVIL}` })).status).toBe(101);
    });
  });

  describe("a service with a token", () => {
    const AUTH_TOKEN = "secret";
    const BEARER = { Authorization: `Bearer ${AUTH_TOKEN}` };

    it("opens WebSockets to every page that has the token, under every name [HC133]", async () => {
      await using service = await open({ AUTH_TOKEN });
      const { api } = service;
      expect((await api.upgrade({ ...BEARER, Origin: `http://${EVIL}` })).status).toBe(101);
      expect((await api.get("/v1/stats", { ...BEARER, Host: EVIL })).status).toBe(200);
    });

    it("answers only to the names it is told, if it is told some, before it asks for the token", async () => {
      await using service = await open({ AUTH_TOKEN, HTTP_ALLOWED_HOSTS: "locks.lan" });
      const { api } = service;
      expectJson(await api.get("/v1/stats", { Host: EVIL }), 421, HOST_FORBIDDEN);
      expect((await api.get("/v1/stats", { ...BEARER, Host: "locks.lan" })).status).toBe(200);
      expect((await api.get("/v1/stats", { ...BEARER, Host: "localhost" })).status).toBe(200);
    });
  });
});
