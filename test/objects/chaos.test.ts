import { evictDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, describe, expect, it, vi } from "vitest";
import { SessionObject } from "../../src/objects/session.ts";
import { Client, fresh, keyStub, liveSessions, sessionsOn, tokenOf } from "./support.ts";

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
  const { deliver } = SessionObject.prototype;
  vi.spyOn(SessionObject.prototype, "deliver").mockImplementation(async function (this: SessionObject, notice) {
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

/** Drops keys and sleeping sessions from memory, again and again, until told to stop. */
async function evictAtRandom(keys: readonly string[], chance: () => number, isOver: () => boolean): Promise<void> {
  while (!isOver()) {
    const key = keys[Math.floor(chance() * keys.length)] ?? "";
    const sessions = await sessionsOn(key);
    const session = sessions[Math.floor(chance() * sessions.length)];
    await evictDurableObject(keyStub(key)).catch(() => {});
    if (session) await evictDurableObject(env.SESSION.getByName(session), { webSockets: "hibernate" }).catch(() => {});
    await scheduler.wait(chance() * 100);
  }
}

describe("with notices lost, doubled and late, and objects dropped from memory", () => {
  it.each([1, 20, 300])(
    "clients exclude each other, fences rise, everybody is served and nothing is left (seed %i)",
    async (seed) => {
      const chance = random(seed);
      disturbNotices(chance);
      const keys = [fresh("key"), fresh("key")];
      const inside = new Map<string, number>();
      const fences = new Map<string, string>();
      let overlaps = 0;
      let falls = 0;
      const visit = async (client: Client, key: string) => {
        const token = tokenOf(await client.ask(`l\n${key}\n600 600\n`));
        if (inside.get(key)) overlaps += 1;
        inside.set(key, 1);
        if (token <= (fences.get(key) ?? "")) falls += 1;
        fences.set(key, token);
        await scheduler.wait(chance() * 10);
        inside.set(key, 0);
        expect(await client.ask(`r\n${key}\n${token}\n`)).toBe("ok");
      };
      const clients = await Promise.all(Array.from({ length: 6 }, () => Client.open()));
      for (const key of keys) await visit(clients[0] as Client, key);
      let isOver = false;
      const evicting = evictAtRandom(keys, chance, () => isOver);
      await Promise.all(
        clients.map(async (client, n) => {
          for (let round = 0; round < 6; round++) await visit(client, keys[(n + round) % keys.length] ?? "");
        }),
      );
      isOver = true;
      await evicting;
      expect({ overlaps, falls }).toEqual({ overlaps: 0, falls: 0 });
      for (const key of keys) expect(await keyStub(key).describe()).toMatchObject({ holderCount: 0, waiters: 0 });
      for (const client of clients) client.close();
      await vi.waitUntil(async () => (await liveSessions()) === 0, { timeout: 5_000, interval: 20 });
    },
  );
});
