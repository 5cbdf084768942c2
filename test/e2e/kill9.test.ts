/** The process is killed without warning and started on the same storage. */
import { describe, expect, it } from "vitest";
import { Clients } from "../support/clients.ts";
import { HOSTS } from "../support/hosts.ts";
import { poll, sleep } from "../support/poll.ts";
import { readStats } from "../support/stats.ts";
import { ask, joinQueue, lock, TRANSPORTS, tokenOf } from "../support/wire-client.ts";

const cases = HOSTS.flatMap((host) => TRANSPORTS.map((transport) => ({ host, transport })));

describe.concurrent.each(cases)("after a kill -9 on $host.name, over $transport", ({ host, transport }) => {
  it("holders still hold, and their tokens still renew and release", async ({ expect }) => {
    await using server = await host.start();
    using before = new Clients(server);
    const holder = await before.open(transport);
    const token = await lock(holder, "held", "0 60");
    const slot = tokenOf(await ask(holder, "sl", "slots", "0 2 60"));
    const acquired = tokenOf(await ask(holder, "e", "place", "60"));
    await server.restart();

    using after = new Clients(server);
    const client = await after.open(transport);
    expect(await ask(client, "l", "held", "0")).toBe("timeout");
    expect(await ask(client, "l", "place", "0")).toBe("timeout");
    expect(await ask(client, "l", "slots", "0")).toBe("error_limit_mismatch");
    expect(await ask(client, "n", "held", `${token} 50`)).toBe("ok 50");
    expect(await ask(client, "r", "held", token)).toBe("ok");
    expect(await ask(client, "sr", "slots", slot)).toBe("ok");
    expect(await ask(client, "r", "place", acquired)).toBe("ok");
    expect(await ask(client, "r", "held", token)).toBe("error");
    await lock(client, "held");
  });

  it("the fence of every key goes on rising", async ({ expect }) => {
    await using server = await host.start();
    const keys = Array.from({ length: 20 }, (_, index) => `fence-${index}`);
    const last = new Map<string, string>();
    for (let life = 0; life < 3; life += 1) {
      using clients = new Clients(server);
      const client = await clients.open(transport);
      for (const key of keys) {
        const token = await lock(client, key);
        expect(token > (last.get(key) ?? "")).toBe(true);
        last.set(key, token);
        expect(await ask(client, "r", key, token)).toBe("ok");
      }
      await server.restart();
    }
  });

  it("a lease that ran out meanwhile has passed on", async ({ expect }) => {
    await using server = await host.start();
    using before = new Clients(server);
    const [holder, waiter] = [await before.open(transport), await before.open(transport)];
    const short = await lock(holder, "short", "0 4");
    await lock(holder, "long", "0 60");
    await joinQueue(waiter, "short", "60");
    await server.kill9();
    await sleep(4.2);
    await server.restart();

    using after = new Clients(server);
    const client = await after.open(transport);
    client.send("l\nshort\n10\n");
    expect(tokenOf(await client.next(3_000)) > short).toBe(true);
    expect(await ask(client, "r", "short", short)).toBe("error");
    expect(await ask(client, "l", "long", "0")).toBe("timeout");
  });

  it("waiters whose connection is gone hold nobody up", async ({ expect }) => {
    await using server = await host.start();
    using before = new Clients(server);
    const holder = await before.open(transport);
    const token = await lock(holder, "queue", "0 60");
    for (let place = 0; place < 5; place += 1) await joinQueue(await before.open(transport), "queue", "60");
    expect(await ask(await before.open(transport), "e", "queue", "")).toBe("queued");
    await server.restart();

    using after = new Clients(server);
    const [releaser, waiter] = [await after.open(transport), await after.open(transport)];
    await joinQueue(waiter, "queue", "60");
    expect(await ask(releaser, "r", "queue", token)).toBe("ok");
    expect(tokenOf(await waiter.next(2_000)) > token).toBe(true);
  });

  it("only live connections are counted", async ({ expect }) => {
    await using server = await host.start();
    using before = new Clients(server);
    for (let index = 0; index < 10; index += 1) await lock(await before.open(transport), `counted-${index}`);
    await server.restart();

    using after = new Clients(server);
    const clients = [await after.open(transport), await after.open(transport)];
    for (const client of clients) expect(await ask(client, "ping", "_", "_")).toBe("ok");
    const [asker] = clients;
    await poll("2 connections", 3_000, async () =>
      asker && (await readStats(asker)).connections === clients.length ? true : undefined,
    );
  });

  it("places under MAX_CONNECTIONS return", async ({ expect }) => {
    await using server = await host.start({ variables: { MAX_CONNECTIONS: "2" } });
    using before = new Clients(server);
    for (const client of [await before.open(transport), await before.open(transport)]) {
      expect(await ask(client, "ping", "_", "_")).toBe("ok");
    }
    await server.restart();

    using after = new Clients(server);
    await poll("a place", 3_000, async () => {
      try {
        return await ask(await after.open(transport), "ping", "_", "_");
      } catch {
        return undefined;
      }
    });
  });

  it("expiry and pruning need nobody's request", async ({ expect }) => {
    await using server = await host.start({ variables: { MAX_LOCKS: "1", GC_MAX_IDLE_S: "1", GC_INTERVAL_S: "1" } });
    using before = new Clients(server);
    const holder = await before.open(transport);
    await lock(holder, "forgotten", "0 2");
    expect(await ask(holder, "l", "other", "0")).toBe("error_max_locks");
    await server.restart();
    // Lease, then idle time, then the round that prunes, and a second for each wake-up.
    await sleep(2 + 1 + 1 + 2);
    using after = new Clients(server);
    await lock(await after.open(transport), "other");
  });
});

describe.each(HOSTS)("many kills in a row on $name", (host) => {
  it("never give a key to two holders", async () => {
    await using server = await host.start();
    let token: string | undefined;
    for (let life = 0; life < 5; life += 1) {
      using clients = new Clients(server);
      const [holder, rival] = [await clients.tcp(), await clients.ws()];
      if (token) expect(await ask(holder, "n", "survivor", `${token} 60`)).toBe("ok 60");
      else token = await lock(holder, "survivor", "0 60");
      rival.send("l\nsurvivor\n30\n");
      await rival.silence(200);
      await server.restart();
    }
    using clients = new Clients(server);
    expect(await ask(await clients.tcp(), "r", "survivor", token ?? "")).toBe("ok");
  });
});
