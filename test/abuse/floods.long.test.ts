/** Clients that ask for as much as they can, and read what they are told, slowly or not at all. */
import { connect, type Socket } from "node:net";
import { setTimeout as pause } from "node:timers/promises";
import { expect, it, onTestFinished } from "vitest";
import { type RunningServe, startServe } from "../cli/support.ts";
import { Clients } from "../support/clients.ts";
import { send } from "../support/http-client.ts";
import { poll } from "../support/poll.ts";
import { ask, lock } from "../support/wire-client.ts";
import { ANSWERED_WITHIN_MS, besideBystanders } from "./bystanders.ts";
import { MEGABYTE, watchMemory } from "./memory.ts";
import { OPCODE, openRaw, openTcp, shortFrame } from "./raw-socket.ts";
import { scaled, TIMEOUT_MS } from "./scale.ts";
import { isServing } from "./serving.ts";

const FLOODS_FOR_MS = scaled(6_000, 60_000);
const WRITES_AT_ONCE = 4;
const PING = "ping\n_\n_\n";
/** V8 lets its heap grow to a few hundred megabytes before it works hard to keep it small. */
const MAX_ADDED_MB = 500;

/** Runs a story of bad clients beside bystanders: they are answered, memory is bounded, and the server goes on. */
async function harmless(story: (server: RunningServe, clients: Clients) => Promise<void>): Promise<void> {
  const server = await startServe();
  using clients = new Clients({ tcpPort: server.port, httpPort: server.httpPort });
  const memory = watchMemory(server.pid);
  onTestFinished(memory.stop);
  const { slowestMs, lost, renewals } = await besideBystanders({ clients, httpPort: server.httpPort }, () =>
    story(server, clients),
  );
  expect(renewals).toBeGreaterThan(0);
  expect(lost).toBe(0);
  expect(slowestMs).toBeLessThan(ANSWERED_WITHIN_MS);
  expect(memory.mostAdded() / MEGABYTE).toBeLessThan(MAX_ADDED_MB);
  await isServing(server);
}

/** They write as fast as the server takes it, and read everything, until the time is over and each has been served. */
async function flood(sockets: readonly Socket[], wordsOf: (index: number) => Buffer): Promise<void> {
  const unserved = new Set(sockets);
  for (const [index, socket] of sockets.entries()) {
    const words = wordsOf(index);
    socket.once("data", () => unserved.delete(socket));
    socket.on("error", () => {});
    socket.resume();
    // The kernel takes megabytes of each: with a thousand of them this process must get to read in between.
    const write = () => {
      for (let count = 0; count < WRITES_AT_ONCE; count += 1) if (socket.destroyed || !socket.write(words)) return;
      setImmediate(write);
    };
    socket.on("drain", write);
    write();
  }
  await pause(FLOODS_FOR_MS);
  await poll("everybody to be served", 30_000, async () => unserved.size === 0 || undefined);
  for (const socket of sockets) socket.destroy();
}

/** The server accepts one connection in each turn of its event loop, and turns are long in a flood: all are in before it begins. */
async function isIn(opening: Promise<Socket>, ping: string | Buffer): Promise<Socket> {
  const socket = await opening;
  socket.write(ping);
  await new Promise((resolve) => socket.resume().once("data", resolve));
  return socket;
}

/** Takes and asks to release a lock of its own: two changes, one of which is refused. */
const cycles = (key: string, count: number) =>
  `l\n${key}\n0 5\nr\n${key}\n${"0".repeat(32)}\nsl\n${key}-s\n0 100000 1\nping\n_\n_\n`.repeat(count);

it.each([1, 100])("requests over TCP without end, on %i connections", { timeout: TIMEOUT_MS }, async (count) => {
  await harmless(async ({ port }) => {
    const sockets = await Promise.all(Array.from({ length: count }, () => isIn(openTcp(port), PING)));
    await flood(sockets, (index) => Buffer.from(cycles(`flood-${index}`, 200)));
  });
});

it.each([1, 100])("requests over WebSockets without end, on %i connections", { timeout: TIMEOUT_MS }, async (count) => {
  await harmless(async ({ httpPort }) => {
    const ping = shortFrame(OPCODE.text, PING);
    const sockets = await Promise.all(Array.from({ length: count }, () => isIn(openRaw(httpPort), ping)));
    await flood(sockets, (index) => {
      const frame = shortFrame(OPCODE.text, cycles(`f${index}`, 1));
      return Buffer.concat(Array.from({ length: 200 }, () => frame));
    });
  });
});

it("a crowd of newcomers beside a flood is let in many at a time, not one per commit", {
  timeout: TIMEOUT_MS,
}, async () => {
  const CROWD = 300;
  await harmless(async ({ port }) => {
    const sockets = await Promise.all(Array.from({ length: 4 }, () => openTcp(port)));
    const flooding = flood(sockets, (index) => Buffer.from(cycles(`flood-${index}`, 200)));
    await pause(500);
    let answered = 0;
    for (let count = 0; count < CROWD; count += 1) {
      const socket = await openTcp(port);
      onTestFinished(() => void socket.destroy());
      socket.once("data", () => {
        answered += 1;
      });
      socket.resume().write("ping\n_\n_\n");
    }
    await poll("all to be answered", 20_000, async () => answered === CROWD || undefined);
    await flooding;
  });
});

