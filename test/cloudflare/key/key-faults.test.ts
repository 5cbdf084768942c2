import { evictDurableObject, runInDurableObject } from "cloudflare:test";
import { afterEach, describe, expect, it, vi } from "vitest";
import { type AcquireOutcome, KeyEngine } from "../../../src/core/engine/index.ts";
import { askKey, command, fresh, grantedToken, keyStub, sessionsOn, storedIn, WAIT } from "../support.ts";

afterEach(() => {
  vi.restoreAllMocks();
  vi.useRealTimers();
});

describe("when something else fails", () => {
  it("a write that fails grants nothing: the key goes on from what is stored", async () => {
    const stub = keyStub(fresh("key"));
    await askKey(stub, {
      type: "release",
      token: grantedToken(await askKey(stub, { type: "acquire", command: command() })),
      session: "",
    });
    await runInDurableObject(stub, async (key, { storage }) => {
      const put = vi.spyOn(storage.kv, "put").mockImplementationOnce(() => {
        throw new Error("disk full");
      });
      await expect(askKey(key, { type: "acquire", command: command() })).rejects.toThrow("disk full");
      put.mockRestore();
      expect((await key.describe())?.holders).toEqual([]);
    });
    expect((await askKey(stub, { type: "acquire", command: command() })).status).toBe("granted");
  });

  it("a decision that breaks off stores nothing: the key goes on from what is stored", async () => {
    const name = fresh("key");
    const stub = keyStub(name);
    const held = grantedToken(await askKey(stub, { type: "acquire", command: command() }));
    const queued = await askKey(stub, { type: "acquire", command: command({ ...WAIT, session: "waiter" }) });
    const { release } = KeyEngine.prototype;
    let isDue = true;
    vi.spyOn(KeyEngine.prototype, "release").mockImplementation(function (this: KeyEngine, ...args) {
      const isMeant = isDue && this.leaseEnd(held) !== undefined;
      const outcome = release.apply(this, args);
      if (!isMeant) return outcome;
      isDue = false;
      throw new Error("broken off");
    });
    await runInDurableObject(stub, async (key) => {
      await expect(askKey(key, { type: "release", token: held, session: "" })).rejects.toThrow("broken off");
      expect(await key.describe()).toMatchObject({ holderCount: 1, waiters: 1 });
    });
    expect(await sessionsOn(name)).toHaveLength(2);
    await evictDurableObject(stub);
    expect(queued).toEqual({ status: "queued" });
    expect(await askKey(stub, { type: "renew", token: held, leaseSeconds: 5 })).toEqual({
      status: "renewed",
      leaseSeconds: 5,
    });
  });

  it("the same request sent again gets the same grant, not a second one", async () => {
    const stub = keyStub(fresh("key"));
    const same = command({ limit: 3 });
    const outcomes: AcquireOutcome[] = [
      await askKey(stub, { type: "acquire", command: same }),
      await askKey(stub, { type: "acquire", command: same }),
    ];
    expect(outcomes[0]).toEqual(outcomes[1]);
    expect((await stub.describe())?.holders).toHaveLength(1);
  });

  it("asking an unknown key for anything but a slot stores nothing", async () => {
    const stub = keyStub(fresh("key"));
    expect(await askKey(stub, { type: "release", token: "0".repeat(32), session: "" })).toEqual({ status: "not_held" });
    expect(await askKey(stub, { type: "renew", token: "0".repeat(32), leaseSeconds: 5 })).toEqual({
      status: "not_held",
    });
    expect(await askKey(stub, { type: "wait", command: command() })).toEqual({ status: "not_enqueued" });
    expect(await stub.describe()).toBeNull();
    await askKey(stub, { type: "leave", session: "nobody", keepsReported: false });
    expect(await storedIn(stub)).toEqual([]);
  });
});
