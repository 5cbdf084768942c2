/** A program that does not run cannot be told anything. It knows by itself when it runs again. */
import { once } from "node:events";
import { Worker } from "node:worker_threads";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { sleep } from "../support/poll.ts";
import { startServer, type TestServer } from "../support/server.ts";
import { startServerProcess } from "../support/server-process.ts";
import { connectTo, freshKey, storyOf } from "./support.ts";

let server: TestServer;
beforeAll(async () => {
  server = await startServer();
});
afterAll(() => server.stop());

async function freeze(key: string, { lease, frozenMs }: { lease: number; frozenMs: number }) {
  const workerData = { port: server.httpPort, key, lease, frozenMs };
  const worker = new Worker(new URL("./frozen-holder.ts", import.meta.url), { workerData });
  await once(worker, "message");
  return { worker, thawed: once(worker, "message").then(([message]) => message) };
}

it("a lock whose lease ran out meanwhile is not held when the program runs again, and it is told at once", async () => {
  const key = freshKey();
  await using locks = connectTo(server.httpPort);
  const { worker, thawed } = await freeze(key, { lease: 1_000, frozenMs: 3_000 });
  const lock = await locks.acquire(key, { timeout: 10_000 });
  expect(await thawed).toMatchObject({ isHeldAtOnce: false, outcome: "expired" });
  expect((await thawed).toldAfterMs).toBeLessThan(500);
  // It has not taken anything back with it.
  expect(lock.isHeld).toBe(true);
  expect(await lock.release()).toBe(true);
  await worker.terminate();
});

it("a lock whose lease did not run out is kept", async () => {
  const key = freshKey();
  const { worker, thawed } = await freeze(key, { lease: 10_000, frozenMs: 3_000 });
  expect(await thawed).toMatchObject({ isHeldAtOnce: true, outcome: "kept" });
  await worker.terminate();
});

describe("while the server stands still", () => {
  it("a lock is held until its lease ends, and then lost, whatever the server says afterwards", async () => {
    await using frozen = await startServerProcess();
    await using locks = connectTo(frozen.httpPort);
    await using others = connectTo(frozen.httpPort);
    const key = freshKey();
    const lock = await locks.acquire(key, { lease: 2_000 });
    await others.ready({ timeout: 10_000 });
    frozen.freeze();
    expect(lock.isHeld).toBe(true);
    // The first: the client has probed the connection in vain.
    expect(["disconnected", "expired"]).toContain((await lock.lost).reason);
    expect(lock.isHeld).toBe(false);
    frozen.thaw();
    await using next = await others.acquire(key, { timeout: 20_000 });
    expect(next.fence > lock.fence).toBe(true);
    expect(lock.isHeld).toBe(false);
  });

  it("a lock with a longer lease is kept, and its client notices nothing", async () => {
    await using frozen = await startServerProcess();
    await using locks = connectTo(frozen.httpPort);
    const lock = await locks.acquire(freshKey(), { lease: 30_000 });
    const story = storyOf(locks);
    frozen.freeze();
    await sleep(2);
    frozen.thaw();
    expect(await lock.release()).toBe(true);
    expect(story).toEqual(["connected"]);
  });
});
