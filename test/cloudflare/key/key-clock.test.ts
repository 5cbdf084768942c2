import { evictDurableObject, runInDurableObject } from "cloudflare:test";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { KeyClock } from "../../../src/core/key/clock.ts";
import { askKey, command, fresh, grantedToken, keyStub, WAIT } from "../support.ts";

const HOUR_MS = 3_600_000;

beforeEach(() => {
  // Alarms fire by the real clock, and none is to fire here.
  vi.useFakeTimers({ toFake: ["Date"], now: Date.now() + 2 * HOUR_MS });
});
afterEach(() => {
  vi.useRealTimers();
});

const pass = (ms: number) => vi.setSystemTime(Date.now() + ms);

describe("when the machine's clock is set back, a key that is awake", () => {
  it("ends a lease no later than if it had not been", async () => {
    const stub = keyStub(fresh("key"));
    const held = grantedToken(await askKey(stub, { type: "acquire", command: command({ leaseSeconds: 30 }) }));
    pass(-HOUR_MS);
    expect(await askKey(stub, { type: "acquire", command: command() })).toEqual({ status: "timeout" });
    pass(29_000);
    expect(await askKey(stub, { type: "acquire", command: command() })).toEqual({ status: "timeout" });
    pass(1_000);
    expect(await askKey(stub, { type: "renew", token: held, leaseSeconds: 30 })).toEqual({ status: "not_held" });
  });

  it("ends a wait no later, and wakes up for that in time", async () => {
    const stub = keyStub(fresh("key"));
    await askKey(stub, { type: "acquire", command: command({ leaseSeconds: 600 }) });
    await askKey(stub, { type: "acquire", command: command({ ...WAIT, waitMs: 20_000, session: "w", request: "w" }) });
    pass(-HOUR_MS);
    await stub.describe();
    await runInDurableObject(stub, async (_, { storage }) => {
      expect(await storage.getAlarm()).toBe(Date.now() + 20_000);
    });
    pass(20_001);
    expect((await stub.describe())?.waiters).toBe(0);
  });

  it("still grants rising fences, and no two of them at a time", async () => {
    const stub = keyStub(fresh("key"));
    const first = grantedToken(await askKey(stub, { type: "acquire", command: command() }));
    pass(-HOUR_MS);
    expect(await askKey(stub, { type: "release", token: first, session: "" })).toEqual({ status: "released" });
    const second = grantedToken(await askKey(stub, { type: "acquire", command: command() }));
    expect(second > first).toBe(true);
    expect(await askKey(stub, { type: "acquire", command: command() })).toEqual({ status: "timeout" });
  });
});

describe("when the clock is set back while a key sleeps", () => {
  it("its lease lasts longer by the step: what is stored is a time of the day", async () => {
    const stub = keyStub(fresh("key"));
    const held = grantedToken(await askKey(stub, { type: "acquire", command: command({ leaseSeconds: 30 }) }));
    await evictDurableObject(stub);
    pass(-HOUR_MS);
    expect(await askKey(stub, { type: "acquire", command: command() })).toEqual({ status: "timeout" });
    pass(HOUR_MS);
    expect(await askKey(stub, { type: "acquire", command: command() })).toEqual({ status: "timeout" });
    pass(30_000);
    expect(await askKey(stub, { type: "renew", token: held, leaseSeconds: 5 })).toEqual({ status: "not_held" });
  });
});

describe("a key's clock", () => {
  it("never goes back, whatever the machine's does", () => {
    const clock = new KeyClock(() => Date.now());
    let last = clock.now();
    for (const ms of [5, -HOUR_MS, 10, -1, 0, 2 * HOUR_MS, -20, 10, 30]) {
      pass(ms);
      const now = clock.now();
      expect(now).toBeGreaterThanOrEqual(last);
      last = now;
    }
  });

  it("is the machine's again when a step back has been corrected, so that no lease ends early", () => {
    const clock = new KeyClock(() => Date.now());
    const start = clock.now();
    pass(-HOUR_MS);
    expect(clock.now()).toBe(start);
    pass(1_000);
    expect(clock.now()).toBe(start + 1_000);
    pass(HOUR_MS);
    expect(clock.now()).toBe(start + 1_000);
    expect(clock.now()).toBe(Date.now());
  });
});
