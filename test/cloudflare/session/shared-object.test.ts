/** Sessions that share an object, as on a self-hosted server. */
import { evictDurableObject, runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { callAwake } from "../../../src/cloudflare/awake/resting.ts";
import { objectNameOf, sessionObject } from "../../../src/cloudflare/calls/session-names.ts";
import { pass, stopClock } from "../clock.ts";
import { cut, plain, type Resumable, resumable, resume } from "../resuming.ts";
import { type Client, fresh, keyStub, storedIn, tokenOf, until } from "../support.ts";

const GRACE_MS = 10_000;

beforeEach(stopClock);
afterEach(() => {
  vi.useRealTimers();
  vi.restoreAllMocks();
});

const objectOf = (session: string) => env.SESSION.getByName(objectNameOf(session));

let stories = 0;

/** Two clients whose sessions live in one object. A stub of it is of no use after a crash. */
async function sharers(): Promise<{ one: Resumable; other: Resumable; object: () => ReturnType<typeof objectOf> }> {
  // The object of another test takes no more sessions then.
  stories += 1;
  pass(stories * 60_000);
  const [one, other] = [await resumable({ isShared: true }), await resumable({ isShared: true })];
  const object = objectNameOf(one.credential.session);
  expect(objectNameOf(other.credential.session)).toBe(object);
  return { one, other, object: () => env.SESSION.getByName(object) };
}

const take = async ({ client }: { client: Client }, key: string) =>
  tokenOf(await client.ask(`@${fresh("l")} l\n${key}\n0 600\n`));
const renew = ({ client }: { client: Client }, key: string, token: string) =>
  client.ask(`@2 n\n${key}\n${token} 600\n`);
const isFree = (key: string) => until(async () => (await keyStub(key).describe())?.holderCount === 0);
const isHeld = async (key: string) => (await keyStub(key).describe())?.holderCount === 1;

const isOf =
  ({ credential }: Resumable) =>
  (socket: WebSocket) =>
    socket.deserializeAttachment().session === credential.session;

const crash = (object: DurableObjectStub) =>
  runInDurableObject(object, (_, state) => state.abort("crash")).catch(() => {});

describe("clients whose sessions share an object", () => {
  it("leave one by one, each with its own locks", async () => {
    const { one, other } = await sharers();
    const [first, second] = [fresh("key"), fresh("key")];
    await take(one, first);
    const token = await take(other, second);
    one.client.close();
    await isFree(first);
    expect(await isHeld(second)).toBe(true);
    expect(await renew(other, second, token)).toBe("@2 ok 600");
    other.client.close();
  });

  it("continue where they were after the object has slept", async () => {
    const { one, other, object } = await sharers();
    const [first, second] = [fresh("key"), fresh("key")];
    const tokens = [await take(one, first), await take(other, second)] as const;
    // Half a request of each, and a place in the queue of the other's lock.
    one.client.send(`@w l\n${second}\n60 600\n@3 n\n`);
    other.client.send(`@3 n\n`);
    await until(async () => (await keyStub(second).describe())?.waiters === 1);
    await evictDurableObject(object(), { webSockets: "hibernate" });
    one.client.send(`${first}\n${tokens[0]} 600\n`);
    other.client.send(`${second}\n${tokens[1]} 600\n`);
    expect(await one.client.line()).toBe("@3 ok 600");
    expect(await other.client.line()).toBe("@3 ok 600");
    await evictDurableObject(object(), { webSockets: "hibernate" });
    expect(await other.client.ask(`@4 r\n${second}\n${tokens[1]}\n`)).toBe("@4 ok");
    expect(await one.client.line()).toMatch(/^@w ok [0-9a-f]{32} 600$/);
    expect(other.client.unread).toEqual([]);
    for (const { client } of [one, other]) client.close();
  });

  it("are told apart by a close that wakes the object", async () => {
    const { one, other, object } = await sharers();
    const [first, second] = [fresh("key"), fresh("key")];
    await take(one, first);
    const token = await take(other, second);
    await evictDurableObject(object(), { webSockets: "hibernate" });
    one.client.close();
    await isFree(first);
    expect(await renew(other, second, token)).toBe("@2 ok 600");
    other.client.close();
  });

  it("come back after the object was lost, each with its own secret", async () => {
    const { one, other, object } = await sharers();
    const [first, second] = [fresh("key"), fresh("key")];
    const tokens = [await take(one, first), await take(other, second)] as const;
    await crash(object());
    await expect(resume({ ...one.credential, secret: other.credential.secret })).rejects.toThrow("no upgrade: 503");
    const client = await resume(one.credential);
    const others = await resume(other.credential);
    expect(await renew({ client }, first, tokens[0])).toBe("@2 ok 600");
    expect(await renew({ client: others }, second, tokens[1])).toBe("@2 ok 600");
    client.close();
    others.close();
  });

  it("are answered their keep-alives, whether they have been heard of before or not", async () => {
    const { one, other, object } = await sharers();
    await evictDurableObject(object(), { webSockets: "hibernate" });
    expect(await one.client.ask("@keepalive ping\n_\n_\n")).toBe("@keepalive ok");
    expect(await other.client.ask("@keepalive ping\n_\n_\n")).toBe("@keepalive ok");
    for (const { client } of [one, other]) client.close();
  });

  it("leave nothing stored when the last has left, and all that is another's before", async () => {
    const { one, other, object } = await sharers();
    const [first, second] = [fresh("key"), fresh("key")];
    await take(one, first);
    await take(other, second);
    one.client.close();
    await isFree(first);
    const names = () =>
      runInDurableObject(object(), (_, { storage }) => Array.from(storage.kv.list(), ([name]) => name));
    await until(async () => (await names()).every((name) => name.startsWith(other.credential.session)));
    expect(await names()).toContain(`${other.credential.session}/resumption`);
    other.client.close();
    await until(async () => (await storedIn(object())).length === 0);
    expect(await runInDurableObject(object(), (_, { storage }) => storage.getAlarm())).toBe(null);
  });

  it("have each their own keys, however many", async () => {
    const { one, other } = await sharers();
    const keys = Array.from({ length: 4 }, () => fresh("key"));
    const [mine, theirs] = [keys.slice(0, 2), keys.slice(2)];
    for (const key of mine) await take(one, key);
    for (const key of theirs) await take(other, key);
    one.client.close();
    for (const key of mine) await isFree(key);
    for (const key of theirs) expect(await isHeld(key)).toBe(true);
    other.client.close();
    for (const key of theirs) await isFree(key);
  });
});

describe("the grace of sessions that share an object", () => {
  it("ends for the one that stays away, and not for the one that is back", async () => {
    const { one, other, object } = await sharers();
    const [first, second] = [fresh("key"), fresh("key")];
    await take(one, first);
    const token = await take(other, second);
    for (const { client } of [one, other]) await cut(client);
    pass(GRACE_MS / 2);
    const client = await resume(other.credential);
    pass(GRACE_MS / 2 + 1);
    expect(await runDurableObjectAlarm(object())).toBe(true);
    await isFree(first);
    expect(await renew({ client }, second, token)).toBe("@2 ok 600");
    client.close();
  });

  it("ends in time though another takes long to leave its keys", async () => {
    const { one, other, object } = await sharers();
    const [first, second] = [fresh("key"), fresh("key")];
    await take(one, first);
    await take(other, second);
    await cut(one.client);
    pass(1_000);
    await cut(other.client);
    pass(GRACE_MS - 1_000);
    let isStuck = true;
    const stuck = runInDurableObject(keyStub(first), (_, state) =>
      state.blockConcurrencyWhile(async () => {
        await scheduler.wait(2_000);
        isStuck = false;
      }),
    );
    expect(await runDurableObjectAlarm(object())).toBe(true);
    pass(1_000);
    expect(await runDurableObjectAlarm(object())).toBe(true);
    await isFree(second);
    expect(isStuck).toBe(true);
    await stuck;
    await isFree(first);
  });

  it("ends in time though the object was lost and another session has set the alarm since", async () => {
    const { one, other, object } = await sharers();
    const [first, second] = [fresh("key"), fresh("key")];
    await take(one, first);
    const token = await take(other, second);
    await cut(one.client);
    const alarm = await runInDurableObject(object(), (_, { storage }) => storage.getAlarm());
    expect(alarm).toBe(Date.now() + GRACE_MS);
    pass(GRACE_MS / 2);
    await crash(object());
    // A later alarm than the one that is set.
    const client = await resume(other.credential);
    await cut(client);
    expect(await runInDurableObject(object(), (_, { storage }) => storage.getAlarm())).toBe(alarm);
    pass(GRACE_MS / 2 + 1);
    expect(await runDurableObjectAlarm(object())).toBe(true);
    await isFree(first);
    expect(await isHeld(second)).toBe(true);
    const back = await resume(other.credential);
    expect(await renew({ client: back }, second, token)).toBe("@2 ok 600");
    back.close();
  });
});

describe("self-hosted", () => {
  const hostOneself = (object: ReturnType<typeof objectOf>) =>
    runInDurableObject(object, (instance) => {
      Object.assign(instance, { env: { ...env, SELF_HOSTED: "true" } });
      return instance;
    });
  const livesOn = (object: () => ReturnType<typeof objectOf>, before: object) =>
    callAwake(() => runInDurableObject(object(), (instance) => instance === before));

  it("the object stays awake for the client that is there, and rests when all are gone", async () => {
    const { one, other, object } = await sharers();
    const key = fresh("key");
    const token = await take(other, key);
    const before = await hostOneself(object());
    await cut(one.client);
    vi.useRealTimers();
    await scheduler.wait(100);
    expect(await livesOn(object, before)).toBe(true);
    expect(await renew(other, key, token)).toBe("@2 ok 600");
    // It is still there for the one that was away, too.
    const client = await resume(one.credential);
    expect(await client.ask("@p ping\n_\n_\n")).toBe("@p ok");
    client.close();
    await cut(other.client);
    await until(async () => !(await livesOn(object, before)));
    expect(await sessionObject(env, other.credential.session).isLive()).toBe(true);
    const back = await resume(other.credential);
    expect(await renew({ client: back }, key, token)).toBe("@2 ok 600");
    back.close();
  });

  it("a socket that was replaced says nothing about a session that has gone to rest, however late it closes", async () => {
    const { one, other, object } = await sharers();
    await hostOneself(object());
    const [old] = await runInDurableObject(object(), (_, state) => state.getWebSockets().filter(isOf(one)));
    await cut(await resume(one.credential));
    await one.client.closed();
    await until(() => runInDurableObject(object(), (_, state) => !state.getWebSockets().some(isOf(one))));
    vi.useRealTimers();
    await scheduler.wait(100);
    await runInDurableObject(object(), (instance) => instance.webSocketClose(old as WebSocket, 4411));
    const again = await resume(one.credential);
    expect(await again.ask("@q ping\n_\n_\n")).toBe("@q ok");
    for (const client of [again, other.client]) client.close();
  });

  it("many calls for sessions that are gone make the object settle a few times, not once for each", async () => {
    const { one, other, object } = await sharers();
    await hostOneself(object());
    vi.useRealTimers();
    const settled = await runInDurableObject(object(), async (instance, { storage }) => {
      const sync = vi.spyOn(storage, "sync");
      await Promise.all(Array.from({ length: 100 }, () => instance.isLive(fresh("gone"))));
      await scheduler.wait(200);
      return sync.mock.calls.length;
    });
    expect(settled).toBeGreaterThan(0);
    expect(settled).toBeLessThan(20);
    for (const { client } of [one, other]) client.close();
  });

  it("a client that cannot come back leaves at once, and the others do not notice", async () => {
    const key = fresh("key");
    const client = await plain({ isShared: true });
    const { other } = await sharers();
    const token = await take(other, key);
    expect(await client.ask(`@1 l\n${key}\n0 600\n`)).toBe("@1 timeout");
    client.close();
    expect(await renew(other, key, token)).toBe("@2 ok 600");
    other.client.close();
    await isFree(key);
  });
});
