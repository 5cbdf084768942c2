/** Many waits that time out, and many locks of one client that leaves: nothing stays behind. */
import { afterAll, beforeAll, beforeEach, expect, it } from "vitest";
import { Clients } from "../support/clients.ts";
import { poll } from "../support/poll.ts";
import { startServer, type TestServer } from "../support/server.ts";
import { nothingIsLeft, readStats, waitersOf } from "../support/stats.ts";
import { ask, lock, TRANSPORTS, type WireClient } from "../support/wire-client.ts";

let server: TestServer;
let observer: WireClient;
let observing: Clients;
beforeAll(async () => {
  server = await startServer();
});
afterAll(() => server.stop());
beforeEach(async () => {
  observing = new Clients(server);
  observer = await observing.tcp();
  return () => observing[Symbol.dispose]();
});

it.each(TRANSPORTS)("a hundred waits over %s that time out leave an empty queue", async (transport) => {
  using clients = new Clients(server);
  const key = `time-out-${transport}`;
  await lock(observer, key, "0 60");
  const waiters = await Promise.all(Array.from({ length: 100 }, () => clients.open(transport)));
  const started = performance.now();
  const replies = await Promise.all(waiters.map((waiter) => ask(waiter, "l", key, "1")));
  const seconds = (performance.now() - started) / 1000;
  expect(new Set(replies)).toEqual(new Set(["timeout"]));
  expect(seconds).toBeGreaterThan(0.9);
  expect(seconds).toBeLessThan(3);
  expect(await waitersOf(observer, key)).toBe(0);
});

it("a session with five hundred locks and as many places in queues leaves all of them", async () => {
  using clients = new Clients(server);
  const [leaving, holder] = [await clients.open("ws"), await clients.open("tcp")];
  for (let index = 0; index < 500; index += 1) {
    await lock(holder, `contested-${index}`);
    await lock(leaving, `held-${index}`);
    expect(await ask(leaving, "e", `contested-${index}`, "")).toBe("queued");
  }
  leaving.close();
  await poll("500 locks and 500 waiters to be gone", 10_000, async () => {
    const { locks } = await readStats(observer);
    return locks.length === 500 && locks.every((entry) => entry.waiters === 0) ? true : undefined;
  });
  holder.close();
  await nothingIsLeft(observer);
});
