/** One queue for everybody, whatever they speak. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { Clients } from "../../support/clients.ts";
import { HOSTS } from "../../support/hosts.ts";
import { sleep } from "../../support/poll.ts";
import { expectError, grantIn } from "../../support/replies.ts";
import { Api, freshKey } from "../../support/rest.ts";
import type { TestServer } from "../../support/server.ts";
import { ask, joinQueue, lock, tokenOf } from "../../support/wire-client.ts";

describe.each(HOSTS)("one queue, on $name", (host) => {
  let server: TestServer;
  let api: Api;
  beforeAll(async () => {
    server = await host.start();
    api = new Api(server);
  });
  afterAll(() => server.stop());

  /** Somebody who stands in a queue. */
  interface Waiter {
    /** Resolves to the token when the turn has come. */
    readonly turn: Promise<string>;
    release(token: string): Promise<void>;
  }

  async function socketWaiter(clients: Clients, transport: "tcp" | "ws", key: string): Promise<Waiter> {
    const client = await clients.open(transport);
    await joinQueue(client, key, "60 60");
    return {
      turn: client.next(40_000).then(tokenOf),
      release: async (token) => expect(await ask(client, "r", key, token)).toBe("ok"),
    };
  }

  async function restWaiter(key: string): Promise<Waiter> {
    const session = await api.session();
    const polling = await session.waitInLine(key, 60);
    return {
      turn: polling.reply.then((reply) => grantIn(reply)),
      release: (token) => session.release(key, token),
    };
  }

  /** Has taken its place before, and only asks for it when the lock may be free. */
  async function enqueuedWaiter(key: string, mayAsk: Promise<unknown>): Promise<Waiter> {
    const session = await api.session();
    expect((await session.post(`/v1/locks/${key}/enqueue`, {})).body).toBe('{"status":"queued"}\n');
    const wait = async () => grantIn(await session.post(`/v1/locks/${key}/wait`, { timeout_s: 60 }));
    return { turn: mayAsk.then(wait), release: (token) => session.release(key, token) };
  }

  describe("connections over TCP, WebSocket and REST", () => {
    // The first of this file: nobody else is connected, and nobody is still leaving.
    it("are one number, whomever one asks", async () => {
      using clients = new Clients(server);
      const [client] = [await clients.tcp(), await clients.ws(), await api.session()];
      const wire = JSON.parse((await ask(client, "stats", "_", "_")).slice(3)) as { connections: number };
      expect(wire.connections).toBe(3);
      expect((await api.stats()).connections).toBe(3);
    });
  });

  describe("waiters over TCP, WebSocket and REST", () => {
    it("are served in the order in which they came, fifty of them", async () => {
      using clients = new Clients(server);
      const key = freshKey("mixed");
      const holder = await clients.tcp();
      const token = await lock(holder, key, "0 60");
      const released = Promise.withResolvers<void>();
      const socket = (transport: "tcp" | "ws") => () => socketWaiter(clients, transport, key);
      const rest = () => restWaiter(key);
      const enqueued = () => enqueuedWaiter(key, released.promise);
      const join = [socket("tcp"), rest, socket("ws"), enqueued, socket("ws"), socket("tcp"), rest];
      const waiters: Waiter[] = [];
      for (let place = 0; place < 50; place += 1)
        waiters.push(await (join[place % join.length] as () => Promise<Waiter>)());

      const served: number[] = [];
      const tokens: string[] = [token];
      const turns = waiters.map(async ({ turn, release }, place) => {
        const mine = await turn;
        served.push(place);
        tokens.push(mine);
        await release(mine);
      });
      expect(await ask(holder, "r", key, token)).toBe("ok");
      released.resolve();
      await Promise.all(turns);
      expect(served).toEqual(waiters.map((_, place) => place));
      expect(tokens).toEqual(tokens.toSorted());
    });

    it("who have not polled yet hold up nobody who stands before them", async () => {
      using clients = new Clients(server);
      const key = freshKey("before");
      const [holder, first] = [await clients.ws(), await clients.tcp()];
      const token = await lock(holder, key);
      await joinQueue(first, key, "60");
      const enqueued = await api.session();
      await enqueued.post(`/v1/locks/${key}/enqueue`, {});
      const last = await restWaiter(key);
      await ask(holder, "r", key, token);
      const mine = tokenOf(await first.next());
      expect(await ask(first, "r", key, mine)).toBe("ok");
      // The place that was enqueued is a hold now: it can be used at once, and is not lost to the one behind.
      const second = grantIn(await enqueued.post(`/v1/locks/${key}/wait`, { timeout_s: 0 }));
      await enqueued.release(key, second);
      expect((await last.turn) > second).toBe(true);
    });
  });

  describe("a poll whose time is over when the lock comes free", () => {
    it("is told the one or the other, and the lock is where that says it is", async () => {
      const rounds = Array.from({ length: 24 }, (_, n) => n);
      const words = await Promise.all(
        rounds.map(async (n) => {
          const [[holder, waiter, third], key] = [await api.sessions(3), freshKey("crossing")];
          const token = await holder.lock(key);
          const polling = await waiter.waitInLine(key, 1);
          // The poll began a little before this moment.
          await sleep(0.8 + n / 100);
          await holder.release(key, token);
          const reply = await polling.reply;
          const { status } = JSON.parse(reply.body) as { status: string };
          if (status === "timeout") await third.lock(key);
          else {
            const refused = await third.post(`/v1/locks/${key}`, { acquire_timeout_s: 0 });
            expect(refused.body).toBe('{"status":"timeout"}\n');
            await waiter.release(key, grantIn(reply));
          }
          await Promise.all([holder, waiter, third].map((session) => session.end()));
          return status;
        }),
      );
      for (const word of words) expect(["ok", "timeout"]).toContain(word);
    });
  });

  describe("names that the service uses itself", () => {
    it("are keys like any others", async () => {
      const [one, two] = await api.sessions(2);
      const names = ["shard-0", "ledger", "directory", `http:${one.id}`, one.id, two.id, "session:1", "life", "ending"];
      const tokens = new Map<string, string>();
      for (const name of names) tokens.set(name, await one.lock(encodeURIComponent(name)));
      expect(new Set(tokens.values()).size).toBe(names.length);
      for (const name of names) {
        const refused = await two.post(`/v1/locks/${encodeURIComponent(name)}`, { acquire_timeout_s: 0 });
        expect(refused.body).toBe('{"status":"timeout"}\n');
      }
      const listed = (await api.stats()).locks.map(({ key }) => key);
      for (const name of names) expect(listed).toContain(name);
      for (const [name, token] of tokens) await one.release(encodeURIComponent(name), token);
      expect([(await one.ping()).status, (await two.ping()).status]).toEqual([204, 204]);
    });

    it("make nobody a session: a key with the form of an id is none", async () => {
      const [session, key] = [await api.session(), "f".repeat(32)];
      const token = await session.lock(key);
      const pretender = await api.post(`/v1/locks/${key}/release`, { token }, { "X-Dflockd-Session": key });
      expectError(pretender, 410, "session_gone");
      await session.release(key, token);
    });
  });
});
