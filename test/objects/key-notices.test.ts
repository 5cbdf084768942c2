import { evictDurableObject } from "cloudflare:test";
import { afterEach, describe, expect, it, vi } from "vitest";
import type { Answer } from "../../src/engine/index.ts";
import { eager, type FakeSession, scriptSessions } from "./listeners.ts";
import { command, fresh, grantedToken, keyStub, WAIT } from "./support.ts";

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
    const held = grantedToken(await stub.acquire(command()));
    scripts.set("w", script(name, seen));
    await stub.acquire(command({ ...WAIT, session: "w", request: "the request" }));
    await stub.release(held, "");
    return { stub, seen, scripts, name };
  };

  it("a lost one is repeated within a second", async () => {
    const calledAt: number[] = [];
    const { stub } = await handOver((name) => ({
      async deliver({ request }): Promise<Answer> {
        calledAt.push(Date.now());
        if (calledAt.length === 1) throw new Error("lost on the way");
        await keyStub(name).pickUp(request);
        return "taken";
      },
    }));
    await vi.waitUntil(() => calledAt.length === 2, { timeout: 3_000, interval: 10 });
    const [first = 0, second = Number.NaN] = calledAt;
    expect(second - first).toBeLessThan(2_000);
    expect((await stub.describe())?.holders).toHaveLength(1);
  });

  it("one that is answered `gone` passes the slot on at once", async () => {
    const { stub } = await handOver(() => ({ deliver: () => "gone" }));
    await vi.waitUntil(async () => (await stub.acquire(command())).status === "granted", { timeout: 500, interval: 5 });
  });

  it("`gone` that comes late, after the pick-up, takes nothing away", async () => {
    const { stub } = await handOver((name) => ({
      async deliver({ request }): Promise<Answer> {
        await keyStub(name).pickUp(request);
        return "gone";
      },
    }));
    await vi.waitUntil(async () => (await stub.describe())?.holders[0]?.session === "w", { timeout: 1_000 });
    expect(await stub.acquire(command())).toEqual({ status: "timeout" });
  });

  it("one whose answer is lost does no harm: the pick-up counts", async () => {
    const { stub, seen } = await handOver((name, seen) => ({
      async deliver({ request }): Promise<Answer> {
        seen.push(grantedToken(await keyStub(name).pickUp(request)));
        throw new Error("the answer is lost");
      },
    }));
    await vi.waitUntil(() => seen.length === 1, { timeout: 1_000, interval: 5 });
    expect(await stub.renew(seen[0] ?? "", 7)).toEqual({ status: "renewed", leaseSeconds: 7 });
  });

  it("two pick-ups of one request get one token", async () => {
    const { stub, seen } = await handOver((name, seen) => ({
      async deliver({ request }): Promise<Answer> {
        const outcomes = await Promise.all([keyStub(name).pickUp(request), keyStub(name).pickUp(request)]);
        seen.push(...outcomes.map(grantedToken));
        return "taken";
      },
    }));
    await vi.waitUntil(() => seen.length === 2, { timeout: 1_000, interval: 5 });
    expect(seen[0]).toBe(seen[1]);
    expect((await stub.describe())?.holders).toHaveLength(1);
  });

  it("one to a session that cannot be reached costs nobody else anything, and its slot passes on after five seconds or its lease", async () => {
    const scripts = scriptSessions();
    const name = fresh("key");
    const stub = keyStub(name);
    const granted: string[] = [];
    const held = grantedToken(await stub.acquire(command()));
    scripts.set("lost", { deliver: () => Promise.reject(new Error("unreachable")) });
    scripts.set("next", eager(name, "next", granted));
    await stub.acquire(command({ ...WAIT, session: "lost", leaseSeconds: 1 }));
    await stub.acquire(command({ ...WAIT, session: "next" }));
    await stub.release(held, "");
    await vi.waitUntil(() => granted.length === 1, { timeout: 7_000, interval: 10 });
  });

  it("a promotion survives the loss of both objects and is delivered", async () => {
    const scripts = scriptSessions();
    const name = fresh("key");
    const stub = keyStub(name);
    const granted: string[] = [];
    const held = grantedToken(await stub.acquire(command()));
    let isLost = true;
    const session = eager(name, "w", granted);
    scripts.set("w", { deliver: (notice) => (isLost ? Promise.reject(new Error("lost")) : session.deliver(notice)) });
    await stub.acquire(command({ ...WAIT, session: "w" }));
    await stub.release(held, "");
    await evictDurableObject(stub);
    isLost = false;
    await vi.waitUntil(() => granted.length === 1, { timeout: 3_000, interval: 10 });
  });

  it("a hold whose client is away for longer than its lease answers so, and the next one is served", async () => {
    const scripts = scriptSessions();
    const name = fresh("key");
    const stub = keyStub(name);
    const heard: string[] = [];
    const held = grantedToken(await stub.acquire(command()));
    scripts.set("slow", {
      deliver({ kind }): Answer {
        if (kind === "granted") return "later";
        heard.push(kind);
        return "taken";
      },
    });
    await stub.acquire(command({ ...WAIT, session: "slow", leaseSeconds: 1 }));
    await stub.release(held, "");
    await vi.waitUntil(() => heard.length > 0, { timeout: 3_000, interval: 10 });
    expect(heard[0]).toBe("lease_expired");
    expect((await stub.acquire(command())).status).toBe("granted");
  });
});
