/** The one alarm of sessions that share an object. */
import { evictDurableObject, runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { SharedWakeUp } from "../../../src/cloudflare/awake/shared-wake-up.ts";
import { objectNameOf } from "../../../src/cloudflare/calls/session-names.ts";
import { StorageHealth } from "../../../src/cloudflare/storage-probe.ts";
import { pass, stopClock } from "../clock.ts";
import { cut, plain, resumable } from "../resuming.ts";
import { type Client, fresh, keyStub, sessionsOn, until } from "../support.ts";

const READ_TIMEOUT_MS = 23_000;
const GRACE_MS = 10_000;

beforeEach(stopClock);
afterEach(() => {
  vi.useRealTimers();
  vi.restoreAllMocks();
});

let stories = 0;

/** The object of another test takes no more sessions. */
function beginStory(): void {
  stories += 1;
  pass(stories * 60_000);
}

/** Two clients that have stored nothing, and a stub of the object that their sessions share. */
async function sharers() {
  beginStory();
  const [one, other] = [await plain({ isShared: true }), await plain({ isShared: true })];
  const [object] = [await objectOf(one), await objectOf(other)];
  return { one, other, object: () => env.SESSION.getByName(object) };
}

async function objectOf(client: Client): Promise<string> {
  const key = fresh("key");
  await client.ask(`l\n${key}\n0 600\n`);
  return objectNameOf((await sessionsOn(key))[0] ?? "");
}

const alarmOf = (object: DurableObjectStub) => runInDurableObject(object, (_, { storage }) => storage.getAlarm());
const tablesOf = (object: DurableObjectStub) =>
  runInDurableObject(object, (_, { storage }) => storage.sql.exec("SELECT name FROM sqlite_master").toArray());

describe("a client that has sent half a request", () => {
  it("is cut off in time, though the object has slept and nothing is stored", async () => {
    const { one, other, object } = await sharers();
    one.send("l\n");
    await until(async () => (await alarmOf(object())) !== null);
    await evictDurableObject(object(), { webSockets: "hibernate" });
    pass(READ_TIMEOUT_MS);
    expect(await runDurableObjectAlarm(object())).toBe(true);
    await one.closed();
    expect(await other.ask("ping\n_\n_\n")).toBe("ok");
    other.close();
  });

  it("is cut off in time, though another client has left since the object slept", async () => {
    const { one, other, object } = await sharers();
    one.send("l\n");
    const alarm = await until(() => alarmOf(object()));
    await evictDurableObject(object(), { webSockets: "hibernate" });
    other.close();
    await other.closed();
    await until(async () => (await runInDurableObject(object(), (_, state) => state.getWebSockets())).length === 1);
    await scheduler.wait(300);
    expect(await alarmOf(object())).toBe(alarm);
    pass(READ_TIMEOUT_MS);
    expect(await runDurableObjectAlarm(object())).toBe(true);
    await one.closed();
  });

  it("leaves an empty database, though the object was lost with it", async () => {
    const { one, object } = await sharers();
    one.send("l\n");
    await until(async () => (await alarmOf(object())) !== null);
    await runInDurableObject(object(), (_, state) => state.abort("crash")).catch(() => {});
    pass(READ_TIMEOUT_MS);
    expect(await runDurableObjectAlarm(object())).toBe(true);
    expect(await tablesOf(object())).toEqual([]);
  });
});

it("a client that has yet to authenticate is cut off in time, though an alarm of another has woken it before", async () => {
  beginStory();
  const [one, other] = [await resumable({ isShared: true }), await resumable({ isShared: true })];
  const object = () => env.SESSION.getByName(objectNameOf(one.credential.session));
  await runInDurableObject(object(), (_, state) => {
    for (const socket of state.getWebSockets()) {
      const { state: kept, ...attachment } = socket.deserializeAttachment();
      if (attachment.session !== one.credential.session) continue;
      socket.serializeAttachment({ ...attachment, state: { ...kept, phase: "handshake" } });
    }
  });
  await evictDurableObject(object(), { webSockets: "hibernate" });
  await cut(other.client);
  pass(GRACE_MS);
  expect(await runDurableObjectAlarm(object())).toBe(true);
  pass(READ_TIMEOUT_MS - GRACE_MS);
  expect(await runDurableObjectAlarm(object())).toBe(true);
  await one.client.closed();
});

describe("on a full disk", () => {
  it("a timer takes the place of the alarm, whose write would fail and cost all sessions their sockets", async () => {
    vi.useRealTimers();
    const setAlarm = vi.fn();
    const rung = Promise.withResolvers<void>();
    const storage = { setAlarm } as unknown as DurableObjectStorage;
    let mayStore = false;
    const wakeUp = new SharedWakeUp(storage, { mayStore: () => mayStore, ring: rung.resolve });
    wakeUp.of("one").by(Date.now() + 20);
    await rung.promise;
    expect(setAlarm).not.toHaveBeenCalled();
    const woken: string[] = [];
    const wake = async (session: string) => {
      woken.push(session);
    };
    await wakeUp.fired(() => [], wake);
    expect(woken).toEqual(["one"]);
    mayStore = true;
    wakeUp.of("one").by(Date.now() + 60_000);
    expect(setAlarm).toHaveBeenCalledTimes(1);
  });

  it("a client that leaves has nothing written but at its keys, and is gone all the same", async () => {
    const { one, other, object } = await sharers();
    const key = fresh("key");
    await one.ask(`l\n${key}\n0 600\n`);
    vi.spyOn(StorageHealth.prototype, "mayStore").mockResolvedValue(false);
    const written = await runInDurableObject(object(), (_, { storage }) => [
      vi.spyOn(storage.kv, "put"),
      vi.spyOn(storage.sql, "exec"),
      vi.spyOn(storage, "setAlarm"),
    ]);
    one.close();
    await until(async () => (await keyStub(key).describe())?.holderCount === 0);
    const [put, exec, setAlarm] = written;
    expect(put).not.toHaveBeenCalled();
    expect(setAlarm).not.toHaveBeenCalled();
    expect(exec?.mock.calls.filter(([query]) => !/^SELECT/.test(String(query)))).toEqual([]);
    expect(await other.ask("ping\n_\n_\n")).toBe("ok");
    other.close();
  });
});
