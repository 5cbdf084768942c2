import { reset, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { directoryOfKey, directoryOfSession } from "../../../src/cloudflare/calls/directories.ts";
import { DirectoryObject } from "../../../src/cloudflare/directory/directory-object.ts";
import { KeyObject } from "../../../src/cloudflare/key/key-object.ts";
import { SessionObject } from "../../../src/cloudflare/session/session-object.ts";
import { httpSessionName, newSessionId, ownerIdOf } from "../../../src/core/session-names.ts";
import { gatherKey, gatherStats } from "../../../src/reports/stats.ts";
import { expectLog } from "../../support/expected-logs.ts";
import { pass, stopClock } from "../clock.ts";
import { replaceNext } from "../spies.ts";
import {
  askKey,
  Client,
  command,
  grantedToken,
  keyStub,
  listed,
  service,
  storedIn,
  tokenOf,
  until,
  WAIT,
} from "../support.ts";

const ADDRESS = "192.0.2.1";

const listing = (session: string) => directoryOfSession(env, { session, address: ADDRESS });

async function open(transport: "ws" | "http", label?: string): Promise<string> {
  const session = transport === "http" ? httpSessionName(newSessionId()) : newSessionId();
  await listing(session).openSession({ session, address: ADDRESS, transport, label });
  return session;
}

beforeEach(() => {
  stopClock();
  vi.spyOn(SessionObject.prototype, "isLive").mockResolvedValue({ isLive: true });
});

afterEach(async () => {
  vi.restoreAllMocks();
  vi.useRealTimers();
  await reset();
});

describe("the document without pages", () => {
  it("of an empty service is empty, in its fixed order", async () => {
    expect(JSON.stringify(await gatherStats(service()))).toBe(
      '{"connections":0,"locks":[],"semaphores":[],"idle_locks":[],"idle_semaphores":[]}',
    );
  });

  it("has the same fields as ever, on the wire too", async () => {
    const client = await Client.open();
    tokenOf(await client.ask("l\nheld\n0\n"));
    const { session } = (await keyStub("held").describe())?.holders[0] ?? { session: "" };
    await askKey(keyStub("held"), { type: "acquire", command: command(WAIT) });
    tokenOf(await client.ask("sl\npool\n0 3\n"));
    for (const [key, limit] of [
      ["idle", 1],
      ["idle-pool", 2],
    ] as const) {
      const token = grantedToken(await askKey(keyStub(key), { type: "acquire", command: command({ limit }) }));
      await askKey(keyStub(key), { type: "release", token, session: "" });
    }
    const line = await client.ask("stats\n_\n_\n");
    const shape = line.replace(/"(lease_expires_in_s|idle_s)":[0-9.]+/g, '"$1":0');
    expect(shape).toBe(
      `ok {"connections":1,"locks":[{"key":"held","owner_conn_id":${ownerIdOf(session)},"lease_expires_in_s":0,"waiters":1}],` +
        '"semaphores":[{"key":"pool","limit":3,"holders":1,"waiters":0}],"idle_locks":[{"key":"idle","idle_s":0}],' +
        '"idle_semaphores":[{"key":"idle-pool","idle_s":0}]}',
    );
    client.close();
  });
});

describe("a page", () => {
  it("counts all four lists together and says where the next one begins", async () => {
    await askKey(keyStub("a"), { type: "acquire", command: command() });
    await askKey(keyStub("b"), { type: "acquire", command: command({ limit: 2 }) });
    await askKey(keyStub("c"), {
      type: "release",
      token: grantedToken(await askKey(keyStub("c"), { type: "acquire", command: command() })),
      session: "",
    });
    await askKey(keyStub("d"), {
      type: "release",
      token: grantedToken(await askKey(keyStub("d"), { type: "acquire", command: command({ limit: 2 }) })),
      session: "",
    });
    await open("ws");
    const first = await gatherStats(service(), { limit: 3 });
    expect([first.locks, first.semaphores, first.idle_locks, first.idle_semaphores].map((list) => list.length)).toEqual(
      [1, 1, 1, 0],
    );
    expect(Object.keys(first).at(-1)).toBe("next_cursor");
    expect(first.next_cursor).toBe("c");
    const last = await gatherStats(service(), { limit: 3, cursor: "c" });
    expect(last).toMatchObject({
      connections: 1,
      locks: [],
      semaphores: [],
      idle_locks: [],
      idle_semaphores: [{ key: "d" }],
    });
    expect("next_cursor" in last || "truncated" in last).toBe(false);
  });
});

describe("a document that is behind", () => {
  it("says so while a part of the directory does not answer, and shows what the others list", async () => {
    const keys = Array.from({ length: 30 }, (_, index) => `key-${index}`);
    for (const key of keys) await askKey(keyStub(key), { type: "acquire", command: command() });
    await listed(...keys);
    const lost = directoryOfKey(env, "key-0");
    const { census } = DirectoryObject.prototype;
    expectLog("directory_unreachable", { error: "Error: unreachable" });
    vi.spyOn(DirectoryObject.prototype, "census").mockImplementation(async function (this: DirectoryObject) {
      if ((this as unknown as { ctx: DurableObjectState }).ctx.id.equals(lost.id)) throw new Error("unreachable");
      return census.call(this);
    });
    const partial = await gatherStats(service(), { limit: 5 });
    expect(partial.behind).toBe(true);
    expect(Object.keys(partial).slice(-2)).toEqual(["behind", "next_cursor"]);
    const all = await gatherStats(service());
    const shown = all.locks.map(({ key }) => key);
    expect(shown.toSorted()).toEqual(keys.filter((key) => !directoryOfKey(env, key).id.equals(lost.id)).toSorted());
    vi.mocked(DirectoryObject.prototype.census).mockRestore();
    const whole = await gatherStats(service());
    expect([whole.locks.length, "behind" in whole]).toEqual([30, false]);
  });

  it("is refused if no part of the directory answers", async () => {
    expectLog("directory_unreachable", { error: "Error: unreachable" });
    vi.spyOn(DirectoryObject.prototype, "census").mockRejectedValue(new Error("unreachable"));
    await expect(gatherStats(service())).rejects.toThrow("no part of the directory answers");
  });

  it("says so while keys are listed that should have been earlier", async () => {
    expectLog("directory_unreachable", { error: "Error: unreachable" });
    replaceNext(DirectoryObject.prototype, "listKey", "late", async () => {
      throw new Error("unreachable");
    });
    const token = grantedToken(
      await askKey(keyStub("late"), { type: "acquire", command: command({ leaseSeconds: 600 }) }),
    );
    await until(async () => {
      const alarm = await runInDurableObject(keyStub("late"), (_, { storage }) => storage.getAlarm());
      return alarm !== null && alarm <= Date.now() + 60_000;
    });
    pass(60_000);
    await askKey(keyStub("late"), { type: "renew", token, leaseSeconds: 600 });
    await listed("late");
    expect((await gatherStats(service())).behind).toBe(true);
    pass(60_000);
    expect("behind" in (await gatherStats(service()))).toBe(false);
  });
});

describe("detail", () => {
  it("tells who holds and who waits, with their labels, and no token", async () => {
    const [holder, waiter, enqueued] = [
      await open("ws", "nightly build"),
      await open("http", "deploy"),
      await open("ws"),
    ];
    const token = grantedToken(
      await askKey(keyStub("k"), { type: "acquire", command: command({ session: holder, leaseSeconds: 60 }) }),
    );
    await askKey(keyStub("k"), { type: "acquire", command: command({ session: waiter, waitMs: 30_000 }) });
    await askKey(keyStub("k"), { type: "enqueue", command: command({ session: enqueued }) });
    const stats = await gatherStats(service(), { detail: true });
    const [lock] = stats.locks;
    expect(lock).toEqual({
      key: "k",
      owner_conn_id: ownerIdOf(holder),
      lease_expires_in_s: 60,
      waiters: 2,
      held_by: [
        {
          owner_conn_id: ownerIdOf(holder),
          label: "nightly build",
          fence: token.slice(0, 16),
          since: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/),
          held_s: 0,
          lease_s: 60,
          lease_expires_in_s: 60,
        },
      ],
      queue: [
        {
          position: 1,
          owner_conn_id: ownerIdOf(waiter),
          label: "deploy",
          since: expect.stringMatching(/Z$/),
          waited_s: 0,
          timeout_in_s: 30,
        },
        { position: 2, owner_conn_id: ownerIdOf(enqueued), since: expect.any(String), waited_s: 0 },
      ],
    });
    expect(Object.keys(lock ?? {})).toEqual([
      "key",
      "owner_conn_id",
      "lease_expires_in_s",
      "waiters",
      "held_by",
      "queue",
    ]);
    expect(Object.keys(lock?.held_by?.[0] ?? {})).toEqual([
      "owner_conn_id",
      "label",
      "fence",
      "since",
      "held_s",
      "lease_s",
      "lease_expires_in_s",
    ]);
    expect(Object.keys(lock?.queue?.[0] ?? {})).toEqual([
      "position",
      "owner_conn_id",
      "label",
      "since",
      "waited_s",
      "timeout_in_s",
    ]);
    expect(JSON.stringify(stats)).not.toContain(token);
  });

  it("shows all holders of a semaphore, and none of an idle key", async () => {
    for (let n = 0; n < 3; n++)
      await askKey(keyStub("pool"), {
        type: "acquire",
        command: command({ limit: 5, session: await open("ws", `w${n}`) }),
      });
    await askKey(keyStub("idle"), {
      type: "release",
      token: grantedToken(await askKey(keyStub("idle"), { type: "acquire", command: command() })),
      session: "",
    });
    const { semaphores, idle_locks } = await gatherStats(service(), { detail: true });
    expect(semaphores[0]?.held_by?.map(({ label }) => label)).toEqual(["w0", "w1", "w2"]);
    expect(semaphores[0]?.queue).toEqual([]);
    expect(Object.keys(idle_locks[0] ?? {})).toEqual(["key", "idle_s"]);
  });
});

