import { evictDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, describe, expect, it, vi } from "vitest";
import { sessionObject } from "../../src/cloudflare/calls/session-names.ts";
import { HttpSessionObject } from "../../src/cloudflare/http-session/http-session-object.ts";
import { SessionObject } from "../../src/cloudflare/session/session-object.ts";
import type { Notice } from "../../src/core/session/effects.ts";
import { expectLog } from "../support/expected-logs.ts";
import { RestClient, tokenIn, wordOf } from "./rest.ts";
import { Client, fresh, keyStub, liveSessions, sessionsOn, tokenOf, until } from "./support.ts";

afterEach(() => {
  vi.restoreAllMocks();
});

/** Reproducible randomness: the seed is in the name of the test. */
function random(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
}

/** One notice in ten never arrives, one in ten arrives but its answer does not, one in ten comes twice, one late. */
function disturbNotices(chance: () => number): void {
  expectLog("session_unreachable", { error: "Error: the notice is lost" });
  expectLog("session_unreachable", { error: "Error: the answer is lost" });
  for (const { prototype } of [SessionObject, HttpSessionObject]) {
    const { deliver } = prototype;
    vi.spyOn(prototype, "deliver").mockImplementation(async function (
      this: SessionObject & HttpSessionObject,
      notice: Notice,
    ) {
      const fate = chance();
      if (fate < 0.1) throw new Error("the notice is lost");
      if (fate < 0.2) {
        await deliver.call(this, notice);
        throw new Error("the answer is lost");
      }
      if (fate < 0.3) await deliver.call(this, notice);
      if (fate < 0.4) await scheduler.wait(chance() * 300);
      return deliver.call(this, notice);
    });
  }
}

/** Drops keys and sleeping sessions from memory, again and again, until told to stop. */
async function evictAtRandom(keys: readonly string[], chance: () => number, isOver: () => boolean): Promise<void> {
  while (!isOver()) {
    const key = keys[Math.floor(chance() * keys.length)] ?? "";
    const sessions = await sessionsOn(key);
    const session = sessions[Math.floor(chance() * sessions.length)];
    await evictDurableObject(keyStub(key)).catch(() => {});
    const object = session && (sessionObject(env, session) as unknown as DurableObjectStub);
    if (object) await evictDurableObject(object, { webSockets: "hibernate" }).catch(() => {});
    await scheduler.wait(chance() * 100);
  }
}

/** Somebody who takes locks and gives them back, over whatever protocol. */
interface Visitor {
  /** The token, or undefined for one who did not want to wait for it. */
  acquire(key: string): Promise<string | undefined>;
  release(key: string, token: string): Promise<boolean>;
  leave(): Promise<unknown>;
}

async function socketVisitor(): Promise<Visitor> {
  const client = await Client.open();
  return {
    acquire: async (key) => tokenOf(await client.ask(`l\n${key}\n600 600\n`)),
    release: async (key, token) => (await client.ask(`r\n${key}\n${token}\n`)) === "ok",
    leave: async () => client.close(),
  };
}

/**
 * Polls; one time in six it leaves before it is answered, unless the answer is quicker. What was on its way to it in
 * that very moment is its own until the lease ends, so that lease is short.
 */
async function restVisitor(chance: () => number): Promise<Visitor> {
  const client = await RestClient.open();
  return {
    async acquire(key) {
      const leaving = new AbortController();
      const isLeaving = chance() < 1 / 6;
      if (isLeaving) setTimeout(() => leaving.abort(), chance() * 150);
      const body = { acquire_timeout_s: 600, lease_ttl_s: isLeaving ? 3 : 600 };
      for (;;) {
        const reply = await client.post(key, body, leaving.signal).catch(() => undefined);
        if (!reply) return undefined;
        // An object that could not be reached says so, and has granted nothing.
        if (wordOf(reply) !== "unavailable") return tokenIn(reply);
      }
    },
    release: async (key, token) => (await client.release(key, token)).status === 204,
    leave: () => client.end(),
  };
}

describe("with notices lost, doubled and late, and objects dropped from memory", () => {
  it.each([1, 20, 300])(
    "clients exclude each other, fences rise, everybody is served and nothing is left (seed %i)",
    async (seed) => {
      const chance = random(seed);
      const before = await liveSessions();
      disturbNotices(chance);
      const keys = [fresh("key"), fresh("key")];
      const inside = new Map<string, number>();
      const fences = new Map<string, string>();
      let overlaps = 0;
      let falls = 0;
      const visit = async (visitor: Visitor, key: string) => {
        const token = await visitor.acquire(key);
        if (token === undefined) return;
        if (inside.get(key)) overlaps += 1;
        inside.set(key, 1);
        if (token <= (fences.get(key) ?? "")) falls += 1;
        fences.set(key, token);
        await scheduler.wait(chance() * 10);
        inside.set(key, 0);
        expect(await visitor.release(key, token)).toBe(true);
      };
      const visitors = await Promise.all(
        Array.from({ length: 8 }, (_, n) => (n % 2 === 0 ? socketVisitor() : restVisitor(chance))),
      );
      for (const key of keys) await visit(visitors[0] as Visitor, key);
      let isOver = false;
      const evicting = evictAtRandom(keys, chance, () => isOver);
      await Promise.all(
        visitors.map(async (visitor, n) => {
          for (let round = 0; round < 5; round++) await visit(visitor, keys[(n + round) % keys.length] ?? "");
        }),
      );
      isOver = true;
      await evicting;
      expect({ overlaps, falls }).toEqual({ overlaps: 0, falls: 0 });
      for (const key of keys) {
        await until(async () => (await keyStub(key).describe())?.holderCount === 0, { timeout: 5_000 });
        expect(await keyStub(key).describe()).toMatchObject({ holderCount: 0, waiters: 0 });
      }
      for (const visitor of visitors) await visitor.leave();
      await until(async () => (await liveSessions()) === before, { timeout: 5_000, interval: 20 });
    },
  );
});
