/** What must hold in the life of a key, whatever comes late, is lost or is set otherwise. See ADR 21. */
import { evictDurableObject, reset, runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, describe, expect, it, vi } from "vitest";
import { directoryOfKey } from "../../../src/cloudflare/calls/directories.ts";
import { DirectoryObject } from "../../../src/cloudflare/directory/directory-object.ts";
import { configOf } from "../../../src/cloudflare/env.ts";
import { KeyObject } from "../../../src/cloudflare/key/key-object.ts";
import { allowLog, expectLog } from "../../support/expected-logs.ts";
import { pass, stopClock } from "../clock.ts";
import { replaceNext } from "../spies.ts";
import { command, fresh, grantedToken, keyStub, loseRows, storedIn, until, visitKeys } from "../support.ts";
import { crashInFounding } from "./crash-in-founding.ts";

afterEach(async () => {
  vi.restoreAllMocks();
  vi.useRealTimers();
  await reset();
});

const acquire = async (name: string, overrides = {}) => keyStub(name).acquire(command(overrides));

/** A key that was used once and may be pruned. */
async function idle(name = fresh("key")) {
  const token = grantedToken(await acquire(name));
  await keyStub(name).release(token, "");
  pass(130_000);
  return { name, token };
}

const isLost = async (): Promise<never> => {
  throw new Error("the answer is lost");
};

describe("fences", () => {
  it("a relay that proposes hears the highest fence of the key's earlier lives", async () => {
    stopClock();
    const { name, token } = await idle();
    await visitKeys(name);
    expect(await storedIn(keyStub(name))).toEqual([]);
    const answer = await keyStub(name).relay({ relay: "other", type: "propose" });
    expect(answer?.status).toBe("agreed");
    expect((answer?.floor ?? 0n) >= BigInt(`0x${token.slice(0, 16)}`)).toBe(true);
  });

  it("the same if the key's earlier life was a hold of the relay with a fence of its own", async () => {
    stopClock();
    const name = fresh("key");
    const relay = "other";
    await keyStub(name).relay({ relay, type: "propose" });
    const fence = BigInt(Date.now()) * 1_000_000n + 5_000_000_000n;
    await keyStub(name).relay({ relay, type: "commit", leaseMs: 1_000, fence });
    await keyStub(name).relay({ relay, type: "off" });
    pass(130_000);
    await visitKeys(name);
    expect(await storedIn(keyStub(name))).toEqual([]);
    const answer = await keyStub(name).relay({ relay: "third", type: "propose" });
    expect(answer?.status).toBe("agreed");
    expect(answer?.floor).toBe(fence);
  });
});

describe("a first grant that was never listed, with the clock set back", () => {
  it("can be had when its lease has ended, by those who only acquire", async () => {
    stopClock();
    const name = fresh("key");
    pass(3_600_000);
    const first = grantedToken(await acquire(name));
    await keyStub(name).release(first, "");
    pass(130_000);
    await visitKeys(name);
    await evictDurableObject(keyStub(name));
    pass(-3_730_000);
    await crashInFounding(name, "before the listing", "acquire", { leaseSeconds: 33 });
    await expect(acquire(name)).rejects.toThrow("before its first hold has ended");
    pass(3_000_000);
    const next = grantedToken(await acquire(name));
    expect(first < next).toBe(true);
  });
});

