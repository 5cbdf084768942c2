/** What a host that runs everything in one process could get wrong: see the names. */
import { getEventListeners } from "node:events";
import { describe, expect, it } from "vitest";
import { authenticateSecret } from "../../src/core/auth/principal.ts";
import type { KeyRequest } from "../../src/core/session/key-calls.ts";
import { DiskRoom } from "../../src/node/store/disk-room.ts";
import { SqliteStore } from "../../src/node/store/sqlite.ts";
import { credentialOf, World } from "./support/world.ts";

const MANY = 20_000;

describe("answers", () => {
  it("come before news of the same turn: nobody waits for a notice to be repeated", () => {
    const world = new World();
    const { runtime } = world;
    const [ann, ben] = [world.connect(), world.connect()];
    ann.ask("l", "k", "10");
    runtime.settle();
    ben.ask("l", "k", "100");
    ann.ask("r", "k", ann.token);
    runtime.endTurn();
    expect(ben.lines).toEqual([expect.stringMatching(/^ok [0-9a-f]{32} 33$/)]);
  });

  it("to a client that resumes come once the absence that ends is stored", async () => {
    const world = new World();
    const { runtime, store } = world;
    const ann = world.connect();
    ann.ask("session", "_", "resume");
    ann.ask("@1 l", "k", "10");
    runtime.settle();
    ann.hangUp(1006);
    let answer: unknown;
    void world.host.sessions.resume(ARRIVAL, credentialOf(ann)).then((admission) => {
      answer = admission;
    });
    await soon();
    expect(answer).toBeUndefined();
    const { commits } = store;
    runtime.endTurn();
    await soon();
    expect(store.commits).toBe(commits + 1);
    expect(answer).toMatchObject({ attach: expect.any(Function) });
  });

  it("to reads are held back: lists, gauges and metrics", async () => {
    const world = new World();
    const { runtime } = world;
    const { directory, meter } = world.service;
    const ann = world.connect();
    runtime.settle();
    ann.ask("l", "k", "10");
    const told: string[] = [];
    const range = { prefix: "", after: "", limit: 10, detail: true, sees: () => true };
    void directory.page(range).then(() => told.push("page"));
    void directory.gauges({ mayEstimate: false }).then(() => told.push("gauges"));
    void meter.read().then(() => told.push("metrics"));
    await soon();
    expect(told).toEqual([]);
    runtime.endTurn();
    await soon();
    expect(told.toSorted()).toEqual(["gauges", "metrics", "page"]);
  });
});

describe("counters and history", () => {
  it("tell nothing of a batch that failed", async () => {
    const world = new World();
    const { runtime, store } = world;
    const ann = world.connect();
    ann.ask("l", "k", "10");
    runtime.settle();
    ann.ask("r", "k", ann.token);
    runtime.settle();
    const before = await read(world);
    store.fails = true;
    world.connect().ask("l", "k", "10");
    runtime.settle();
    store.fails = false;
    runtime.advance(1_000);
    const after = await read(world);
    expect(after.grants).toEqual(before.grants);
    expect(after.history).toEqual(before.history);
  });

  it("never fall, also after a crash that follows a reading at once", async () => {
    const world = new World();
    const { runtime } = world;
    const ann = world.connect();
    for (let key = 0; key < 5; key += 1) ann.ask("l", `k${key}`, "10");
    runtime.settle();
    const before = await read(world);
    world.crash();
    const after = await read(world);
    expect(before.grants).toBe(5);
    expect(after.grants).toBe(5);
  });
});

