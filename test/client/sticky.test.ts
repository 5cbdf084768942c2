/** Locks that are kept until somebody else wants them, against the real server. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Lock, Locks } from "../../src/client/index.ts";
import { poll } from "../support/poll.ts";
import { startServer, type TestServer } from "../support/server.ts";
import { ask, TcpClient, WsClient } from "../support/wire-client.ts";
import { becomes, connectTo, freshKey, waitersOf, withProxy } from "./support.ts";

/** Longer than any test: whoever waits for the end of it has failed. */
const STICKY = { sticky: true, maxIdle: 600_000 } as const;

let server: TestServer;
let other: Locks;
beforeAll(async () => {
  server = await startServer();
  other = connectTo(server.httpPort, { label: "other" });
});
afterAll(async () => {
  await other.close();
  await server.stop();
});

/** A client that counts what it sends. */
function counting(): { locks: Locks; sent: () => number } {
  let sent = 0;
  const Counting = class extends WebSocket {
    override send(text: string): void {
      sent += 1;
      super.send(text);
    }
  };
  return { locks: connectTo(server.httpPort, { WebSocket: Counting as never }), sent: () => sent };
}

describe("a sticky lock", () => {
  it("is taken again without a message, under the same fence, and others see it held", async () => {
    const { locks, sent } = counting();
    const key = freshKey();
    const first = await locks.request(key, STICKY, ({ fence }) => fence);
    const before = sent();
    for (let count = 0; count < 1_000; count += 1)
      expect(await locks.request(key, STICKY, ({ fence }) => fence)).toBe(first);
    expect(sent()).toBe(before);
    expect(await other.query(key)).toMatchObject({ held_by: [{ fence: first }] });
    await locks.close();
  });

  it("goes to a client that waits, and back, and nobody holds it beside another", async () => {
    const key = freshKey();
    const inside: string[] = [];
    let most = 0;
    const work = async (locks: Locks, name: string, times: number) => {
      for (let count = 0; count < times; count += 1)
        await locks.request(key, STICKY, async (lock: Lock) => {
          inside.push(name);
          most = Math.max(most, inside.length);
          await new Promise((resolve) => setImmediate(resolve));
          expect(lock.isHeld).toBe(true);
          inside.pop();
        });
    };
    await using a = connectTo(server.httpPort);
    await using b = connectTo(server.httpPort);
    await Promise.all([work(a, "a", 300), work(a, "a", 300), work(b, "b", 300)]);
    expect(most).toBe(1);
    expect(await other.request(key, () => "served")).toBe("served");
  });

  it("goes at once to whoever comes, in whatever protocol, while its client is busy with it", async () => {
    await using busy = connectTo(server.httpPort);
    const key = freshKey();
    let isOver = false;
    const loop = (async () => {
      while (!isOver) await busy.request(key, STICKY, () => new Promise((resolve) => setTimeout(resolve, 1)));
    })();
    await poll("the key to be held", 5_000, async () => ((await other.query(key))?.holders === 1 ? true : undefined));
    expect(await other.request(key, () => "served")).toBe("served");
    await using tcp = await TcpClient.open(server.tcpPort).then((client) => ({
      client,
      [Symbol.asyncDispose]: async () => client.close(),
    }));
    expect(await ask(tcp.client, "l", key, "20")).toMatch(/^ok [0-9a-f]{32} 33$/);
    tcp.client.close();
    await poll("its client to have it again", 5_000, async () => {
      return (await other.query(key))?.holders === 1 ? true : undefined;
    });
    isOver = true;
    await loop;
  });

  it("is given up by a client that was away when somebody came to wait", async () => {
    await withProxy(server, async (locks, proxy) => {
      const key = freshKey();
      await locks.request(key, STICKY, () => {});
      proxy.cut();
      const served = other.request(key, () => "served");
      await waitersOf(other, key, 1).catch(() => {});
      await becomes(locks, "resumed").catch(() => {});
      expect(await served).toBe("served");
    });
  });
});

describe("on the wire", () => {
  it("who asked is told once that somebody waits, and again by every renewal", async () => {
    const key = freshKey();
    const [holder, waiter] = [await WsClient.open(server.httpPort), await WsClient.open(server.httpPort)];
    const [, token] = (await ask(holder, "l", key, "0 33 wanted")).split(" ");
    waiter.send(`@1 l\n${key}\n60\n@2 l\n${key}\n60\n`);
    expect(await holder.next()).toBe(`! wanted ${key} ${token}\n`);
    expect(await ask(holder, "n", key, `${token} 20`)).toBe("ok 20 wanted");
    expect(await ask(holder, "r", key, `${token}`)).toBe("ok");
    expect(await waiter.next()).toMatch(/^@1 ok [0-9a-f]{32} 33\n$/);
    for (const client of [holder, waiter]) client.close();
  });

  it("who did not ask hears nothing of it", async () => {
    const key = freshKey();
    const [holder, waiter] = [await WsClient.open(server.httpPort), await WsClient.open(server.httpPort)];
    expect(await ask(holder, "watch", "_", "lost")).toBe("ok");
    const [, token] = (await ask(holder, "l", key, "0 33")).split(" ");
    waiter.send(`@1 l\n${key}\n60\n`);
    await waitersOf(other, key, 1);
    expect(await ask(holder, "n", key, `${token} 20`)).toBe("ok 20");
    expect(await ask(holder, "r", key, `${token}`)).toBe("ok");
    for (const client of [holder, waiter]) client.close();
  });
});
