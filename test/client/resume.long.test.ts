/** Connections that are found out, or given up, by the clock. The same in virtual time: `pure/lost-connections.test.ts`. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ConnectionError, type Locks } from "../../src/client/index.ts";
import { poll, sleep } from "../support/poll.ts";
import { startServer, type TestServer } from "../support/server.ts";
import { becomes, connectTo, errorIn, freshKey, storyOf, waitersOf, withProxy } from "./support.ts";

let server: TestServer;
let observer: Locks;
beforeAll(async () => {
  server = await startServer();
  observer = connectTo(server.httpPort, { label: "observer" });
});
afterAll(async () => {
  await observer.close();
  await server.stop();
});

describe.concurrent("a cut connection", () => {
  it("costs nothing over and over, with waits, holds and releases under way", { timeout: 90_000 }, async () => {
    await withProxy(server, async (locks, proxy) => {
      const key = freshKey();
      let isOver = false;
      let inside = 0;
      let turns = 0;
      const work = async (client: Locks) => {
        while (!isOver) {
          await client.request(key, async (lock) => {
            inside += 1;
            expect(inside).toBe(1);
            turns += 1;
            await sleep(0.01);
            expect(lock.isHeld).toBe(true);
            inside -= 1;
          });
        }
      };
      const workers = [work(locks), work(locks), work(observer)];
      for (let round = 0; round < 12; round += 1) {
        await sleep(0.3 + Math.random() * 0.3);
        proxy.cut();
      }
      await sleep(0.5);
      isOver = true;
      await Promise.all(workers);
      expect(turns).toBeGreaterThan(20);
      expect(await observer.query(key)).toMatchObject({ holders: 0, waiters: 0 });
    });
  });

  it("that is not replaced within the grace costs lock and place, before the server gives them away", async () => {
    await withProxy(server, async (locks, proxy) => {
      const [key, other] = [freshKey(), freshKey()];
      const lock = await locks.acquire(key, { lease: 60_000 });
      const held = await observer.acquire(other);
      const waiting = errorIn(locks.acquire(other));
      await waitersOf(observer, other, 1);
      const next = observer.acquire(key, { timeout: 30_000 });
      await waitersOf(observer, key, 1);
      let told = 0;
      lock.signal.addEventListener("abort", () => {
        told = performance.now();
      });
      const story = storyOf(locks);
      proxy.close();
      const taken = await next;
      expect(told).toBeGreaterThan(0);
      expect((await lock.lost).reason).toBe("disconnected");
      expect(await waiting).toBeInstanceOf(ConnectionError);
      await waitersOf(observer, other, 0);
      await taken.release();
      await held.release();
      proxy.heal();
      expect(await locks.request(key, () => "again")).toBe("again");
      expect(story).toEqual(["connected", "reconnecting", "connected"]);
    });
  });
});

describe.concurrent("a connection that goes nowhere", () => {
  it("and took a grant with it, which has lapsed since, is told as a loss, not as a time-out", async () => {
    await withProxy(server, async (locks, proxy) => {
      const key = freshKey();
      const held = await observer.acquire(key);
      const ticket = await locks.enqueue(key, { lease: 1_000 });
      const waiting = errorIn(ticket.wait({ timeout: 30_000 }));
      await poll("the wait to arrive", 5_000, async () => {
        const report = await observer.query(key);
        return report?.queue[0]?.timeout_in_s !== undefined || undefined;
      });
      proxy.blackHole();
      await held.release();
      expect(await waiting).toMatchObject({ code: "lost", reason: "expired" });
      await using next = await observer.tryAcquire(key);
      expect(next?.isHeld).toBe(true);
    });
  });

  it("is found out by the heartbeat, and replaced while the server still believes in it", async () => {
    await withProxy(server, async (locks, proxy) => {
      const [key, other] = [freshKey(), freshKey()];
      const lock = await locks.acquire(key, { lease: 60_000 });
      const held = await observer.acquire(other);
      const waiting = locks.acquire(other);
      await waitersOf(observer, other, 1);
      proxy.blackHole();
      await becomes(locks, "reconnecting");
      await becomes(locks, "resumed");
      expect(lock.isHeld).toBe(true);
      expect(await observer.query(key)).toMatchObject({ held_by: [{ fence: lock.fence }] });
      await held.release();
      expect(await (await waiting).release()).toBe(true);
      expect(await lock.release()).toBe(true);
    });
  });

  it("costs the lock in time when the server, and only the server, knows that it is gone", async () => {
    await withProxy(server, async (locks, proxy) => {
      const key = freshKey();
      const lock = await locks.acquire(key, { lease: 60_000 });
      const next = observer.acquire(key, { timeout: 30_000 });
      await waitersOf(observer, key, 1);
      let isHeldByNext = false;
      const order: boolean[] = [];
      lock.signal.addEventListener("abort", () => order.push(isHeldByNext));
      proxy.swallowAndSever();
      const taken = await next;
      isHeldByNext = true;
      expect(order).toEqual([false]);
      expect((await lock.lost).reason).toBe("disconnected");
      await taken.release();
      proxy.heal();
    });
  });

  it("does not hold up a release or a close for more than five seconds", async () => {
    await withProxy(server, async (locks, proxy) => {
      const lock = await locks.acquire(freshKey());
      proxy.swallow();
      const started = performance.now();
      expect(await lock.release()).toBe(false);
      const released = performance.now() - started;
      expect(released).toBeGreaterThan(4_500);
      expect(released).toBeLessThan(6_000);
      await locks.close();
      expect(performance.now() - started - released).toBeLessThan(6_000);
      proxy.heal();
    });
  });
});