describe("a key that nobody asks for", () => {
  it("is free when its lease is over, and is deleted when it has been idle for long", () => {
    const world = new World({ GC_MAX_IDLE_S: "10", GC_INTERVAL_S: "2" });
    const { runtime } = world;
    const ann = world.connect();
    ann.ask("l", "k", "10 5");
    runtime.settle();
    runtime.advance(5_100);
    expect(world.host.keys.get("k")?.engine.view().holderCount).toBe(0);
    runtime.advance(13_000);
    expect(world.host.keys.get("k")).toBeUndefined();
    expect([...world.store.load().keys]).toEqual([]);
  });

  it("leaves nothing in memory: neither its name nor its history", () => {
    const world = new World({ GC_MAX_IDLE_S: "1", GC_INTERVAL_S: "1" });
    const { runtime, host } = world;
    const ann = world.connect();
    let named = 0;
    const { names } = host;
    const { removed } = names;
    names.removed = () => {
      named += 1;
      removed.call(names);
    };
    for (let key = 0; key < 100; key += 1) {
      ann.ask("l", `k${key}`, "10 1");
      runtime.settle();
    }
    runtime.advance(10_000);
    expect(host.keys.size).toBe(0);
    expect(named).toBe(100);
    expect(names.inOrder).toEqual([]);
  });

  it("is listed without looking at all the others, unless some have come or gone", () => {
    const world = new World({ GC_MAX_IDLE_S: "1", GC_INTERVAL_S: "1" });
    const { runtime, host } = world;
    const ann = world.connect();
    for (const key of ["c", "a", "b"]) ann.ask("l", key, key === "b" ? "10 1" : "10 3600");
    runtime.settle();
    const listed = host.names.inOrder;
    expect(listed).toEqual(["a", "b", "c"]);
    expect(host.names.inOrder).toBe(listed);
    ann.ask("l", "aa", "10 3600");
    expect(host.names.inOrder).toEqual(["a", "aa", "b", "c"]);
    runtime.advance(10_000);
    expect(host.names.inOrder).toEqual(["a", "aa", "c"]);
  });

  it("is listed again if its deletion could not be stored", async () => {
    const world = new World({ GC_MAX_IDLE_S: "1", GC_INTERVAL_S: "1" });
    const { runtime, store } = world;
    const ann = world.connect();
    ann.ask("l", "k", "10 1");
    runtime.settle();
    runtime.advance(1_500);
    store.fails = true;
    runtime.stall(10_000);
    // The key is deleted and looked for in one batch, which fails.
    world.host.batch.enter(() => world.host.keys.wake(world.host.keys.get("k") ?? expect.fail()));
    expect(world.host.names.inOrder).toEqual([]);
    runtime.endTurn();
    expect(world.host.names.inOrder).toEqual(["k"]);
    store.fails = false;
    runtime.advance(10_000);
    expect(world.host.names.inOrder).toEqual([]);
  });

  it("makes room under MAX_LOCKS, also behind one whose waiter has yet to be told", () => {
    const world = new World({ MAX_LOCKS: "2", GC_MAX_IDLE_S: "3", GC_INTERVAL_S: "600", RESUME_GRACE_S: "600" });
    const { runtime } = world;
    const [ann, ben] = [world.connect(), world.connect()];
    ben.ask("session", "_", "resume");
    ann.ask("l", "first", "10");
    runtime.settle();
    ben.ask("@1 l", "first", "1");
    runtime.settle();
    // Nobody can tell it that its time is over.
    ben.hangUp(1006);
    runtime.advance(2_000);
    ann.ask("r", "first", ann.token);
    runtime.settle();
    ann.ask("l", "second", "10");
    runtime.settle();
    ann.ask("r", "second", ann.token);
    runtime.advance(5_000);
    expect(world.host.keys.get("first")?.engine.hasNews).toBe(true);
    ann.ask("l", "third", "0");
    runtime.settle();
    expect(ann.last).toMatch(/^ok /);
  });
});

