import { Hono } from "hono";
import { describe, expect, test } from "vitest";
import { type Config, readConfig } from "../../src/core/config/config.ts";
import { cors } from "../../src/http/middleware/cors.ts";
import { clientAddress } from "../../src/http/request/address.ts";

function configWith(variables: Record<string, string>): Config {
  const result = readConfig(variables);
  if (!result.ok) throw new Error(`refused: ${result.bad[0].name}`);
  return result.config;
}

/** A service with a route, a router that knows OPTIONS only as a mistake, and a handler that breaks. */
function service(origins: string | undefined) {
  const config = configWith(origins === undefined ? {} : { HTTP_CORS_ALLOWED_ORIGINS: origins });
  const reached: string[] = [];
  const app = new Hono<{ Bindings: { extra: string }; Variables: { config: Config } }>();
  app.use((context, next) => {
    context.set("config", config);
    return next();
  });
  app.use(cors);
  app.use((context, next) => {
    reached.push(context.req.method);
    return next();
  });
  app.get("/v1/stats", (context) => context.json({}));
  app.get("/varied", (context) => context.json({}, 200, { Vary: "Accept" }));
  app.get("/raw", () => new Response("raw"));
  app.get("/broken", () => {
    throw new Error("broken");
  });
  app.all("/v1/stats", (context) => context.json({}, 405, { Allow: "GET, HEAD" }));
  app.onError((_, context) => context.json({ error: "internal" }, 500));
  const ask = async (path: string, headers: Record<string, string>, method = "GET") =>
    app.request(path, { method, headers });
  return { ask, reached };
}

const LIST = "https://a.example, https://b.example";
const A = { Origin: "https://a.example" };
const B = { Origin: "https://b.example" };
const C = { Origin: "https://c.example" };
const PREFLIGHT = { "Access-Control-Request-Method": "POST" };

const accessControl = (reply: Response) =>
  [...reply.headers.keys()].filter((name) => name.startsWith("access-control"));

const GRANTED = {
  "access-control-allow-methods": "GET, POST, DELETE, OPTIONS",
  "access-control-allow-headers": "Authorization, Content-Type, X-Dflockd-Session",
  "access-control-max-age": "300",
  "access-control-expose-headers": "Retry-After",
};

describe("without a list", () => {
  test("HC104: no reply has a CORS header", async () => {
    const reply = await service(undefined).ask("/v1/stats", A);
    expect(reply.status).toBe(200);
    expect(accessControl(reply)).toEqual([]);
    expect(reply.headers.get("Vary")).toBeNull();
  });

  test("a preflight is a mistake like any OPTIONS", async () => {
    const reply = await service(undefined).ask("/v1/stats", { ...A, ...PREFLIGHT }, "OPTIONS");
    expect(reply.status).toBe(405);
    expect(accessControl(reply)).toEqual([]);
  });
});

describe("with a list", () => {
  test("HC105: a listed origin is echoed", async () => {
    const reply = await service(LIST).ask("/v1/stats", B);
    expect(reply.status).toBe(200);
    expect(Object.fromEntries(reply.headers)).toMatchObject({
      "access-control-allow-origin": "https://b.example",
      vary: "Origin",
      ...GRANTED,
    });
    expect(reply.headers.has("Access-Control-Allow-Credentials")).toBe(false);
  });

  test.each([
    "https://c.example",
    "http://a.example",
    "https://a.example:8443",
    "https://a.example/",
    "https://A.example",
    "https://a.example.evil",
    "null",
    "*",
  ])("HC106: %s is not listed, and the request proceeds", async (origin) => {
    const reply = await service(LIST).ask("/v1/stats", { Origin: origin });
    expect(reply.status).toBe(200);
    expect(accessControl(reply)).toEqual([]);
  });

  test("a reply is never cached across origins", async () => {
    for (const headers of [A, C, {}]) {
      expect((await service(LIST).ask("/v1/stats", headers)).headers.get("Vary")).toBe("Origin");
    }
    expect((await service(LIST).ask("/varied", A)).headers.get("Vary")).toBe("Accept, Origin");
  });

  test("a preflight of an origin that is not listed is answered without CORS headers", async () => {
    const reply = await service(LIST).ask("/v1/locks/k", { ...C, ...PREFLIGHT }, "OPTIONS");
    expect(reply.status).toBe(204);
    expect(accessControl(reply)).toEqual([]);
  });
});

