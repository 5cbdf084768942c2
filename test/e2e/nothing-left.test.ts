/** Whatever clients do and however they leave, nothing of theirs stays behind. */
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { Clients } from "../support/clients.ts";
import { poll } from "../support/poll.ts";
import { startServer, type TestServer } from "../support/server.ts";
import { readStats, waitersOf } from "../support/stats.ts";
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

/** Polls until stats show neither holder nor waiter, and nobody connected but the observer. */
async function nothingIsLeft(): Promise<void> {
  await poll("holders, waiters and connections to be gone", 10_000, async () => {
    const { connections, locks, semaphores } = await readStats(observer);
    return connections === 1 && locks.length === 0 && semaphores.length === 0 ? true : undefined;
  });
}

describe.each(TRANSPORTS)("over %s", (transport) => {
  it("a hundred waits that time out leave an empty queue", async () => {
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

  it("clients that vanish at any moment of a mixed load leave nothing", async () => {
    using clients = new Clients(server);
    const keyOf = (step: number) => `mixed-${transport}-${step % 4}`;
    const wander = async (client: WireClient, seed: number, steps: number) => {
      for (let step = 0; step < steps; step += 1) {
        const key = keyOf(seed + step);
        client.send(`@a${step} l\n${key}\n5\n@b${step} e\n${key}\n\n@c${step} w\n${key}\n5\n`);
        client.send(`@d${step} l\nown-${transport}-${seed}\n0 30\n`);
        await client.next();
      }
    };
    await Promise.all(
      Array.from({ length: 40 }, async (_, seed) => {
        const client = await clients.open(transport);
        await wander(client, seed, 1 + (seed % 5));
        if (seed % 3 === 0) client.destroy();
        else if (seed % 3 === 1) client.close();
        else client.halfclose();
      }),
    );
    await nothingIsLeft();
    for (let step = 0; step < 4; step += 1) await lock(observer, keyOf(step));
  });
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
  await nothingIsLeft();
});
