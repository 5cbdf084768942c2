import { runDurableObjectAlarm } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, describe, expect, it, vi } from "vitest";
import { AwakeList } from "../../../src/cloudflare/awake/awake-list.ts";
import { isResting } from "../../../src/cloudflare/awake/resting.ts";
import { WakeCalendar } from "../../../src/cloudflare/awake/wake-calendar.ts";
import { RemoteKeys } from "../../../src/cloudflare/calls/remote-keys.ts";
import { DirectoryObject } from "../../../src/cloudflare/directory/directory-object.ts";
import { SessionObject } from "../../../src/cloudflare/session/session-object.ts";
import type { AcquireOutcome } from "../../../src/core/engine/index.ts";
import type { KeyCall } from "../../../src/core/session/key-calls.ts";
import { pass, stopClock } from "../clock.ts";
import { eager, type FakeSession, scriptSessions } from "../listeners.ts";
import { callsAbout } from "../spies.ts";
import { Client, command, fresh, grantedToken, keyStub, tokenOf, until, WAIT } from "../support.ts";

afterEach(() => {
  vi.restoreAllMocks();
  vi.useRealTimers();
});

/** Asks a key to rest; whether it did. */
const rest = async (key: string) =>
  keyStub(key)
    .rest()
    .then(() => false, isResting);

/** Something that happens when the story says so. */
function gate() {
  let open = () => {};
  const opened = new Promise<void>((resolve) => {
    open = resolve;
  });
  return { open, opened };
}

it("clients that share a key which is put to rest all the time hold it one at a time, with rising fences", async () => {
  const key = fresh("key");
  const clients = await Promise.all(Array.from({ length: 3 }, () => Client.open()));
  const fences: string[] = [];
  let holders = 0;
  let isOver = false;
  const disturb = (async () => {
    while (!isOver) await rest(key);
  })();
  await Promise.all(
    clients.map(async (client) => {
      for (let round = 0; round < 2; round += 1) {
        const token = tokenOf(await client.ask(`l\n${key}\n15 30\n`));
        holders += 1;
        expect(holders).toBe(1);
        fences.push(token.slice(0, 16));
        await until(() => rest(key), { timeout: 10_000, interval: 5 });
        holders -= 1;
        expect(await client.ask(`r\n${key}\n${token}\n`)).toBe("ok");
      }
    }),
  );
  isOver = true;
  await disturb;
  expect(fences).toEqual([...new Set(fences)].sort());
  for (const client of clients) client.close();
});

describe("a key that is put to rest", () => {
  it("keeps its holder, its fence and its order", async () => {
    const key = fresh("key");
    const scripts = scriptSessions();
    const granted: string[] = [];
    const token = grantedToken(await keyStub(key).acquire(command()));
    for (const session of ["one", "two"]) {
      scripts.set(session, eager(key, session, granted));
      await keyStub(key).acquire(command({ ...WAIT, session }));
      expect(await rest(key)).toBe(true);
    }
    expect(await keyStub(key).describe()).toMatchObject({ holderCount: 1, waiters: 2 });
    expect(await keyStub(key).release(token, "")).toEqual({ status: "released" });
    await until(() => granted.length === 1);
    const [, next = ""] = granted[0]?.split(":") ?? [];
    expect(next > token).toBe(true);
    await until(() => rest(key));
    expect(await keyStub(key).release(next, "")).toEqual({ status: "released" });
    await until(() => granted.map((grant) => grant.split(":")[0]).join() === "one,two");
  });

  it("still hands over at the end of a lease", async () => {
    const key = fresh("key");
    const granted: string[] = [];
    scriptSessions().set("next", eager(key, "next", granted));
    stopClock();
    await keyStub(key).acquire(command({ leaseSeconds: 20 }));
    await keyStub(key).acquire(command({ ...WAIT, session: "next" }));
    expect(await rest(key)).toBe(true);
    pass(20_000);
    await runDurableObjectAlarm(keyStub(key));
    await until(() => granted.length === 1, { timeout: 5_000 });
  });

  it("answers a session that still has the old way to it", async () => {
    const key = fresh("key");
    const keys = new RemoteKeys(env);
    const ask = (call: KeyCall) => keys.ask(key, call, () => true);
    const granted = (await ask({ type: "acquire", command: command() })) as AcquireOutcome;
    expect(await rest(key)).toBe(true);
    const renewal = { type: "renew", token: grantedToken(granted), leaseSeconds: 5 } as const;
    expect(await ask(renewal)).toMatchObject({ status: "renewed" });
  });

  it("shows those who hold it in its history, and no longer those who did", async () => {
    const key = fresh("key");
    await keyStub(key).release(grantedToken(await keyStub(key).acquire(command())), "");
    grantedToken(await keyStub(key).acquire(command()));
    const grants = async () => (await keyStub(key).describe({ detail: true, history: true }))?.history?.grants.length;
    expect(await grants()).toBe(2);
    expect(await rest(key)).toBe(true);
    expect(await grants()).toBe(1);
  });
});

