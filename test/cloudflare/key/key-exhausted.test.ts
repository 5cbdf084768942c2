import { evictDurableObject, runInDurableObject } from "cloudflare:test";
import { describe, expect, it } from "vitest";
import { encodeCompact } from "../../../src/core/key/compact-record.ts";
import { scriptSessions } from "../listeners.ts";
import { askKey, command, fresh, grantedToken, keyStub, WAIT } from "../support.ts";

/** A key that has one fence left. */
async function nearlyExhausted() {
  const name = fresh("key");
  await runInDurableObject(keyStub(name), (_, { storage }) => {
    const fence = "fffffffffffffffe";
    storage.kv.put("key", encodeCompact({ limit: 1, fence, lastActivity: Date.now(), isListed: true, slot: null }));
  });
  await evictDurableObject(keyStub(name));
  return keyStub(name);
}

describe("a key without fences", () => {
  it("says so, grants nothing and wraps nothing, and goes on answering", async () => {
    const stub = await nearlyExhausted();
    const last = grantedToken(await askKey(stub, { type: "acquire", command: command() }));
    expect(last).toMatch(/^f{16}/);
    await askKey(stub, { type: "release", token: last, session: "" });
    expect(await askKey(stub, { type: "acquire", command: command(WAIT) })).toEqual({ status: "fence_persistence" });
    expect(await askKey(stub, { type: "enqueue", command: command({ session: "s" }) })).toEqual({
      status: "fence_persistence",
    });
    expect(
      await askKey(stub, { type: "wait", command: { session: "s", request: "w", waitMs: 0, mayWait: true } }),
    ).toEqual({
      status: "not_enqueued",
    });
    await evictDurableObject(stub);
    expect(await askKey(stub, { type: "acquire", command: command() })).toEqual({ status: "fence_persistence" });
    expect(await stub.describe()).toMatchObject({ holderCount: 0, waiters: 0 });
  });

  it("keeps its waiters in their places when nobody can be promoted", async () => {
    scriptSessions();
    const stub = await nearlyExhausted();
    const last = grantedToken(await askKey(stub, { type: "acquire", command: command() }));
    await askKey(stub, { type: "acquire", command: command({ ...WAIT, session: "first" }) });
    expect(await askKey(stub, { type: "release", token: last, session: "" })).toEqual({ status: "released" });
    expect(await askKey(stub, { type: "acquire", command: command({ ...WAIT, session: "second" }) })).toEqual({
      status: "queued",
    });
    const { queue = [], holderCount } = (await stub.describe({ detail: true })) ?? {};
    expect([holderCount, queue.map(({ session }) => session)]).toEqual([0, ["first", "second"]]);
  });
});
