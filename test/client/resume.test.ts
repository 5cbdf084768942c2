/** Connections break; locks and places in queues do not. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Locks } from "../../src/client/index.ts";
import { startCutProxy } from "../support/cut-proxy.ts";
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

describe("a cut connection", () => {
  it("costs no lock: a third party sees the same hold before and after", async () => {
    await withProxy(server, async (locks, proxy) => {
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
    await withProxy(server, async (locks, proxy) => {
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
    await withProxy(server, async (locks, proxy) => {
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
    await withProxy(server, async (locks, proxy) => {
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

  it("leaves what was aborted meanwhile taken back", async () => {
    await withProxy(server, async (locks, proxy) => {
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
    await withProxy(server, async (locks, proxy) => {
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
});

it("a client that leaves while it has no connection comes back to do it properly: nobody waits out its grace", async () => {
  const key = freshKey();
  await using proxy = await startCutProxy(() => server.httpPort);
  const locks = connectTo(proxy.port);
  await locks.acquire(key, { lease: 60_000 });
  const waiting = observer.acquire(key, { timeout: 8_000 });
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
  const waiting = observer.acquire(key, { timeout: 8_000 });
  await waitersOf(observer, key, 1);
  await locks.close();
  expect(await (await waiting).release()).toBe(true);
});
