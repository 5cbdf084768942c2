/** `locks()` of a namespace, while a lock is waited for. */
import { evictDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import { locks } from "../../../src/cloudflare/lock-key/index.ts";
import { fresh, keyStub, until } from "../support.ts";

const own = locks(env.KEY);
const waitersOf = async (key: string) => (await keyStub(key).describe())?.waiters;

describe("a Worker that waits at a key of its own whose object is restarted", () => {
  it("holds the lock that it is then granted", async () => {
    const key = fresh("key");
    const first = await own.acquire(key, { lease: 600_000 });
    const waiting = own.acquire(key, { timeout: 50_000, lease: 600_000 });
    await until(async () => (await waitersOf(key)) === 1);
    await evictDurableObject(keyStub(key), { webSockets: "close" });
    expect(await first?.release()).toBe(true);
    const second = await waiting;
    // The socket on which it was told is closed by then.
    await scheduler.wait(50);
    expect(await own.acquire(key, { timeout: 0 })).toBeNull();
    expect(await second?.release()).toBe(true);
  });

  it("keeps its place", async () => {
    const key = fresh("key");
    const first = await own.acquire(key, { lease: 600_000 });
    const order: string[] = [];
    const wait = async (name: string) => {
      const lock = await own.acquire(key, { timeout: 50_000, lease: 600_000 });
      order.push(name);
      await lock?.release();
    };
    const waiting = [wait("second")];
    await until(async () => (await waitersOf(key)) === 1);
    await evictDurableObject(keyStub(key), { webSockets: "close" });
    waiting.push(wait("third"));
    await until(async () => (await waitersOf(key)) === 2);
    // Longer than the Worker listens at a time.
    await scheduler.wait(1_500);
    await first?.release();
    await Promise.all(waiting);
    expect(order).toEqual(["second", "third"]);
  });
});
