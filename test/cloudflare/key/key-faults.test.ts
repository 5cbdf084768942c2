import { evictDurableObject, runInDurableObject } from "cloudflare:test";
import { afterEach, describe, expect, it, vi } from "vitest";
import { type AcquireOutcome, KeyEngine } from "../../../src/core/engine/index.ts";
import { command, fresh, grantedToken, keyStub, sessionsOn, storedIn, WAIT } from "../support.ts";

afterEach(() => {
  vi.restoreAllMocks();
  vi.useRealTimers();
});

describe("when something else fails", () => {
  it("a write that fails grants nothing: the key goes on from what is stored", async () => {
    const stub = keyStub(fresh("key"));
    await stub.release(grantedToken(await stub.acquire(command())), "");
    await runInDurableObject(stub, async (key, { storage }) => {
      const put = vi.spyOn(storage.kv, "put").mockImplementationOnce(() => {
        throw new Error("disk full");
      });
      await expect(key.acquire(command())).rejects.toThrow("disk full");
      put.mockRestore();
      expect((await key.describe())?.holders).toEqual([]);
    });
    expect((await stub.acquire(command())).status).toBe("granted");
  });

  it("a decision that breaks off stores nothing: the key goes on from what is stored", async () => {
    const name = fresh("key");
    const stub = keyStub(name);
    const held = grantedToken(await stub.acquire(command()));
    const queued = await stub.acquire(command({ ...WAIT, session: "waiter" }));
    const { release } = KeyEngine.prototype;
    vi.spyOn(KeyEngine.prototype, "release").mockImplementationOnce(function (this: KeyEngine, ...args) {
      release.apply(this, args);
      throw new Error("broken off");
    });
    await runInDurableObject(stub, async (key) => {
      await expect(key.release(held, "")).rejects.toThrow("broken off");
      expect(await key.describe()).toMatchObject({ holderCount: 1, waiters: 1 });
    });
    expect(await sessionsOn(name)).toHaveLength(2);
    await evictDurableObject(stub);
    expect(queued).toEqual({ status: "queued" });
    expect(await stub.renew(held, 5)).toEqual({ status: "renewed", leaseSeconds: 5 });
  });

  it("the same request sent again gets the same grant, not a second one", async () => {
    const stub = keyStub(fresh("key"));
    const same = command({ limit: 3 });
    const outcomes: AcquireOutcome[] = [await stub.acquire(same), await stub.acquire(same)];
    expect(outcomes[0]).toEqual(outcomes[1]);
    expect((await stub.describe())?.holders).toHaveLength(1);
  });

  it("asking an unknown key for anything but a slot stores nothing", async () => {
    const stub = keyStub(fresh("key"));
    expect(await stub.release("0".repeat(32), "")).toEqual({ status: "not_held" });
    expect(await stub.renew("0".repeat(32), 5)).toEqual({ status: "not_held" });
    expect(await stub.wait(command())).toEqual({ status: "not_enqueued" });
    expect(await stub.describe()).toBeNull();
    await stub.leave("nobody", { keepsReported: false });
    expect(await storedIn(stub)).toEqual([]);
  });
});
