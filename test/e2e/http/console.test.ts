/** How the console is served. What it does in a browser: `test/console/`. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { HOSTS } from "../../support/hosts.ts";
import { Api } from "../../support/rest.ts";
import type { TestServer } from "../../support/server.ts";

const FILES = [
  ["/", "text/html; charset=utf-8"],
  ["/console.js", "text/javascript; charset=utf-8"],
  ["/console.css", "text/css; charset=utf-8"],
] as const;

describe.each(HOSTS)("the console, served on $name", (host) => {
  let open: TestServer;
  let closed: TestServer;
  beforeAll(async () => {
    const variables = { AUTH_TOKEN: "secret", HTTP_CORS_ALLOWED_ORIGINS: "https://app.example" };
    [open, closed] = await Promise.all([host.start(), host.start({ variables })]);
  });
  afterAll(() => Promise.all([open.stop(), closed.stop()]));

  describe.each(FILES)("%s", (path, type) => {
    it("is served to everybody, also where a token is needed: it contains nothing of the service", async () => {
      const [here, there] = await Promise.all([new Api(open).get(path), new Api(closed).get(path)]);
      for (const reply of [here, there]) {
        expect(reply.status).toBe(200);
        expect(reply.headers).toMatchObject({
          "content-type": type,
          // Whether a token is needed stands in the page.
          "cache-control": path === "/" ? "no-store" : "public, max-age=60",
          "x-content-type-options": "nosniff",
        });
      }
      expect(here.body.length).toBeGreaterThan(500);
    });

    it("takes HEAD, and no other method", async () => {
      const api = new Api(open);
      expect(await api.ask("HEAD", path)).toMatchObject({ status: 200, body: "" });
      const posted = await api.post(path, {});
      expect(posted).toMatchObject({ status: 405, headers: { allow: "GET, HEAD" } });
    });
  });

  describe("the page", () => {
    it("may run and show nothing but what the service itself serves", async () => {
      const { headers, body } = await new Api(open).get("/");
      const policy = String(headers["content-security-policy"]);
      expect(policy).toContain("default-src 'none'");
      expect(policy).toContain("script-src 'self'");
      expect(policy).toContain("style-src 'self'");
      expect(policy).not.toMatch(/unsafe|\*|https?:/);
      expect(headers["referrer-policy"]).toBe("no-referrer");
      expect(body).not.toMatch(/<style|\sstyle=|\son\w+=/);
      expect([...body.matchAll(/<script[^>]*>([^<]*)</g)].map(([, inline]) => inline)).toEqual([""]);
      const loaded = [...body.matchAll(/\s(?:src|href)="([^"]*)"/g)].map(([, address]) => address);
      expect(loaded.filter((address) => !address?.startsWith("/") && !address?.startsWith("data:"))).toEqual([]);
      expect(loaded).toContain("/console.js");
    });

    it("says whether a token is needed, so that nothing has to be asked for that", async () => {
      expect((await new Api(open).get("/")).body).toContain('name="holdfast-access" content="open"');
      expect((await new Api(closed).get("/")).body).toContain('name="holdfast-access" content="token"');
    });

    it("quotes the address it was asked by", async () => {
      const { body } = await new Api(open).get("/", { Host: "locks.example:81" });
      expect(body).toContain("curl http://locks.example:81/v1/stats");
    });
  });

  it("a page of the service's own origin may open a WebSocket, whatever the list of origins says", async () => {
    const host = `127.0.0.1:${closed.httpPort}`;
    const api = new Api(closed, { Authorization: "Bearer secret", Host: host });
    expect((await api.upgrade({ Origin: `http://${host}` })).status).toBe(101);
    expect((await api.upgrade({ Origin: "https://app.example" })).status).toBe(101);
    for (const origin of [`https://${host}`, "http://127.0.0.1", "null", "https://other.example"])
      expect((await api.upgrade({ Origin: origin })).status).toBe(403);
  });
});
