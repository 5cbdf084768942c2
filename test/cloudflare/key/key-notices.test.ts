import { evictDurableObject, runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { afterEach, describe, expect, it, vi } from "vitest";
import type { NoticeAnswer } from "../../../src/core/engine/index.ts";
import { expectLog } from "../../support/expected-logs.ts";
import { pass, stopClock } from "../clock.ts";
import { eager, type FakeSession, scriptSessions } from "../listeners.ts";
import { askKey, command, fresh, grantedToken, keyStub, until, WAIT } from "../support.ts";

afterEach(() => {
  vi.restoreAllMocks();
  vi.useRealTimers();
});

describe("notices to sessions", () => {
  const handOver = async (script: (name: string, seen: string[]) => FakeSession) => {
    const scripts = scriptSessions();
    const name = fresh("key");
    const stub = keyStub(name);
    const seen: string[] = [];
    const held = grantedToken(await askKey(stub, { type: "acquire", command: command() }));
    scripts.set("w", script(name, seen));
    await askKey(stub, { type: "acquire", command: command({ ...WAIT, session: "w", request: "the request" }) });
    await askKey(stub, { type: "release", token: held, session: "" });
    return { stub, seen, scripts, name };
  };

  it("a lost one is repeated within a second", async () => {
    expectLog("session_unreachable", { error: "Error: lost on the way" });
    // An hour ahead, where no alarm fires but by hand.
    stopClock();
    pass(3_600_000);
    let calls = 0;
    const { stub } = await handOver((name) => ({
      async deliver({ request }): Promise<NoticeAnswer> {
        calls += 1;
        if (calls === 1) throw new Error("lost on the way");
        await askKey(keyStub(name), { type: "pickUp", request });
        return "taken";
      },
    }));
    await until(() => calls === 1);
    await runInDurableObject(stub, async (_, { storage }) => {
      expect(await storage.getAlarm()).toBeLessThanOrEqual(Date.now() + 1_000);
    });
    pass(1_000);
    await runDurableObjectAlarm(stub);
    await until(() => calls === 2);
    expect((await stub.describe())?.holders).toHaveLength(1);
  });

  it("one that is answered `gone` passes the slot on at once", async () => {
    // Nothing that waits for a time to come can help.
    stopClock();
    const { stub } = await handOver(() => ({ deliver: () => "gone" }));
    await until(async () => (await askKey(stub, { type: "acquire", command: command() })).status === "granted");
  });

  it("`gone` that comes late, after the pick-up, takes nothing away", async () => {
    const { stub } = await handOver((name) => ({
      async deliver({ request }): Promise<NoticeAnswer> {
        await askKey(keyStub(name), { type: "pickUp", request });
        return "gone";
      },
    }));
    await until(async () => (await stub.describe())?.holders[0]?.session === "w");
    expect(await askKey(stub, { type: "acquire", command: command() })).toEqual({ status: "timeout" });
  });

  it("one whose answer is lost does no harm: the pick-up counts", async () => {
    expectLog("session_unreachable", { error: "Error: the answer is lost" });
    const { stub, seen } = await handOver((name, seen) => ({
      async deliver({ request }): Promise<NoticeAnswer> {
        seen.push(grantedToken(await askKey(keyStub(name), { type: "pickUp", request })));
        throw new Error("the answer is lost");
      },
    }));
    await until(() => seen.length === 1);
    expect(await askKey(stub, { type: "renew", token: seen[0] ?? "", leaseSeconds: 7 })).toEqual({
      status: "renewed",
      leaseSeconds: 7,
    });
  });

  it("two pick-ups of one request get one token", async () => {
    const { stub, seen } = await handOver((name, seen) => ({
      async deliver({ request }): Promise<NoticeAnswer> {
        const outcomes = await Promise.all([
          askKey(keyStub(name), { type: "pickUp", request }),
          askKey(keyStub(name), { type: "pickUp", request }),
        ]);
        seen.push(...outcomes.map(grantedToken));
        return "taken";
      },
    }));
    await until(() => seen.length === 2);
    expect(seen[0]).toBe(seen[1]);
    expect((await stub.describe())?.holders).toHaveLength(1);
  });

  it("one to a session that cannot be reached costs nobody else anything, and its slot passes on after five seconds or its lease", async () => {
    expectLog("session_unreachable", { error: "Error: unreachable" });
    const scripts = scriptSessions();
    const name = fresh("key");
    const stub = keyStub(name);
    const granted: string[] = [];
    const held = grantedToken(await askKey(stub, { type: "acquire", command: command() }));
    scripts.set("lost", { deliver: () => Promise.reject(new Error("unreachable")) });
    scripts.set("next", eager(name, "next", granted));
    await askKey(stub, { type: "acquire", command: command({ ...WAIT, session: "lost", leaseSeconds: 1 }) });
    await askKey(stub, { type: "acquire", command: command({ ...WAIT, session: "next" }) });
    await askKey(stub, { type: "release", token: held, session: "" });
    await until(() => granted.length === 1, { timeout: 7_000, interval: 10 });
  });

  it("a promotion survives the loss of both objects and is delivered", async () => {
    expectLog("session_unreachable", { error: "Error: lost" });
    const scripts = scriptSessions();
    const name = fresh("key");
    const stub = keyStub(name);
    const granted: string[] = [];
    const held = grantedToken(await askKey(stub, { type: "acquire", command: command() }));
    let isLost = true;
    const session = eager(name, "w", granted);
    scripts.set("w", { deliver: (notice) => (isLost ? Promise.reject(new Error("lost")) : session.deliver(notice)) });
    await askKey(stub, { type: "acquire", command: command({ ...WAIT, session: "w" }) });
    await askKey(stub, { type: "release", token: held, session: "" });
    await evictDurableObject(stub);
    isLost = false;
    await until(() => granted.length === 1, { timeout: 3_000, interval: 10 });
  });

  it("a hold whose client is away for longer than its lease answers so, and the next one is served", async () => {
    const scripts = scriptSessions();
    const name = fresh("key");
    const stub = keyStub(name);
    const heard: string[] = [];
    const held = grantedToken(await askKey(stub, { type: "acquire", command: command() }));
    scripts.set("slow", {
      deliver({ kind }): NoticeAnswer {
        if (kind === "granted") return "later";
        heard.push(kind);
        return "taken";
      },
    });
    await askKey(stub, { type: "acquire", command: command({ ...WAIT, session: "slow", leaseSeconds: 1 }) });
    await askKey(stub, { type: "release", token: held, session: "" });
    await until(() => heard.length > 0, { timeout: 3_000, interval: 10 });
    expect(heard[0]).toBe("lease_expired");
    expect((await askKey(stub, { type: "acquire", command: command() })).status).toBe("granted");
  });
});