describe("a key that has asked to join after it agreed to be forgotten", () => {
  it("is not deleted by the question it agreed to before", async () => {
    expectLog("key_unreachable", { error: "Error: the answer is lost" });
    stopClock();
    const { name } = await idle();
    const { forgetRetired } = KeyObject.prototype;
    const { joinKey } = DirectoryObject.prototype;
    replaceNext(KeyObject.prototype, "forgetRetired", name, async function (this: KeyObject, question) {
      // This message takes longer than the following: the key is used, and the directory lists it again and is lost
      // before it has answered.
      replaceNext(DirectoryObject.prototype, "joinKey", name, async function (this: DirectoryObject, ...args) {
        await joinKey.apply(this, args);
        return isLost();
      });
      await this.acquire(command()).catch(() => {});
      await forgetRetired.call(this, question);
      return isLost();
    });
    await visitKeys(name);
    await evictDurableObject(directoryOfKey(env, name));
    pass(1);
    expect((await acquire(name)).status).toBe("granted");
  });

  it("is missed if it is used again, and loses its rows, before it is told to delete them", async () => {
    expectLog("key_unreadable");
    allowLog("key_unreachable", { error: "Error: lost" });
    stopClock();
    const { name } = await idle();
    replaceNext(KeyObject.prototype, "forgetRetired", name, async function (this: KeyObject) {
      grantedToken(await this.acquire(command({ leaseSeconds: 86_400 })));
      await (this as unknown as { ctx: DurableObjectState }).ctx.storage.deleteAll();
      (this as unknown as { ctx: DurableObjectState }).ctx.abort("lost");
      return isLost();
    });
    await visitKeys(name);
    pass(1);
    await expect(acquire(name)).rejects.toThrow("rows are gone");
  });
});

describe("late messages", () => {
  it("a late request of a dead life to be listed does not block the key", async () => {
    stopClock();
    const name = fresh("key");
    let late: Parameters<DirectoryObject["joinKey"]> | undefined;
    replaceNext(DirectoryObject.prototype, "joinKey", name, async (...args) => {
      late = args;
      return isLost();
    });
    await expect(acquire(name)).rejects.toThrow();
    await keyStub(name).release(grantedToken(await acquire(name)), "");
    pass(130_000);
    await visitKeys(name);
    expect(await storedIn(keyStub(name))).toEqual([]);
    if (late) await directoryOfKey(env, name).joinKey(...late);
    pass(1);
    expect((await acquire(name)).status).toBe("granted");
  });
});

describe("a directory that does not answer", () => {
  it.each(["renew", "release"] as const)(
    "does not keep a holder waiting after its key has slept, although somebody else waits for it: %s",
    async (call) => {
      stopClock();
      const name = fresh("key");
      const held = grantedToken(await acquire(name, { leaseSeconds: 3_000 }));
      await evictDurableObject(keyStub(name));
      const { joinKey } = DirectoryObject.prototype;
      const answer = Promise.withResolvers<void>();
      let isAsked = false;
      replaceNext(DirectoryObject.prototype, "joinKey", name, async function (this: DirectoryObject, ...args) {
        isAsked = true;
        await answer.promise;
        return joinKey.apply(this, args);
      });
      const other = acquire(name, { session: "other", request: "other", waitMs: 60_000 });
      await until(() => isAsked);
      const { status } = await (call === "renew" ? keyStub(name).renew(held, 50) : keyStub(name).release(held, ""));
      answer.resolve();
      expect(status).toBe(call === "renew" ? "renewed" : "released");
      expect((await other).status).toBe(call === "renew" ? "queued" : "granted");
    },
  );

  it("has an alarm although the last one failed half-way", async () => {
    expectLog("keys_not_visited", { error: "Error: disk is full" });
    stopClock();
    const { name } = await idle();
    const alarm = await runInDurableObject(directoryOfKey(env, name), async (object, { storage }) => {
      await storage.deleteAlarm();
      const put = vi.spyOn(storage.kv, "put").mockImplementation(() => {
        throw new Error("disk is full");
      });
      await (object as DirectoryObject).alarm().catch(() => {});
      put.mockRestore();
      return storage.getAlarm();
    });
    expect(alarm).not.toBeNull();
  });

  it("and takes long leaves those who ask at once in their order", async () => {
    stopClock();
    const name = fresh("key");
    const { joinKey } = DirectoryObject.prototype;
    replaceNext(DirectoryObject.prototype, "joinKey", name, async function (this: DirectoryObject, ...args) {
      await scheduler.wait(50);
      pass(5_000);
      return joinKey.apply(this, args);
    });
    const outcomes = await Promise.all(
      ["a", "b", "c", "d"].map((session) => acquire(name, { session, request: session, waitMs: 60_000 })),
    );
    expect(outcomes.map(({ status }) => status)).toEqual(["granted", "queued", "queued", "queued"]);
    const view = await keyStub(name).describe({ detail: true });
    expect(view?.queue.map((waiter) => (waiter as { session: string }).session)).toEqual(["b", "c", "d"]);
  });
});

