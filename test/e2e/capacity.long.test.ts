import { describe, expect, it } from "vitest";
import { errorBody } from "../../src/http/reply/errors.ts";
import { Clients } from "../support/clients.ts";
import { poll } from "../support/poll.ts";
import { startServer } from "../support/server.ts";
import { readStats } from "../support/stats.ts";
import { ask, lock, UpgradeRefused, type WireClient } from "../support/wire-client.ts";

const count = <T>(items: readonly T[], wanted: T) => items.filter((item) => item === wanted).length;

type Entry = "in" | "closed without a byte" | `refused ${string}`;

/** Connects and says `ping`; tells whether the service let it in, and how not. */
async function enter(connect: () => Promise<WireClient>): Promise<Entry> {
  try {
    const client = await connect();
    client.send("ping\n_\n_\n");
    try {
      const reply = await client.next();
      return reply === "ok\n" ? "in" : `refused ${reply}`;
    } catch (error) {
      if (/got a close/.test((error as Error).message)) return "closed without a byte";
      throw error;
    }
  } catch (error) {
    if (error instanceof UpgradeRefused) return `refused ${error.status} ${error.body.trimEnd()}`;
    throw error;
  }
}

describe("MAX_LOCKS", () => {
  it("is never exceeded by keys that are created at the same time", async () => {
    await using server = await startServer({ variables: { MAX_LOCKS: "10" } });
    using clients = new Clients(server);
    const creators = await clients.mixed(50);
    const replies = await Promise.all(creators.map((client, index) => ask(client, "l", `key-${index}`, "0")));
    expect(replies.filter((reply) => reply.startsWith("ok ")).length).toBe(10);
    expect(count(replies, "error_max_locks")).toBe(40);
    const [asker] = creators;
    if (!asker) throw new Error("no clients");
    await poll("10 keys in stats", 2_000, async () =>
      (await readStats(asker)).locks.length === 10 ? true : undefined,
    );
  });
});

describe("MAX_WAITERS", () => {
  it("is never exceeded by acquires that come at the same time, and places return", async () => {
    await using server = await startServer({ variables: { MAX_WAITERS: "5" } });
    using clients = new Clients(server);
    const holder = await clients.tcp();
    const token = await lock(holder, "crowded", "0 60");
    const crowd = await clients.mixed(100);
    const replies = await Promise.all(crowd.map((client) => ask(client, "l", "crowded", "2")));
    expect(count(replies, "error_max_waiters")).toBe(95);
    expect(count(replies, "timeout")).toBe(5);
    const [next] = crowd;
    if (!next) throw new Error("no clients");
    next.send("l\ncrowded\n30\n");
    await next.silence(200);
    expect(await ask(holder, "r", "crowded", token)).toBe("ok");
    expect(await next.next()).toMatch(/^ok /);
  });
});

describe("MAX_CONNECTIONS", () => {
  it("is never exceeded by TCP and WebSocket together, and places return", async () => {
    await using server = await startServer({ variables: { MAX_CONNECTIONS: "10" } });
    using clients = new Clients(server);
    const connects = Array.from({ length: 30 }, () => [() => clients.tcp(), () => clients.ws()]).flat();
    const entries = await Promise.all(connects.map(enter));
    expect(count(entries, "in")).toBe(10);
    const refused = entries.filter((entry) => entry !== "in");
    expect(new Set(refused)).toEqual(
      new Set(["closed without a byte", `refused 503 ${JSON.stringify(errorBody("max_connections"))}`]),
    );
    for (const [index, entry] of entries.entries()) {
      if (index % 2 === 0) expect(entry).not.toMatch(/^refused/);
      else expect(entry).not.toBe("closed without a byte");
    }
    clients[Symbol.dispose]();
    await poll("a free place", 3_000, async () => ((await enter(() => clients.tcp())) === "in" ? true : undefined));
  });
});

describe("MAX_CONNECTIONS_PER_IP", () => {
  it("counts TCP connections by the address they come from", async () => {
    await using server = await startServer({ variables: { MAX_CONNECTIONS_PER_IP: "3" } });
    using clients = new Clients(server);
    const from = (localAddress: string) => () => clients.tcp({ localAddress });
    const crowd = await Promise.all(Array.from({ length: 12 }, () => enter(from("127.0.0.1"))));
    expect(count(crowd, "in")).toBe(3);
    expect(count(crowd, "closed without a byte")).toBe(9);
    expect(await enter(from("127.0.0.2"))).toBe("in");
  });

  it("counts WebSockets by the header that is to be believed", async () => {
    const variables = { MAX_CONNECTIONS_PER_IP: "3", CLIENT_IP_HEADER: "X-Real-IP" };
    await using server = await startServer({ variables });
    using clients = new Clients(server);
    const from = (address: string) => () => clients.ws({ headers: { "X-Real-IP": address } });
    const crowd = await Promise.all(Array.from({ length: 12 }, () => enter(from("192.0.2.1"))));
    expect(count(crowd, "in")).toBe(3);
    expect(count(crowd, `refused 503 ${JSON.stringify(errorBody("max_connections_per_ip"))}`)).toBe(9);
    expect(await enter(from("192.0.2.2"))).toBe("in");
  });
});

describe("stats", () => {
  const odd = ['"', "\\", "a\x01b", "\x7f", "</script>", "\u2028", "🔒", "ключ", "é", "e\u0301", "\uffff", "\0"];
  const inherited = ["__proto__", "constructor", "toString", "hasOwnProperty"];

  it("lists five hundred keys, whatever their letters, sorted by their bytes", async () => {
    await using server = await startServer();
    using clients = new Clients(server);
    const client = await clients.tcp();
    const plain = Array.from({ length: 500 }, (_, index) => `key-${(index * 7919) % 500}`);
    const keys = [...plain, ...odd, ...inherited];
    // Longer than it takes to acquire them all.
    for (const key of keys) expect(await ask(client, "l", key, "0 600")).toMatch(/^ok /);
    const listed = (await readStats(client)).locks.map((entry) => entry.key);
    expect(listed).toEqual(keys.toSorted((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b))));
  });

  it("shows each kind of key in its list", async () => {
    await using server = await startServer();
    using clients = new Clients(server);
    const client = await clients.ws();
    for (const key of [...odd, ...inherited]) {
      expect(await ask(client, "r", `idle${key}`, await lock(client, `idle${key}`))).toBe("ok");
      expect(await ask(client, "sl", `many${key}`, "0 3")).toMatch(/^ok /);
    }
    const stats = await readStats(client);
    const sorted = (prefix: string) =>
      [...odd, ...inherited].map((key) => prefix + key).sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)));
    expect(stats.locks).toEqual([]);
    expect(stats.idle_locks.map((entry) => entry.key)).toEqual(sorted("idle"));
    expect(stats.semaphores).toEqual(sorted("many").map((key) => ({ key, limit: 3, holders: 1, waiters: 0 })));
  });
});
