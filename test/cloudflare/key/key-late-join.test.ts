/** A key's request to be listed that comes late, or again, must not be taken for a key that has lost its rows. See ADR 21. */
import { evictDurableObject, reset } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { directoryOfKey } from "../../../src/cloudflare/calls/directories.ts";
import { DirectoryObject } from "../../../src/cloudflare/directory/directory-object.ts";
import { KeyObject } from "../../../src/cloudflare/key/key-object.ts";
import { expectLog } from "../../support/expected-logs.ts";
import { pass, stopClock } from "../clock.ts";
import { callsAbout, replaceNext } from "../spies.ts";
import { command, fresh, grantedToken, keyStub, loseRows, storedIn, visitKeys } from "../support.ts";
import { crashInFounding } from "./crash-in-founding.ts";

beforeEach(() => {
  stopClock();
});
afterEach(async () => {
  vi.restoreAllMocks();
  vi.useRealTimers();
  await reset();
});

type JoinArguments = Parameters<DirectoryObject["joinKey"]>;

const acquire = async (name: string, overrides = {}) => keyStub(name).acquire(command(overrides));
const lists = (name: string) => directoryOfKey(env, name).lists(name);

/** Uses a key once. Soon it may be pruned. */
async function use(name: string): Promise<void> {
  await keyStub(name).release(grantedToken(await acquire(name)), "");
}

async function prune(name: string): Promise<void> {
  pass(130_000);
  await visitKeys(name);
  expect([await storedIn(keyStub(name)), await lists(name)]).toEqual([[], false]);
}

/** The next request of this key to be listed is under way for long: the key hears an error. Returns its arrival. */
async function joinTakesLong(name: string, ask: () => Promise<unknown>): Promise<() => Promise<unknown>> {
  let late: JoinArguments | undefined;
  replaceNext(DirectoryObject.prototype, "joinKey", name, async (...args: JoinArguments) => {
    late = args;
    throw new Error("no answer");
  });
  await expect(ask()).rejects.toThrow("no answer");
  return async () => late && directoryOfKey(env, name).joinKey(...late);
}

/** A key that has been idle for a while, and whose request to be listed again is under way. */
async function idleAndJoining(name = fresh("key")) {
  await use(name);
  pass(40_000);
  await evictDurableObject(keyStub(name));
  const arrive = await joinTakesLong(name, () => acquire(name));
  return { name, arrive };
}

describe("a request to be listed that arrives after its key was pruned", () => {
  it("lists nothing if the key had been used: it can be had at once", async () => {
    const { name, arrive } = await idleAndJoining();
    await prune(name);
    await arrive();
    pass(1);
    expect((await acquire(name)).status).toBe("granted");
  });

  it("lists nothing if the key had granted nothing", async () => {
    const name = fresh("key");
    const arrive = await joinTakesLong(name, async () => keyStub(name).relay({ relay: "other", type: "propose" }));
    await use(name);
    await prune(name);
    await arrive();
    expect(await lists(name)).toBe(false);
    pass(1);
    expect((await acquire(name)).status).toBe("granted");
  });

  it("lists nothing although the directory was lost in between, and although it comes soon", async () => {
    const { name, arrive } = await idleAndJoining();
    await prune(name);
    await evictDurableObject(directoryOfKey(env, name));
    await arrive();
    expect(await lists(name)).toBe(false);
  });

  it("does not replace the listing of the key's next life", async () => {
    const { name, arrive } = await idleAndJoining();
    await prune(name);
    pass(1);
    const held = grantedToken(await acquire(name, { leaseSeconds: 3_000 }));
    await arrive();
    await evictDurableObject(keyStub(name));
    expect((await acquire(name)).status).toBe("timeout");
    expect((await keyStub(name).renew(held, 50)).status).toBe("renewed");
  });

  it("does not keep the entry of a key that has deleted its rows, and has not said so yet", async () => {
    const { name, arrive } = await idleAndJoining();
    const { forgetRetired } = KeyObject.prototype;
    replaceNext(KeyObject.prototype, "forgetRetired", name, async function (this: KeyObject, question) {
      const isForgotten = await forgetRetired.call(this, question);
      pass(1);
      await arrive();
      return isForgotten;
    });
    await prune(name);
    expect((await acquire(name)).status).toBe("granted");
  });
});

describe("a request to be listed that arrives late", () => {
  it("lists nothing after the key was given up", async () => {
    const name = fresh("key");
    await use(name);
    await loseRows(name);
    pass(1);
    await crashInFounding(name, "before the listing");
    const arrive = await joinTakesLong(name, () => acquire(name));
    await keyStub(name).leave("first", { keepsReported: false });
    pass(1);
    expect(await keyStub(name).giveUp()).toBe(true);
    await arrive();
    pass(1);
    expect((await acquire(name)).status).toBe("granted");
  });

  it("hides nothing: a key that has lost its rows still has", async () => {
    const { name, arrive } = await idleAndJoining();
    grantedToken(await acquire(name, { leaseSeconds: 86_400 }));
    await loseRows(name);
    pass(120_000);
    await arrive();
    await expect(acquire(name)).rejects.toThrow("rows are gone");
  });
});

describe("a key that is alive", () => {
  /** The key's clock is behind the directory's. */
  function behind(name: string, ms: number) {
    const { joinKey } = DirectoryObject.prototype;
    return vi.spyOn(DirectoryObject.prototype, "joinKey").mockImplementation(async function (
      this: DirectoryObject,
      ...args
    ) {
      if (args[0] === name) pass(ms);
      try {
        return await joinKey.apply(this, args);
      } finally {
        if (args[0] === name) pass(-ms);
      }
    });
  }

  it("is listed with the second question although its clock is far behind, and its lease is whole", async () => {
    const name = fresh("key");
    const join = behind(name, 3_600_000);
    const token = grantedToken(await acquire(name, { leaseSeconds: 30 }));
    expect(callsAbout(join, name)).toHaveLength(2);
    expect((await keyStub(name).describe())?.holders[0]?.expiresAt).toBe(Date.now() + 30_000);
    expect((await keyStub(name).release(token, "")).status).toBe("released");
  });

  it("is listed again although the clock was set back since others were pruned, and is missed from then on", async () => {
    expectLog("key_unreachable", { error: "Error: lost" });
    const { name } = await idleAndJoining();
    replaceNext(KeyObject.prototype, "forgetRetired", name, async () => {
      throw new Error("lost");
    });
    pass(130_000);
    await visitKeys(name);
    await evictDurableObject(keyStub(name));
    await evictDurableObject(directoryOfKey(env, name));
    pass(-20_000);
    grantedToken(await acquire(name, { leaseSeconds: 86_400 }));
    await loseRows(name);
    pass(1);
    await expect(acquire(name)).rejects.toThrow("rows are gone");
  });

  it("asks once, if nothing was pruned in that millisecond", async () => {
    const name = fresh("key");
    const join = vi.spyOn(DirectoryObject.prototype, "joinKey");
    await use(name);
    expect(callsAbout(join, name)).toHaveLength(1);
    await prune(name);
    pass(1);
    await use(name);
    expect(callsAbout(join, name)).toHaveLength(2);
  });
});
