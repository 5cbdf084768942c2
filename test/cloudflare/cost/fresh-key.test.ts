import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, describe, expect, it, vi } from "vitest";
import { directoryOfKey } from "../../../src/cloudflare/calls/directories.ts";
import { DirectoryObject } from "../../../src/cloudflare/directory/directory-object.ts";
import { KeyObject } from "../../../src/cloudflare/key/key-object.ts";
import { SessionObject } from "../../../src/cloudflare/session/session-object.ts";
import { pass, stopClock } from "../clock.ts";
import {
  Client,
  countRows,
  fresh,
  isListed,
  keyStub,
  listed,
  liveSessions,
  PRUNED_AFTER_MS,
  sessionStub,
  sessionsOn,
  storedIn,
  tokenOf,
  until,
} from "../support.ts";

afterEach(() => {
  vi.restoreAllMocks();
  vi.useRealTimers();
});

/** What is billed as a request: calls between objects, and runs of alarms. Metrics have a budget of their own. */
const REQUESTS = [
  ...(["command", "alarm"] as const).map((name) => () => vi.spyOn(KeyObject.prototype, name)),
  ...(["listKey", "unlistKey", "admitKey", "alarm"] as const).map(
    (name) => () => vi.spyOn(DirectoryObject.prototype, name),
  ),
  ...(["deliver", "lose", "isLive", "alarm"] as const).map((name) => () => vi.spyOn(SessionObject.prototype, name)),
];

/** The life of a key that one client uses once. */
async function costOfLife() {
  stopClock();
  const client = await Client.open();
  await until(async () => (await liveSessions()) === 1);
  // The session and the directory's shard have been used before.
  const [key, other] = [fresh("key"), fresh("warm")];
  const token = tokenOf(await client.ask(`l\n${other}\n0\n`));
  const session = sessionStub((await sessionsOn(other))[0] ?? "");
  expect(await client.ask(`r\n${other}\n${token}\n`)).toBe("ok");
  await listed(other);
  await directoryOfKey(env, key).census();
  const requests = REQUESTS.map((spy) => spy());
  const counts = await Promise.all([keyStub(key), session, directoryOfKey(env, key)].map(countRows));
  const held = tokenOf(await client.ask(`l\n${key}\n0\n`));
  await listed(key);
  expect(await client.ask(`r\n${key}\n${held}\n`)).toBe("ok");
  pass(PRUNED_AFTER_MS);
  // Not by the test runner, which would delete the alarm.
  await runInDurableObject(keyStub(key), (object) => object.alarm());
  const [atKey = 0, atSession = 0, atDirectory = 0] = counts.map((count) => count());
  const called = requests.reduce((sum, { mock }) => sum + mock.calls.length, 0);
  expect(await storedIn(keyStub(key))).toEqual([]);
  expect(await isListed(key)).toBe(false);
  client.close();
  return { atKey, atSession, atDirectory, called };
}

describe("the whole life of a key that is used once", () => {
  it("takes five rows and the deletion of everything, and five requests", async () => {
    const { called, ...rows } = await costOfLife();
    // The grant, the alarm, the release; the entry and its removal.
    expect(rows).toEqual({ atKey: 3, atSession: 0, atDirectory: 2 });
    // Acquire, release, the key's alarm; to list it and to remove it.
    expect(called).toBe(5);
  });

  it("wakes nobody at the end of a lease that nobody waits for or watches", async () => {
    const key = fresh("key");
    const client = await Client.open();
    await client.ask(`l\n${key}\n0\n`);
    const alarm = () => runInDurableObject(keyStub(key), (_, { storage }) => storage.getAlarm());
    expect(await alarm()).toBeGreaterThan(Date.now() + 3_600_000);
    // A client that wants to hear of it later still does.
    expect(await client.ask("watch\n_\nlost\n")).toBe("ok");
    await until(async () => ((await alarm()) ?? 0) < Date.now() + 60_000);
    client.close();
  });
});
