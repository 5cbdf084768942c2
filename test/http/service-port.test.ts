/** The app on a host that is neither of ours: all it needs of one is the service port. */
import { describe, expect, it } from "vitest";
import { readConfig } from "../../src/core/config/config.ts";
import { app } from "../../src/http/app.ts";
import { createLog } from "../../src/log.ts";
import type { Arrival, RestRequest, Service } from "../../src/service.ts";

const SESSION = "0123456789abcdef0123456789abcdef";

type Parts = Partial<Omit<Service, "rest" | "keys" | "sockets">> & {
  readonly rest?: Partial<Service["rest"]>;
  readonly keys?: Partial<Service["keys"]>;
  readonly sockets?: Service["sockets"];
};

/** A host that has only what a story needs. */
class Host {
  readonly lines: string[] = [];
  readonly counted: object[] = [];
  readonly service: Service;

  constructor(parts: Parts = {}, variables: Record<string, string> = {}) {
    const rest = {
      config: readConfig(variables),
      log: createLog((_, line) => void this.lines.push(line)),
      meter: { count: (family: string, labels: object) => void this.counted.push({ family, ...labels }), observe() {} },
      retryAfter: async () => undefined,
      isReady: async () => true,
      share: <Answer>(_: string, find: () => Promise<Answer>) => find(),
      ...parts,
    };
    this.service = rest as unknown as Service;
  }

  fetch(path: string, init: RequestInit = {}, address?: string): Promise<Response> {
    const request = new Request(`http://localhost${path}`, init);
    return Promise.resolve(app.fetch(request, { service: this.service, address }));
  }
}

const post = (body: object, headers: Record<string, string> = {}) => ({
  method: "POST",
  headers: { "X-Dflockd-Session": SESSION, ...headers },
  body: JSON.stringify(body),
});

describe("a request of a REST session", () => {
  const asked: (RestRequest & { hasSignal: boolean })[] = [];
  const performing = (outcome: Awaited<ReturnType<Service["rest"]["perform"]>>) =>
    new Host({
      rest: {
        perform: async (_, ask, signal) => {
          asked.push({ ...ask, hasSignal: signal !== undefined });
          return outcome;
        },
      },
    });

  it("is withdrawn when its client hangs up, if there is something to withdraw", async () => {
    const host = performing({ status: "ok", token: "t", leaseSeconds: 33 });
    const reply = await host.fetch("/v1/locks/k", post({ acquire_timeout_s: 1 }));
    expect(await reply.json()).toEqual({ status: "ok", token: "t", lease_ttl_s: 33 });
    await host.fetch("/v1/locks/k/release", post({ token: "t" }));
    expect(asked.map(({ request, hasSignal }) => [request.type, hasSignal])).toEqual([
      ["acquire", true],
      ["release", false],
    ]);
  });

  it.each([
    ["gone", 410],
    ["left", 408],
    ["unavailable", 503],
    ["limit_mismatch", 409],
  ] as const)("that is %s is answered with %i", async (status, code) => {
    expect((await performing({ status }).fetch("/v1/locks/k", post({}))).status).toBe(code);
  });

  it("is answered with 503 if the host fails, and says so in the host's own log", async () => {
    const broken = new Host({ rest: { perform: () => Promise.reject(new Error("disk full")) } });
    expect((await broken.fetch("/v1/locks/k", post({}))).status).toBe(503);
    expect(broken.lines.map((line) => JSON.parse(line).event)).toEqual(["session_unreachable", "request_failed"]);
  });
});

describe("a claim without a session", () => {
  const put = { method: "PUT", headers: { "If-None-Match": "*" }, body: "" };

  it("is made once more if the lock has become free when the wait was over", async () => {
    const waits: number[] = [];
    const host = new Host({
      keys: {
        claim: async (_, { waitMs }) => {
          waits.push(waitMs);
          return { status: waits.length === 1 ? "timeout" : "max_waiters" };
        },
      },
    });
    expect((await host.fetch("/v1/files/k?wait=2", put)).status).toBe(503);
    expect(waits).toEqual([2_000, 0]);
  });

  it("that its client has left is answered with 408, and a failed one with 503", async () => {
    const left = new Host({ keys: { claim: async () => ({ status: "left" }) } });
    expect((await left.fetch("/v1/files/k", put)).status).toBe(408);
    const broken = new Host({ keys: { claim: () => Promise.reject(new Error("lost")) } });
    expect((await broken.fetch("/v1/files/k", put)).status).toBe(503);
  });
});

