import { evictDurableObject, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, expect, it, vi } from "vitest";
import { KeyObject } from "../../src/objects/key/key-object.ts";
import { Client, fresh, keyStub, sessionsOn, tokenOf, until } from "./support.ts";

afterEach(() => {
  vi.restoreAllMocks();
});

const TABLES = `
  CREATE TABLE key (id INTEGER PRIMARY KEY CHECK (id = 1), slot_limit INTEGER NOT NULL, fence TEXT NOT NULL,
    founded_at INTEGER NOT NULL, is_listed INTEGER NOT NULL);
  CREATE TABLE slots (slot INTEGER PRIMARY KEY, token TEXT NOT NULL, session TEXT NOT NULL, request TEXT NOT NULL,
    lease_s INTEGER NOT NULL, expires_at INTEGER NOT NULL, since INTEGER NOT NULL, place INTEGER NOT NULL,
    flags INTEGER NOT NULL, sessionless TEXT);
  CREATE TABLE waiters (place INTEGER PRIMARY KEY, session TEXT NOT NULL, request TEXT NOT NULL, wait_request TEXT,
    is_enqueued INTEGER NOT NULL, lease_s INTEGER NOT NULL, joined_at INTEGER NOT NULL, deadline INTEGER, outcome TEXT,
    sessionless TEXT);
  CREATE TABLE lapsed (session TEXT PRIMARY KEY, at INTEGER NOT NULL) WITHOUT ROWID;
`;

/** Stores a held key as the version before stores it: in tables, and without the flag that this version has added. */
async function storeAsBefore(key: string): Promise<void> {
  await runInDurableObject(keyStub(key), (_, { storage }) => {
    const record = JSON.stringify(storage.kv.get("key"));
    const { limit, fence, foundedAt, slot } = JSON.parse(JSON.parse(record) as string) as never as {
      limit: number;
      fence: string;
      foundedAt: number;
      slot: Record<string, unknown>;
    };
    storage.kv.delete("key");
    storage.sql.exec(TABLES);
    storage.sql.exec("INSERT INTO key VALUES (1, ?, ?, ?, 2)", limit, fence, foundedAt);
    const { token, session, request, lease_s, expires_at, since, place } = slot as Record<string, string | number>;
    storage.sql.exec(
      "INSERT INTO slots VALUES (0, ?, ?, ?, ?, ?, ?, ?, 3, NULL)",
      ...([token, session, request, lease_s, expires_at, since, place] as (string | number)[]),
    );
    // The version before has always set an alarm for the end of the lease.
    void storage.setAlarm(Number(expires_at));
  });
  await evictDurableObject(keyStub(key));
}

it("upgrade: a client that watches hears of the end of a lease that it had before and has renewed since", async () => {
  const client = await Client.open();
  expect(await client.ask("@s session\n_\nresume\n")).toMatch(/^@s ok /);
  expect(await client.ask("@w watch\n_\nlost\n")).toBe("@w ok");
  const key = fresh("key");
  const token = tokenOf(await client.ask(`l\n${key}\n0 2\n`));
  await storeAsBefore(key);
  expect(await client.ask(`n\n${key}\n${token} 4\n`)).toMatch(/^ok/);
  await until(() => client.unread.length > 0, { timeout: 9_000 });
  expect(await client.line()).toBe(`! lost ${key} ${token} expired`);
}, 20_000);

it("a client that has become able to resume hears of a loss, although its session was lost before its keys were told", async () => {
  const client = await Client.open();
  const key = fresh("key");
  const token = tokenOf(await client.ask(`l\n${key}\n0 60\n`));
  const session = (await sessionsOn(key))[0] ?? "";
  // The key cannot be reached in this moment.
  const watch = vi.spyOn(KeyObject.prototype, "watch").mockImplementation(() => {
    throw new Error("unreachable");
  });
  const credential = (await client.ask("@s session\n_\nresume\n")).split(" ")[2];
  await until(() => watch.mock.calls.length > 0);
  // A deploy: the object and its socket are lost, and the client resumes.
  await runInDurableObject(env.SESSION.getByName(session), (_, state) => state.abort("deploy")).catch(() => {});
  watch.mockRestore();
  const again = await Client.open({ "Sec-WebSocket-Protocol": `dflockd.v2, holdfast.resume.${credential}` });
  expect(await again.ask("@w watch\n_\nlost\n")).toBe("@w ok");
  expect(await again.ask(`n\n${key}\n${token} 1\n`)).toMatch(/^ok/);
  await until(() => again.unread.length > 0, { timeout: 6_000 });
  expect(await again.line()).toBe(`! lost ${key} ${token} expired`);
}, 20_000);
