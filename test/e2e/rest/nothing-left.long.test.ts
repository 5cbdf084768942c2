/** Whatever HTTP clients do, and however they leave, nothing of theirs stays behind. */
import { readdir, stat } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { openDataDir } from "../../../src/node/store/data-dir.ts";
import { parseExposition, sampleValue } from "../../metrics/parse.ts";
import { HOSTS, type Host } from "../../support/hosts.ts";
import { poll, pooled, sleep } from "../../support/poll.ts";
import { expectJson, expectNoContent, grantIn } from "../../support/replies.ts";
import { Api, freshKey } from "../../support/rest.ts";
import type { TestServer } from "../../support/server.ts";

const GONE = { error: "session_gone" };
const TRY = { acquire_timeout_s: 0 };

/** Polls until nobody is connected, and nobody holds or waits for anything. */
async function nothingIsLeft(api: Api): Promise<void> {
  await poll("holders, waiters and sessions to be gone", 10_000, async () => {
    const { connections, locks, semaphores } = await api.stats();
    return connections + locks.length + semaphores.length === 0 ? true : undefined;
  });
  const families = parseExposition((await api.get("/metrics")).body);
  for (const gauge of ["http_sessions", "connections", "locks_held", "lock_waiters", "semaphore_holders"]) {
    expect([gauge, sampleValue(families, `dflockd_${gauge}`)]).toEqual([gauge, 0]);
  }
}

/** Sessions of which something is stored, by whatever name they are stored under. */
async function storedSessions({ name }: Host, { dataDir }: TestServer): Promise<string[]> {
  return name === "Node" ? sessionRows(dataDir) : sessionDatabases(dataDir);
}

function sessionRows(dataDir: string): string[] {
  const store = openDataDir(dataDir);
  const names = Array.from(store.load().sessions, (session) => session.name);
  store.close();
  return names;
}

/** A database in which nothing is stored: one page without a table. */
const EMPTY_BYTES = 4_096;

async function sessionDatabases(dataDir: string): Promise<string[]> {
  const directory = join(dataDir, "holdfast-HttpSessionObject");
  const databases = (await readdir(directory)).filter((name) => /^[0-9a-f]{64}\.sqlite(-wal)?$/.test(name));
  const sizes = await Promise.all(databases.map(async (name) => (await stat(join(directory, name))).size));
  return databases.filter((name, n) => (sizes[n] ?? 0) > (name.endsWith("-wal") ? 0 : EMPTY_BYTES));
}

