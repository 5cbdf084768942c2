import { evictDurableObject, runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { afterEach, describe, expect, it, vi } from "vitest";
import { KeyEngine, type NoticeAnswer } from "../../../src/core/engine/index.ts";
import { expectLog } from "../../support/expected-logs.ts";
import { pass, stopClock } from "../clock.ts";
import { eager, scriptSessions } from "../listeners.ts";
import { askKey, command, fresh, grantedToken, keyStub, until, WAIT } from "../support.ts";

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
    await askKey(keyStub(name), { type: "acquire", command: command({ leaseSeconds: 1 }) });
    await askKey(keyStub(name), { type: "acquire", command: command({ ...WAIT, session: "w" }) });
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
    await askKey(stub, { type: "acquire", command: command() });
    await askKey(stub, { type: "acquire", command: command({ waitMs: 1_000, session: "w" }) });
    await evictDurableObject(stub);
    await until(() => heard.length > 0, { timeout: 2_500, interval: 10 });
    expect(heard).toEqual(["timeout"]);
    expect((await stub.describe())?.waiters).toBe(0);
  });

  it("does nothing when it comes early or twice, and is set again", async () => {
    stopClock();
    const stub = keyStub(fresh("key"));
    const held = grantedToken(
      await askKey(stub, { type: "acquire", command: command({ leaseSeconds: 20, isWatched: true }) }),
    );
    await runDurableObjectAlarm(stub);
    await runInDurableObject(stub, async (key, { storage }) => {
      await key.alarm();
      expect(await storage.getAlarm()).toBe(Date.now() + 20_000);
    });
    expect(await askKey(stub, { type: "renew", token: held, leaseSeconds: 5 })).toEqual({
      status: "renewed",
      leaseSeconds: 5,
    });
  });

  it("is not needed for the truth: a holder past its lease is gone for whoever asks", async () => {
    const stub = keyStub(fresh("key"));
    const held = grantedToken(await askKey(stub, { type: "acquire", command: command({ leaseSeconds: 60 }) }));
    await runInDurableObject(stub, (_, { storage }) => storage.deleteAlarm());
    stopClock();
    pass(60_000);
    expect(await askKey(stub, { type: "renew", token: held, leaseSeconds: 60 })).toEqual({ status: "not_held" });
    expect((await askKey(stub, { type: "acquire", command: command() })).status).toBe("granted");
  });

  it("is set again when its run fails, and the state stays intact", async () => {
    expectLog("key_alarm_failed", { error: "Error: broken off" });
    stopClock();
    const stub = keyStub(fresh("key"));
    const held = grantedToken(await askKey(stub, { type: "acquire", command: command({ leaseSeconds: 7_200 }) }));
    const { tick } = KeyEngine.prototype;
    let isDue = true;
    vi.spyOn(KeyEngine.prototype, "tick").mockImplementation(function (this: KeyEngine, context) {
      // Keys of earlier tests may still have alarms.
      if (!isDue || this.leaseEnd(held) === undefined) return tick.call(this, context);
      isDue = false;
      throw new Error("broken off");
    });
    await runDurableObjectAlarm(stub);
    await runInDurableObject(stub, async (_, { storage }) => {
      expect(await storage.getAlarm()).toBe(Date.now() + 2_000);
    });
    expect(await askKey(stub, { type: "renew", token: held, leaseSeconds: 5 })).toEqual({
      status: "renewed",
      leaseSeconds: 5,
    });
  });

  it("is set for the end of a lease that nobody watches as soon as somebody waits for it", async () => {
    stopClock();
    const stub = keyStub(fresh("key"));
    const alarm = () => runInDurableObject(stub, (_, { storage }) => storage.getAlarm());
    grantedToken(await askKey(stub, { type: "acquire", command: command({ leaseSeconds: 5 }) }));
    expect(await alarm()).toBeGreaterThan(Date.now() + 3_600_000);
    await evictDurableObject(stub);
    await askKey(stub, { type: "acquire", command: command(WAIT) });
    expect(await alarm()).toBe(Date.now() + 5_000);
  });

  it("is not needed for a lease to end", async () => {
    stopClock();
    const stub = keyStub(fresh("key"));
    grantedToken(await askKey(stub, { type: "acquire", command: command({ leaseSeconds: 2 }) }));
    await evictDurableObject(stub);
    pass(2_001);
    expect((await stub.describe())?.holders).toEqual([]);
    expect((await askKey(stub, { type: "acquire", command: command() })).status).toBe("granted");
  });

  it("is valid for the longest lease there is", async () => {
    const stub = keyStub(fresh("key"));
    const outcome = await askKey(stub, {
      type: "acquire",
      command: command({ leaseSeconds: 9_223_372_036, isWatched: true }),
    });
    expect(outcome).toMatchObject({ status: "granted", leaseSeconds: 9_223_372_036 });
    await runInDurableObject(stub, async (_, { storage }) => {
      expect(await storage.getAlarm()).toBeGreaterThan(Date.now() + 1_000_000);
    });
  });
});