describe("one key", () => {
  it("is told with its members, in a fixed order", async () => {
    const session = await open("http", "me");
    await askKey(keyStub("pool"), { type: "acquire", command: command({ limit: 2, session }) });
    const detail = await gatherKey(service(), "pool");
    expect(detail).toMatchObject({ key: "pool", kind: "semaphore", limit: 2, holders: 1, waiters: 0, queue: [] });
    expect(detail?.held_by).toMatchObject([{ owner_conn_id: ownerIdOf(session), label: "me" }]);
    expect(Object.keys(detail ?? {})).toEqual(["key", "kind", "limit", "holders", "waiters", "held_by", "queue"]);
  });

  it("says how long it has been idle, if it is", async () => {
    await askKey(keyStub("k"), {
      type: "release",
      token: grantedToken(await askKey(keyStub("k"), { type: "acquire", command: command() })),
      session: "",
    });
    const detail = await gatherKey(service(), "k");
    expect(detail).toMatchObject({ kind: "lock", limit: 1, holders: 0, held_by: [], idle_s: 0 });
    expect(Object.keys(detail ?? {})).toEqual([
      "key",
      "kind",
      "limit",
      "holders",
      "waiters",
      "idle_s",
      "held_by",
      "queue",
    ]);
  });

  it("shows the lease of each grant, or what is left of a longer one that it was renewed with", async () => {
    const token = grantedToken(await askKey(keyStub("k"), { type: "acquire", command: command({ leaseSeconds: 60 }) }));
    const leases = async () => {
      const [holder] = (await gatherKey(service(), "k"))?.held_by ?? [];
      return [holder?.lease_s, holder?.lease_expires_in_s];
    };
    await askKey(keyStub("k"), { type: "renew", token, leaseSeconds: 600 });
    pass(100_000);
    expect(await leases()).toEqual([500, 500]);
    await askKey(keyStub("k"), { type: "renew", token, leaseSeconds: 20 });
    expect(await leases()).toEqual([60, 20]);
  });

  it("that does not exist is not created by asking", async () => {
    expect(await gatherKey(service(), "nobody's", { history: true })).toBeUndefined();
    expect(await storedIn(keyStub("nobody's"))).toEqual([]);
    expect((await gatherStats(service())).idle_locks).toEqual([]);
  });
});

