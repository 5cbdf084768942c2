/** The server is killed without warning. Its storage comes back, soon or late. */
import { describe, expect, it } from "vitest";
import { ConnectionError } from "../../src/client/index.ts";
import { startCutProxy } from "../support/cut-proxy.ts";
import { poll, sleep } from "../support/poll.ts";
import { startServerProcess } from "../support/server-process.ts";
import { becomes, connectTo, errorIn, freshKey, waitersOf } from "./support.ts";

describe("after a kill -9", () => {
  it("locks are lost and told if it is not, waits end, and the client goes on when the server does", async () => {
    await using server = await startServerProcess({ RESUME_GRACE_S: "2" });
    await using proxy = await startCutProxy(() => server.httpPort);
    await using locks = connectTo(proxy.port);
    const key = freshKey();
    const lock = await locks.acquire(key, { lease: 60_000 });
    const waiting = errorIn(locks.acquire(key));
    await waitersOf(locks, key, 1);
    const killed = performance.now();
    await server.kill9();
    expect((await lock.lost).reason).toBe("disconnected");
    expect(performance.now() - killed).toBeLessThan(2_500);
    expect(await waiting).toBeInstanceOf(ConnectionError);
    await sleep(2);
    await server.restart();
    // Nobody has to wait for the end of the old lease: what was lost is given back.
    const started = performance.now();
    expect(await locks.request(key, { timeout: 20_000 }, () => "again")).toBe("again");
    expect(performance.now() - started).toBeLessThan(15_000);
  });

  it("again and again, nobody is inside twice", { timeout: 120_000 }, async () => {
    await using server = await startServerProcess();
    await using proxy = await startCutProxy(() => server.httpPort);
    await using first = connectTo(proxy.port);
    await using second = connectTo(proxy.port);
    const key = freshKey();
    let inside = 0;
    let turns = 0;
    let isOver = false;
    const work = async (locks: typeof first) => {
      while (!isOver) {
        await locks.request(key, async (lock) => {
          inside += 1;
          expect(inside).toBe(1);
          await sleep(0.02);
          expect(lock.isHeld).toBe(true);
          inside -= 1;
          turns += 1;
        });
      }
    };
    const workers = [work(first), work(second)];
    for (let round = 0; round < 4; round += 1) {
      await sleep(0.5);
      const before = turns;
      await server.restart();
      await Promise.all([first, second].map((locks) => becomes(locks, "resumed")));
      await poll("work to go on", 10_000, async () => turns > before || undefined);
    }
    isOver = true;
    await Promise.all(workers);
  });
});
