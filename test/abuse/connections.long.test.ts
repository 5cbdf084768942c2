import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { setTimeout as pause } from "node:timers/promises";
import { describe, expect, it, onTestFinished } from "vitest";
import { errorBody } from "../../src/http/reply/errors.ts";
import { type RunningServe, startServe } from "../cli/support.ts";
import { Clients } from "../support/clients.ts";
import { send } from "../support/http-client.ts";
import { poll } from "../support/poll.ts";
import { ANSWERED_WITHIN_MS, besideBystanders } from "./bystanders.ts";
import { MEGABYTE, watchMemory } from "./memory.ts";
import { openRaw, openTcp } from "./raw-socket.ts";
import { scaled, TIMEOUT_MS } from "./scale.ts";
import { isServing } from "./serving.ts";

const HEALTH = "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n";

/** Connects and does nothing more. */
function idle(port: number): Socket {
  const socket = connect(port, "127.0.0.1");
  socket.on("error", () => {});
  onTestFinished(() => void socket.destroy());
  return socket;
}

/** Counts how often these words have come, however they were cut. */
function countOf(socket: Socket, words: string): () => number {
  let count = 0;
  let tail = "";
  socket.setEncoding("latin1").on("data", (text: string) => {
    const parts = (tail + text).split(words);
    count += parts.length - 1;
    tail = (parts.at(-1) ?? "").slice(-(words.length - 1));
  });
  return () => count;
}

const areClosed = (sockets: readonly Socket[]) =>
  poll("all connections to be closed", 10_000, async () => (sockets.every((each) => each.closed) ? true : undefined));

describe("with few open files the server refuses, and lives", () => {
  const OPEN_FILES = 256;

  it.each([
    ["TCP", (server: RunningServe) => server.port],
    ["HTTP", (server: RunningServe) => server.httpPort],
  ])("more %s connections than it has files for", { timeout: TIMEOUT_MS }, async (_, portOf) => {
    const server = await startServe({ openFiles: OPEN_FILES, args: ["--http-max-connections-per-ip", "0"] });
    expect(server.stderr).toMatch(/open files are limited to 256, enough for [0-9]+ connections/);
    using clients = new Clients({ tcpPort: server.port, httpPort: server.httpPort });
    const { slowestMs, lost } = await besideBystanders({ clients }, async () => {
      const sockets = Array.from({ length: scaled(400, 4_000) }, () => idle(portOf(server)));
      await poll("a refusal", 10_000, async () =>
        server.stderr.includes("the limit of open files allows no more") ? true : undefined,
      );
      await pause(2_000);
      for (const socket of sockets) socket.destroy();
      await areClosed(sockets);
    });
    expect(lost).toBe(0);
    expect(slowestMs).toBeLessThan(ANSWERED_WITHIN_MS);
    // The places come back when the server has seen the ends.
    await poll("a place", 10_000, async () =>
      (await send(server.httpPort, { method: "GET", path: "/health" }).catch(() => undefined))?.status === 200
        ? true
        : undefined,
    );
    await isServing(server);
  });

  it("and says so in HTTP where it can", { timeout: TIMEOUT_MS }, async () => {
    const server = await startServe({ openFiles: OPEN_FILES });
    const sockets = Array.from({ length: 200 }, () => idle(server.port));
    await poll("a refusal", 10_000, async () =>
      server.stderr.includes("the limit of open files allows no more") ? true : undefined,
    );
    const reply = await send(server.httpPort, { method: "GET", path: "/v1/stats" });
    expect([reply.status, reply.body]).toEqual([503, `${JSON.stringify(errorBody("max_connections"))}\n`]);
    for (const socket of sockets) socket.destroy();
  });
});

describe("one address cannot take all connections to the HTTP port", () => {
  /** Asks for the server's health from this address of the machine. */
  function health(port: number, localAddress: string): Promise<string> {
    const socket = connect({ port, host: "127.0.0.1", localAddress });
    onTestFinished(() => void socket.destroy());
    socket.write(HEALTH);
    return new Promise((resolve, reject) => {
      socket.once("data", (bytes: Buffer) => resolve(bytes.toString("latin1")));
      socket.once("error", reject).once("close", () => reject(new Error("closed without a word")));
    });
  }

  it("with silence, and is told so", async () => {
    const server = await startServe({ openFiles: 1_024 });
    for (let count = 0; count < 700; count += 1) idle(server.httpPort);
    await poll("a refusal", 5_000, async () => {
      const reply = await health(server.httpPort, "127.0.0.1").catch(() => "");
      return reply.includes('{"error":"max_connections_per_ip",') ? true : undefined;
    });
    expect(await health(server.httpPort, "127.0.0.2")).toMatch(/^HTTP\/1\.1 200 /);
    const client = await openTcp(server.port);
    client.write("ping\n_\n_\n");
    await once(client, "readable");
    expect(String(client.read())).toMatch(/^ok/);
  });

  it("with bodies that never end", { timeout: TIMEOUT_MS }, async () => {
    const server = await startServe({ openFiles: 1_024, args: ["--auth-token", "a token of the service"] });
    const sockets = Array.from({ length: 600 }, () => {
      const socket = idle(server.httpPort);
      socket.resume();
      socket.write("POST /v1/sessions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n{");
      return socket;
    });
    const dribble = setInterval(() => {
      for (const socket of sockets) if (!socket.destroyed) socket.write(" ");
    }, 200);
    onTestFinished(() => clearInterval(dribble));
    expect(await health(server.httpPort, "127.0.0.2")).toMatch(/^HTTP\/1\.1 200 /);
    await areClosed(sockets);
    expect(await health(server.httpPort, "127.0.0.1")).toMatch(/^HTTP\/1\.1 200 /);
  });

  it("but WebSockets do not count, nor what a proxy brings", async () => {
    const server = await startServe({ args: ["--http-max-connections-per-ip", "2"] });
    for (let count = 0; count < 5; count += 1) await openRaw(server.httpPort);
    const proxied = await startServe({ openFiles: 1_024, args: ["--client-ip-header", "X-Real-IP"] });
    for (let count = 0; count < 700; count += 1) idle(proxied.httpPort);
    for (const { httpPort } of [server, proxied]) {
      expect(await health(httpPort, "127.0.0.1")).toMatch(/^HTTP\/1\.1 200 /);
    }
  });
});

