/** Everyday life of a client, against the real server. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { WebSocket as NodeWebSocket } from "ws";
import {
  AcquireTimeoutError,
  CapacityError,
  DrainingError,
  LimitMismatchError,
  LockLostError,
  type Locks,
} from "../../src/client/index.ts";
import { poll, sleep } from "../support/poll.ts";
import { startServer, type TestServer } from "../support/server.ts";
import { stopwatch } from "../support/stopwatch.ts";
import { ask, WsClient } from "../support/wire-client.ts";
import { connectTo, errorIn, freshKey, waitersOf } from "./support.ts";

let server: TestServer;
let [a, b]: Locks[] = [];
const first = () => a as Locks;
const second = () => b as Locks;
beforeAll(async () => {
  server = await startServer({ variables: { MAX_WAITERS: "2" } });
  a = connectTo(server.httpPort, { label: "first" });
  b = connectTo(server.httpPort, { label: "second" });
});
afterAll(async () => {
  await Promise.all([a?.close(), b?.close()]);
  await server.stop();
});

describe("locks", () => {
  it("are held by one at a time, and handed on in order", async () => {
    const key = freshKey();
    const order: string[] = [];
    const work = (name: string) => async () => {
      order.push(`${name} in`);
      await sleep(0.05);
      order.push(`${name} out`);
    };
    const one = first().request(key, work("one"));
    await poll("the first to hold it", 5_000, async () => order.length > 0 || undefined);
    const two = second().request(key, work("two"));
    await Promise.all([one, two]);
    expect(order).toEqual(["one in", "one out", "two in", "two out"]);
  });

  it("have fences that rise with every grant", async () => {
    const key = freshKey();
    const fences: string[] = [];
    for (const locks of [first(), second(), first()]) await locks.request(key, ({ fence }) => fences.push(fence));
    expect(fences).toEqual([...new Set(fences)].sort());
    expect(fences[0]).toMatch(/^[0-9a-f]{16}$/);
  });

  it("are there or not for whoever only tries", async () => {
    const key = freshKey();
    await using lock = await first().tryAcquire(key);
    expect(lock?.isHeld).toBe(true);
    expect(await second().tryAcquire(key)).toBe(null);
    await waitersOf(first(), key, 0);
  });

  it("outlive many leases while they are held, and end with their client", async () => {
    const key = freshKey();
    const holder = connectTo(server.httpPort);
    const lock = await holder.acquire(key, { lease: 3_000 });
    expect(lock.lease).toBe(3_000);
    const waiting = second().acquire(key);
    await sleep(7);
    expect(lock.isHeld).toBe(true);
    expect(await second().query(key)).toMatchObject({ holders: 1, waiters: 1 });
    await holder.close();
    expect((await lock.lost).reason).toBe("disconnected");
    expect(await (await waiting).release()).toBe(true);
  });

  it("may be released by whoever knows the token, and their holder is told", async () => {
    const key = freshKey();
    const lock = await first().acquire(key);
    const other = await WsClient.open(server.httpPort);
    expect(await ask(other, "r", key, lock.token)).toBe("ok");
    expect((await lock.lost).reason).toBe("released");
    expect(lock.signal.reason).toBeInstanceOf(LockLostError);
    expect(await lock.release()).toBe(false);
    other.close();
  });

  it("are not held beyond the longest hold", async () => {
    const key = freshKey();
    const lock = await first().acquire(key, { lease: 1_000, maxHold: 1_500 });
    const waiting = second().acquire(key);
    expect((await lock.lost).reason).toBe("expired");
    expect(await (await waiting).release()).toBe(true);
  });
});

describe("semaphores", () => {
  it("let as many in as they have slots", async () => {
    const key = freshKey();
    await using _one = await first().acquire(key, { limit: 2 });
    await using two = await second().semaphore(key, 2).acquire();
    expect(await first().semaphore(key, 2).tryAcquire()).toBe(null);
    await two.release();
    await using three = await first().semaphore(key, 2).tryAcquire();
    expect(three?.isHeld).toBe(true);
  });

  it("of one slot are mutexes", async () => {
    const key = freshKey();
    const mutex = first().mutex(key);
    expect(await mutex.request(({ fence }) => fence)).toMatch(/^[0-9a-f]{16}$/);
    expect(await mutex.request({ timeout: 0 }, () => "held")).toBe("held");
    await using ticket = await mutex.enqueue();
    await using lock = await ticket.wait();
    expect(lock.isHeld).toBe(true);
    expect(await mutex.query()).toMatchObject({ kind: "lock", holders: 1 });
  });
});

describe("waits", () => {
  it("end at their time, to a fraction of a second, and leave no place behind", async () => {
    const key = freshKey();
    await using _held = await first().acquire(key);
    const elapsed = stopwatch();
    expect(await errorIn(second().acquire(key, { timeout: 250 }))).toBeInstanceOf(AcquireTimeoutError);
    expect(elapsed()).toBeLessThan(900);
    await waitersOf(first(), key, 0);
  });

  it("end when they are aborted, and leave no place behind", async () => {
    const key = freshKey();
    await using _held = await first().acquire(key);
    const stop = new AbortController();
    const waiting = second().acquire(key, { signal: stop.signal });
    await waitersOf(first(), key, 1);
    stop.abort(new Error("enough"));
    expect(await errorIn(waiting)).toBe(stop.signal.reason);
    await waitersOf(first(), key, 0);
  });

  it("of one client do not hinder each other, nor its renewals", async () => {
    const [key, other] = [freshKey(), freshKey()];
    const held = await first().acquire(key, { lease: 3_000 });
    const waiting = first().acquire(key);
    await using _other = await first().acquire(other);
    await sleep(4);
    expect(held.isHeld).toBe(true);
    await held.release();
    expect(await (await waiting).release()).toBe(true);
  });

  it("at a ticket keep the place that was taken", async () => {
    const key = freshKey();
    const held = await first().acquire(key);
    const ticket = await second().enqueue(key);
    const behind = first().acquire(key);
    await waitersOf(first(), key, 2);
    await held.release();
    const lock = await ticket.wait({ timeout: 5_000 });
    expect(await first().query(key)).toMatchObject({ holders: 1, waiters: 1 });
    await lock.release();
    expect(await (await behind).release()).toBe(true);
  });

  it("that nobody wants any more are left with their ticket", async () => {
    const key = freshKey();
    const held = await first().acquire(key);
    {
      await using _ticket = await second().enqueue(key);
      await waitersOf(first(), key, 1);
    }
    await waitersOf(first(), key, 0);
    const ticket = await second().enqueue(key);
    await held.release();
    // It has come up by now, and is given back unseen.
    await ticket.leave();
    await using again = await first().tryAcquire(key);
    expect(again?.isHeld).toBe(true);
  });
});

describe("refusals", () => {
  it("are errors of their own", async () => {
    const key = freshKey();
    await using _held = await first().acquire(key, { limit: 2 });
    for (const refused of [second().acquire(key, { limit: 3 }), second().enqueue(key, { limit: 3 })]) {
      const mismatch = await errorIn(refused);
      expect(mismatch).toBeInstanceOf(LimitMismatchError);
      expect(mismatch).toMatchObject({ message: `${key} is in use with limit 2, not 3` });
    }
    expect(await errorIn(second().tryAcquire(key))).toBeInstanceOf(LimitMismatchError);
    await using ticket = await second().enqueue(key, { limit: 2 });
    expect(await errorIn(second().enqueue(key, { limit: 2 }))).toMatchObject({ code: "already_enqueued" });
    await using _lock = await ticket.wait();
    expect(await errorIn(ticket.wait())).toMatchObject({ code: "not_enqueued" });
  });

  it("of a full queue are told to whoever wants to wait", async () => {
    const key = freshKey();
    await using _held = await first().acquire(key);
    const stop = new AbortController();
    const waits = [1, 2].map(() => second().acquire(key, { signal: stop.signal }));
    for (const wait of waits) wait.catch(() => {});
    await waitersOf(first(), key, 2);
    expect(await errorIn(first().acquire(key))).toBeInstanceOf(CapacityError);
    expect(await first().tryAcquire(key)).toBe(null);
    stop.abort();
    await waitersOf(first(), key, 0);
  });

  it("of a service that takes no new work keep the connection, and the locks", async () => {
    await using draining = await startServer({ variables: { DRAINING: "true" } });
    await using locks = connectTo(draining.httpPort);
    expect(await errorIn(locks.acquire("key"))).toBeInstanceOf(DrainingError);
    expect(await locks.query("key")).toBe(null);
  });
});

describe("looking", () => {
  it("shows who holds and who waits, by label, and no token", async () => {
    const key = freshKey();
    await using lock = await first().acquire(key);
    const stop = new AbortController();
    const waiting = second().acquire(key, { signal: stop.signal, timeout: 60_000 });
    waiting.catch(() => {});
    await waitersOf(first(), key, 1);
    const report = await second().query(key);
    expect(report).toMatchObject({
      key,
      kind: "lock",
      held_by: [{ label: "first", fence: lock.fence }],
      queue: [{ position: 1, label: "second" }],
    });
    expect(JSON.stringify(report)).not.toContain(lock.token);
    expect((await first().stats()).locks.find((each) => each.key === key)).toMatchObject({ waiters: 1 });
    stop.abort();
    await waitersOf(first(), key, 0);
  });

  it("at a key that nobody uses shows nothing", async () => {
    expect(await first().query(freshKey())).toBe(null);
  });
});

it("another WebSocket than the runtime's does as well", async () => {
  const key = freshKey();
  await using locks = connectTo(server.httpPort, { WebSocket: NodeWebSocket });
  expect(await locks.request(key, () => "held")).toBe("held");
});
