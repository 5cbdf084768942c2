import { describe, expect, it } from "vitest";
import { Clients } from "../support/clients.ts";
import { send } from "../support/http-client.ts";
import { poll } from "../support/poll.ts";
import { startServer, type TestServer } from "../support/server.ts";
import { ask, TRANSPORTS, UpgradeRefused } from "../support/wire-client.ts";

const PAUSE_MS = 95;

async function timed<Result>(task: () => Promise<Result>): Promise<{ result: Result; ms: number }> {
  const startedAt = performance.now();
  const result = await task();
  return { result, ms: performance.now() - startedAt };
}

async function failuresCounted(server: TestServer, transport: string, expected: number, token = ""): Promise<void> {
  const headers = token === "" ? {} : { Authorization: `Bearer ${token}` };
  const sample = `dflockd_auth_failures_total{transport="${transport}"} ${expected}\n`;
  await poll(`${expected} failures over ${transport}`, 5_000, async () => {
    const { body } = await send(server.httpPort, { method: "GET", path: "/metrics", headers });
    return body.includes(sample) ? true : undefined;
  });
}

describe("on a service with a token, a wrong one is refused after a pause and counted", () => {
  it.each(TRANSPORTS)("as first command over %s", async (transport) => {
    await using server = await startServer({ variables: { AUTH_TOKEN: "secret" } });
    using clients = new Clients(server);
    const client = await clients.open(transport);
    const { result, ms } = await timed(() => ask(client, "auth", "_", "wrong"));
    expect(result).toBe("error_auth");
    expect(ms).toBeGreaterThan(PAUSE_MS);
    expect((await client.closed()).msAfterLastSend).toBeGreaterThan(2 * PAUSE_MS);
    await failuresCounted(server, transport, 1, "secret");
  });

  it("over HTTP, and as ticket or header of an upgrade", async () => {
    await using server = await startServer({ variables: { AUTH_TOKEN: "secret" } });
    using clients = new Clients(server);
    const headers = { Authorization: "Bearer wrong" };
    const http = await timed(() => send(server.httpPort, { method: "GET", path: "/v1/stats", headers }));
    expect(http.result.status).toBe(401);
    expect(http.ms).toBeGreaterThan(PAUSE_MS);
    for (const options of [{ headers }, { query: "?ticket=wrong" }]) {
      const { result, ms } = await timed(() => clients.ws(options).catch((error: unknown) => error));
      expect(result).toBeInstanceOf(UpgradeRefused);
      expect(ms).toBeGreaterThan(PAUSE_MS);
    }
    await failuresCounted(server, "http", 1, "secret");
    await failuresCounted(server, "ws", 2, "secret");
  });
});

describe("on an open service with an admin token, a wrong one is refused after a pause and counted", () => {
  it.each(TRANSPORTS)("as first command over %s, and nothing runs meanwhile", async (transport) => {
    await using server = await startServer({ variables: { ADMIN_TOKEN: "root" } });
    using clients = new Clients(server);
    const client = await clients.open(transport);
    const { result, ms } = await timed(async () => {
      client.send("auth\n_\nwrong\nping\n_\n_\n");
      return client.next();
    });
    expect(result).toBe("error\n");
    expect(ms).toBeGreaterThan(PAUSE_MS);
    expect(await client.next()).toBe("ok\n");
    await failuresCounted(server, transport, 1);
  });

  it("at the routes of administrators and at the upgrade", async () => {
    await using server = await startServer({ variables: { ADMIN_TOKEN: "root" } });
    using clients = new Clients(server);
    const headers = { Authorization: "Bearer wrong" };
    const path = `/v1/admin/holders/k?token_fence=${"0".repeat(16)}`;
    const route = await timed(() => send(server.httpPort, { method: "DELETE", path, headers }));
    expect(route.result.status).toBe(403);
    expect(route.ms).toBeGreaterThan(PAUSE_MS);
    expect((await timed(() => clients.ws({ headers }))).ms).toBeGreaterThan(PAUSE_MS);
    await failuresCounted(server, "http", 1);
    await failuresCounted(server, "ws", 1);
  });
});
