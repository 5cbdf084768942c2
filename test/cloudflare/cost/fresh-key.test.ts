import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, describe, expect, it, vi } from "vitest";
import { directoryOfKey } from "../../../src/cloudflare/calls/directories.ts";
import { DirectoryObject } from "../../../src/cloudflare/directory/directory-object.ts";
import { KeyObject } from "../../../src/cloudflare/key/key-object.ts";
import { SessionObject } from "../../../src/cloudflare/session/session-object.ts";
import { pass, stopClock } from "../clock.ts";
import { Client, countRows, fresh, keyStub, liveSessions, sessionsOn, storedIn, tokenOf, until } from "../support.ts";

afterEach(() => {
  vi.restoreAllMocks();
  vi.useRealTimers();
});

/** What is billed as a request: calls between objects, and runs of alarms. Metrics have a budget of their own. */
const REQUESTS = [
  ...(["acquire", "release", "retire", "forgetRetired", "leave", "alarm"] as const).map(
    (name) => () => vi.spyOn(KeyObject.prototype, name),
  ),
  ...(["joinKey", "listsAnother", "alarm"] as const).map((name) => () => vi.spyOn(DirectoryObject.prototype, name)),
  ...(["deliver", "lose", "isLive", "alarm"] as const).map((name) => () => vi.spyOn(SessionObject.prototype, name)),
];

/** The life of a key that one client uses once. */
async function costOfLife() {
  stopClock();
  const client = await Client.open();
  await until(async () => (await liveSessions()) === 1);
  const key = await keyWithoutSessions();
  // The session and the directory's shard have been used before.
  const other = sameShardAs(key);
  const token = tokenOf(await client.ask(`l\n${other}\n0\n`));
  const session = env.SESSION.getByName((await sessionsOn(other))[0] ?? "");
  expect(await client.ask(`r\n${other}\n${token}\n`)).toBe("ok");
  pass(130_000);
  await alarmOf(key);
  const requests = REQUESTS.map((spy) => spy());
  const counts = await Promise.all([keyStub(key), session, directoryOfKey(env, key)].map(countRows));
  expect(await client.ask(`r\n${key}\n${tokenOf(await client.ask(`l\n${key}\n0\n`))}\n`)).toBe("ok");
  pass(130_000);
  await alarmOf(key);
  const [atKey = 0, atSession = 0, atDirectory = 0] = counts.map((count) => count());
  const called = requests.reduce((sum, { mock }) => sum + mock.calls.length, 0);
  expect(await storedIn(keyStub(key))).toEqual([]);
  expect(await directoryOfKey(env, key).lists(key)).toBe(false);
  client.close();
  return { atKey, atSession, atDirectory, called };
}

async function alarmOf(key: string): Promise<void> {
  await runInDurableObject(directoryOfKey(env, key), async (object, { storage }) => {
    expect(await storage.getAlarm()).not.toBeNull();
    await (object as DirectoryObject).alarm();
  });
}

/** A key in a shard that lists no sessions: its alarm is set for keys only. */
async function keyWithoutSessions(): Promise<string> {
  for (;;) {
    const key = fresh("key");
    const { sessions } = await directoryOfKey(env, key).census();
    if (sessions.ws === 0) return key;
  }
}

function sameShardAs(key: string): string {
  const shard = directoryOfKey(env, key).name;
  for (;;) {
    const other = fresh("warm");
    if (directoryOfKey(env, other).name === shard) return other;
  }
}

describe("the whole life of a key that is used once", () => {
  it("takes at most six rows and six requests, alone in a shard without sessions", async () => {
    const { atKey, atSession, atDirectory, called } = await costOfLife();
    expect({ atKey, atSession }).toEqual({ atKey: 2, atSession: 0 });
    expect(atKey + atSession + atDirectory).toBeLessThanOrEqual(6);
    expect(called).toBeLessThanOrEqual(6);
    expect(called).toBeGreaterThanOrEqual(4);
  });

  it("wakes nobody at the end of a lease that nobody waits for or watches", async () => {
    const key = fresh("key");
    const client = await Client.open();
    await client.ask(`l\n${key}\n0\n`);
    await runInDurableObject(keyStub(key), async (_, { storage }) => {
      expect(await storage.getAlarm()).toBeNull();
    });
    // Whoever wants to hear of it later still does.
    expect(await client.ask("watch\n_\nlost\n")).toBe("ok");
    await until(() => runInDurableObject(keyStub(key), async (_, { storage }) => (await storage.getAlarm()) !== null));
    client.close();
  });
});
