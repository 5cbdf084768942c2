import { Hono } from "hono";
import { describe, expect, test } from "vitest";
import { type Config, readConfig } from "../../src/core/config/config.ts";
import { cors } from "../../src/http/middleware/cors.ts";
import { checkHost, hostIn, isHostAllowed, isLoopback, isLoopbackOrigin } from "../../src/http/middleware/hosts.ts";
import type { AppEnv } from "../../src/http/request/context.ts";
import { log } from "../../src/log.ts";
import { expectLog } from "../support/expected-logs.ts";

function configWith(variables: Record<string, string>): Config {
  const result = readConfig(variables);
  if (!result.ok) throw new Error(`refused: ${result.bad[0].name}`);
  return result.config;
}

const allows = (list: string, host: string | undefined) =>
  isHostAllowed(configWith({ HTTP_ALLOWED_HOSTS: list }), host);

describe("the host in a header", () => {
  test.each([
    ["localhost", "localhost"],
    ["LocalHost:6389", "localhost"],
    ["locks.lan.", "locks.lan"],
    ["Locks.LAN.:80", "locks.lan"],
    ["locks.lan:", "locks.lan"],
    ["my_host", "my_host"],
    ["xn--bcher-kva.example", "xn--bcher-kva.example"],
    ["192.0.2.7:1", "192.0.2.7"],
    ["[::1]:6389", "[::1]"],
    ["[0:0:0:0:0:0:0:1]", "[::1]"],
    ["[2001:DB8::7]", "[2001:db8::7]"],
  ])("%s is %s: no port, no final dot, small letters", (header, host) => {
    expect(hostIn(header)).toBe(host);
  });

  test.each([
    ...["", ".", "..", ".localhost", "localhost..", "a..localhost", "localhost:x", "localhost:80:80", ":80"],
    ...["localhost,evil.example", "localhost evil.example", "evil.example/localhost", "evil.example#.localhost"],
    ...[
      "user@localhost",
      "%6cocalhost",
      "localhost%00",
      "localhost\n",
      "[::1",
      "::1",
      "[:::]",
      "[::1]x",
      "[::1%25eth0]",
    ],
    ...["[::1].", "[localhost]", "lo\u{441}alhost", "locаlhost"],
  ])("%j is none", (header) => {
    expect(hostIn(header)).toBeUndefined();
  });
});

describe("a service with a list of host names", () => {
  test.each([
    "localhost",
    "app.localhost:6389",
    "LOCALHOST.",
    "127.0.0.1",
    "192.0.2.7:6389",
    "[2001:db8::7]",
    "[::1]:80",
  ])("answers to %s, which cannot be pointed at another machine", (host) =>
    expect(allows("locks.lan", host)).toBe(true),
  );

  test.each(["locks.lan", "LOCKS.lan:6389", "locks.lan.", "b.example"])("answers to %s, which is listed", (host) => {
    expect(allows("Locks.Lan, b.example.", host)).toBe(true);
  });

  test.each([
    ...[
      "evil.example",
      "a.locks.lan",
      "locks.lan.evil.example",
      "xlocks.lan",
      "localhost.evil.example",
      "notlocalhost",
    ],
    ...["127.0.0.1.evil.example", "1.2.3", "127.1", "2130706433", "0x7f.0.0.1", "0177.0.0.1", "256.0.0.1", "1.2.3.4.5"],
    ...["", "locks.lan,evil.example", "*"],
  ])("does not answer to %s", (host) => expect(allows("locks.lan", host)).toBe(false));

  test("answers a request without a Host, as a service binding makes it: no browser sends one", () => {
    expect(allows("locks.lan", undefined)).toBe(true);
  });

  test.each(["*", "locks.lan,*"])("that says %s answers to every name", (list) => {
    expect(allows(list, "evil.example")).toBe(true);
  });

  test("refuses before CORS: a foreign name gets neither a preflight nor a header that lets a page read the reply", async () => {
    expectLog("host_forbidden");
    const config = configWith({ HTTP_ALLOWED_HOSTS: "localhost", HTTP_CORS_ALLOWED_ORIGINS: "*" });
    const app = new Hono<AppEnv>();
    const bindings = { service: { log } };
    app.use((context, next) => {
      context.set("config", config);
      return next();
    });
    app.use(checkHost, cors);
    app.get("/", (context) => context.text("read"));
    const headers = { Host: "evil.example", Origin: "http://evil.example", "Access-Control-Request-Method": "GET" };
    for (const method of ["GET", "OPTIONS", "POST"]) {
      const reply = await app.request("/", { method, headers }, bindings);
      expect(reply.status).toBe(421);
      expect(await reply.json()).toEqual({
        error: "host_forbidden",
        detail: expect.stringMatching(/"evil\.example".*HTTP_ALLOWED_HOSTS/),
      });
      expect([...reply.headers.keys()].filter((name) => name.startsWith("access-control"))).toEqual([]);
    }
    expect((await app.request("/", { headers: { ...headers, Host: "localhost" } }, bindings)).status).toBe(200);
    // As a service binding asks.
    expect((await app.request("http://locks/", {}, bindings)).status).toBe(200);
  });
});

test("a service without a list answers to every name, and to none", () => {
  for (const host of ["evil.example", "", undefined]) expect(allows("", host)).toBe(true);
});

describe("this machine", () => {
  test.each(["localhost", "a.localhost", "127.0.0.1", "127.255.255.254", "[::1]"])("is %s", (host) => {
    expect(isLoopback(host)).toBe(true);
    expect(isLoopbackOrigin(`http://${host}`)).toBe(true);
    expect(isLoopbackOrigin(`https://${host}:8443`)).toBe(true);
  });

  test.each([
    ...["null", "", "http://", "http://evil.example", "http://localhost.evil.example", "http://127.0.0.1.evil.example"],
    ...[
      "http://0.0.0.0",
      "http://192.168.1.2",
      "http://[::2]",
      "http://127.0.0.256",
      "http://localhost/",
      "file://localhost",
    ],
    ...["chrome-extension://localhost", "http://evil.example\nhttp://localhost", "http://evil@localhost", "localhost"],
  ])("is not the origin %j", (origin) => {
    expect(isLoopbackOrigin(origin)).toBe(false);
  });
});
