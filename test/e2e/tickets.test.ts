import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { HOSTS } from "../support/hosts.ts";
import { poll } from "../support/poll.ts";
import type { TestServer } from "../support/server.ts";
import { ask, lock, TcpClient, UpgradeRefused, WsClient } from "../support/wire-client.ts";

const [TOKEN, ADMIN] = ["the shared token", "the operator's token"];
describe.each(HOSTS)("tickets, on $name", (host) => {
  let server: TestServer;
  beforeAll(async () => {
    server = await host.start({ variables: { AUTH_TOKEN: TOKEN, ADMIN_TOKEN: ADMIN } });
  });
  afterAll(() => server.stop());

  interface Reply {
    readonly status: number;
    readonly body: Record<string, unknown>;
  }

  async function send(method: string, path: string, secret: string, options: { session?: string; body?: object } = {}) {
    const response = await fetch(`http://127.0.0.1:${server.httpPort}${path}`, {
      method,
      headers: {
        Authorization: `Bearer ${secret}`,
        ...(options.session && { "X-Dflockd-Session": options.session }),
        "X-Holdfast-Label": "worker-7",
      },
      ...(options.body && { body: JSON.stringify(options.body) }),
    });
    const text = await response.text();
    return { status: response.status, body: text === "" ? {} : JSON.parse(text) } as Reply;
  }

  async function ticketFor(keys: string[], operations: string[], ttl = 60): Promise<string> {
    const { status, body } = await send("POST", "/v1/tickets", TOKEN, { body: { keys, operations, ttl_s: ttl } });
    expect(status).toBe(200);
    expect(body).toEqual({ ticket: expect.any(String), expires_in_s: ttl });
    return body.ticket as string;
  }

  async function sessionFor(secret: string): Promise<string> {
    const { body } = await send("POST", "/v1/sessions", secret);
    return body.session_id as string;
  }

  const FORBIDDEN = { status: 403, body: { error: "forbidden", detail: expect.stringMatching(/ticket|admin token/) } };
  const socketWith = (ticket: string, more = "") =>
    WsClient.open(server.httpPort, { query: `?ticket=${encodeURIComponent(ticket)}${more}` });

  describe("a ticket over REST", () => {
    it("opens its keys and operations, and no others", async () => {
      const ticket = await ticketFor(["t-deploy", "t-user/*"], ["lock"]);
      const session = await sessionFor(ticket);
      const acquire = (path: string, body = {}) => send("POST", path, ticket, { session, body });
      expect(await acquire("/v1/locks/t-deploy")).toMatchObject({ status: 200, body: { status: "ok" } });
      expect(await acquire("/v1/locks/t-user%2F42")).toMatchObject({ status: 200, body: { status: "ok" } });
      expect(await acquire("/v1/locks/t-other")).toEqual(FORBIDDEN);
      expect(await acquire("/v1/locks/t-deploy2")).toEqual(FORBIDDEN);
      expect(await acquire("/v1/semaphores/t-deploy", { limit: 2 })).toEqual(FORBIDDEN);
      expect(await acquire("/v1/locks/t-other/release", { token: "x" })).toEqual(FORBIDDEN);
      expect(await send("GET", "/v1/stats", ticket)).toEqual(FORBIDDEN);
      expect(await send("GET", "/v1/keys/t-deploy", ticket)).toEqual(FORBIDDEN);
      expect(await send("DELETE", `/v1/sessions/${session}`, ticket)).toMatchObject({ status: 204 });
    });

    it("never opens metrics, administration or the making of tickets", async () => {
      const ticket = await ticketFor(["*"], ["lock", "semaphore", "stats"]);
      expect(await send("GET", "/metrics", ticket)).toEqual(FORBIDDEN);
      const body = { keys: ["*"], operations: ["lock"] };
      expect(await send("POST", "/v1/tickets", ticket, { body })).toEqual(FORBIDDEN);
      expect(await send("DELETE", "/v1/admin/holders/k?token_fence=0000000000000000", ticket)).toEqual(FORBIDDEN);
    });

    it("shows its holder only its own keys in the statistics", async () => {
      const session = await sessionFor(TOKEN);
      for (const key of ["seen-1", "unseen-1"]) await send("POST", `/v1/locks/${key}`, TOKEN, { session, body: {} });
      const ticket = await ticketFor(["seen-*"], ["stats"]);
      const { body } = await send("GET", "/v1/stats?detail=true", ticket);
      expect(body.locks).toEqual([expect.objectContaining({ key: "seen-1" })]);
      expect(await send("GET", "/v1/keys/seen-1", ticket)).toMatchObject({ status: 200 });
      expect(await send("GET", "/v1/keys/unseen-1", ticket)).toEqual(FORBIDDEN);
      expect(await send("POST", "/v1/sessions", ticket)).toEqual(FORBIDDEN);
    });

    it("that has run out is nobody's", async () => {
      const ticket = await ticketFor(["*"], ["stats"], 1);
      expect((await send("GET", "/v1/stats", ticket)).status).toBe(200);
      await poll("the ticket to end", 4_000, async () =>
        (await send("GET", "/v1/stats", ticket)).status === 401 ? true : undefined,
      );
    });
  });

  describe("a ticket over WebSocket", () => {
    it("in the address opens its keys and operations; anything else answers error_auth and keeps the socket", async () => {
      const client = await socketWith(await ticketFor(["w-k*", "ключ"], ["lock", "stats"]));
      expect(await ask(client, "l", "w-k1", "0")).toMatch(/^ok /);
      expect(await ask(client, "l", "w-j", "0")).toBe("error_auth");
      expect(await ask(client, "sl", "w-k2", "0 2")).toBe("error_auth");
      expect(await ask(client, "@t e", "w-j", "")).toBe("@t error_auth");
      const [, document = ""] = /^ok (.*)$/.exec(await ask(client, "stats", "_", "_")) ?? [];
      expect((JSON.parse(document) as { locks: { key: string }[] }).locks.map(({ key }) => key)).toEqual(["w-k1"]);
      client.close();
    });

    it("of the longest keys opens a socket like any other", async () => {
      const keys = Array.from({ length: 64 }, (_, index) => `${String(index).padStart(3, "0")}${"k".repeat(253)}`);
      const client = await socketWith(await ticketFor(keys, ["lock"]));
      expect(await ask(client, "l", keys[63] ?? "", "0")).toMatch(/^ok /);
      expect(await ask(client, "l", "other", "0")).toBe("error_auth");
      client.close();
      const unprintable = Array.from({ length: 64 }, () => "\u0001".repeat(250));
      const body = { keys: unprintable, operations: ["lock"] };
      const refusal = { status: 400, body: { error: "bad_request", detail: "keys make the ticket too long" } };
      expect(await send("POST", "/v1/tickets", TOKEN, { body })).toEqual(refusal);
    });

    it("is also taken as first command", async () => {
      const client = await TcpClient.open(server.tcpPort);
      expect(await ask(client, "auth", "_", await ticketFor(["tcp-*"], ["semaphore"]))).toBe("ok");
      expect(await ask(client, "sl", "tcp-1", "0 2")).toMatch(/^ok /);
      expect(await ask(client, "l", "tcp-2", "0")).toBe("error_auth");
      client.close();
    });

    it("that runs out leaves its holder nothing but to give back", async () => {
      const client = await socketWith(await ticketFor(["out"], ["lock"], 1));
      const token = await lock(client, "out");
      await poll("the ticket to end", 4_000, async () =>
        (await ask(client, "n", "out", token)) === "error_auth" ? true : undefined,
      );
      expect(await ask(client, "l", "out", "0")).toBe("error_auth");
      expect(await ask(client, "r", "out", token)).toBe("ok");
      client.close();
    });

    it("that is wrong, and the token itself, are refused in an address", async () => {
      for (const shown of ["nonsense", TOKEN, `${await ticketFor(["k"], ["lock"])}x`]) {
        const refusal = await socketWith(shown).catch((error: unknown) => error);
        expect(refusal).toBeInstanceOf(UpgradeRefused);
        expect(refusal).toMatchObject({
          status: 401,
          body: expect.stringContaining('{"error":"unauthorized","detail":"'),
        });
      }
    });
  });

  const HOLDER = "建 agent 🛠";

  it("who takes up a session must show who he is, and one who cannot does not end it", async () => {
    const headers = { Authorization: `Bearer ${TOKEN}` };
    const client = await WsClient.open(server.httpPort, { headers });
    const [, credential] = /^@s ok (\S+) 10$/.exec(await ask(client, "@s session", "_", "resume")) ?? [];
    const token = await lock(client, "kept-by-secret", "0 60");
    client.destroy();
    const protocols = ["dflockd.v2", `holdfast.resume.${credential}`];
    const stranger = await WsClient.open(server.httpPort, { protocols });
    stranger.send("auth\n_\nwrong\n");
    expect(await stranger.next()).toBe("error_auth\n");
    await stranger.closed();
    const back = await WsClient.open(server.httpPort, { headers, protocols });
    expect(await ask(back, "@1 n", "kept-by-secret", token)).toBe("@1 ok 33");
    back.close();
  });

  describe("the operator", () => {
    it("sees holders and waiters by label, and removes the one holder it names", async () => {
      const holder = await WsClient.open(server.httpPort, {
        headers: { Authorization: `Bearer ${TOKEN}` },
        query: `?label=${encodeURIComponent(HOLDER)}`,
      });
      expect(await ask(holder, "watch", "_", "lost")).toBe("ok");
      const token = await lock(holder, "stuck");
      const session = await sessionFor(TOKEN);
      const waiting = send("POST", "/v1/locks/stuck", TOKEN, { session, body: { acquire_timeout_s: 20 } });
      const seen = await poll("the waiter", 5_000, async () => {
        const { body } = await send("GET", "/v1/keys/stuck", TOKEN);
        return body.waiters === 1 ? body : undefined;
      });
      const fence = token.slice(0, 16);
      expect(seen).toMatchObject({ key: "stuck", kind: "lock", limit: 1, holders: 1 });
      expect(seen.held_by).toEqual([expect.objectContaining({ label: HOLDER, fence })]);
      expect(seen.queue).toEqual([expect.objectContaining({ position: 1, label: "worker-7" })]);
      expect(JSON.stringify(seen)).not.toContain(token);

      const path = `/v1/admin/holders/stuck?token_fence=${fence}`;
      expect(await send("DELETE", path, TOKEN)).toEqual(FORBIDDEN);
      const wrong = `/v1/admin/holders/stuck?token_fence=${"0".repeat(16)}`;
      expect(await send("DELETE", wrong, ADMIN)).toEqual({
        status: 404,
        body: { error: "not_held", detail: expect.stringContaining("no holder of the key has the fence") },
      });
      expect((await send("DELETE", "/v1/admin/holders/stuck", ADMIN)).status).toBe(400);
      expect(await send("DELETE", path, ADMIN)).toEqual({
        status: 200,
        body: {
          key: "stuck",
          owner_conn_id: expect.any(Number),
          label: HOLDER,
          fence,
          held_s: expect.any(Number),
        },
      });
      expect(await holder.next()).toBe(`! lost stuck ${token} stolen\n`);
      const { body } = await waiting;
      expect(body).toMatchObject({ status: "ok" });
      expect((body.token as string) > token).toBe(true);
      expect(await send("DELETE", path, ADMIN)).toEqual({
        status: 404,
        body: { error: "not_held", detail: expect.stringContaining("no holder of the key has the fence") },
      });
      holder.close();
    });

    it("may do all that the token may", async () => {
      const headers = { Authorization: `Bearer ${ADMIN}` };
      expect((await fetch(`http://127.0.0.1:${server.httpPort}/metrics`, { headers })).status).toBe(200);
      const body = { keys: ["k"], operations: ["lock"] };
      expect((await send("POST", "/v1/tickets", ADMIN, { body })).status).toBe(200);
    });
  });

  it("no log line shows a token, a ticket or a session id", async () => {
    const ticket = await ticketFor(["k"], ["lock"]);
    const session = await sessionFor(ticket);
    await send("POST", "/v1/locks/other", ticket, { session, body: {} });
    await send("POST", "/v1/locks/k/release", ticket, { session, body: { token: "a".repeat(32) } });
    await poll("the log", 3_000, async () => (server.log.includes('"not_held"') ? true : undefined));
    for (const secret of [TOKEN, ADMIN, ticket, session, "a".repeat(32)]) expect(server.log).not.toContain(secret);
    const lines = server.log.split("\n").filter((line) => line.includes('"request_failed"'));
    expect(lines.map((line) => JSON.parse(line))).toContainEqual({
      time: expect.stringMatching(/^2\d{3}-\d\d-\d\dT/),
      event: "request_failed",
      request: expect.stringMatching(/^[0-9a-f]{16}$/),
      method: "POST",
      path: "/v1/locks/{key}/release",
      status: 404,
      error: "not_held",
      detail: expect.stringContaining("acquire it again"),
      owner: expect.any(Number),
    });
  });
});