describe("the history of a key", () => {
  it("is told when asked for, last, in a fixed order, and without tokens", async () => {
    // Not in the past: alarms would fire at once, again and again, and an alarm during `reset` keeps its object alive.
    vi.setSystemTime(Date.parse("2096-11-16T08:30:00Z"));
    const [first, second] = [await open("ws", "nightly build"), await open("http")];
    const token = grantedToken(await askKey(keyStub("k"), { type: "acquire", command: command({ session: first }) }));
    pass(1_500);
    await askKey(keyStub("k"), { type: "release", token, session: first });
    const standing = grantedToken(
      await askKey(keyStub("k"), { type: "acquire", command: command({ session: second }) }),
    );
    pass(500);
    const detail = await gatherKey(service(), "k", { history: true });
    expect(Object.keys(detail ?? {}).at(-1)).toBe("history");
    expect(JSON.stringify(detail?.history)).toBe(
      JSON.stringify({
        now: "2096-11-16T08:30:02.000Z",
        grants: [
          {
            fence: token.slice(0, 16),
            owner_conn_id: ownerIdOf(first),
            label: "nightly build",
            granted_at: "2096-11-16T08:30:00.000Z",
            waited_s: 0,
            held_s: 1.5,
            ended: "released",
          },
          {
            fence: standing.slice(0, 16),
            owner_conn_id: ownerIdOf(second),
            granted_at: "2096-11-16T08:30:01.500Z",
            waited_s: 0,
          },
        ],
      }),
    );
    expect(await gatherKey(service(), "k")).not.toHaveProperty("history");
  });

  it("names who has left as when somebody last looked, and who has not by its newest name", async () => {
    const labels = async () =>
      (await gatherKey(service(), "k", { history: true }))?.history?.grants.map(({ label }) => label);
    const [seen, unseen, renamed] = [await open("ws", "seen"), await open("ws", "unseen"), await open("ws", "old")];
    for (const session of [seen, renamed])
      await askKey(keyStub("k"), { type: "acquire", command: command({ session, limit: 3 }) });
    expect(await labels()).toEqual(["seen", "old"]);
    await askKey(keyStub("k"), { type: "acquire", command: command({ session: unseen, limit: 3 }) });
    for (const session of [seen, unseen]) await listing(session).closeSession({ session });
    await listing(renamed).relabel({ session: renamed, label: "new" });
    expect(await labels()).toEqual(["seen", "new", undefined]);
  });

  it("is told also when its labels cannot be left with the key, which is asked to only when there are new ones", async () => {
    expectLog("key_unreachable", { error: "Error: unreachable" });
    await askKey(keyStub("k"), { type: "acquire", command: command({ session: await open("ws", "me") }) });
    const remember = vi.spyOn(KeyObject.prototype, "rememberLabels").mockImplementationOnce(() => {
      throw new Error("unreachable");
    });
    for (let n = 0; n < 3; n += 1) {
      expect((await gatherKey(service(), "k", { history: true }))?.history?.grants).toMatchObject([{ label: "me" }]);
    }
    expect(remember).toHaveBeenCalledTimes(2);
  });
});