describe("one client with very many keys", () => {
  it("leaves them without holding up the others, and completely, also over a crash in between", () => {
    const world = new World();
    const { runtime } = world;
    const ann = world.connect();
    for (let key = 0; key < MANY; key += 100)
      ann.askAll(Array.from({ length: 100 }, (_, count) => ["l", `k${key + count}`, "10 3600"] as const));
    runtime.settle();
    expect(ann.lines.length).toBe(MANY);
    const ben = world.connect();
    runtime.settle();
    // A turn ends after some hundred commands.
    runtime.msPerLook = 1;
    ann.hangUp(1000);
    ben.ask("ping");
    for (let turn = 0; turn < 4; turn += 1) runtime.endTurn();
    expect(ben.lines).toEqual(["ok"]);
    expect(heldKeys(world)).toBeGreaterThan(MANY / 2);
    runtime.msPerLook = 0;
    world.crash();
    runtime.advance(5_000);
    expect(heldKeys(world)).toBe(0);
    expect([...world.store.load().sessions]).toEqual([]);
  });

  it("does not hold up the start when all its leases are over", () => {
    const world = new World();
    const { runtime } = world;
    const ann = world.connect();
    for (let key = 0; key < MANY; key += 100)
      ann.askAll(Array.from({ length: 100 }, (_, count) => ["l", `k${key + count}`, "10 5"] as const));
    runtime.settle();
    runtime.stall(60_000);
    runtime.die();
    world.crash();
    const ben = world.connect();
    ben.ask("l", `k${MANY - 1}`, "0");
    runtime.endTurn();
    expect(ben.last).toMatch(/^ok /);
    runtime.advance(1_000);
    expect(heldKeys(world)).toBe(1);
  });
});

describe("waiters that were lost with the process", () => {
  it("are gone from the start on, and use up no fences one after the other", () => {
    const world = new World();
    const { runtime } = world;
    const ann = world.connect();
    ann.ask("l", "k", "10 5");
    runtime.settle();
    const dead = Array.from({ length: 200 }, () => world.connect());
    for (const each of dead) each.ask("l", "k", "1000");
    runtime.settle();
    world.crash();
    expect(world.host.keys.get("k")?.engine.view().waiters).toBe(0);
    const ben = world.connect();
    ben.ask("l", "k", "100");
    runtime.advance(5_100);
    expect(ben.last).toMatch(/^ok /);
    expect(ben.last?.slice(3, 19)).toBe(fenceAt(runtime.now() - 100));
  });

  it("and holders without a session: a claim that waited is gone, one that holds stays", async () => {
    const world = new World();
    const { runtime } = world;
    const { signal } = new AbortController();
    const claim = { leaseSeconds: 60, waitMs: 100_000, sessionless: { kind: "file", tag: "t", note: "" } } as const;
    const holding = world.service.keys.claim("k", claim, signal);
    runtime.settle();
    expect(await holding).toMatchObject({ status: "granted" });
    void world.service.keys.claim("k", claim, signal);
    runtime.settle();
    expect(world.host.keys.get("k")?.engine.view().waiters).toBe(1);
    world.crash();
    expect(world.host.keys.get("k")?.engine.view()).toMatchObject({ waiters: 0, holderCount: 1 });
  });
});

describe("a REST session with very many waiting requests", () => {
  it("costs no more per request than one with few", () => {
    const world = new World();
    const { runtime } = world;
    const { rest } = world.service;
    let id = "";
    void rest.open("192.0.2.7", undefined).then((opened) => {
      if (opened.status === "opened") ({ id } = opened);
    });
    runtime.settle();
    return Promise.resolve().then(() => {
      const holder = world.connect();
      holder.ask("l", "k", "10 3600");
      runtime.settle();
      const request = { type: "acquire", key: "k", limit: 1, waitSeconds: 1_000, leaseSeconds: 60 } as const;
      const timeFor = (count: number) => {
        const before = performance.now();
        for (let each = 0; each < count; each += 1)
          void rest.perform(id, { request, label: undefined }, new AbortController().signal);
        runtime.settle();
        return performance.now() - before;
      };
      timeFor(200);
      const few = timeFor(1_000);
      timeFor(8_000);
      const many = timeFor(1_000);
      expect(world.host.keys.get("k")?.engine.view().waiters).toBe(10_200);
      expect(many).toBeLessThan(20 * few + 50);
    });
  });
});

describe("a signal that outlives its requests", () => {
  it("keeps none of them", async () => {
    const world = new World();
    const { runtime } = world;
    const { rest, keys } = world.service;
    const opening = rest.open("192.0.2.7", undefined);
    runtime.settle();
    const opened = await opening;
    if (opened.status !== "opened") throw new Error(opened.status);
    const { signal } = new AbortController();
    const request = { type: "acquire", key: "k", limit: 1, waitSeconds: 0, leaseSeconds: 60 } as const;
    const claim = { leaseSeconds: 60, waitMs: 0, sessionless: { kind: "file", tag: "t", note: "" } } as const;
    const answers = [
      rest.perform(opened.id, { request, label: undefined }, signal),
      rest.perform(opened.id, { request, label: undefined }, signal),
      keys.claim("f", claim, signal),
    ];
    runtime.settle();
    await Promise.all(answers);
    await soon();
    expect(getEventListeners(signal, "abort")).toEqual([]);
  });
});