describe("a grant that is not listed", () => {
  it.each(["pickUp", "wait"] as const)("is not spoken of (%s)", async (by) => {
    stopClock();
    const name = fresh("key");
    await crashInFounding(name, "before the listing", by === "wait" ? "enqueue" : "acquire", { leaseSeconds: 3_000 });
    const join = vi.spyOn(DirectoryObject.prototype, "joinKey").mockRejectedValue(new Error("unreachable"));
    const told = await (async () =>
      by === "wait"
        ? keyStub(name).wait({ session: "first", request: "r2", waitMs: 0, mayWait: false })
        : keyStub(name).pickUp("r1"))().catch(() => undefined);
    join.mockRestore();
    await loseRows(name);
    pass(1);
    const second = await acquire(name).catch(() => undefined);
    expect([told?.status, second?.status].filter((status) => status === "granted").length).toBeLessThan(2);
  });
});

describe("other copies and settings", () => {
  it("a holder keeps its lock although the directory comes from an older copy", async () => {
    stopClock();
    const { name } = await idle();
    await visitKeys(name);
    const held = grantedToken(await acquire(name, { leaseSeconds: 3_000 }));
    await evictDurableObject(keyStub(name));
    // The copy lists the key's earlier life.
    await runInDurableObject(directoryOfKey(env, name), (_, { storage }) => {
      storage.sql.exec("UPDATE keys SET listed_at = listed_at - 1300000 WHERE key = ?", name);
    });
    await evictDurableObject(directoryOfKey(env, name));
    expect(await keyStub(name).renew(held, 50)).toEqual({ status: "renewed", leaseSeconds: 50 });
  });

  it("a key that agreed is missed although GC_MAX_IDLE_S was raised with the restart", async () => {
    expectLog("key_unreachable", { error: "Error: the answer is lost" });
    stopClock();
    const { name } = await idle();
    replaceNext(KeyObject.prototype, "forgetRetired", name, isLost);
    await visitKeys(name);
    await evictDurableObject(directoryOfKey(env, name));
    await evictDurableObject(keyStub(name));
    const configs = new Set<{ gcMaxIdleMs: number }>();
    for (const stub of [directoryOfKey(env, name), keyStub(fresh("key"))])
      await runInDurableObject(stub as DurableObjectStub, (object) => {
        configs.add(configOf((object as unknown as { env: never }).env) as never);
      });
    for (const config of configs) config.gcMaxIdleMs = 600_000;
    try {
      grantedToken(await acquire(name, { leaseSeconds: 86_400 }));
      await loseRows(name);
      pass(1);
      await expect(acquire(name)).rejects.toThrow("rows are gone");
    } finally {
      for (const config of configs) config.gcMaxIdleMs = 60_000;
    }
  });
});

