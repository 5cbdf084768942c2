import { evictDurableObject, reset, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, describe, expect, it, vi } from "vitest";
import { directoryOfKey } from "../../../src/cloudflare/calls/directories.ts";
import { DirectoryObject } from "../../../src/cloudflare/directory/directory-object.ts";
import { expectLog } from "../../support/expected-logs.ts";
import { pass, stopClock } from "../clock.ts";
import { callsAbout } from "../spies.ts";
import { command, countRows, fresh, grantedToken, keyStub, storedIn, visitKeys, WAIT } from "../support.ts";
import { crashInFounding } from "./crash-in-founding.ts";

afterEach(async () => {
  vi.restoreAllMocks();
  vi.useRealTimers();
  // A fence from the future, and the shard has new keys begin above it.
  await reset();
});

/** A key that was used and pruned while the clock was ahead by an hour. */
async function prunedInTheFuture() {
  const name = fresh("key");
  stopClock();
  pass(3_600_000);
  const first = grantedToken(await keyStub(name).acquire(command()));
  await keyStub(name).release(first, "");
  pass(130_000);
  await visitKeys(name);
  return { name, first };
}

const failing = (work: () => Promise<unknown>) => expect(work()).rejects.toThrow();

describe("a first grant whose key is lost before anybody is told of it", () => {
  it.each(["before the listing", "after the listing"] as const)("stands: nobody knows (%s)", async (where) => {
    const name = fresh("key");
    await crashInFounding(name, where);
    expect(await storedIn(keyStub(name))).toEqual(["record key"]);
    expect((await keyStub(name).describe())?.holders.map(({ session }) => session)).toEqual(["first"]);
    expect(await keyStub(name).acquire(command())).toEqual({ status: "timeout" });
    expect(await directoryOfKey(env, name).lists(name)).toBe(true);
    // The same request again gets the same hold.
    const token = grantedToken(await keyStub(name).acquire(command({ session: "first", request: "r1" })));
    expect(await keyStub(name).release(token, "first")).toEqual({ status: "released" });
  });

  it.each(["before the listing", "after the listing"] as const)("goes when its session leaves (%s)", async (where) => {
    const name = fresh("key");
    await crashInFounding(name, where);
    await keyStub(name).leave("first", { keepsReported: false });
    expect((await keyStub(name).acquire(command())).status).toBe("granted");
  });

  it("never has a lower fence than the key's earlier lives, with the clock set back", async () => {
    const { name, first } = await prunedInTheFuture();
    // The key's own clock never goes back while it is awake.
    await evictDurableObject(keyStub(name));
    pass(-3_730_000);
    await crashInFounding(name, "after the listing");
    const again = async () => keyStub(name).acquire(command({ session: "first", request: "r1" }));
    // It has not been listed, so it was not spoken of.
    await expect(again()).rejects.toThrow("before its first hold has ended");
    await keyStub(name).leave("first", { keepsReported: false });
    expect(first < grantedToken(await again())).toBe(true);
  });
});

describe("a key whose first hold has lasted longer than its memory", () => {
  async function heldAsleep() {
    stopClock();
    const name = fresh("key");
    const held = grantedToken(await keyStub(name).acquire(command({ leaseSeconds: 3_000 })));
    await evictDurableObject(keyStub(name));
    return { name, held };
  }

  it("answers its holder although the directory is out of reach", async () => {
    const { name, held } = await heldAsleep();
    vi.spyOn(DirectoryObject.prototype, "joinKey").mockRejectedValue(new Error("unreachable"));
    await failing(async () => keyStub(name).acquire(command(WAIT)));
    expect(await keyStub(name).renew(held, 5)).toEqual({ status: "renewed", leaseSeconds: 5 });
    // Who shows the token was told of the grant, so the key must be listed.
    expect((await keyStub(name).acquire(command(WAIT))).status).toBe("queued");
    expect(await keyStub(name).release(held, "")).toEqual({ status: "released" });
  });

  it("keeps its holder although the directory has lost its data, and is listed again", async () => {
    const { name, held } = await heldAsleep();
    await runInDurableObject(directoryOfKey(env, name), (_, { storage }) => storage.deleteAll());
    await evictDurableObject(directoryOfKey(env, name));
    expect((await keyStub(name).acquire(command())).status).toBe("timeout");
    expect(await keyStub(name).renew(held, 50)).toEqual({ status: "renewed", leaseSeconds: 50 });
    expect(await directoryOfKey(env, name).lists(name)).toBe(true);
  });

  it("does not ask the directory again when it is given back", async () => {
    const { name, held } = await heldAsleep();
    const join = vi.spyOn(DirectoryObject.prototype, "joinKey");
    const counts = await Promise.all([keyStub(name), directoryOfKey(env, name)].map(countRows));
    expect(await keyStub(name).release(held, "")).toEqual({ status: "released" });
    expect(counts.map((count) => count())).toEqual([1, 0]);
    await evictDurableObject(keyStub(name));
    expect((await keyStub(name).acquire(command())).status).toBe("granted");
    expect(callsAbout(join, name)).toEqual([]);
  });
});

