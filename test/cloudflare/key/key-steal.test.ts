import { evictDurableObject } from "cloudflare:test";
import { afterEach, describe, expect, it, vi } from "vitest";
import type { NoticeAnswer } from "../../../src/core/engine/index.ts";
import type { Loss } from "../../../src/core/session/effects.ts";
import { expectLog } from "../../support/expected-logs.ts";
import { eager, scriptSessions } from "../listeners.ts";
import { askKey, command, fresh, grantedToken, keyStub, until, WAIT } from "../support.ts";

afterEach(() => {
  vi.restoreAllMocks();
});

describe("stealing", () => {
  it("tells the holder, serves the next in line, and leaves the old token worthless, also after an eviction", async () => {
    const scripts = scriptSessions();
    const name = fresh("key");
    const stub = keyStub(name);
    const losses: Loss[] = [];
    const granted: string[] = [];
    scripts.set("victim", { deliver: () => "taken", lose: (loss) => losses.push(loss) });
    scripts.set("next", eager(name, "next", granted));
    const token = grantedToken(await askKey(stub, { type: "acquire", command: command({ session: "victim" }) }));
    await askKey(stub, { type: "acquire", command: command({ ...WAIT, session: "next" }) });
    await evictDurableObject(stub);
    const shown = (await stub.describe({ detail: true }))?.holders[0];
    expect(shown?.fence).toBe(token.slice(0, 16));
    const outcome = await askKey(stub, { type: "steal", fence: shown?.fence ?? "" });
    expect(outcome).toEqual({
      status: "stolen",
      session: "victim",
      since: shown?.since,
      expiresAt: shown?.expiresAt,
    });
    await until(() => granted.length === 1 && losses.length === 1, { timeout: 3_000, interval: 5 });
    expect(losses).toEqual([{ key: name, token, reason: "stolen" }]);
    await evictDurableObject(stub);
    expect(await askKey(stub, { type: "renew", token, leaseSeconds: 5 })).toEqual({ status: "not_held" });
    expect(await askKey(stub, { type: "release", token, session: "victim" })).toEqual({ status: "not_held" });
    expect((await stub.describe())?.holders).toMatchObject([{ session: "next" }]);
  });

  it("a hold that was not picked up yet answers its waiter `lease_expired`", async () => {
    expectLog("session_unreachable", { error: "Error: not now" });
    const scripts = scriptSessions();
    const stub = keyStub(fresh("key"));
    const heard: string[] = [];
    scripts.set("slow", {
      deliver({ kind }): NoticeAnswer {
        if (kind === "granted") throw new Error("not now");
        heard.push(kind);
        return "taken";
      },
    });
    const held = grantedToken(await askKey(stub, { type: "acquire", command: command() }));
    await askKey(stub, { type: "acquire", command: command({ ...WAIT, session: "slow" }) });
    await askKey(stub, { type: "release", token: held, session: "" });
    const { holders = [] } = (await stub.describe()) ?? {};
    expect(await askKey(stub, { type: "steal", fence: holders[0]?.fence ?? "" })).toMatchObject({
      status: "stolen",
      session: "slow",
    });
    await until(() => heard.length > 0, { timeout: 3_000, interval: 5 });
    expect(heard).toEqual(["lease_expired"]);
    expect((await askKey(stub, { type: "acquire", command: command() })).status).toBe("granted");
  });

  it("what is not held changes nothing, also on a key that does not exist", async () => {
    const stub = keyStub(fresh("key"));
    expect(await askKey(stub, { type: "steal", fence: "0".repeat(16) })).toEqual({ status: "not_held" });
    expect(await stub.describe()).toBeNull();
    const token = grantedToken(await askKey(stub, { type: "acquire", command: command() }));
    expect(await askKey(stub, { type: "steal", fence: "0".repeat(16) })).toEqual({ status: "not_held" });
    expect(await askKey(stub, { type: "renew", token, leaseSeconds: 5 })).toEqual({
      status: "renewed",
      leaseSeconds: 5,
    });
  });
});

describe("a description", () => {
  it("in detail shows the queue in its order", async () => {
    const stub = keyStub(fresh("key"));
    await askKey(stub, { type: "acquire", command: command({ session: "a" }) });
    await askKey(stub, { type: "acquire", command: command({ ...WAIT, session: "b" }) });
    await askKey(stub, { type: "enqueue", command: command({ session: "c" }) });
    expect((await stub.describe())?.queue).toEqual([]);
    const { queue = [] } = (await stub.describe({ detail: true })) ?? {};
    expect(queue.map(({ session, deadline }) => [session, deadline !== undefined])).toEqual([
      ["b", true],
      ["c", false],
    ]);
  });
});
