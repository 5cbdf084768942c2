import { readdirSync, readFileSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { connect as connectTls } from "node:tls";
import { describe, expect, onTestFinished, test } from "vitest";
import { stopwatch } from "../support/stopwatch.ts";
import {
  eventually,
  fixture,
  freePort,
  isRunning,
  openWebSocket,
  outcome,
  processes,
  startServe,
  TcpClient,
  temporaryDir,
} from "./support.ts";

const STOP_LIMIT_MS = 3_000;

/** The processes that see to it that workerd does not outlive its launcher. */
function guardsOf({ dataDir }: { readonly dataDir: string }): number[] {
  const guards = [...processes()].filter(
    ({ args }) => args.includes("holdfast-guard") && args.includes(join(dataDir, "workerd.pid")),
  );
  return guards.map(({ pid }) => pid).filter(isRunning);
}

describe("holdfast serve", () => {
  test("says in one line that it is ready, and then answers", async () => {
    const server = await startServe();
    expect(server.stdout).toBe(
      `holdfast 0.1.0 ready: tcp 127.0.0.1:${server.port}, http+ws http://127.0.0.1:${server.httpPort}, data ${server.dataDir}\n`,
    );
    expect(server.stderr).toBe("");
    expect((await fetch(`http://127.0.0.1:${server.httpPort}/health`)).status).toBe(200);
    await TcpClient.open(server.port);
  });

  test("keeps its files from other users and secrets out of them", async () => {
    const server = await startServe({ args: ["--auth-token", "hunter2"] });
    expect(statSync(join(server.dataDir, "workerd.capnp")).mode & 0o777).toBe(0o600);
    const files = readdirSync(server.dataDir, { recursive: true, withFileTypes: true }).filter((entry) =>
      entry.isFile(),
    );
    expect(files.length).toBeGreaterThan(3);
    for (const { parentPath, name } of files) {
      expect(readFileSync(join(parentPath, name)).includes("hunter2"), name).toBe(false);
    }
  });

  test("flags without counterpart are named in one line and do no harm", async () => {
    const server = await startServe({ args: ["--shutdown-timeout", "5", "--fence-state-file=x"] });
    expect(server.stderr).toBe("holdfast: ignored, without counterpart here: --shutdown-timeout, --fence-state-file\n");
  });

  test("switches work bare, with a blank and with an equals sign", async () => {
    await startServe({ args: ["--draining", "--auto-release-on-disconnect", "false", "--debug=no"] });
  });

  test("speaks TLS on both ports", async () => {
    const server = await startServe({ args: ["--tls-cert", fixture("cert.pem"), "--tls-key", fixture("key.pem")] });
    expect(server.stdout).toContain(`tls 127.0.0.1:${server.port}, http+ws https://127.0.0.1:${server.httpPort}`);
    for (const port of [server.port, server.httpPort]) {
      const socket = connectTls({ port, host: "127.0.0.1", rejectUnauthorized: false });
      onTestFinished(() => {
        socket.destroy();
      });
      await new Promise((resolve, reject) => socket.once("secureConnect", resolve).once("error", reject));
      expect(socket.getPeerCertificate().subject.CN).toBe("localhost");
    }
  });

  test.each(["port", "httpPort"] as const)("an occupied %s is one line and exit code 1", async (which) => {
    const taken = await freePort();
    const other = createServer().listen(taken, "127.0.0.1");
    onTestFinished(() => {
      other.close();
    });
    const ports = { port: await freePort(), httpPort: await freePort(), [which]: taken };
    const args = ["--port", String(ports.port), "--http-port", String(ports.httpPort), "--godistlock-port", "0"];
    expect(await outcome(["serve", ...args])).toEqual({
      code: 1,
      signal: null,
      stdout: "",
      stderr: `holdfast: port ${taken} on 127.0.0.1 is already in use\n`,
    });
  });

  test("an address of another machine is one line and exit code 1", async () => {
    const { code, stderr } = await outcome(["serve", "--host", "192.0.2.1", "--data-dir", temporaryDir()]);
    expect(code).toBe(1);
    expect(stderr).toMatch(/^holdfast: cannot listen on 192\.0\.2\.1:6388: [^\n]+\n$/);
  });

  test("a data directory that cannot be one is one line and exit code 1", async () => {
    const file = join(temporaryDir(), "file");
    writeFileSync(file, "");
    for (const [path, reason] of [
      [file, "it is not a directory"],
      [join(file, "below"), "not a directory"],
    ] as const) {
      expect(await outcome(["serve", "--data-dir", path])).toEqual({
        code: 1,
        signal: null,
        stdout: "",
        stderr: `holdfast: cannot use data directory ${path}: ${reason}\n`,
      });
    }
  });

  test("a place where no directory can be made is refused, not tried for ever", async () => {
    expect(await outcome(["serve", "--data-dir", "/proc/holdfast"])).toMatchObject({ code: 1, stdout: "" });
  });

  test("a second server on the same data directory is refused, and the first goes on", async () => {
    const server = await startServe();
    const ports = [
      "--port",
      String(await freePort()),
      "--http-port",
      String(await freePort()),
      "--godistlock-port",
      "0",
    ];
    expect(await outcome(["serve", ...ports, "--data-dir", server.dataDir])).toMatchObject({
      code: 1,
      stderr: `holdfast: data directory ${server.dataDir} is in use by another holdfast\n`,
    });
    await TcpClient.open(server.port);
  });

  test.each(["SIGTERM", "SIGINT", "SIGHUP"] as const)("%s stops it in time with clients connected", async (signal) => {
    const server = await startServe();
    const tcp = await TcpClient.open(server.port);
    tcp.socket.write("ping\n_\n_\n");
    await openWebSocket(server.httpPort);
    const elapsed = stopwatch();
    // To the whole group, as Ctrl-C in a terminal does.
    process.kill(-(server.child.pid as number), signal);
    expect(await server.exited).toEqual({ code: 0, signal: null });
    expect(elapsed()).toBeLessThan(STOP_LIMIT_MS);
    expect(isRunning(server.workerdPid)).toBe(false);
    await eventually("the end of the guard", () => guardsOf(server).length === 0);
  });

  test("a second signal stops it at once", async () => {
    const server = await startServe();
    await openWebSocket(server.httpPort);
    server.child.kill("SIGTERM");
    server.child.kill("SIGINT");
    const elapsed = stopwatch();
    await server.exited;
    expect(elapsed()).toBeLessThan(1_000);
  });

  test("the same ports and data serve again right after a stop", async () => {
    const first = await startServe();
    await TcpClient.open(first.port);
    first.child.kill("SIGTERM");
    await first.exited;
    const second = await startServe({ dataDir: first.dataDir, port: first.port, httpPort: first.httpPort });
    await TcpClient.open(second.port);
  });

  test("a killed launcher leaves nothing behind and a restart just works", async () => {
    const first = await startServe();
    await openWebSocket(first.httpPort);
    first.child.kill("SIGKILL");
    await first.exited;
    const second = await startServe({ dataDir: first.dataDir, port: first.port, httpPort: first.httpPort });
    expect(isRunning(first.workerdPid)).toBe(false);
    expect(second.workerdPid).not.toBe(first.workerdPid);
    await TcpClient.open(second.port);
  });

  test.each(["SIGTERM", "SIGKILL"] as const)(
    "locks held at the end by %s are still held after the restart",
    async (signal) => {
      const first = await startServe();
      const holder = await TcpClient.open(first.port);
      holder.socket.write("l\nkept\n0 60\n");
      const line = await eventually("the grant", () => holder.text.match(/^ok (\w{32}) 60\n$/));
      first.child.kill(signal);
      await first.exited;
      const second = await startServe({ dataDir: first.dataDir, port: first.port, httpPort: first.httpPort });
      const client = await TcpClient.open(second.port);
      client.socket.write(`l\nkept\n0\nn\nkept\n${line[1]} 50\nr\nkept\n${line[1]}\nl\nkept\n0\n`);
      await eventually("the answers", () => /^timeout\nok 50\nok\nok \w{32} 33\n$/.test(client.text));
    },
  );

  test("a killed launcher takes workerd with it", async () => {
    const server = await startServe();
    server.child.kill("SIGKILL");
    await eventually("the end of workerd", () => !isRunning(server.workerdPid));
  });

  test("a workerd that outlived launcher and guard is ended by the next start", async () => {
    const first = await startServe();
    // The launcher first stands still: it would notice that the guard is gone.
    first.child.kill("SIGSTOP");
    for (const guard of guardsOf(first)) process.kill(guard, "SIGKILL");
    first.child.kill("SIGKILL");
    await first.exited;
    expect(isRunning(first.workerdPid)).toBe(true);
    // Reached by another name, it is still the same directory.
    const alias = join(temporaryDir(), "alias");
    symlinkSync(first.dataDir, alias);
    const second = await startServe({ dataDir: alias, port: first.port, httpPort: first.httpPort });
    expect(isRunning(first.workerdPid)).toBe(false);
    await TcpClient.open(second.port);
  });

  test("an unrelated process under the recorded id is left alone", async () => {
    const dataDir = temporaryDir();
    writeFileSync(join(dataDir, "workerd.pid"), `${process.pid}\n`);
    await startServe({ dataDir });
  });

  test("a workerd that ends by itself is started again, and clients go on", async () => {
    const server = await startServe();
    const holder = await TcpClient.open(server.port);
    holder.socket.write("l\nkept\n0 60\n");
    const [, token] = await eventually("the grant", () => holder.text.match(/^ok (\w{32}) 60\n$/));
    process.kill(server.workerdPid, "SIGKILL");
    await eventually("the end of the connection", () => holder.hasEnded);
    // A connection that comes meanwhile is held until somebody answers it.
    const client = await TcpClient.open(server.port);
    client.socket.write(`n\nkept\n${token} 50\n`);
    await eventually("the answer", () => client.text === "ok 50\n");
    expect((await fetch(`http://127.0.0.1:${server.httpPort}/health`)).status).toBe(200);
    expect(server.stderr).toBe("holdfast: workerd ended by itself (signal 9); starting it again in 100 ms\n");
  });
});
