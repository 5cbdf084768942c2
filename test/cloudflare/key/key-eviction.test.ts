import { evictDurableObject } from "cloudflare:test";
import { afterEach, describe, expect, it, vi } from "vitest";
import { eager, scriptSessions } from "../listeners.ts";
import { askKey, command, fresh, grantedToken, keyStub, until, WAIT } from "../support.ts";

afterEach(() => {
  vi.restoreAllMocks();
  vi.useRealTimers();
});

describe("a key that is dropped from memory", () => {
  it("still has its holder, its limit and its fence", async () => {
    const stub = keyStub(fresh("key"));
    const a = grantedToken(await askKey(stub, { type: "acquire", command: command({ limit: 2 }) }));
    await evictDurableObject(stub);
    expect(await askKey(stub, { type: "acquire", command: command({ limit: 1 }) })).toEqual({
      status: "limit_mismatch",
    });
    const b = grantedToken(await askKey(stub, { type: "acquire", command: command({ limit: 2 }) }));
    expect(a < b).toBe(true);
    expect(await askKey(stub, { type: "acquire", command: command({ limit: 2 }) })).toEqual({ status: "timeout" });
    expect(await askKey(stub, { type: "renew", token: a, leaseSeconds: 9 })).toEqual({
      status: "renewed",
      leaseSeconds: 9,
    });
    expect(await askKey(stub, { type: "release", token: a, session: "" })).toEqual({ status: "released" });
  });

  it("serves its waiters in the same order", async () => {
    const scripts = scriptSessions();
    const name = fresh("key");
    const stub = keyStub(name);
    const granted: string[] = [];
    let held = grantedToken(await askKey(stub, { type: "acquire", command: command() }));
    for (const waiter of ["one", "two", "three"]) {
      scripts.set(waiter, eager(name, waiter, granted));
      expect((await askKey(stub, { type: "acquire", command: command({ ...WAIT, session: waiter }) })).status).toBe(
        "queued",
      );
      await evictDurableObject(stub);
    }
    for (let n = 0; n < 3; n++) {
      await stub.describe();
      await evictDurableObject(stub);
      await askKey(stub, { type: "release", token: held, session: "" });
      await until(() => granted.length > n, { timeout: 5_000, interval: 5 });
      held = granted[n]?.split(":")[1] ?? "";
    }
    expect(granted.map((grant) => grant.split(":")[0])).toEqual(["one", "two", "three"]);
  });

  it("remembers who wants to be told that somebody waits, as a holder and as a waiter", async () => {
    const scripts = scriptSessions();
    const told: string[] = [];
    const asks = { ...WAIT, asksWanted: true } as const;
    for (const session of ["first", "second"])
      scripts.set(session, { deliver: () => "later", want: ({ token }) => told.push(`${session} ${token}`) });
    const stub = keyStub(fresh("key"));
    const held = grantedToken(await askKey(stub, { type: "acquire", command: command({ ...asks, session: "first" }) }));
    await evictDurableObject(stub);
    await askKey(stub, { type: "acquire", command: command({ ...asks, session: "second", request: "r2" }) });
    await until(() => told.length === 1, { timeout: 5_000, interval: 5 });
    await evictDurableObject(stub);
    expect(await askKey(stub, { type: "renew", token: held, leaseSeconds: 9 })).toEqual({
      status: "renewed",
      leaseSeconds: 9,
      isWanted: true,
    });
    await askKey(stub, { type: "release", token: held, session: "first" });
    const next = grantedToken(await askKey(stub, { type: "pickUp", request: "r2" }));
    await evictDurableObject(stub);
    await askKey(stub, { type: "acquire", command: command({ ...WAIT, session: "third" }) });
    await until(() => told.length === 2, { timeout: 5_000, interval: 5 });
    expect(told).toEqual([`first ${held}`, `second ${next}`]);
  });

  it("remembers that a client knew its hold before it sent the wait that is withdrawn", async () => {
    const stub = keyStub(fresh("key"));
    const token = grantedToken(await askKey(stub, { type: "enqueue", command: command({ session: "s" }) }));
    const wait = { session: "s", waitMs: 0, mayWait: true };
    await askKey(stub, { type: "wait", command: { ...wait, request: "w1" } });
    await evictDurableObject(stub);
    await askKey(stub, { type: "cancel", request: "w1", sparesKnown: true });
    await evictDurableObject(stub);
    expect(await askKey(stub, { type: "wait", command: { ...wait, request: "w2" } })).toMatchObject({
      status: "granted",
      token,
    });
    await askKey(stub, { type: "cancel", request: "w2" });
    expect(await askKey(stub, { type: "wait", command: { ...wait, request: "w3" } })).toEqual({
      status: "not_enqueued",
    });
  });

  it("gives up a place for a wait that never arrived", async () => {
    const stub = keyStub(fresh("key"));
    const held = grantedToken(await askKey(stub, { type: "acquire", command: command() }));
    await askKey(stub, { type: "enqueue", command: command({ session: "s", request: "e" }) });
    await evictDurableObject(stub);
    await askKey(stub, { type: "cancel", request: "w", placeOf: "s" });
    await askKey(stub, { type: "release", token: held, session: "" });
    expect((await stub.describe())?.holders).toEqual([]);
  });

  it("remembers a two-phase place, a grant on it, and one that ran out", async () => {
    const scripts = scriptSessions();
    scripts.set("s", { deliver: () => "noted" });
    const stub = keyStub(fresh("key"));
    const held = grantedToken(await askKey(stub, { type: "acquire", command: command() }));
    // Longer than an eviction takes, which waits for what the object has under way.
    await askKey(stub, { type: "enqueue", command: command({ session: "s", leaseSeconds: 4 }) });
    await evictDurableObject(stub);
    expect(await askKey(stub, { type: "enqueue", command: command({ session: "s" }) })).toEqual({
      status: "already_enqueued",
    });
    await askKey(stub, { type: "release", token: held, session: "" });
    await evictDurableObject(stub);
    expect(await askKey(stub, { type: "enqueue", command: command({ session: "s" }) })).toEqual({
      status: "already_enqueued",
    });
    await until(async () => (await stub.describe())?.holders.length === 0, { timeout: 8_000, interval: 20 });
    await evictDurableObject(stub);
    const wait = { session: "s", waitMs: 0, mayWait: true };
    expect(await askKey(stub, { type: "wait", command: { ...wait, request: "w1" } })).toEqual({
      status: "lease_expired",
    });
    expect(await askKey(stub, { type: "wait", command: { ...wait, request: "w2" } })).toEqual({
      status: "not_enqueued",
    });
  });
});
