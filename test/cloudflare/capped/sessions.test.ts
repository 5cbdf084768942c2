/** Under HTTP_MAX_SESSIONS=5, HTTP_MAX_SESSIONS_PER_IP=3, MAX_CONNECTIONS=8 and MAX_CONNECTIONS_PER_IP=4. */
import { abortAllDurableObjects, evictDurableObject, reset, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { allDirectories, directoryOfSession, ledgerOf } from "../../../src/cloudflare/calls/directories.ts";
import {
  DirectoryObject,
  type SessionAdmission,
  type Transport,
} from "../../../src/cloudflare/directory/directory-object.ts";
import { HttpSessionObject } from "../../../src/cloudflare/http-session/http-session-object.ts";
import { SessionObject } from "../../../src/cloudflare/session/session-object.ts";
import { httpSessionName, newSessionId } from "../../../src/core/session-names.ts";
import { pass, stopClock } from "../clock.ts";
import { never, until } from "../support.ts";

const nameOf = (object: unknown) => (object as { ctx: DurableObjectState }).ctx.id.name ?? "";

/** Sessions that ended without a word. */
const dead = new Set<string>();

beforeEach(() => {
  stopClock();
  for (const { prototype } of [HttpSessionObject, SessionObject]) {
    vi.spyOn(prototype, "isLive").mockImplementation(async function (this: unknown) {
      return { isLive: !dead.has(nameOf(this)) };
    });
  }
});

afterEach(async () => {
  vi.restoreAllMocks();
  vi.useRealTimers();
  await reset();
});

interface Opened {
  readonly session: string;
  readonly address: string;
  readonly admission: SessionAdmission;
}

async function open(address: string, transport: Transport = "http"): Promise<Opened> {
  const session = transport === "http" ? httpSessionName(newSessionId()) : newSessionId();
  const { status: admission } = await directoryOfSession(env, { session, address }).openSession({
    session,
    address,
    transport,
    label: "a label",
  });
  return { session, address, admission };
}

const close = (opened: Opened) => directoryOfSession(env, opened).closeSession({ session: opened.session });

/** With a cap per address, it depends on the address only. */
const shardOf = (address: string) => directoryOfSession(env, { session: newSessionId(), address }).id.toString();

/** One address per shard and more: all parts of the directory are involved. */
const addresses = Array.from({ length: 50 }, (_, index) => `192.0.2.${index}`);

const admitted = (all: readonly Opened[]) => all.filter(({ admission }) => admission === "admitted");

async function rows(table: "sessions" | "labels"): Promise<number> {
  const counts = await Promise.all(
    allDirectories(env).map((directory) =>
      runInDurableObject(directory, (_, { storage }) => storage.sql.exec(`SELECT 1 FROM ${table}`).toArray().length),
    ),
  );
  return counts.reduce((sum, count) => sum + count, 0);
}

describe("the cap on HTTP sessions", () => {
  it("admits exactly so many of fifty that come at once from everywhere", async () => {
    const all = await Promise.all(addresses.map((address) => open(address)));
    expect(admitted(all)).toHaveLength(5);
    expect(new Set(all.map(({ admission }) => admission))).toEqual(new Set(["admitted", "max_sessions"]));
    expect([await rows("sessions"), await rows("labels")]).toEqual([5, 5]);
  });

  it("refuses nobody while there is room: of one from each shard at once, so many get in", async () => {
    const shards = new Map(addresses.map((address) => [shardOf(address), address]));
    const all = await Promise.all(Array.from(shards.values(), (address) => open(address)));
    expect(all).toHaveLength(8);
    expect(admitted(all)).toHaveLength(5);
  });

  it("holds while the one who counts is lost in the middle of it", async () => {
    const first = Promise.allSettled(addresses.slice(0, 25).map((address) => open(address)));
    await runInDurableObject(ledgerOf(env), (_, state) => state.abort()).catch(() => {});
    const second = Promise.allSettled(addresses.slice(25).map((address) => open(address)));
    const outcomes = [...(await first), ...(await second)];
    const lucky = admitted(outcomes.flatMap((outcome) => (outcome.status === "fulfilled" ? [outcome.value] : [])));
    expect(await rows("sessions")).toBe(lucky.length);
    expect(lucky.length).toBeLessThanOrEqual(5);
    const others = await Promise.all(addresses.map((address) => open(address)));
    expect(lucky.length + admitted(others).length).toBe(5);
  });

  it("holds while a place that has been granted is not taken yet", async () => {
    await Promise.all(addresses.slice(0, 4).map((address) => open(address)));
    const [slow, quick] = ["198.51.100.1", "198.51.100.2"] as const;
    expect(shardOf(slow)).not.toBe(shardOf(quick));
    const { claim } = DirectoryObject.prototype;
    let isGranted = false;
    vi.spyOn(DirectoryObject.prototype, "claim").mockImplementationOnce(async function (this: DirectoryObject, asked) {
      const verdict = await claim.call(this, asked);
      isGranted = verdict.isGranted;
      await scheduler.wait(300);
      return verdict;
    });
    const late = open(slow);
    await until(() => isGranted, { timeout: 2_000, interval: 5 });
    pass(1_100);
    expect((await open(quick)).admission).toBe("max_sessions");
    expect((await late).admission).toBe("admitted");
    expect(await rows("sessions")).toBe(5);
  });

  it("is not broken by the word of one who counted before and does no more", async () => {
    await Promise.all(addresses.slice(0, 5).map((address) => open(address)));
    vi.spyOn(DirectoryObject.prototype, "claim").mockResolvedValueOnce({ isGranted: true, ledger: "an earlier one" });
    expect((await open("198.51.100.1")).admission).toBe("max_sessions");
    expect(await rows("sessions")).toBe(5);
  });

  it("leaves no row behind for those it refuses", async () => {
    await Promise.all(addresses.slice(0, 5).map((address) => open(address)));
    expect((await open("198.51.100.1")).admission).toBe("max_sessions");
    expect([await rows("sessions"), await rows("labels")]).toEqual([5, 5]);
  });

  it("has a place free as soon as a session is closed, for a client from anywhere", async () => {
    const all = await Promise.all(addresses.slice(0, 5).map((address) => open(address)));
    for (const opened of all) {
      expect((await open("198.51.100.1")).admission).toBe("max_sessions");
      await close(opened);
      const next = await open("198.51.100.1");
      expect(next.admission).toBe("admitted");
      await close(next);
      expect((await open(opened.address)).admission).toBe("admitted");
    }
  });

  it("does not count sockets, nor sockets HTTP sessions", async () => {
    const sockets = await Promise.all(addresses.map((address, index) => open(address, index % 2 === 0 ? "ws" : "tcp")));
    expect(admitted(sockets)).toHaveLength(8);
    expect(sockets.find(({ admission }) => admission !== "admitted")?.admission).toBe("max_connections");
    expect(admitted(await Promise.all(addresses.map((address) => open(address))))).toHaveLength(5);
  });

  it("gives the place of one that ended without a word to the next, wherever that comes from", async () => {
    for (const newcomer of ["same", "198.51.100.7"]) {
      const all = await Promise.all(addresses.slice(0, 5).map((address) => open(address)));
      expect(admitted(all)).toHaveLength(5);
      const [victim] = all as [Opened, ...Opened[]];
      dead.add(victim.session);
      pass(2_100);
      const next = await open(newcomer === "same" ? victim.address : newcomer);
      expect(next.admission).toBe("admitted");
      expect((await open("198.51.100.8")).admission).toBe("max_sessions");
      await reset();
    }
  });

  it("does not ask newcomers whether they live: they may not know it yet", async () => {
    const all = await Promise.all(addresses.slice(0, 5).map((address) => open(address)));
    for (const { session } of all) dead.add(session);
    expect((await open("198.51.100.1")).admission).toBe("max_sessions");
  });

  it("holds after a restart of everything", async () => {
    await Promise.all(addresses.slice(0, 5).map((address) => open(address)));
    await abortAllDurableObjects();
    expect(admitted(await Promise.all(addresses.map((address) => open(address))))).toHaveLength(0);
  });
});

describe("the cap on HTTP sessions of one address", () => {
  it("admits exactly so many of fifty that come at once", async () => {
    const all = await Promise.all(addresses.map(() => open("192.0.2.1")));
    expect(admitted(all)).toHaveLength(3);
    expect(new Set(all.map(({ admission }) => admission))).toEqual(new Set(["admitted", "max_sessions_per_ip"]));
    expect([await rows("sessions"), await rows("labels")]).toEqual([3, 3]);
    expect((await open("192.0.2.2")).admission).toBe("admitted");
  });

  it("takes no place of the service for those it refuses", async () => {
    await Promise.all(addresses.map(() => open("192.0.2.1")));
    const [flood, others] = await Promise.all([
      Promise.all(addresses.map(() => open("192.0.2.1"))),
      Promise.all([open("192.0.2.2"), open("192.0.2.3")]),
    ]);
    expect(admitted(flood)).toHaveLength(0);
    expect(admitted(others)).toHaveLength(2);
  });

  it("comes second: when the service is full as well, that is said", async () => {
    await Promise.all(Array.from({ length: 3 }, () => open("192.0.2.1")));
    expect((await open("192.0.2.1")).admission).toBe("max_sessions_per_ip");
    await Promise.all([open("192.0.2.2"), open("192.0.2.3")]);
    expect((await open("192.0.2.1")).admission).toBe("max_sessions");
  });

  it("does not count the dead", async () => {
    const all = await Promise.all(Array.from({ length: 3 }, () => open("192.0.2.1")));
    dead.add(all[1]?.session ?? "");
    pass(2_100);
    const next = await Promise.all(addresses.map(() => open("192.0.2.1")));
    expect(admitted(next)).toHaveLength(1);
    expect(await rows("sessions")).toBe(3);
  });

  it("finds a few of many dead sessions each time somebody is refused, and waits for none that is slow", async () => {
    const address = "192.0.2.1";
    const sessions = Array.from({ length: 300 }, () => httpSessionName(newSessionId()));
    const shard = directoryOfSession(env, { session: "", address });
    await runInDurableObject(shard, (_, { storage }) => {
      for (const session of sessions) storage.sql.exec("INSERT INTO sessions VALUES (?, ?, 'http')", session, address);
    });
    await evictDurableObject(shard);
    const asked: string[] = [];
    vi.spyOn(HttpSessionObject.prototype, "isLive").mockImplementation(async function (this: unknown) {
      asked.push(nameOf(this));
      return nameOf(this) === sessions[0] ? never() : { isLive: false };
    });
    for (let n = 1; (await open(address)).admission !== "admitted"; n++) {
      // Those of this address, and those that the whole service has.
      expect(asked.length).toBeLessThanOrEqual(n * 2 * 32);
      pass(1_100);
    }
    expect(asked.length).toBeGreaterThanOrEqual(300 - 2 - 1);
  });

  it("admits a session that asks twice once", async () => {
    const { session, address } = await open("192.0.2.1");
    for (let n = 0; n < 5; n++) {
      const directory = directoryOfSession(env, { session, address });
      expect(await directory.openSession({ session, address, transport: "http" })).toEqual({ status: "admitted" });
    }
    expect(await rows("sessions")).toBe(1);
  });

  it("is another than that on sockets", async () => {
    const sockets = await Promise.all(addresses.map(() => open("192.0.2.1", "ws")));
    expect(admitted(sockets)).toHaveLength(4);
    expect(sockets.at(-1)?.admission).toBe("max_connections_per_ip");
    expect(admitted(await Promise.all(addresses.map(() => open("192.0.2.1"))))).toHaveLength(3);
  });
});
