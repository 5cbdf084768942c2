import { evictDurableObject, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { directoryOfKey } from "../../../src/cloudflare/calls/directories.ts";
import { DirectoryObject } from "../../../src/cloudflare/directory/directory-object.ts";
import { expectLog } from "../../support/expected-logs.ts";
import { pass, stopClock } from "../clock.ts";
import { scriptSessions } from "../listeners.ts";
import { replaceNext } from "../spies.ts";
import {
  askKey,
  command,
  fresh,
  grantedToken,
  isListed,
  keyStub,
  listed,
  PRUNED_AFTER_MS,
  runAlarm,
  storedIn,
} from "../support.ts";

beforeEach(stopClock);
afterEach(() => {
  vi.restoreAllMocks();
  vi.useRealTimers();
});

const HOUR_MS = 3_600_000;

const alarmOf = (name: string) => runInDurableObject(keyStub(name), (_, { storage }) => storage.getAlarm());

/** A key that has been used once and is listed. Returns the token. */
async function used(name: string): Promise<string> {
  const token = grantedToken(await askKey(keyStub(name), { type: "acquire", command: command() }));
  await listed(name);
  await askKey(keyStub(name), { type: "release", token, session: "" });
  return token;
}

describe("a key's own alarm", () => {
  it("deletes all that is stored of an idle key, and its entry in the directory", async () => {
    const name = fresh("key");
    await used(name);
    pass(PRUNED_AFTER_MS);
    await runAlarm(name);
    expect(await storedIn(keyStub(name))).toEqual([]);
    expect(await alarmOf(name)).toBeNull();
    expect(await isListed(name)).toBe(false);
  });

  it("finds a key that was used for minutes old enough, and is set once for its whole life", async () => {
    const name = fresh("key");
    grantedToken(
      await askKey(keyStub(name), { type: "acquire", command: command({ leaseSeconds: 600, session: "s" }) }),
    );
    const alarm = await alarmOf(name);
    pass(300_000);
    await askKey(keyStub(name), { type: "leave", session: "s", keepsReported: false });
    expect(await alarmOf(name)).toBe(alarm);
    vi.setSystemTime(alarm ?? 0);
    await runAlarm(name);
    expect(await storedIn(keyStub(name))).toEqual([]);
  });

  it("is there for a held key that nobody watches or waits for, which goes in the end", async () => {
    const name = fresh("key");
    grantedToken(await askKey(keyStub(name), { type: "acquire", command: command({ leaseSeconds: 86_400 }) }));
    for (let looks = 0; (await storedIn(keyStub(name))).length > 0; looks++) {
      expect(looks).toBeLessThan(30);
      const alarm = await alarmOf(name);
      expect(alarm).not.toBeNull();
      vi.setSystemTime(alarm ?? 0);
      await runAlarm(name);
    }
  });

  it("keeps the rows for an hour, so that a clock set back by less makes no fence fall", async () => {
    const name = fresh("key");
    const first = await used(name);
    pass(HOUR_MS - 1_000);
    await runAlarm(name);
    expect(await storedIn(keyStub(name))).not.toEqual([]);
    pass(2_000);
    await runAlarm(name);
    expect(await storedIn(keyStub(name))).toEqual([]);
    pass(-HOUR_MS);
    expect(first < grantedToken(await askKey(keyStub(name), { type: "acquire", command: command() }))).toBe(true);
  });

  it("keeps the rows while the clock is behind the key's fence", async () => {
    const name = fresh("key");
    pass(30 * HOUR_MS);
    const first = await used(name);
    await evictDurableObject(keyStub(name));
    pass(-30 * HOUR_MS);
    const second = grantedToken(await askKey(keyStub(name), { type: "acquire", command: command() }));
    expect(first < second).toBe(true);
    await askKey(keyStub(name), { type: "release", token: second, session: "" });
    pass(PRUNED_AFTER_MS);
    await runAlarm(name);
    expect(await storedIn(keyStub(name))).not.toEqual([]);
    expect(await alarmOf(name)).toBeGreaterThan(Date.now());
    expect(second < grantedToken(await askKey(keyStub(name), { type: "acquire", command: command() }))).toBe(true);
  });

  it("never touches a key with a holder or a waiter", async () => {
    scriptSessions();
    const name = fresh("key");
    await askKey(keyStub(name), { type: "acquire", command: command({ leaseSeconds: 1_000_000 }) });
    pass(900_000_000);
    await runAlarm(name);
    expect((await keyStub(name).describe())?.holderCount).toBe(1);
  });

  it("is not put off by wrong tokens, mismatches and descriptions", async () => {
    const name = fresh("key");
    const stub = keyStub(name);
    await askKey(stub, {
      type: "release",
      token: grantedToken(await askKey(stub, { type: "acquire", command: command({ limit: 2 }) })),
      session: "",
    });
    await listed(name);
    pass(50_000);
    await askKey(stub, { type: "release", token: "0".repeat(32), session: "" });
    await askKey(stub, { type: "renew", token: "0".repeat(32), leaseSeconds: 10 });
    await askKey(stub, { type: "acquire", command: command({ limit: 1 }) });
    await stub.describe();
    pass(HOUR_MS);
    await runAlarm(name);
    expect(await storedIn(stub)).toEqual([]);
  });
});

describe("an idle key", () => {
  it("is not shown, and is new except for its fence, before its rows are deleted", async () => {
    const name = fresh("key");
    const first = await used(name);
    pass(120_000);
    expect(await keyStub(name).describe()).toBeNull();
    const second = grantedToken(await askKey(keyStub(name), { type: "acquire", command: command({ limit: 3 }) }));
    expect(first < second).toBe(true);
    expect(await keyStub(name).describe()).toMatchObject({ limit: 3, holderCount: 1 });
  });
});

describe("a key that is used while it prunes itself", () => {
  it("keeps its holder, and is listed again", async () => {
    const name = fresh("key");
    await used(name);
    pass(PRUNED_AFTER_MS);
    let granted = "";
    const { unlistKey } = DirectoryObject.prototype;
    replaceNext(DirectoryObject.prototype, "unlistKey", name, async function (this: DirectoryObject, ...args) {
      await unlistKey.apply(this, args);
      granted = grantedToken(await askKey(keyStub(name), { type: "acquire", command: command() }));
    });
    await runAlarm(name);
    expect(await askKey(keyStub(name), { type: "renew", token: granted, leaseSeconds: 5 })).toEqual({
      status: "renewed",
      leaseSeconds: 5,
    });
    await listed(name);
  });

  it("is listed again although the directory hears of both in the wrong order", async () => {
    const name = fresh("key");
    await used(name);
    pass(PRUNED_AFTER_MS);
    const { unlistKey } = DirectoryObject.prototype;
    replaceNext(DirectoryObject.prototype, "unlistKey", name, async function (this: DirectoryObject, ...args) {
      grantedToken(await askKey(keyStub(name), { type: "acquire", command: command() }));
      await listed(name);
      await scheduler.wait(50);
      await unlistKey.apply(this, args);
    });
    await runAlarm(name);
    expect((await keyStub(name).describe())?.holderCount).toBe(1);
    expect(await isListed(name)).toBe(true);
  });

  it("and an acquire at the same moment leave one valid holder", async () => {
    const name = fresh("key");
    const stub = keyStub(name);
    const first = await used(name);
    pass(PRUNED_AFTER_MS);
    const [, outcome] = await Promise.all([runAlarm(name), askKey(stub, { type: "acquire", command: command() })]);
    expect(first < grantedToken(outcome)).toBe(true);
    expect(await askKey(stub, { type: "acquire", command: command() })).toEqual({ status: "timeout" });
    expect(await askKey(stub, { type: "renew", token: grantedToken(outcome), leaseSeconds: 5 })).toEqual({
      status: "renewed",
      leaseSeconds: 5,
    });
    await listed(name);
  });
});

describe("a fault while a key prunes itself", () => {
  it("a directory out of reach: the key stays, and goes with a later alarm", async () => {
    expectLog("directory_unreachable", { error: "Error: unreachable" });
    const name = fresh("key");
    await used(name);
    pass(PRUNED_AFTER_MS);
    replaceNext(DirectoryObject.prototype, "unlistKey", name, async () => {
      throw new Error("unreachable");
    });
    await runAlarm(name);
    expect(await storedIn(keyStub(name))).not.toEqual([]);
    const alarm = await alarmOf(name);
    expect(alarm).toBeGreaterThan(Date.now());
    vi.setSystemTime(alarm ?? 0);
    await runAlarm(name);
    expect(await storedIn(keyStub(name))).toEqual([]);
  });

  it("a failed write meanwhile: the key is read again, and goes with a later alarm", async () => {
    const name = fresh("key");
    await used(name);
    pass(PRUNED_AFTER_MS);
    replaceNext(DirectoryObject.prototype, "unlistKey", name, async () => {
      await runInDurableObject(keyStub(name), async (key, { storage }) => {
        const put = vi.spyOn(storage.kv, "put").mockImplementationOnce(() => {
          throw new Error("broken");
        });
        await expect(askKey(key, { type: "acquire", command: command() })).rejects.toThrow("broken");
        put.mockRestore();
      });
    });
    await runAlarm(name);
    expect(await storedIn(keyStub(name))).not.toEqual([]);
    const alarm = await alarmOf(name);
    expect(alarm).not.toBeNull();
    vi.setSystemTime(alarm ?? 0);
    await runAlarm(name);
    expect(await storedIn(keyStub(name))).toEqual([]);
  });

  it("a directory out of reach for long costs no alarm for every read", async () => {
    expectLog("directory_unreachable", { error: "Error: unreachable" });
    const name = fresh("key");
    await used(name);
    pass(PRUNED_AFTER_MS);
    replaceNext(DirectoryObject.prototype, "unlistKey", name, async () => {
      throw new Error("unreachable");
    });
    await runAlarm(name);
    const alarm = await alarmOf(name);
    await keyStub(name).describe();
    expect(await alarmOf(name)).toBe(alarm);
  });

  it("a crash after its entry is gone: the next use lists the key again", async () => {
    const name = fresh("key");
    const first = await used(name);
    pass(PRUNED_AFTER_MS);
    await directoryOfKey(env, name).unlistKey({ key: name, fence: (1n << 64n) - 1n });
    await evictDurableObject(keyStub(name));
    expect(first < grantedToken(await askKey(keyStub(name), { type: "acquire", command: command() }))).toBe(true);
    await listed(name);
  });
});