it("a cap on connections holds for thousands of quick ones, and costs nothing behind the door", {
  timeout: TIMEOUT_MS,
}, async () => {
  const CAP = 50;
  const server = await startServe({ openFiles: 1_024, args: ["--max-connections", String(CAP)] });
  using clients = new Clients({ tcpPort: server.port, httpPort: server.httpPort });
  const memory = watchMemory(server.child.pid ?? 0);
  onTestFinished(memory.stop);
  const { slowestMs, lost } = await besideBystanders({ clients }, async () => {
    const rounds = scaled(15, 150);
    for (let round = 0; round < rounds; round += 1) {
      const sockets = Array.from({ length: 100 }, () => idle(server.port));
      const upgrades = Array.from({ length: 100 }, () => openRaw(server.httpPort).catch(() => undefined));
      for (const socket of await Promise.all(upgrades)) socket?.destroy();
      for (const socket of sockets) socket.destroy();
    }
  });
  expect(lost).toBe(0);
  expect(slowestMs).toBeLessThan(ANSWERED_WITHIN_MS);
  expect(memory.mostAdded() / MEGABYTE).toBeLessThan(200);
  // The places of those who vanished come back a moment later.
  await poll("newcomers to be served", 10_000, () =>
    isServing(server).then(
      () => true as const,
      () => undefined,
    ),
  );
});

it("hundreds of requests in one write are answered one after the other, and a client that sends far more is cut off", {
  timeout: TIMEOUT_MS,
}, async () => {
  const server = await startServe({ openFiles: 1_024 });
  using clients = new Clients({ tcpPort: server.port, httpPort: server.httpPort });
  const memory = watchMemory(server.child.pid ?? 0);
  onTestFinished(memory.stop);
  const { slowestMs, lost } = await besideBystanders({ clients, httpPort: server.httpPort }, async () => {
    const polite = idle(server.httpPort);
    const answered = countOf(polite, "HTTP/1.1 200 OK");
    polite.write(HEALTH.repeat(250));
    await poll("all answers", TIMEOUT_MS, async () => (answered() === 250 ? true : undefined));
    const flood = idle(server.httpPort);
    flood.resume();
    flood.write(HEALTH.repeat(scaled(100_000, 1_000_000)));
    await areClosed([flood]);
  });
  expect(lost).toBe(0);
  expect(slowestMs).toBeLessThan(ANSWERED_WITHIN_MS);
  expect(memory.mostAdded() / MEGABYTE).toBeLessThan(200);
  await isServing(server);
});

it("long heads behind long polls are not kept: their clients are cut off", { timeout: TIMEOUT_MS }, async () => {
  const server = await startServe();
  const headers = { "Content-Type": "application/json" };
  const session = async () => {
    const { body } = await send(server.httpPort, { method: "POST", path: "/v1/sessions", headers, body: "{}" });
    return (JSON.parse(body) as { session_id: string }).session_id;
  };
  const acquire = async (body: string) =>
    `POST /v1/locks/polled HTTP/1.1\r\nHost: localhost\r\nX-Dflockd-Session: ${await session()}\r\n` +
    `Content-Length: ${body.length}\r\n\r\n${body}`;
  idle(server.httpPort).write(await acquire('{"acquire_timeout_s":0,"lease_ttl_s":60}'));
  const polls = await Promise.all(Array.from({ length: 6 }, () => acquire('{"acquire_timeout_s":40}')));
  const memory = watchMemory(server.child.pid ?? 0);
  onTestFinished(memory.stop);
  const sockets = polls.map((poll) => {
    const socket = idle(server.httpPort);
    socket.write(poll);
    return socket;
  });
  const filler = `X-Filler: ${"a".repeat(2_000)}\r\n`.repeat(30);
  const head = Buffer.from(`GET /health HTTP/1.1\r\nHost: localhost\r\n${filler}\r\n`);
  for (let count = 0; count < 990; count += 1) {
    for (const socket of sockets) if (!socket.destroyed) socket.write(head);
    if (count % 50 === 0) await pause(10);
  }
  await areClosed(sockets);
  expect(memory.mostAdded() / MEGABYTE).toBeLessThan(100);
  await isServing(server);
});