describe("a client that hangs up", () => {
  it("on a `wait` that has not had its turn yet gives its place up", async () => {
    const world = new World();
    const { rest, keys } = world.service;
    const opening = rest.open("192.0.2.7", undefined);
    world.runtime.settle();
    const opened = await opening;
    if (opened.status !== "opened") expect.fail("no session");
    const perform = (request: KeyRequest, signal?: AbortSignal) =>
      rest.perform(opened.id, { request, label: undefined }, signal);
    void perform({ type: "acquire", key: "k", limit: 1, waitSeconds: 0, leaseSeconds: 30 });
    void perform({ type: "enqueue", key: "k", limit: 1, leaseSeconds: 30 });
    world.runtime.settle();
    const { promise, resolve } = Promise.withResolvers<unknown>();
    // The commands of a batch that is being told wait.
    world.host.batch.enter(() =>
      world.host.batch.afterwards(() => {
        const client = new AbortController();
        resolve(perform({ type: "wait", key: "k", waitSeconds: 20 }, client.signal));
        client.abort();
      }),
    );
    world.runtime.settle();
    expect(await promise).toEqual({ status: "left" });
    const describing = keys.describe("k", { history: false });
    world.runtime.settle();
    expect(await describing).toMatchObject({ holderCount: 1, waiters: 0 });
  });
});

describe("time", () => {
  it("that is set back ends no lease late, and fires no timer early", () => {
    const world = new World();
    const { runtime } = world;
    const [ann, ben] = [world.connect(), world.connect()];
    ann.ask("l", "k", "10 5");
    runtime.settle();
    ben.ask("l", "k", "100");
    runtime.settle();
    runtime.advance(4_900);
    expect(ben.lines).toEqual([]);
    runtime.advance(200);
    expect(ben.last).toMatch(/^ok /);
  });

  it("may be longer than a timer can wait: neither lease nor wait ends at once", () => {
    const world = new World();
    const { runtime } = world;
    const [ann, ben] = [world.connect(), world.connect()];
    ann.ask("l", "k", `10 ${2 ** 31}`);
    runtime.settle();
    ben.ask("l", "k", `${2 ** 31}`);
    runtime.advance(60_000);
    expect(ann.last).toMatch(/^ok /);
    expect(ben.lines).toEqual([]);
    expect(runtime.longestTimerMs).toBeLessThan(2 ** 31);
  });
});

describe("a token", () => {
  it("is compared at once, so that its request does not miss its turn", () => {
    const secrets = { authToken: "secret", adminToken: "admin" } as Parameters<typeof authenticateSecret>[0];
    expect(authenticateSecret(secrets, "secret")).toEqual({ type: "token" });
    expect(authenticateSecret(secrets, "admin")).toEqual({ type: "admin" });
  });
});