describe("with *", () => {
  test.each(["*", "https://a.example, *"])("HC107: everybody is welcome (%s)", async (origins) => {
    const reply = await service(origins).ask("/v1/stats", C);
    expect(reply.headers.get("Access-Control-Allow-Origin")).toBe("*");
    expect(reply.headers.get("Vary")).toBeNull();
  });

  test("who names no origin gets no CORS header", async () => {
    expect(accessControl(await service("*").ask("/v1/stats", {}))).toEqual([]);
  });

  test.each(["/v1/locks/k", "/nope", "/broken"])("HC108: a preflight of %s ends before anything else", async (path) => {
    const { ask, reached } = service("*");
    const reply = await ask(path, { ...C, ...PREFLIGHT }, "OPTIONS");
    expect(reply.status).toBe(204);
    expect(await reply.text()).toBe("");
    expect(reply.headers.has("Content-Type")).toBe(false);
    expect(Object.fromEntries(reply.headers)).toMatchObject({ "access-control-allow-origin": "*", ...GRANTED });
    expect(reached).toEqual([]);
  });

  test("a page that wants to send a label may, and only then is it told so", async () => {
    const asked = { "Access-Control-Request-Headers": "content-type, x-holdfast-label" };
    const reply = await service("*").ask("/v1/locks/k", { ...C, ...PREFLIGHT, ...asked }, "OPTIONS");
    const allowed = reply.headers.get("Access-Control-Allow-Headers");
    expect(allowed).toBe("Authorization, Content-Type, X-Dflockd-Session, X-Holdfast-Label");
    const foreign = await service("https://a.example").ask("/v1/locks/k", { ...C, ...PREFLIGHT, ...asked }, "OPTIONS");
    expect(accessControl(foreign)).toEqual([]);
  });

  test("HC109: OPTIONS that asks for nothing goes on to the router", async () => {
    const { ask, reached } = service("*");
    const reply = await ask("/v1/stats", C, "OPTIONS");
    expect(reply.status).toBe(405);
    expect(reply.headers.get("Allow")).toBe("GET, HEAD");
    expect(reached).toEqual(["OPTIONS"]);
  });

  test("another method is no preflight, whatever it carries", async () => {
    expect((await service("*").ask("/v1/stats", { ...C, ...PREFLIGHT }, "POST")).status).toBe(405);
  });

  test.each([
    ["/nope", 404],
    ["/broken", 500],
    ["/raw", 200],
  ])("%s has the CORS headers too", async (path, status) => {
    const reply = await service("*").ask(path, C);
    expect(reply.status).toBe(status);
    expect(Object.fromEntries(reply.headers)).toMatchObject({ "access-control-allow-origin": "*", ...GRANTED });
  });
});

describe("a client's address", () => {
  const headers = new Headers({ "CF-Connecting-IP": "192.0.2.1", "X-Forwarded-For": "10.0.0.1", "X-Real-IP": "::1" });

  test.each([
    [{}, "192.0.2.1"],
    [{ CLIENT_IP_HEADER: "x-real-ip" }, "::1"],
    [{ CLIENT_IP_HEADER: "X-Absent" }, "unknown"],
    [{ CLIENT_IP_HEADER: " " }, "unknown"],
  ])("with %j is %s", (variables, address) => {
    expect(clientAddress(configWith(variables), headers)).toBe(address);
  });

  test("is unknown when the header is empty", () => {
    expect(clientAddress(configWith({}), new Headers({ "CF-Connecting-IP": "" }))).toBe("unknown");
  });
});