it("new connections without end, each with a lock that its client leaves behind", { timeout: TIMEOUT_MS }, async () => {
  await harmless(async ({ port }) => {
    const endsAt = performance.now() + FLOODS_FOR_MS;
    const churn = async (name: number) => {
      for (let round = 0; performance.now() < endsAt; round += 1) {
        const socket = await openTcp(port);
        socket.write(`l\nchurn-${name}-${round}\n0 300\n`);
        await new Promise((resolve) => socket.once("data", resolve).once("close", resolve).resume());
        socket.resetAndDestroy();
      }
    };
    await Promise.all(Array.from({ length: 20 }, (_, name) => churn(name)));
  });
});

it("one client with as many tagged requests as it can send, all of which wait", { timeout: TIMEOUT_MS }, async () => {
  const TAGS = scaled(20_000, 200_000);
  await harmless(async (_, clients) => {
    const holder = await clients.ws();
    const token = await lock(holder, "tagged", "0 300");
    const waiter = await clients.ws();
    for (let first = 0; first < TAGS; first += 1_000) {
      const requests = Array.from({ length: 1_000 }, (_, index) => `@t${first + index} l\ntagged\n300 1\n`);
      waiter.send(requests.join(""));
    }
    await pause(FLOODS_FOR_MS);
    waiter.destroy();
    expect(await ask(holder, "r", "tagged", token)).toBe("ok");
    // Nobody waits behind those who are gone.
    const next = await clients.tcp();
    await lock(next, "tagged", "20 5");
  });
});

it("clients that read a few bytes at a time", { timeout: TIMEOUT_MS }, async () => {
  await harmless(async ({ port, httpPort }) => {
    const words = Buffer.from(`${"stats\n_\n_\n".repeat(100)}${"ping\n_\n_\n".repeat(1_000)}`);
    const frame = shortFrame(OPCODE.text, "stats\n_\n_\nping\n_\n_\n");
    const slow = async (socket: Socket, bytes: Buffer) => {
      socket.on("error", () => {});
      const endsAt = performance.now() + FLOODS_FOR_MS;
      socket.on("data", () => {
        socket.pause();
        setTimeout(() => socket.resume(), 200);
      });
      while (performance.now() < endsAt && !socket.destroyed) {
        if (socket.writableLength < MEGABYTE) socket.write(bytes);
        await pause(10);
      }
      socket.destroy();
    };
    const opened = await Promise.all([
      ...Array.from({ length: 10 }, async () => slow(await openTcp(port), words)),
      ...Array.from({ length: 10 }, async () =>
        slow(await openRaw(httpPort), Buffer.concat(Array.from({ length: 300 }, () => frame))),
      ),
    ]);
    expect(opened).toHaveLength(20);
  });
});

it("clients that end their side of the connection and keep the other one open", { timeout: TIMEOUT_MS }, async () => {
  const COUNT = scaled(500, 2_000);
  await harmless(async ({ port, httpPort }, clients) => {
    const holder = await clients.ws();
    await lock(holder, "half-open", "0 300");
    const sockets = Array.from({ length: COUNT }, (_, index) => {
      const socket = connect({ port: index % 2 === 0 ? port : httpPort, host: "127.0.0.1", allowHalfOpen: true });
      onTestFinished(() => void socket.destroy());
      socket.on("error", () => {});
      socket.resume();
      socket.end(index % 2 === 0 ? "l\nhalf-open\n300\n" : "GET /health HTTP/1.1\r\nHost: localhost\r\n");
      return socket;
    });
    // The server ends its side, too, whether the client does anything about that or not.
    await poll(
      "the ends",
      40_000,
      async () => sockets.every((socket) => socket.readableEnded || socket.closed) || undefined,
    );
    await poll("nobody to wait", 20_000, async () => {
      const { body } = await send(httpPort, { method: "GET", path: "/v1/keys/half-open" });
      return (JSON.parse(body) as { waiters: number }).waiters === 0 || undefined;
    });
  });
});

it("hundreds of long polls over HTTP, again and again", { timeout: TIMEOUT_MS }, async () => {
  const COUNT = scaled(300, 1_000);
  await harmless(async ({ httpPort }, clients) => {
    const holder = await clients.ws();
    const token = await lock(holder, "polled", "0 300");
    const endsAt = performance.now() + FLOODS_FOR_MS;
    const headers = { "Content-Type": "application/json" };
    const pollAgain = async () => {
      const opened = await send(httpPort, { method: "POST", path: "/v1/sessions", headers, body: "{}" }, 60_000);
      const { session_id: id } = JSON.parse(opened.body) as { session_id: string };
      while (performance.now() < endsAt) {
        const session = { ...headers, "X-Dflockd-Session": id };
        const body = '{"acquire_timeout_s":1}';
        const { status, body: reply } = await send(
          httpPort,
          { method: "POST", path: "/v1/locks/polled", headers: session, body },
          60_000,
        );
        expect([status, reply]).toEqual([200, expect.stringContaining("timeout")]);
      }
      await send(httpPort, { method: "DELETE", path: `/v1/sessions/${id}` }, 60_000);
    };
    await Promise.all(Array.from({ length: COUNT }, pollAgain));
    expect(await ask(holder, "r", "polled", token)).toBe("ok");
  });
});
