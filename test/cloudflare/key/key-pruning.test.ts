import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { pass, stopClock } from "../clock.ts";
import { scriptSessions } from "../listeners.ts";
import { command, fresh, grantedToken, keyStub, storedIn, visitKeys } from "../support.ts";

beforeEach(stopClock);
afterEach(() => {
  vi.restoreAllMocks();
  vi.useRealTimers();
});

describe("pruning", () => {
  const idleFor = async (name: string, ms: number) => {
    pass(ms);
    await visitKeys(name);
  };

  it("deletes all that is stored of an idle key, and the fence still rises with the clock set back", async () => {
    const name = fresh("key");
    const stub = keyStub(name);
    pass(3_600_000);
    const first = grantedToken(await stub.acquire(command({ limit: 5 })));
    await stub.release(first, "");
    await idleFor(name, 130_000);
    expect(await storedIn(stub)).toEqual([]);
    pass(-3_730_000);
    const second = grantedToken(await stub.acquire(command({ limit: 2 })));
    expect(first < second).toBe(true);
  });

  it("never touches a key with a holder or a waiter", async () => {
    scriptSessions();
    const name = fresh("key");
    await keyStub(name).acquire(command({ leaseSeconds: 1_000_000 }));
    await idleFor(name, 900_000_000);
    expect(await storedIn(keyStub(name))).not.toEqual([]);
    expect((await keyStub(name).describe())?.holderCount).toBe(1);
  });

  it("and an acquire at the same moment leave one valid holder", async () => {
    const name = fresh("key");
    const stub = keyStub(name);
    const first = grantedToken(await stub.acquire(command()));
    await stub.release(first, "");
    pass(130_000);
    const [, outcome] = await Promise.all([visitKeys(name), stub.acquire(command())]);
    expect(first < grantedToken(outcome)).toBe(true);
    expect(await stub.acquire(command())).toEqual({ status: "timeout" });
    expect(await stub.renew(grantedToken(outcome), 5)).toEqual({ status: "renewed", leaseSeconds: 5 });
  });

  it("is not put off by wrong tokens, mismatches and descriptions", async () => {
    const name = fresh("key");
    const stub = keyStub(name);
    await stub.release(grantedToken(await stub.acquire(command({ limit: 2 }))), "");
    pass(50_000);
    await stub.release("0".repeat(32), "");
    await stub.renew("0".repeat(32), 10);
    await stub.acquire(command({ limit: 1 }));
    await stub.describe();
    await idleFor(name, 80_000);
    expect(await storedIn(stub)).toEqual([]);
  });
});
