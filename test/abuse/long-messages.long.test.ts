import { connect, type Socket } from "node:net";
import { setTimeout as pause } from "node:timers/promises";
import { expect, it, onTestFinished } from "vitest";
import { startServe } from "../cli/support.ts";
import { Clients } from "../support/clients.ts";
import { poll } from "../support/poll.ts";
import { ANSWERED_WITHIN_MS, besideBystanders } from "./bystanders.ts";
import { MEGABYTE, watchMemory } from "./memory.ts";
import { announcement, openRaw } from "./raw-socket.ts";
import { scaled, TIMEOUT_MS } from "./scale.ts";
import { isServing } from "./serving.ts";

const ANNOUNCED_BYTES = 32 * MEGABYTE;
const CLIENTS = scaled(40, 400);
const CLOSE_TOO_BIG = [0x88, 2, 0x03, 0xf1];

/** Announces a frame and begins to send it. Resolves with all that the server says until it ends the connection. */
async function announce(socket: Socket): Promise<number[]> {
  const heard: number[] = [];
  const ended = new Promise<void>((resolve) => socket.on("close", () => resolve()).on("end", () => resolve()));
  socket.on("data", (bytes: Buffer) => heard.push(...bytes));
  socket.resume();
  socket.write(announcement(ANNOUNCED_BYTES));
  // All of it, as fast as it is taken.
  socket.write(Buffer.alloc(ANNOUNCED_BYTES));
  await ended;
  socket.destroy();
  return heard;
}

it("messages over 1 MiB are refused before anything is kept for them, also before authentication", {
  timeout: TIMEOUT_MS,
}, async () => {
  const server = await startServe();
  const guarded = await startServe({ args: ["--auth-token", "a token of the service"] });
  using clients = new Clients({ tcpPort: server.port, httpPort: server.httpPort });
  const watches = [server, guarded].map(({ child }) => watchMemory(child.pid ?? 0));
  onTestFinished(() => {
    for (const watch of watches) watch.stop();
  });
  const { slowestMs, lost } = await besideBystanders({ clients, httpPort: server.httpPort }, async () => {
    for (const { httpPort } of [server, guarded]) {
      const sockets = await Promise.all(Array.from({ length: CLIENTS }, () => openRaw(httpPort)));
      for (const heard of await Promise.all(sockets.map(announce))) expect(heard.slice(0, 4)).toEqual(CLOSE_TOO_BIG);
    }
  });
  expect(lost).toBe(0);
  expect(slowestMs).toBeLessThan(ANSWERED_WITHIN_MS);
  for (const watch of watches) expect(watch.mostAdded() / MEGABYTE).toBeLessThan(200);
  await isServing(server);
});

it("a client that sends a long message bit by bit costs no more than its beginning", {
  timeout: TIMEOUT_MS,
}, async () => {
  const server = await startServe();
  const memory = watchMemory(server.child.pid ?? 0);
  onTestFinished(memory.stop);
  const sockets = await Promise.all(Array.from({ length: CLIENTS }, () => openRaw(server.httpPort)));
  // Within the limit: these may be kept, and are not answered before they are whole.
  for (const socket of sockets) socket.write(Buffer.concat([announcement(MEGABYTE), Buffer.alloc(MEGABYTE - 1)]));
  await poll("all to be sent", 20_000, async () =>
    sockets.every((socket) => socket.writableLength === 0) ? true : undefined,
  );
  await pause(scaled(500, 5_000));
  expect(memory.mostAdded() / MEGABYTE).toBeLessThan(200);
  for (const socket of sockets) socket.destroy();
  await isServing(server);
});

it("a body announced with the upgrade hides no long message: such an upgrade is refused", async () => {
  const server = await startServe();
  const cover = announcement(MEGABYTE);
  for (const body of [`Content-Length: ${cover.length}`, "Transfer-Encoding: chunked"]) {
    const socket = connect(server.httpPort, "127.0.0.1").on("error", () => {});
    onTestFinished(() => void socket.destroy());
    let heard = "";
    socket.setEncoding("latin1").on("data", (text: string) => {
      heard += text;
    });
    socket.write(
      "GET /v1/ws HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" +
        `Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: aG9sZGZhc3QtaXMtaGVyZQ==\r\n${body}\r\n\r\n`,
    );
    // The body would cover the head of a message.
    socket.write(Buffer.concat([cover, announcement(ANNOUNCED_BYTES)]));
    await poll("the end", 5_000, async () => (socket.closed ? true : undefined));
    expect(heard).toMatch(/^HTTP\/1\.1 400 /);
  }
  await isServing(server);
});
