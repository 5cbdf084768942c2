/** Launchers and workerds that end again and again. */
import { existsSync, rmSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { describe, expect, onTestFinished, test } from "vitest";
import {
  eventually,
  freePort,
  holdfast,
  isRunning,
  openWebSocket,
  processes,
  startServe,
  TcpClient,
  temporaryDir,
} from "./support.ts";

describe("holdfast serve", () => {
  test("a workerd that keeps ending is given up, with exit code 1", async () => {
    const server = await startServe();
    const killing = setInterval(() => {
      for (const pid of workerdsOn(server.dataDir)) process.kill(pid, "SIGKILL");
    }, 20);
    onTestFinished(() => clearInterval(killing));
    expect(await server.exited).toEqual({ code: 1, signal: null });
    expect(server.stderr.split("\n").at(-2)).toMatch(/^holdfast: .*, 7 times in a row: giving up$/);
  });

  test("a launcher that is killed takes nobody's lock, though it takes the connections", {
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
      await eventually("the end of workerd", () => !isRunning(server.workerdPid));

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

  test("whenever the launcher is killed, no second server ever runs beside what it left", {
    timeout: 120_000,
  }, async () => {
    const dataDir = temporaryDir();
    for (let round = 0; round < 12; round += 1) {
      const listeners = [
        "--port",
        String(await freePort()),
        "--http-port",
        String(await freePort()),
        "--godistlock-port",
        "0",
      ];
      const running = holdfast(["serve", ...listeners, "--data-dir", dataDir]);
      // The first moment in which workerd exists, and a little later each time.
      rmSync(join(dataDir, "workerd.pid"), { force: true });
      await eventually("workerd", () => existsSync(join(dataDir, "workerd.pid")) || running.child.exitCode !== null);
      await pause(round % 4);
      running.child.kill("SIGKILL");
      await running.exited;
      const next = await startServe({ dataDir });
      expect(workerdsOn(dataDir)).toEqual([next.workerdPid]);
      next.child.kill("SIGTERM");
      await next.exited;
    }
  });
});

/** The living workerds that serve a data directory. */
function workerdsOn(dataDir: string): number[] {
  const workerds = [...processes()].filter(
    ({ args: [program = "", command, config] }) =>
      /workerd$/.test(program) && command === "serve" && config === join(dataDir, "workerd.capnp"),
  );
  return workerds.map(({ pid }) => pid).filter(isRunning);
}
