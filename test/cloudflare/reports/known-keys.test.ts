/** What a process knows of its keys without asking them is what they would say. */
import fc from "fast-check";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { Env } from "../../../src/cloudflare/env.ts";
import {
  countKnown,
  forgetKey,
  isKnown,
  knownKeys,
  noteKey,
  seeKey,
} from "../../../src/cloudflare/known-keys/known-keys.ts";
import { type CommandContext, KeyEngine } from "../../../src/core/engine/index.ts";

const SELF_HOSTED = { SELF_HOSTED: "true", GC_MAX_IDLE_S: "60" } as unknown as Env;
const START = Date.parse("2096-11-16T08:30:00Z");

beforeEach(() => {
  vi.useFakeTimers({ toFake: ["Date"], now: START });
});

afterEach(() => {
  for (const [key] of [...knownKeys(SELF_HOSTED)]) forgetKey(key);
  vi.useRealTimers();
});

const context = (): CommandContext => ({
  now: Date.now(),
  salt: () => "0".repeat(16),
  fenceFloor: 0n,
  maxWaiters: 0,
  gcMaxIdleMs: 60_000,
});

const newEngine = (limit: number) =>
  new KeyEngine({ limit, fence: 0n, lastActivity: START, slots: [], waiters: [], lapsed: [] });

function acquire(engine: KeyEngine, request: string, options: { leaseSeconds?: number; waitMs?: number } = {}) {
  const { leaseSeconds = 30, waitMs = 0 } = options;
  const { limit } = engine;
  return engine.acquire({ session: request, request, limit, leaseSeconds, waitMs, mayWait: true }, context());
}

/** What the object of the key would answer. */
function describeKey(engine: KeyEngine) {
  engine.tick(context());
  if (engine.isPrunable(context())) return "gone";
  const { limit, holderCount, waiters, lastActivity, holders } = engine.view();
  return {
    limit,
    holderCount,
    waiters,
    lastActivity,
    holders: holders.map(({ session, expiresAt }) => ({ session, expiresAt })),
  };
}

describe("what is known of a key", () => {
  it("is what the key would say, at any time after, or nothing", () => {
    const step = fc.record({
      type: fc.constantFrom("acquire", "wait", "release", "leave", "renew"),
      leaseSeconds: fc.integer({ min: 1, max: 90 }),
      passMs: fc.oneof(fc.constant(0), fc.integer({ min: 1, max: 100_000 })),
    });
    const seen = { exactly: 0, unknown: 0 };
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 10 }), fc.array(step, { maxLength: 20 }), (limit, steps) => {
        vi.setSystemTime(START);
        const engine = newEngine(limit);
        const tokens: string[] = [];
        for (const [index, { type, leaseSeconds, passMs }] of steps.entries()) {
          const request = `r${index}`;
          const token = tokens.at(-1) ?? "";
          if (type === "acquire" || type === "wait") {
            const outcome = acquire(engine, request, { leaseSeconds, waitMs: type === "wait" ? 5_000 : 0 });
            if (outcome.status === "granted") tokens.push(outcome.token);
          } else if (type === "release") engine.release(tokens.pop() ?? "", "", context());
          else if (type === "leave") engine.leave(`r${index - 1}`, { keepsReported: false }, context());
          else engine.renew(token, leaseSeconds, context());
          noteKey(SELF_HOSTED, "k", engine);
          vi.setSystemTime(Date.now() + passMs);
          const sight = seeKey(SELF_HOSTED, "k");
          const answer = describeKey(engine);
          if (sight === "unknown") seen.unknown += 1;
          else {
            seen.exactly += 1;
            if (sight === "gone" || answer === "gone") expect(sight).toBe(answer);
            else expect(sight).toMatchObject(answer);
          }
        }
      }),
    );
    expect(seen.exactly).toBeGreaterThan(seen.unknown);
  });

  it("is known without waiters however long it sleeps, and with waiters until something is due", () => {
    const engine = newEngine(1);
    acquire(engine, "holder", { leaseSeconds: 30 });
    noteKey(SELF_HOSTED, "k", engine);
    vi.setSystemTime(START + 29_999);
    expect(seeKey(SELF_HOSTED, "k")).toMatchObject({ holderCount: 1 });
    vi.setSystemTime(START + 30_000);
    expect(seeKey(SELF_HOSTED, "k")).toMatchObject({ holderCount: 0, lastActivity: START + 30_000 });
    vi.setSystemTime(START + 90_001);
    expect([...knownKeys(SELF_HOSTED)]).toEqual([["k", "gone"]]);
    // It should have been pruned long ago.
    vi.setSystemTime(START + 690_001);
    expect([...knownKeys(SELF_HOSTED)]).toEqual([]);
    expect(seeKey(SELF_HOSTED, "k")).toBe("unknown");

    vi.setSystemTime(START);
    acquire(engine, "waiter", { waitMs: 10_000 });
    noteKey(SELF_HOSTED, "k", engine);
    expect(seeKey(SELF_HOSTED, "k")).toMatchObject({ holderCount: 1, waiters: 1 });
    vi.setSystemTime(START + 10_000);
    expect(seeKey(SELF_HOSTED, "k")).toBe("unknown");
  });

  it("is nothing on Cloudflare, of a key that was forgotten, and of one with many holders", () => {
    const engine = newEngine(20);
    acquire(engine, "r0");
    noteKey({ GC_MAX_IDLE_S: "60" } as unknown as Env, "k", engine);
    expect([isKnown("k"), countKnown()]).toEqual([false, 0]);
    noteKey(SELF_HOSTED, "k", engine);
    expect([isKnown("k"), countKnown()]).toEqual([true, 1]);
    forgetKey("k");
    expect(seeKey(SELF_HOSTED, "k")).toBe("unknown");
    for (let index = 1; index < 8; index += 1) acquire(engine, `r${index}`);
    noteKey(SELF_HOSTED, "k", engine);
    expect(seeKey(SELF_HOSTED, "k")).toMatchObject({ holderCount: 8 });
    acquire(engine, "r8");
    noteKey(SELF_HOSTED, "k", engine);
    expect(isKnown("k")).toBe(false);
  });
});