describe.each(HOSTS)("HTTP clients, on $name", (host) => {
  describe.concurrent("on a service with nobody else", () => {
    it("a hundred clients that come, lock, unlock and go, and a thousand that guess a session, leave nothing", async () => {
      await using server = await host.start();
      const api = new Api(server);
      await pooled(10, [...Array(100).keys()], async (n) => {
        const session = await api.session();
        const token = await session.lock(`cycle-${n % 7}-${n}`);
        await session.release(`cycle-${n % 7}-${n}`, token);
        expectNoContent(await session.end());
      });
      const ids = Array.from({ length: 1_000 }, (_, n) => n.toString(16).padStart(32, "0"));
      const statuses = await pooled(20, ids, async (id) => {
        const reply = await fetch(`http://127.0.0.1:${server.httpPort}/v1/sessions/${id}/ping`, { method: "POST" });
        await reply.arrayBuffer();
        return reply.status;
      });
      expect(new Set(statuses)).toEqual(new Set([410]));
      await nothingIsLeft(api);
      await server.kill9();
      expect(await storedSessions(host, server)).toEqual([]);
    });

    it("clients that leave their requests, their locks and their sessions alone leave nothing", async () => {
      await using server = await host.start({ variables: { HTTP_SESSION_IDLE_S: "1" } });
      const api = new Api(server);
      const keys = ["a", "b", "c"];
      await Promise.all(
        Array.from({ length: 30 }, async (_, n) => {
          const [session, key, other] = [await api.session(), keys[n % 3] ?? "", keys[(n + 1) % 3] ?? ""];
          await session.post(`/v1/semaphores/slots-${n % 2}`, { ...TRY, limit: 4, lease_ttl_s: 600 });
          await session.post(`/v1/locks/${other}/enqueue`, { lease_ttl_s: 600 });
          const polling = session.start(`/v1/locks/${key}`, { acquire_timeout_s: 4, lease_ttl_s: 600 });
          await sleep((n % 5) / 10);
          if (n % 3 === 0) polling.close();
          else if (n % 3 === 1) polling.reset();
          if (n % 4 === 0) await session.end();
        }),
      );
      await nothingIsLeft(api);
      const session = await api.session();
      for (const key of keys) await session.lock(key);
      expectNoContent(await session.end());
      await server.kill9();
      expect(await storedSessions(host, server)).toEqual([]);
    });
  });

  describe.concurrent("with an idle time of one second", () => {
    let server: TestServer;
    let api: Api;
    beforeAll(async () => {
      server = await host.start({ variables: { HTTP_SESSION_IDLE_S: "1", READ_TIMEOUT_S: "20" } });
      api = new Api(server);
    });
    afterAll(() => server.stop());

    it("the lock of a silent session goes to the one who waits, without anybody asking", async ({ expect }) => {
      const [[silent, waiter], key] = [await api.sessions(2), freshKey("silent")];
      await silent.lock(key, { lease_ttl_s: 600 });
      const reply = await waiter.start(`/v1/locks/${key}`, { acquire_timeout_s: 30 }).reply;
      grantIn(reply);
      // Twice the idle time, and at most a second and the idle time more until it is swept.
      expect(reply.ms).toBeGreaterThan(1_900);
      expect(reply.livedMs).toBeLessThan(5_000);
      expectJson(await silent.ping(), 410, GONE);
    });

    it("a body that trickles in keeps no session alive", async () => {
      const [session, key] = [await api.session(), freshKey("trickle")];
      await session.lock(key, { lease_ttl_s: 600 });
      const trickle = new ReadableStream<Uint8Array>({
        async pull(controller) {
          await sleep(0.5);
          controller.enqueue(new TextEncoder().encode(" "));
        },
      });
      const stop = new AbortController();
      const request = fetch(`http://127.0.0.1:${server.httpPort}/v1/locks/${freshKey("slow")}`, {
        method: "POST",
        headers: { "X-Dflockd-Session": session.id },
        body: trickle,
        duplex: "half",
        signal: stop.signal,
      } as RequestInit).catch(() => undefined);
      await poll("the session's lock to be free", 5_000, async () =>
        (await api.get(`/v1/keys/${key}`)).body.includes('"holders":0') ? true : undefined,
      );
      expectJson(await session.ping(), 410, GONE);
      stop.abort();
      await request;
    });
  });

  describe("the caps on sessions", () => {
    it("hold for any number that come at once, and places return", async () => {
      await using server = await host.start({
        variables: { HTTP_MAX_SESSIONS: "6", HTTP_MAX_SESSIONS_PER_IP: "4", CLIENT_IP_HEADER: "X-Real-IP" },
      });
      const api = new Api(server);
      const from = (address: string) => api.with({ "X-Real-IP": address });
      const crowd = Array.from({ length: 40 }, (_, n) => from(`192.0.2.${n % 2}`).post("/v1/sessions"));
      const replies = await Promise.all(crowd);
      const made = replies.filter(({ status }) => status === 200);
      expect(made).toHaveLength(6);
      const refusals = new Set(replies.filter(({ status }) => status !== 200).map(({ body }) => body));
      for (const body of refusals) expect(["max_sessions", "max_sessions_per_ip"]).toContain(JSON.parse(body).error);
      expect((await api.stats()).connections).toBe(6);
      const ids = made.map(({ body }) => (JSON.parse(body) as { session_id: string }).session_id);
      for (const id of ids) expectNoContent(await api.delete(`/v1/sessions/${id}`));
      expect((await api.stats()).connections).toBe(0);
      for (let n = 0; n < 4; n += 1) await from("192.0.2.9").session();
      expectJson(await from("192.0.2.9").post("/v1/sessions"), 503, { error: "max_sessions_per_ip" });
    });
  });
});
