/** Connections break; locks and places in queues do not. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ConnectionError, type Locks } from "../../src/client/index.ts";
import { type CutProxy, startCutProxy } from "../support/cut-proxy.ts";
import { poll, sleep } from "../support/poll.ts";
import { startServer, type TestServer } from "../support/server.ts";
import { becomes, connectTo, errorIn, freshKey, storyOf, waitersOf } from "./support.ts";

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

/** A client whose connection goes through a proxy of its own. */
async function withProxy(story: (locks: Locks, proxy: CutProxy) => Promise<void>): Promise<void> {
  await using proxy = await startCutProxy(() => server.httpPort);
  await using locks = connectTo(proxy.port, { label: "through" });
  await becomes(locks, "connected");
  await story(locks, proxy);
}

describe("a cut connection", () => {
  it("costs no lock: a third party sees the same hold before and after", async () => {
    await withProxy(async (locks, proxy) => {
      const key = freshKey();
      const lock = await locks.acquire(key);
      const story = storyOf(locks);
      proxy.cut();
      await poll("the session to be back", 5_000, async () => story.includes("resumed") || undefined);
      expect(lock.isHeld).toBe(true);
      expect(await observer.query(key)).toMatchObject({ held_by: [{ fence: lock.fence, label: "through" }] });
      expect(await observer.tryAcquire(key)).toBe(null);
      expect(await lock.release()).toBe(true);
      expect(story).toEqual(["connected", "reconnecting", "resumed"]);
    });
  });

  it("costs no place in a queue: who came later is still behind", async () => {
    await withProxy(async (locks, proxy) => {
      const key = freshKey();
      const held = await observer.acquire(key);
      const waiting = locks.acquire(key);
      await waitersOf(observer, key, 1);
      const behind = observer.acquire(key);
      await waitersOf(observer, key, 2);
      proxy.cut();
      await becomes(locks, "resumed");
      expect(await observer.query(key)).toMatchObject({ queue: [{ label: "through" }, { label: "observer" }] });
      await held.release();
      const lock = await waiting;
      expect(lock.isHeld).toBe(true);
      await lock.release();
      await (await behind).release();
    });
  });

  it("costs no grant that came up while it was cut", async () => {
    await withProxy(async (locks, proxy) => {
      const key = freshKey();
      const held = await observer.acquire(key);
      const waiting = locks.acquire(key);
      await waitersOf(observer, key, 1);
      proxy.close();
      await sleep(0.2);
      await held.release();
      await sleep(0.5);
      proxy.heal();
      const lock = await waiting;
      expect(lock.isHeld).toBe(true);
      expect(await observer.query(key)).toMatchObject({ held_by: [{ fence: lock.fence }], waiters: 0 });
      expect(await lock.release()).toBe(true);
    });
  });

  it("costs no ticket", async () => {
    await withProxy(async (locks, proxy) => {
      const key = freshKey();
      const held = await observer.acquire(key);
      const ticket = await locks.enqueue(key);
      proxy.cut();
      await becomes(locks, "resumed");
      expect(await observer.query(key)).toMatchObject({ waiters: 1 });
      const waiting = ticket.wait();
      await poll("the wait to arrive", 5_000, async () => {
        const report = await observer.query(key);
        return report?.queue[0]?.timeout_in_s !== undefined || undefined;
      });
      proxy.cut();
      await becomes(locks, "resumed");
      await held.release();
      const lock = await waiting;
      expect(await lock.release()).toBe(true);
    });
  });

  it("costs nothing over and over, with waits, holds and releases under way", { timeout: 90_000 }, async () => {
    await withProxy(async (locks, proxy) => {
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

  it("leaves what was aborted meanwhile taken back", async () => {
    await withProxy(async (locks, proxy) => {
      const key = freshKey();
      const held = await observer.acquire(key);
      const stop = new AbortController();
      const waiting = locks.acquire(key, { signal: stop.signal });
      await waitersOf(observer, key, 1);
      proxy.close();
      stop.abort("enough");
      expect(await errorIn(waiting)).toBe("enough");
      proxy.heal();
      await waitersOf(observer, key, 0);
      await held.release();
      await using again = await observer.tryAcquire(key);
      expect(again?.isHeld).toBe(true);
    });
  });

  it("gives back what was released meanwhile", async () => {
    await withProxy(async (locks, proxy) => {
      const key = freshKey();
      const lock = await locks.acquire(key);
      proxy.close();
      const released = lock.release();
      await sleep(0.3);
      proxy.heal();
      expect(await released).toBe(true);
      await using again = await observer.tryAcquire(key);
      expect(again?.isHeld).toBe(true);
    });
  });

  it("that is not replaced within the grace costs lock and place, before the server gives them away", async () => {
    await withProxy(async (locks, proxy) => {
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

describe("a connection that goes nowhere", () => {
  it("and took a grant with it, which has lapsed since, is told as a loss, not as a time-out", async () => {
    await withProxy(async (locks, proxy) => {
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
    await withProxy(async (locks, proxy) => {
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
    await withProxy(async (locks, proxy) => {
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
    await withProxy(async (locks, proxy) => {
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

it("a client that leaves while it has no connection comes back to do it properly: nobody waits out its grace", async () => {
  const key = freshKey();
  await using proxy = await startCutProxy(() => server.httpPort);
  const locks = connectTo(proxy.port);
  await locks.acquire(key, { lease: 60_000 });
  const waiting = observer.acquire(key, { timeout: 5_000 });
  await waitersOf(observer, key, 1);
  proxy.close();
  await becomes(locks, "reconnecting");
  proxy.heal();
  await locks.close();
  expect(await (await waiting).release()).toBe(true);
});

it("a client that leaves properly gives everything up at once, without the grace", async () => {
  const key = freshKey();
  const locks = connectTo(server.httpPort);
  await locks.acquire(key);
  const waiting = observer.acquire(key, { timeout: 2_000 });
  await waitersOf(observer, key, 1);
  await locks.close();
  expect(await (await waiting).release()).toBe(true);
});
