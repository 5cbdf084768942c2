import { evictDurableObject, runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, describe, expect, it, vi } from "vitest";
import type { NoticeAnswer } from "../../../src/engine/index.ts";
import { DirectoryObject } from "../../../src/objects/directory/directory-object.ts";
import { KeyStore } from "../../../src/objects/key/rows.ts";
import { pass, stopClock } from "../clock.ts";
import { eager, scriptSessions } from "../listeners.ts";
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
    const name = fresh("key");
    const stub = keyStub(name);
    await stub.release(grantedToken(await stub.acquire(command({ limit: 4 }))), "");
    // A key that the directory does not visit has to be pruned by its own alarm.
    await runInDurableObject(stub, (_, { storage }) => {
      const store = new KeyStore(storage);
      store.load();
      store.unlist();
    });
    await evictDurableObject(stub);
    await stub.describe();
    const leave = vi.spyOn(DirectoryObject.prototype, "leaveKey").mockRejectedValue(new Error("unreachable"));
    stopClock();
    pass(120_000);
    await runDurableObjectAlarm(stub);
    expect(leave).toHaveBeenCalled();
    await runInDurableObject(stub, async (_, { storage }) => {
      expect(await storage.getAlarm()).not.toBeNull();
    });
    expect((await stub.acquire(command({ limit: 2 }))).status).toBe("granted");
    expect(await env.KEY.getByName(name).describe()).toMatchObject({ limit: 2, waiters: 0 });
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