describe("a key that is woken again and again during its first hold", () => {
  async function asleep(overrides = {}) {
    stopClock();
    const name = fresh("key");
    const held = grantedToken(await keyStub(name).acquire(command({ leaseSeconds: 3_000, ...overrides })));
    await evictDurableObject(keyStub(name));
    return { name, held };
  }

  it.each([
    ["somebody tries to get it", (name: string) => keyStub(name).acquire(command())],
    ["its file is looked at", (name: string) => keyStub(name).current()],
  ])("asks the directory once, and stores the answer in one row, if %s", async (_, wake) => {
    const { name } = await asleep();
    const join = vi.spyOn(DirectoryObject.prototype, "joinKey");
    const rows: number[] = [];
    for (let time = 0; time < 4; time++) {
      const count = await countRows(keyStub(name));
      await wake(name);
      rows.push(count());
      await evictDurableObject(keyStub(name));
    }
    expect(callsAbout(join, name)).toHaveLength(1);
    expect(rows).toEqual([1, 0, 0, 0]);
  });

  it("does not store the answer by itself if the command that asked has something to store", async () => {
    const rowsOf = async (overrides: object, isConfirmed: boolean) => {
      const { name, held } = await asleep(overrides);
      if (isConfirmed) await keyStub(name).renew(held, 3_000);
      if (isConfirmed) await evictDurableObject(keyStub(name));
      const count = await countRows(keyStub(name));
      expect((await keyStub(name).acquire(command({ ...overrides, ...WAIT }))).status).toMatch(/queued|granted/);
      return count();
    };
    for (const overrides of [{}, { limit: 2 }])
      expect(await rowsOf(overrides, false)).toBe(await rowsOf(overrides, true));
  });

  it("is described without a question of its own if the directory asks, and otherwise with one", async () => {
    const { name } = await asleep();
    const questions = ["joinKey", "listsAnother"] as const;
    const spies = questions.map((question) => vi.spyOn(DirectoryObject.prototype, question));
    const asked = () => spies.map((spy) => callsAbout(spy, name).length);
    const count = await countRows(keyStub(name));
    for (let time = 0; time < 3; time++) {
      const { keys } = await directoryOfKey(env, name).describe([name], { detail: true });
      expect(keys.map(({ holderCount }) => holderCount)).toEqual([1]);
    }
    expect([asked(), count()]).toEqual([[0, 0], 0]);
    await evictDurableObject(keyStub(name));
    for (let time = 0; time < 3; time++) expect((await keyStub(name).describe())?.holderCount).toBe(1);
    expect(asked()).toEqual([0, 1]);
  });

  it("is missed from then on, also after many wake-ups", async () => {
    expectLog("key_unreadable");
    const { name } = await asleep();
    for (let time = 0; time < 2; time++) {
      expect((await keyStub(name).acquire(command())).status).toBe("timeout");
      await evictDurableObject(keyStub(name));
    }
    await runInDurableObject(keyStub(name), (_, { storage }) => storage.deleteAll());
    await evictDurableObject(keyStub(name));
    pass(1);
    await failing(async () => keyStub(name).acquire(command()));
  });
});

describe("a first grant", () => {
  it("has a higher fence than all of the key's earlier lives, with the clock set back", async () => {
    const { name, first } = await prunedInTheFuture();
    expect(await storedIn(keyStub(name))).toEqual([]);
    pass(-3_730_000);
    const second = grantedToken(await keyStub(name).acquire(command()));
    expect(first < second).toBe(true);
    await evictDurableObject(keyStub(name));
    await keyStub(name).release(second, "");
    expect(second < grantedToken(await keyStub(name).acquire(command()))).toBe(true);
  });

  it("has its whole lease, however long the directory takes to list the key", async () => {
    const name = fresh("key");
    stopClock();
    const { joinKey } = DirectoryObject.prototype;
    vi.spyOn(DirectoryObject.prototype, "joinKey").mockImplementation(function (this: DirectoryObject, ...args) {
      if (args[0] === name) pass(5_000);
      return joinKey.apply(this, args);
    });
    const token = grantedToken(await keyStub(name).acquire(command({ leaseSeconds: 2 })));
    expect((await keyStub(name).describe())?.holders[0]?.expiresAt).toBe(Date.now() + 2_000);
    await evictDurableObject(keyStub(name));
    expect(await keyStub(name).renew(token, 3)).toEqual({ status: "renewed", leaseSeconds: 3 });
  });
});