describe("a key is not put to rest", () => {
  it("while it brings a grant to a session", async () => {
    const key = fresh("key");
    const { open, opened } = gate();
    const granted: string[] = [];
    const next = eager(key, "next", granted);
    const deliver = vi.fn<FakeSession["deliver"]>(async (notice) => {
      await opened;
      return next.deliver(notice);
    });
    scriptSessions().set("next", { deliver });
    const token = grantedToken(await keyStub(key).acquire(command()));
    await keyStub(key).acquire(command({ ...WAIT, session: "next" }));
    await keyStub(key).release(token, "");
    await until(() => deliver.mock.calls.length === 1);
    expect(await rest(key)).toBe(false);
    open();
    await until(() => rest(key));
    expect(granted).toHaveLength(1);
  });

  it("while it tells a session of a loss", async () => {
    const key = fresh("key");
    const { open, opened } = gate();
    const lose = vi.spyOn(SessionObject.prototype, "lose").mockImplementation(() => opened);
    const token = grantedToken(await keyStub(key).acquire(command()));
    await keyStub(key).steal(token.slice(0, 16));
    await until(() => callsAbout(lose, key).length === 1);
    expect(await rest(key)).toBe(false);
    open();
    await until(() => rest(key));
  });

  it("while it is being founded", async () => {
    const key = fresh("key");
    const { open, opened } = gate();
    const join = DirectoryObject.prototype.joinKey;
    const joining = vi.spyOn(DirectoryObject.prototype, "joinKey").mockImplementation(async function (
      this: DirectoryObject,
      ...args
    ) {
      await opened;
      return join.apply(this, args);
    });
    const grant = keyStub(key).acquire(command());
    await until(() => callsAbout(joining, key).length === 1);
    expect(await rest(key)).toBe(false);
    open();
    grantedToken(await grant);
  });

  it("when a call comes while it is about to rest", async () => {
    const key = fresh("key");
    grantedToken(await keyStub(key).acquire(command({ limit: 2 })));
    for (const call of [
      async () => grantedToken(await keyStub(key).acquire(command({ limit: 2 }))),
      async () => expect(await keyStub(key).describe()).toMatchObject({ holderCount: 2 }),
    ]) {
      const resting = rest(key);
      await call();
      expect(await resting).toBe(false);
    }
  });

  it("when its alarm is near", async () => {
    const key = fresh("key");
    stopClock();
    await keyStub(key).acquire(command({ leaseSeconds: 1, isWatched: true }));
    expect(await rest(key)).toBe(false);
    pass(1_000);
    // An alarm must not find the test gone.
    await until(async () => (await keyStub(key).describe())?.holderCount === 0, { timeout: 5_000 });
  });
});

describe("keys that want to wake at the same moment", () => {
  it("are woken one after another, no more at a time than can be put to rest again", () => {
    const calendar = new WakeCalendar();
    const times = Array.from({ length: 40 }, () => calendar.book(10_000, 0, 160));
    expect(times).toEqual([10_000, 10_100, 10_200, 10_300].flatMap((time) => new Array(10).fill(time)));
    expect(calendar.book(10_950, 0, 160)).toBe(10_950);
  });

  it("are not kept waiting by what is past", () => {
    const calendar = new WakeCalendar();
    for (let index = 0; index < 100; index += 1) calendar.book(10_000, 0, 16);
    expect(calendar.book(10_000, 0, 16)).toBe(20_000);
    expect(calendar.book(10_000, 30_000, 16)).toBe(30_000);
  });
});

describe("the order in which keys rest", () => {
  const MAX = 10;

  it("begins with what was used longest ago", () => {
    const list = new AwakeList();
    for (const [at, key] of ["a", "b", "c"].entries()) list.add(key, at);
    list.add("a", 5);
    expect([list.takeIdlest(1_000), list.takeIdlest(1_000), list.takeIdlest(1_000)]).toEqual(["b", "c", "a"]);
  });

  it("spares what is used regularly, however many are used once", () => {
    const list = new AwakeList();
    list.use("regular", 0, MAX);
    list.use("regular", 1_000, MAX);
    list.add("regular", 1_000);
    for (let index = 0; index < 9; index += 1) list.add(`once-${index}`, 2_000);
    for (let index = 0; index < 9; index += 1) expect(list.takeIdlest(3_000)).toBe(`once-${index}`);
    expect(list.takeIdlest(3_000)).toBe("regular");
  });

  it("lets regular ones have half the room at most", () => {
    const list = new AwakeList();
    for (const at of [0, 1_000])
      for (let index = 0; index < MAX; index += 1) {
        list.use(`regular-${index}`, at + index, MAX);
        list.add(`regular-${index}`, at + index);
      }
    list.add("once", 1_000);
    const first = Array.from({ length: 6 }, () => list.takeIdlest(3_000));
    expect(first).toContain("once");
    expect(first.filter((key) => key?.startsWith("regular"))).toHaveLength(5);
  });

  it("counts those that are about to rest until they do, and never leaves out what came back", () => {
    const list = new AwakeList();
    list.add("a", 0);
    expect(list.takeIdlest(1_000)).toBe("a");
    expect([list.has("a"), list.count(1_000)]).toEqual([false, 1]);
    list.stayed("a", 1_000);
    expect([list.has("a"), list.count(1_000)]).toEqual([true, 1]);
    expect(list.takeIdlest(2_000)).toBe("a");
    list.rested("a");
    expect([list.has("a"), list.count(2_000)]).toEqual([false, 0]);
  });
});
