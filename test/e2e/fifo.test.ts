import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { Clients } from "../support/clients.ts";
import { HOSTS } from "../support/hosts.ts";
import type { TestServer } from "../support/server.ts";
import { ask, joinQueue, lock, tokenOf } from "../support/wire-client.ts";

describe.each(HOSTS)("first come, first served, on $name", (host) => {
  let server: TestServer;
  beforeAll(async () => {
    server = await host.start();
  });
  afterAll(() => server.stop());

  it("fifty waiters over TCP and WebSocket are served in the order in which they came", async () => {
    using clients = new Clients(server);
    const holder = await clients.tcp();
    const key = "fifty";
    const token = await lock(holder, key);
    const waiters = await clients.mixed(50);
    for (const waiter of waiters) await joinQueue(waiter, key, "60");

    const served: number[] = [];
    const turns = waiters.map(async (waiter, place) => {
      const reply = await waiter.next(30_000);
      served.push(place);
      expect(await ask(waiter, "r", key, tokenOf(reply))).toBe("ok");
    });
    expect(await ask(holder, "r", key, token)).toBe("ok");
    await Promise.all(turns);
    expect(served).toEqual(waiters.map((_, place) => place));
  });

  it("newcomers that only try never get in front of a waiter", async () => {
    using clients = new Clients(server);
    const [holder, waiter, ...newcomers] = await clients.mixed(22);
    if (!holder || !waiter) throw new Error("no clients");
    const key = "newcomers";
    const token = await lock(holder, key);
    await joinQueue(waiter, key, "60");
    let isServed = false;
    const attempts = newcomers.map(async (newcomer) => {
      while (!isServed) expect(await ask(newcomer, "l", key, "0")).toBe("timeout");
    });
    expect(await ask(holder, "r", key, token)).toBe("ok");
    tokenOf(await waiter.next());
    isServed = true;
    await Promise.all(attempts);
  });
});