describe("a disk that fails once", () => {
  it("while a key is deleted does not leave its rows behind for ever", async () => {
    expectLog("key_unreachable", { error: "Error: disk" });
    stopClock();
    const { name } = await idle();
    await runInDurableObject(keyStub(name), (_, { storage }) => {
      vi.spyOn(storage, "deleteAll").mockRejectedValueOnce(new Error("disk"));
    });
    await visitKeys(name);
    for (let hour = 0; hour < 3; hour++) {
      pass(3_700_000);
      await visitKeys(name);
    }
    const isListed = await directoryOfKey(env, name).lists(name);
    await evictDurableObject(keyStub(name));
    expect([isListed, await storedIn(keyStub(name))]).toEqual([false, []]);
  });

  it("while a key joins that was being forgotten does not hide the loss of its rows", async () => {
    expectLog("key_unreachable", { error: "Error: the answer is lost" });
    stopClock();
    const { name } = await idle();
    replaceNext(KeyObject.prototype, "forgetRetired", name, isLost);
    await visitKeys(name);
    await runInDurableObject(directoryOfKey(env, name), (_, { storage }) => {
      vi.spyOn(storage.kv, "put").mockImplementationOnce(() => {
        throw new Error("disk is full");
      });
    });
    await expect(acquire(name)).rejects.toThrow();
    grantedToken(await acquire(name, { leaseSeconds: 86_400 }));
    await evictDurableObject(directoryOfKey(env, name));
    await loseRows(name);
    pass(1);
    await expect(acquire(name)).rejects.toThrow("rows are gone");
  });
});

describe("a key that has lost its rows, and whose object was lost while it was founded again", () => {
  async function lost() {
    stopClock();
    const name = fresh("key");
    const held = grantedToken(await acquire(name, { leaseSeconds: 3_000 }));
    await loseRows(name);
    pass(1);
    await crashInFounding(name, "before the listing");
    return { name, held };
  }

  it("is not shown as held by a grant that was never listed, nor is that grant taken away", async () => {
    expectLog("key_unreachable", { error: "Error: the key is listed, but its stored rows are gone" });
    const { name, held } = await lost();
    for (const ask of [
      () => keyStub(name).describe(),
      () => keyStub(name).describe({ detail: true, history: true }),
      () => keyStub(name).steal(held.slice(0, 16)),
      () => keyStub(name).fenceOfHolder(),
      () => keyStub(name).remove({ kind: "file", which: { by: "any" } }),
    ])
      await expect((async () => ask())()).rejects.toThrow("rows are gone");
    expect(await directoryOfKey(env, name).describe([name], { detail: true })).toEqual({
      keys: [],
      unreachable: [name],
    });
    // What needs no answer is carried out all the same.
    await keyStub(name).cancel("another");
    await keyStub(name).leave("first", { keepsReported: false });
    await expect((async () => keyStub(name).describe())()).rejects.toThrow("rows are gone");
  });

  it("does not tell its holder that nothing is held while somebody else asks", async () => {
    const { name, held } = await lost();
    const { joinKey } = DirectoryObject.prototype;
    let isAsked = false;
    const answer = Promise.withResolvers<void>();
    replaceNext(DirectoryObject.prototype, "joinKey", name, async function (this: DirectoryObject, ...args) {
      isAsked = true;
      await answer.promise;
      return joinKey.apply(this, args);
    });
    const other = acquire(name).catch(() => undefined);
    await until(() => isAsked);
    const renewed = (async () => keyStub(name).renew(held, 50))().catch((error: unknown) => String(error));
    await scheduler.wait(100);
    answer.resolve();
    await other;
    expect(JSON.stringify(await renewed)).toContain("rows are gone");
  });
});

it("a key that was pruned, and then lost while it was founded again, is pruned all the same", async () => {
  expectLog("key_unreachable", { error: "Error: the answer is lost" });
  stopClock();
  const { name } = await idle();
  const { forgetRetired } = KeyObject.prototype;
  replaceNext(KeyObject.prototype, "forgetRetired", name, async function (this: KeyObject, question) {
    await forgetRetired.call(this, question);
    return isLost();
  });
  await visitKeys(name);
  await crashInFounding(name, "before the listing");
  for (let hour = 0; hour < 4; hour++) {
    pass(3_700_000);
    await visitKeys(name);
    await runDurableObjectAlarm(keyStub(name));
  }
  expect([await directoryOfKey(env, name).lists(name), await storedIn(keyStub(name))]).toEqual([false, []]);
});
