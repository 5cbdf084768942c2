import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { Clients } from "../support/clients.ts";
import { poll } from "../support/poll.ts";
import { residentBytes, startServer, type TestServer } from "../support/server.ts";
import { ask, joinQueue, lock, TRANSPORTS, tokenOf, type WireClient } from "../support/wire-client.ts";

const MEGABYTE = 2 ** 20;
const READ_TIMEOUT_S = 2;

let server: TestServer;
beforeAll(async () => {
  server = await startServer({ variables: { READ_TIMEOUT_S: String(READ_TIMEOUT_S) } });
});
afterAll(() => server.stop());

/** Someone else's lock, taken and released; fails when that takes more than two seconds. */
async function bystanderIsServed(clients: Clients, key: string): Promise<void> {
  const started = performance.now();
  const bystander = await clients.tcp();
  expect(await ask(bystander, "r", key, await lock(bystander, key))).toBe("ok");
  bystander.close();
  expect(performance.now() - started).toBeLessThan(2_000);
}

async function soonFree(client: WireClient, key: string): Promise<void> {
  await poll(`${key} to be free`, 1_000, async () =>
    (await ask(client, "l", key, "0")).startsWith("ok") ? 1 : undefined,
  );
}

describe.each(TRANSPORTS)("over %s", (transport) => {
  it("a line that never ends is answered at the read deadline and costs no memory", async () => {
    using clients = new Clients(server);
    /** 160 MB without a line end; returns what the server then takes in memory. */
    const shout = async (): Promise<number> => {
      const shouters = await Promise.all(Array.from({ length: 16 }, () => clients.open(transport)));
      const started = performance.now();
      const chunk = Buffer.alloc(MEGABYTE, "x");
      for (let sent = 0; sent < 10; sent += 1) for (const shouter of shouters) shouter.send(chunk);
      await bystanderIsServed(clients, `endless-${transport}`);
      for (const shouter of shouters) {
        expect(await shouter.next((READ_TIMEOUT_S + 5) * 1000)).toBe("error\n");
        expect(performance.now() - started).toBeGreaterThan(READ_TIMEOUT_S * 1000 - 100);
        await shouter.closed();
      }
      return residentBytes(server.pid);
    };
    // The first round fills buffers and heap once; kept bytes would show as another 160 MB in the second.
    const first = await shout();
    expect((await shout()) - first).toBeLessThan(96 * MEGABYTE);
  });

  it("an over-long line that does end is answered as soon as it ends", async () => {
    using clients = new Clients(server);
    const client = await clients.open(transport);
    client.send(`l\n${"k".repeat(100_000)}`);
    await client.silence(300);
    client.send("\n");
    expect(await client.next(1_000)).toBe("error\n");
    await client.closed();
  });

  it("an over-long line behind a wait is answered after it", async () => {
    using clients = new Clients(server);
    const [a, b] = [await clients.open(transport), await clients.open(transport)];
    const key = `long-line-behind-${transport}`;
    const token = await lock(a, key);
    b.send(`l\n${key}\n30\nl\n${"k".repeat(257)}\n0\n`);
    await b.silence(300);
    await ask(a, "r", key, token);
    tokenOf(await b.next());
    expect(await b.next()).toBe("error\n");
    await b.closed();
  });

  it("NUL bytes are bytes like others", async () => {
    using clients = new Clients(server);
    const [a, b] = [await clients.open(transport), await clients.open(transport)];
    const key = `nul-${transport}\0x`;
    const token = await lock(a, key);
    expect(await ask(b, "l", key, "0")).toBe("timeout");
    tokenOf(await ask(b, "l", `nul-${transport}\0y`, "0"));
    expect(await ask(a, "\0", key, "0")).toBe("error");
    expect(await ask(a, "l", key, "0\0")).toBe("error");
    expect(await ask(a, "r", key, `${token}\0`)).toBe("error");
    expect(await ask(a, "r", key, token)).toBe("ok");
  });

  it("invalid UTF-8 is refused in a key and ignored elsewhere", async () => {
    using clients = new Clients(server);
    const client = await clients.open(transport);
    for (const bytes of ["\xff", "\xc0\x80", "\xed\xa0\x80", "\xf5\x80\x80\x80", "\xd0"]) {
      client.send(Buffer.from(`l\nbad-${bytes}\n0\nping\n${bytes}\n${bytes}\n`, "latin1"));
      expect(await client.next()).toBe("error\n");
      expect(await client.next()).toBe("ok\n");
    }
  });

  it("a thousand requests in one write get a thousand replies in order", async () => {
    using clients = new Clients(server);
    const client = await clients.open(transport);
    const kinds = [
      ["ping\n_\n_\n", "ok\n"],
      ["r\nthousand\nx\n", "error\n"],
      ["w\nthousand\n0\n", "error_not_enqueued\n"],
    ] as const;
    const order = Array.from({ length: 1_000 }, (_, index) => kinds[(index * index + (index >> 3)) % 3] ?? kinds[0]);
    client.send(order.map(([request]) => request).join(""));
    const replies: string[] = [];
    for (const _ of order) replies.push(await client.next());
    expect(replies).toEqual(order.map(([, reply]) => reply));
    await client.silence(100);
  });

  it("a request may be cut at any byte", async () => {
    using clients = new Clients(server);
    const key = `cut-${transport}-ключ`;
    const request = Buffer.from(`@tag l\r\n${key}\r\n 0  77 \r\n`);
    const client = await clients.open(transport);
    for (let cut = 1; cut < request.length; cut += 1) {
      client.send(request.subarray(0, cut), { binary: true });
      // Apart in time as well, or TCP would join the two halves again.
      await new Promise((resolve) => setTimeout(resolve, 5));
      client.send(request.subarray(cut), { binary: true });
      const reply = await client.next();
      expect(reply).toMatch(/^@tag ok [0-9a-f]{32} 77\n$/);
      expect(await ask(client, "r", key, tokenOf(reply))).toBe("ok");
    }
  });

  it("65,536 bytes of requests may queue behind a wait", async () => {
    using clients = new Clients(server);
    const [a, b] = [await clients.open(transport), await clients.open(transport)];
    const key = `backlog-${transport}`;
    const token = await lock(a, key);
    b.send(`l\n${key}\n30\n`);
    await b.silence(300);
    const backlog = `${"ping\n_\n_\n".repeat(7_281)}ping\n\n\n`;
    expect(backlog.length).toBe(65_536);
    b.send(backlog);
    await b.silence(500);
    await ask(a, "r", key, token);
    tokenOf(await b.next());
    for (let reply = 0; reply < 7_282; reply += 1) expect(await b.next()).toBe("ok\n");
  });

  it("one byte more closes the connection and takes its waiter away", async () => {
    using clients = new Clients(server);
    const [a, b] = [await clients.open(transport), await clients.open(transport)];
    const key = `backlog-over-${transport}`;
    const token = await lock(a, key);
    b.send(`l\n${key}\n30\n`);
    await b.silence(300);
    const backlog = `${"ping\n_\n_\n".repeat(7_281)}ping\n\n_\n`;
    expect(backlog.length).toBe(65_537);
    b.send(backlog);
    const { code } = await b.closed();
    expect(code).toBe(transport === "ws" ? 4413 : undefined);
    await ask(a, "r", key, token);
    await soonFree(a, key);
  });

  it("1,024 tagged requests may be in flight, and the next is refused without harm", async () => {
    using clients = new Clients(server);
    const [a, b] = [await clients.open(transport), await clients.open(transport)];
    const key = `tags-${transport}`;
    const token = await lock(a, key);
    b.send(Array.from({ length: 1_024 }, (_, index) => `@t${index} l\n${key}\n60\n`).join(""));
    b.send("@one-more ping\n_\n_\n");
    expect(await b.next()).toBe("@one-more error\n");
    expect(await ask(b, "ping", "_", "_")).toBe("ok");
    await ask(a, "r", key, token);
    expect(await b.next()).toMatch(/^@t0 ok /);
    expect(await ask(b, "@one-more ping", "_", "_")).toBe("@one-more ok");
  });

  it("clients that say half a request or nothing hinder nobody", async () => {
    using clients = new Clients(server);
    const silent = await Promise.all(Array.from({ length: 100 }, () => clients.open(transport)));
    const halfway = await Promise.all(Array.from({ length: 100 }, () => clients.open(transport)));
    for (const client of halfway) client.send("l\nhalf");
    await bystanderIsServed(clients, `half-${transport}`);
    for (const client of halfway) {
      expect(await client.next((READ_TIMEOUT_S + 3) * 1000)).toBe("error\n");
      const { code } = await client.closed();
      expect(code).toBe(transport === "ws" ? 4408 : undefined);
    }
    for (const client of silent) expect(await ask(client, "ping", "_", "_")).toBe("ok");
  });

  it("clients that vanish without a word leave no waiter behind", async () => {
    using clients = new Clients(server);
    const [holder, next] = [await clients.open(transport), await clients.open(transport)];
    const key = `vanish-${transport}`;
    const token = await lock(holder, key);
    const vanishing = await Promise.all(Array.from({ length: 20 }, () => clients.open(transport)));
    for (const client of vanishing) await joinQueue(client, key, "60");
    await joinQueue(next, key, "60");
    for (const client of vanishing) client.destroy();
    await ask(holder, "r", key, token);
    expect(await next.next(3_000)).toMatch(/^@wait ok /);
  });
});
