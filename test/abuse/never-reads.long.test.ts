import type { Socket } from "node:net";
import { setTimeout as pause } from "node:timers/promises";
import { describe, expect, it, onTestFinished } from "vitest";
import { startServe } from "../cli/support.ts";
import { Clients } from "../support/clients.ts";
import { ANSWERED_WITHIN_MS, besideBystanders } from "./bystanders.ts";
import { MEGABYTE, watchMemory } from "./memory.ts";
import { OPCODE, openRaw, openTcp, shortFrame, textMessage } from "./raw-socket.ts";
import { scaled, TIMEOUT_MS } from "./scale.ts";
import { isServing } from "./serving.ts";

const CLIENTS = 4;
const SHOUTS_FOR_MS = scaled(8_000, 60_000);

/** Sends as fast as the server takes it and reads nothing, until it is cut off or the time is over. */
async function shout(socket: Socket, words: Buffer): Promise<void> {
  const bytes = Buffer.concat(Array.from({ length: Math.ceil(65_536 / words.length) }, () => words));
  const write = () => {
    while (!socket.destroyed && socket.write(bytes));
  };
  socket.on("drain", write);
  write();
  await pause(SHOUTS_FOR_MS);
  socket.destroy();
}

describe("clients that send and never read cost nobody else anything", () => {
  it.each([
    ["commands over a WebSocket", "http", openRaw, shortFrame(OPCODE.text, "ping\n_\n_\n")],
    ["messages full of commands", "http", openRaw, textMessage("ping\n_\n_\n".repeat(110_000))],
    ["pings of the WebSocket itself", "http", openRaw, shortFrame(OPCODE.ping, "x".repeat(100))],
    ["commands over TCP", "tcp", openTcp, Buffer.from("ping\n_\n_\n")],
  ] as const)("%s", { timeout: TIMEOUT_MS }, async (_, port, open, words) => {
    const server = await startServe();
    using clients = new Clients({ tcpPort: server.port, httpPort: server.httpPort });
    const memory = watchMemory(server.child.pid ?? 0);
    onTestFinished(memory.stop);
    const { slowestMs, lost } = await besideBystanders({ clients, httpPort: server.httpPort }, async () => {
      const where = port === "tcp" ? server.port : server.httpPort;
      const sockets = await Promise.all(Array.from({ length: CLIENTS }, () => open(where)));
      await Promise.all(sockets.map((socket) => shout(socket, words)));
    });
    expect(lost).toBe(0);
    expect(slowestMs).toBeLessThan(ANSWERED_WITHIN_MS);
    expect(memory.mostAdded() / MEGABYTE).toBeLessThan(200);
    await isServing(server);
  });
});
