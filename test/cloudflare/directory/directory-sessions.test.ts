import { evictDurableObject, reset, runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { allDirectories, directoryOfSession, labelsOf } from "../../../src/cloudflare/calls/directories.ts";
import type { DirectoryObject } from "../../../src/cloudflare/directory/directory-object.ts";
import { HttpSessionObject } from "../../../src/cloudflare/http-session/http-session-object.ts";
import { SessionObject } from "../../../src/cloudflare/session/session-object.ts";
import { httpSessionName, newSessionId } from "../../../src/core/session-names.ts";
import { gatherStats } from "../../../src/reports/stats.ts";
import { expectLog } from "../../support/expected-logs.ts";
import { pass, stopClock } from "../clock.ts";
import { never, service, until } from "../support.ts";

const nameOf = (object: unknown) => (object as { ctx: DurableObjectState }).ctx.id.name ?? "";

const dead = new Set<string>();
let asked: string[] = [];

beforeEach(() => {
  stopClock();
  asked = [];
  for (const { prototype } of [HttpSessionObject, SessionObject]) {
    vi.spyOn(prototype, "isLive").mockImplementation(async function (this: unknown) {
      asked.push(nameOf(this));
      return { isLive: !dead.has(nameOf(this)) };
    });
  }
});

afterEach(async () => {
  vi.restoreAllMocks();
  vi.useRealTimers();
  await reset();
  // A test may leave a thousand objects behind.
}, 60_000);

const ADDRESS = "192.0.2.1";
/** One shard: these sessions are all counted there, whatever their names. */
const directory = () => allDirectories(env)[0] as ReturnType<typeof directoryOfSession>;

function labelRows(): Promise<number> {
  return runInDurableObject(
    directory(),
    (_, { storage }) => storage.sql.exec("SELECT session FROM labels").toArray().length,
  );
}

describe("a label", () => {
  it("is found by the session's name alone, wherever the session is counted", async () => {
    const sessions = Array.from({ length: 20 }, () => newSessionId());
    for (const [index, session] of sessions.entries()) {
      const address = `192.0.2.${index}`;
      const label = index === 0 ? undefined : `worker ${index} ☃`;
      await directoryOfSession(env, { session, address }).openSession({ session, address, transport: "ws", label });
    }
    const labels = await labelsOf(env, [...sessions, newSessionId(), ...sessions]);
    expect(Object.keys(labels)).toHaveLength(19);
    expect(labels[sessions[7] ?? ""]).toBe("worker 7 ☃");
    expect(await labelsOf(env, [])).toEqual({});
  });

  it("can be changed and taken away", async () => {
    const session = httpSessionName(newSessionId());
    await directory().openSession({ session, address: ADDRESS, transport: "http", label: "before" });
    await directory().relabel({ session, label: "after" });
    expect(await labelsOf(env, [session])).toEqual({ [session]: "after" });
    await directory().relabel({ session, label: "" });
    expect(await labelsOf(env, [session])).toEqual({});
  });

  it("goes with its session, and is not given to one that has gone", async () => {
    const [closed, lost] = [newSessionId(), httpSessionName(newSessionId())];
    await directory().openSession({ session: closed, address: ADDRESS, transport: "tcp", label: "closed" });
    await directory().openSession({ session: lost, address: ADDRESS, transport: "http", label: "lost" });
    expect(await labelRows()).toBe(2);
    await directory().closeSession({ session: closed });
    await directory().relabel({ session: closed, label: "again" });
    expect(await labelRows()).toBe(1);
    dead.add(lost);
    await evictDurableObject(directory());
    expect((await gatherStats(service())).connections).toBe(0);
    expect(await labelRows()).toBe(0);
  });

  it("is looked up for thousands of sessions at once", async () => {
    const session = newSessionId();
    await directory().openSession({ session, address: ADDRESS, transport: "ws", label: "needle" });
    const many = Array.from({ length: 25_000 }, (_, index) => `other-${index}`);
    expect(await labelsOf(env, [...many, session])).toEqual({ [session]: "needle" });
  });
});

describe("sessions are counted", () => {
  it("by transport, and all together as connections", async () => {
    await directory().openSession({ session: newSessionId(), address: ADDRESS, transport: "tcp" });
    await directory().openSession({ session: newSessionId(), address: ADDRESS, transport: "ws" });
    await directory().openSession({ session: newSessionId(), address: ADDRESS, transport: "ws" });
    await directory().openSession({ session: httpSessionName(newSessionId()), address: ADDRESS, transport: "http" });
    const { sessions } = await directory().census();
    expect(sessions).toEqual({ tcp: 1, ws: 2, http: 1 });
    expect((await gatherStats(service())).connections).toBe(4);
  });

  it("without those that ended without a word, which are asked by their own kind", async () => {
    const [socket, silent, lively] = [newSessionId(), httpSessionName(newSessionId()), httpSessionName(newSessionId())];
    await directory().openSession({ session: socket, address: ADDRESS, transport: "ws" });
    await directory().openSession({ session: silent, address: ADDRESS, transport: "http" });
    await directory().openSession({ session: lively, address: ADDRESS, transport: "http" });
    dead.add(socket).add(silent);
    expect((await gatherStats(service())).connections).toBe(3);
    expect(asked).toEqual([]);
    pass(2_100);
    expect((await gatherStats(service())).connections).toBe(2);
    expect(asked.toSorted()).toEqual([silent, lively].toSorted());
    pass(60_000);
    expect((await gatherStats(service())).connections).toBe(1);
    expect(asked).toContain(socket);
  });

  it("without being asked again in the same second", async () => {
    await directory().openSession({ session: httpSessionName(newSessionId()), address: ADDRESS, transport: "http" });
    pass(10_000);
    for (let n = 0; n < 5; n++) await gatherStats(service());
    expect(asked).toHaveLength(1);
    pass(1_000);
    await gatherStats(service());
    expect(asked).toHaveLength(2);
  });

  it("in the end without any that were lost in a restart, a few at a time for those who ask", async () => {
    const sessions = Array.from({ length: 210 }, () => newSessionId());
    await Promise.all(
      sessions.map((session) => directory().openSession({ session, address: ADDRESS, transport: "ws" })),
    );
    for (const session of sessions) dead.add(session);
    await evictDurableObject(directory());
    expect((await gatherStats(service())).connections).toBe(206);
    expect(asked).toHaveLength(4);
    // The alarm goes on by itself, without anybody who asks.
    const left = () =>
      runInDurableObject(
        directory(),
        (_, { storage }) => storage.sql.exec("SELECT session FROM sessions").toArray().length,
      );
    await until(async () => {
      pass(5_000);
      await runDurableObjectAlarm(directory());
      return (await left()) === 0;
    });
    expect(asked.toSorted()).toEqual(sessions.toSorted());
  });

  it("with those that cannot be reached", async () => {
    expectLog("session_unreachable", { error: "Error: unreachable" });
    vi.spyOn(HttpSessionObject.prototype, "isLive").mockRejectedValue(new Error("unreachable"));
    await directory().openSession({ session: httpSessionName(newSessionId()), address: ADDRESS, transport: "http" });
    pass(10_000);
    expect((await gatherStats(service())).connections).toBe(1);
  });
});

describe("many dead sessions", () => {
  const left = () =>
    runInDurableObject(directory(), (_, { storage }) =>
      storage.sql
        .exec<{ session: string }>("SELECT session FROM sessions")
        .toArray()
        .map(({ session }) => session),
    );

  /** Lists them as if they were from before a restart. Returns one in the middle of them; if it is slow, it never answers. */
  async function listDead(count: number, { isOneSlow }: { readonly isOneSlow: boolean }): Promise<string> {
    const sessions = Array.from({ length: count }, () => newSessionId()).toSorted();
    const slow = sessions[count / 2] ?? "";
    await runInDurableObject(directory(), (_, { storage }) => {
      for (const session of sessions) storage.sql.exec("INSERT INTO sessions VALUES (?, ?, 'ws')", session, ADDRESS);
    });
    await evictDurableObject(directory());
    vi.spyOn(SessionObject.prototype, "isLive").mockImplementation(async function (this: unknown) {
      asked.push(nameOf(this));
      return isOneSlow && nameOf(this) === slow ? never() : { isLive: false };
    });
    return slow;
  }

  it("are removed by alarms of at most two hundred probes each, and a slow one among them holds up none", async () => {
    const slow = await listDead(1_000, { isOneSlow: true });
    // It probes four by itself.
    await directory().census();
    for (let alarm = 1; alarm <= 6; alarm++) {
      pass(5_000);
      await runDurableObjectAlarm(directory());
      expect(asked.length).toBeLessThanOrEqual(4 + alarm * 200);
    }
    expect([asked.length, new Set(asked).size]).toEqual([1_000, 1_000]);
    // On a busy machine some may have answered too late, and are probed again after a minute.
    await until(
      async () => {
        pass(60_000);
        await directory().census();
        return (await left()).length === 1;
      },
      { timeout: 30_000 },
    );
    expect(await left()).toEqual([slow]);
  });

  it("are removed although the directory restarts between the alarms, which do not begin again each time", async () => {
    await listDead(500, { isOneSlow: false });
    await directory().census();
    for (let n = 0; n < 3; n++) {
      pass(5_000);
      await runDurableObjectAlarm(directory());
      await evictDurableObject(directory());
    }
    expect(asked).toHaveLength(500);
    expect(new Set(asked).size).toBe(500);
  });

  it("are looked for once an hour, without anybody who asks", async () => {
    const slow = await listDead(250, { isOneSlow: true });
    await runInDurableObject(directory(), (_, { storage }) => storage.setAlarm(Date.now() + 3_600_000));
    await evictDurableObject(directory());
    // The turn of this shard comes somewhere in this hour; an alarm that comes within a minute of it begins the round.
    for (let minute = 0; minute < 61 && asked.length === 0; minute++) {
      pass(60_000);
      await runInDurableObject(directory(), (object) => (object as DirectoryObject).alarm());
    }
    expect(asked).toHaveLength(200);
    pass(5_000);
    await runDurableObjectAlarm(directory());
    expect(new Set(asked).size).toBe(250);
    expect(await left()).toContain(slow);
  });
});

describe("a directory from before there were labels", () => {
  it("keeps its sessions, and labels new ones", async () => {
    const [old, young] = [newSessionId(), httpSessionName(newSessionId())];
    await runInDurableObject(directory(), (_, { storage }) => {
      storage.sql.exec("DROP TABLE labels");
      storage.sql.exec("DROP TABLE sessions");
      storage.sql.exec(
        "CREATE TABLE sessions (session TEXT PRIMARY KEY, address TEXT NOT NULL, transport TEXT NOT NULL) WITHOUT ROWID",
      );
      storage.sql.exec("INSERT INTO sessions VALUES (?, ?, ?)", old, ADDRESS, "ws");
    });
    await evictDurableObject(directory());
    expect(
      await directory().openSession({ session: young, address: ADDRESS, transport: "http", label: "young" }),
    ).toEqual({ status: "admitted" });
    await directory().relabel({ session: old, label: "old" });
    expect(await labelsOf(env, [old, young])).toEqual({ [old]: "old", [young]: "young" });
    expect((await gatherStats(service())).connections).toBe(2);
    await directory().closeSession({ session: old });
    expect((await gatherStats(service())).connections).toBe(1);
  });
});

describe("a shard", () => {
  const shardOf = (session: string, address: string) =>
    allDirectories(env).findIndex(({ id }) => id.equals(directoryOfSession(env, { session, address }).id));

  it("is the same for a session as ever", () => {
    const names = ["00", "f7", "http:1a"].map((name) => name.padEnd(32, "0"));
    expect(names.map((name) => shardOf(name, ADDRESS))).toEqual([5, 2, 5]);
  });

  it("counts about as many sessions as any other, though all share one address", () => {
    const counts = Array<number>(8).fill(0);
    for (let n = 0; n < 4_000; n++) {
      const shard = shardOf(n % 2 === 0 ? newSessionId() : httpSessionName(newSessionId()), ADDRESS);
      counts[shard] = (counts[shard] ?? 0) + 1;
    }
    for (const count of counts) expect(count).toBeGreaterThan(300);
  });
});
