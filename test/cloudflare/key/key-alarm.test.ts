import { evictDurableObject, runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, describe, expect, it, vi } from "vitest";
import { directoryOfKey } from "../../../src/cloudflare/calls/directories.ts";
import { DirectoryObject } from "../../../src/cloudflare/directory/directory-object.ts";
import { KeyStore } from "../../../src/cloudflare/key/rows.ts";
import type { NoticeAnswer } from "../../../src/core/engine/index.ts";
import { expectLog } from "../../support/expected-logs.ts";
import { pass, stopClock } from "../clock.ts";
import { eager, scriptSessions } from "../listeners.ts";
import { replaceNext } from "../spies.ts";
import { command, fresh, grantedToken, keyStub, until, WAIT } from "../support.ts";

afterEach(() => {
  vi.restoreAllMocks();
  vi.useRealTimers();
});

describe("a key's alarm", () => {
  it("hands over at the end of a lease without anybody asking", async () => {
    const scripts = scriptSessions();
    const name = fresh("key");
    const granted: string[] = [];
    scripts.set("w", eager(name, "w", granted));
    await keyStub(name).acquire(command({ leaseSeconds: 1 }));
    await keyStub(name).acquire(command({ ...WAIT, session: "w" }));
    await until(() => granted.length === 1, { timeout: 2_500, interval: 10 });
  });

  it("tells a waiter whose time is over, also after the object was dropped", async () => {
    const scripts = scriptSessions();
    const stub = keyStub(fresh("key"));
    const heard: string[] = [];
    scripts.set("w", {
      deliver: ({ kind }): NoticeAnswer => {
        heard.push(kind);
        return "taken";
      },
    });
    await stub.acquire(command());
    await stub.acquire(command({ waitMs: 1_000, session: "w" }));
    await evictDurableObject(stub);
    await until(() => heard.length > 0, { timeout: 2_500, interval: 10 });
    expect(heard).toEqual(["timeout"]);
    expect((await stub.describe())?.waiters).toBe(0);
  });

  it("does nothing when it comes early or twice, and is set again", async () => {
    stopClock();
    const stub = keyStub(fresh("key"));
    const held = grantedToken(await stub.acquire(command({ leaseSeconds: 20, isWatched: true })));
    await runDurableObjectAlarm(stub);
    await runInDurableObject(stub, async (key, { storage }) => {
      await key.alarm();
      expect(await storage.getAlarm()).toBe(Date.now() + 20_000);
    });
    expect(await stub.renew(held, 5)).toEqual({ status: "renewed", leaseSeconds: 5 });
  });

  it("is not needed for the truth: a holder past its lease is gone for whoever asks", async () => {
    const stub = keyStub(fresh("key"));
    const held = grantedToken(await stub.acquire(command({ leaseSeconds: 60 })));
    await runInDurableObject(stub, (_, { storage }) => storage.deleteAlarm());
    stopClock();
    pass(60_000);
    expect(await stub.renew(held, 60)).toEqual({ status: "not_held" });
    expect((await stub.acquire(command())).status).toBe("granted");
  });

  it("is set again when its run fails, and the state stays intact", async () => {
    expectLog("key_alarm_failed", { error: "Error: unreachable" });
    stopClock();
    const name = fresh("key");
    const stub = keyStub(name);
    // A key that the directory does not visit wakes by itself when it is idle.
    await runInDurableObject(stub, (_, { storage }) => {
      new KeyStore(storage).begin({ limit: 1, fence: 0n, foundedAt: Date.now() });
    });
    await evictDurableObject(stub);
    await stub.describe();
    pass(120_000);
    replaceNext(DirectoryObject.prototype, "joinKey", name, async () => {
      throw new Error("unreachable");
    });
    await runDurableObjectAlarm(stub);
    expect(await directoryOfKey(env, name).lists(name)).toBe(false);
    await runInDurableObject(stub, async (_, { storage }) => {
      expect(await storage.getAlarm()).not.toBeNull();
    });
    expect((await stub.acquire(command({ limit: 2 }))).status).toBe("granted");
    expect(await stub.describe()).toMatchObject({ limit: 2, waiters: 0 });
  });

  it("is set for the end of a lease that nobody watches as soon as somebody waits for it", async () => {
    stopClock();
    const stub = keyStub(fresh("key"));
    const alarm = () => runInDurableObject(stub, (_, { storage }) => storage.getAlarm());
    grantedToken(await stub.acquire(command({ leaseSeconds: 5 })));
    expect(await alarm()).toBeNull();
    await evictDurableObject(stub);
    await stub.acquire(command(WAIT));
    expect(await alarm()).toBe(Date.now() + 5_000);
  });

  it("is not needed for a lease to end", async () => {
    stopClock();
    const stub = keyStub(fresh("key"));
    grantedToken(await stub.acquire(command({ leaseSeconds: 2 })));
    await evictDurableObject(stub);
    pass(2_001);
    expect((await stub.describe())?.holders).toEqual([]);
    expect((await stub.acquire(command())).status).toBe("granted");
  });

  it("is valid for the longest lease there is", async () => {
    const stub = keyStub(fresh("key"));
    const outcome = await stub.acquire(command({ leaseSeconds: 9_223_372_036, isWatched: true }));
    expect(outcome).toMatchObject({ status: "granted", leaseSeconds: 9_223_372_036 });
    await runInDurableObject(stub, async (_, { storage }) => {
      expect(await storage.getAlarm()).toBeGreaterThan(Date.now() + 1_000_000);
    });
  });
});
