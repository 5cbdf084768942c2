/** Servers that are killed again and again. */
import { setTimeout as pause } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import { eventually, freePort, holdfast, openWebSocket, startServe, TcpClient, temporaryDir } from "./support.ts";

describe("holdfast serve", () => {
  test("a server that is killed takes nobody's lock, though it takes the connections", {
    timeout: 60_000,
  }, async () => {
    const dataDir = temporaryDir();
    for (let round = 0; round < 4; round += 1) {
      const server = await startServe({ dataDir });
      const holders = await Promise.all(Array.from({ length: 10 }, () => TcpClient.open(server.port)));
      const sockets = await Promise.all(Array.from({ length: 10 }, () => openWebSocket(server.httpPort)));
      const overWebSocket = sockets.map((socket) => new Promise((resolve) => socket.once("message", resolve)));
      for (const [index, holder] of holders.entries()) holder.socket.write(`l\ntcp-${round}-${index}\n0 60\n`);
      for (const [index, socket] of sockets.entries()) socket.send(`l\nws-${round}-${index}\n0 60\n`);
      await eventually("the grants", () => holders.every(({ text }) => text.startsWith("ok ")));
      await Promise.all(overWebSocket);
      server.child.kill("SIGKILL");
      await server.exited;

      const next = await startServe({ dataDir });
      const asking = await TcpClient.open(next.port);
      const keys = holders.flatMap((_, index) => [`tcp-${round}-${index}`, `ws-${round}-${index}`]);
      asking.socket.write(keys.map((key) => `l\n${key}\n0\n`).join(""));
      await eventually("all answers", () => asking.text.split("\n").length > keys.length);
      expect(asking.text).toBe("timeout\n".repeat(keys.length));
      next.child.kill("SIGTERM");
      await next.exited;
    }
  });

  test("whenever it is killed while it starts, the next one starts", { timeout: 120_000 }, async () => {
    const dataDir = temporaryDir();
    const START_MS = 400;
    const rounds = 20;
    for (let round = 0; round < rounds; round += 1) {
      const ports = ["--port", String(await freePort()), "--http-port", String(await freePort())];
      const running = holdfast(["serve", ...ports, "--godistlock-port", "0", "--data-dir", dataDir]);
      await pause((round * START_MS) / rounds);
      running.child.kill("SIGKILL");
      await running.exited;
    }
    const last = await startServe({ dataDir });
    expect(last.stderr).toBe("");
    await TcpClient.open(last.port);
  });
});