describe("an upgrade", () => {
  const upgrade = { headers: { Upgrade: "websocket", "Sec-WebSocket-Protocol": "dflockd.v2" } };

  it("belongs to the host, and counts as 101 whatever its response looks like", async () => {
    const arrivals: Arrival[] = [];
    const host = new Host({
      sockets: {
        upgrade: async (_, arrival, headers) => {
          arrivals.push(arrival);
          return { status: "upgraded", response: new Response(null, { status: 204, headers }) };
        },
      },
    });
    const reply = await host.fetch("/v1/ws?label=me", upgrade, "192.0.2.7");
    expect(reply.headers.get("Sec-WebSocket-Protocol")).toBe("dflockd.v2");
    expect(arrivals).toMatchObject([
      { type: "client", entry: { protocol: "dflockd", transport: "ws", address: "192.0.2.7", label: "me" } },
    ]);
    expect(host.counted).toMatchObject([{ family: "http_requests_total", path: "/v1/ws", status: 101 }]);
  });

  it("that the host refuses is answered with its reason", async () => {
    const host = new Host({ sockets: { upgrade: async () => ({ status: "max_connections" }) } });
    const reply = await host.fetch("/v1/ws", upgrade);
    expect(await reply.json()).toMatchObject({ error: "max_connections" });
    expect(host.counted).toMatchObject([{ status: 503 }]);
  });
});

describe("the address of a client", () => {
  const open = async (headers: Record<string, string>, variables: Record<string, string>) => {
    const addresses: string[] = [];
    const host = new Host({ rest: { open: async (address) => void addresses.push(address) as never } }, variables);
    await host.fetch("/v1/sessions", { method: "POST", headers }, "192.0.2.7");
    return addresses[0];
  };

  it("is that of the connection, unless a header is configured and there", async () => {
    const header = { "X-Real-IP": "198.51.100.1" };
    expect(await open(header, { CLIENT_IP_HEADER: "" })).toBe("192.0.2.7");
    expect(await open(header, { CLIENT_IP_HEADER: "X-Real-IP" })).toBe("198.51.100.1");
    expect(await open({}, { CLIENT_IP_HEADER: "X-Real-IP" })).toBe("192.0.2.7");
  });
});

it("two services in one process have nothing in common", async () => {
  const [open, closed] = [new Host(), new Host({}, { AUTH_TOKEN: "secret" })];
  expect((await open.fetch("/v1/openapi.json")).status).toBe(200);
  expect((await closed.fetch("/v1/stats")).status).toBe(401);
  expect(open.lines).toEqual([]);
  expect(closed.lines).toHaveLength(1);
});

describe("a backup that the host does not make", () => {
  const asking = (backup: Service["backup"]) =>
    new Host({ backup }, { ADMIN_TOKEN: "let-me-in" }).fetch("/v1/admin/backup", {
      headers: { Authorization: "Bearer let-me-in" },
    });

  it.each([
    ["in_memory", 404, "not_found", "nothing on disk"],
    ["under_way", 503, "backup_refused", "another copy is being read"],
    ["no_room", 503, "backup_refused", "no room"],
  ] as const)("because of %s is answered with %i", async (status, code, error, detail) => {
    const reply = await asking({ take: async () => ({ status }) });
    expect(reply.status).toBe(code);
    expect(await reply.json()).toEqual({ error, detail: expect.stringContaining(detail) });
  });

  it("because it fails is answered with 503", async () => {
    expect((await asking({ take: () => Promise.reject(new Error("I/O error")) })).status).toBe(503);
  });
});