describe("a full disk", () => {
  it("leaves room for releases and renewals: the log has its size from the start on", async () => {
    const { mkdtempSync, rmSync, statSync } = await import("node:fs");
    const directory = mkdtempSync("/tmp/holdfast-full-");
    try {
      const store = SqliteStore.open(`${directory}/holdfast.db`);
      expect(statSync(`${directory}/holdfast.db-wal`).size).toBeGreaterThan(4_200_000);
      for (let commit = 0; commit < 3_000; commit += 1) store.commit((rows) => rows.putValue("probe", String(commit)));
      expect(statSync(`${directory}/holdfast.db-wal`).size).toBeLessThan(6_500_000);
      store.close();
    } finally {
      rmSync(directory, { recursive: true });
    }
  });

  it("is given a reserve, which is kept again once there is room", async () => {
    const { existsSync, mkdtempSync, rmSync } = await import("node:fs");
    const directory = mkdtempSync("/tmp/holdfast-reserve-");
    try {
      const path = `${directory}/holdfast.db`;
      const room = new DiskRoom(path, 100_000);
      expect(existsSync(`${path}-reserve`)).toBe(true);
      room.useReserve();
      expect(existsSync(`${path}-reserve`)).toBe(false);
      expect(room.isEnough()).toBe(true);
      expect(existsSync(`${path}-reserve`)).toBe(true);
      // A disk that is too small for it is full.
      const hopeless = new DiskRoom(`${directory}/other.db`, 2 ** 60);
      expect(hopeless.isEnough()).toBe(false);
    } finally {
      rmSync(directory, { recursive: true });
    }
  });

  it("is seen coming: nothing new is taken on while it is almost full, and everything else goes on", async () => {
    const world = new World();
    const { runtime, store } = world;
    const [ann, ben] = [world.connect(), world.connect()];
    ann.ask("l", "k", "10");
    runtime.settle();
    store.isAlmostFull = true;
    runtime.advance(200);
    ben.ask("l", "new", "0");
    ben.ask("e", "new", "");
    ann.ask("n", "k", ann.token);
    ann.ask("r", "k", ann.token);
    runtime.settle();
    expect(ben.lines).toEqual(["error", "error"]);
    expect(ann.lines.slice(1)).toEqual(["ok 33", "ok"]);
    expect(await world.service.isReady()).toBe(false);
    store.isAlmostFull = false;
    runtime.advance(200);
    ben.ask("l", "new", "0");
    runtime.settle();
    expect(ben.last).toMatch(/^ok /);
    expect(world.logged).toEqual(["disk_almost_full", "disk_has_room_again"]);
  });

  it("refuses new keys, and lets everybody renew and release", () => {
    const world = new World({}, { maxPages: 60 });
    const { runtime } = world;
    const ann = world.connect();
    for (let key = 0; key < 100; key += 1) {
      ann.ask("l", `first-${key}`, "10 3600");
      runtime.settle();
    }
    const tokens = ann.lines.map((line) => line.split(" ")[1] ?? "");
    let refused = 0;
    let granted = 0;
    for (let key = 0; key < 2_000 && refused < 20; key += 1) {
      const other = world.connect();
      other.ask("l", `k${key}-${"x".repeat(150)}`, "10 3600");
      runtime.settle();
      if (other.closedWith === 1012 || other.last === "error") refused += 1;
      else if (other.last?.startsWith("ok ")) granted += 1;
    }
    expect(refused).toBe(20);
    expect(granted).toBeGreaterThan(10);
    expect(ann.closedWith).toBeUndefined();
    for (const [key, token] of tokens.entries()) ann.ask("n", `first-${key}`, `${token} 1000`);
    runtime.settle();
    expect(ann.lines.slice(100)).toEqual(tokens.map(() => "ok 1000"));
    for (const [key, token] of tokens.entries()) ann.ask("r", `first-${key}`, token);
    runtime.settle();
    expect(ann.lines.slice(200)).toEqual(tokens.map(() => "ok"));
    world.crash();
    expect(heldKeys(world)).toBe(granted);
  });
});

const ARRIVAL = {
  protocol: "dflockd",
  transport: "ws",
  address: "192.0.2.1",
  isAuthenticated: false,
  rights: { scope: undefined, isAdmin: false },
  hasWindow: false,
} as const;

async function soon(): Promise<void> {
  for (let turn = 0; turn < 20; turn += 1) await Promise.resolve();
}

async function read(world: World) {
  const reading = world.service.meter.read();
  const describing = world.service.keys.describe("k", { history: true });
  world.runtime.settle();
  const { sums } = await reading;
  const grants = Object.entries(sums)
    .filter(([name]) => name.startsWith("grants_total"))
    .reduce((sum, [, value]) => sum + value, 0);
  return { grants, history: (await describing)?.history?.grants };
}

function heldKeys(world: World): number {
  return [...world.host.keys].filter(({ engine }) => engine.view().holderCount > 0).length;
}

const fenceAt = (ms: number) => (BigInt(ms) * 1_000_000n).toString(16).padStart(16, "0");
