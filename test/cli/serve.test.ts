import { existsSync, readdirSync, readFileSync, statSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { connect as connectTls } from "node:tls";
import { describe, expect, onTestFinished, test } from "vitest";
import { stopwatch } from "../support/stopwatch.ts";
import {
  eventually,
  fixture,
  freePort,
  holdfast,
  openWebSocket,
  outcome,
  startServe,
  TcpClient,
  temporaryDir,
} from "./support.ts";

const STOP_LIMIT_MS = 10_000;

/** Occupies a port for the rest of the test. */
async function occupied(port?: number): Promise<number> {
  const taken = port ?? (await freePort());
  const other = createServer().listen(taken, "127.0.0.1");
  onTestFinished(() => void other.close());
  await new Promise((resolve, reject) => other.once("listening", resolve).once("error", reject));
  return taken;
}

const freePorts = async () => ["--port", String(await freePort()), "--http-port", String(await freePort())];

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

  test("with port 0 it picks free ports, and says which", async () => {
    const server = holdfast([
      "serve",
      "--port",
      "0",
      "--http-port",
      "0",
      "--godistlock-port",
      "0",
      "--data-dir",
      ":memory:",
    ]);
    const ready = () => /tcp 127\.0\.0\.1:(\d+), http\+ws http:\/\/127\.0\.0\.1:(\d+)/.exec(server.stdout);
    const [, tcp = "0", http = "0"] = await eventually("the ports", ready);
    expect([Number(tcp), Number(http)].every((port) => port > 0)).toBe(true);
    expect((await fetch(`http://127.0.0.1:${http}/health`)).status).toBe(200);
    await TcpClient.open(Number(tcp));
  });

  test("keeps its files from other users and secrets out of them", async () => {
    const server = await startServe({ args: ["--auth-token", "hunter2"] });
    const files = readdirSync(server.dataDir).map((name) => join(server.dataDir, name));
    expect(files).toContain(join(server.dataDir, "holdfast.db"));
    for (const file of files) {
      expect([file, statSync(file).mode & 0o777]).toEqual([file, 0o600]);
      expect(readFileSync(file).includes("hunter2"), file).toBe(false);
    }
  });

  test("makes its data directory for itself alone", async () => {
    const dataDir = join(temporaryDir(), "deep", "below");
    await startServe({ dataDir });
    expect(statSync(dataDir).mode & 0o777).toBe(0o700);
  });

  test("with --data-dir :memory: it leaves nothing on disk, and forgets", async () => {
    const folder = temporaryDir();
    const server = await startServe({ dataDir: ":memory:", cwd: folder });
    const holder = await TcpClient.open(server.port);
    holder.socket.write("l\nkept\n0 60\n");
    await eventually("the grant", () => holder.text.startsWith("ok "));
    server.child.kill("SIGTERM");
    await server.exited;
    expect(readdirSync(folder)).toEqual([]);
    const next = await startServe({ dataDir: ":memory:", cwd: folder });
    const client = await TcpClient.open(next.port);
    client.socket.write("l\nkept\n0\n");
    await eventually("the grant", () => client.text.startsWith("ok "));
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

  test.each(["SIGTERM", "SIGINT", "SIGHUP"] as const)("%s stops it in time with clients connected", async (signal) => {
    const server = await startServe();
    const tcp = await TcpClient.open(server.port);
    tcp.socket.write("ping\n_\n_\n");
    await openWebSocket(server.httpPort);
    const elapsed = stopwatch();
    // To the whole group, as Ctrl-C in a terminal does.
    process.kill(-server.pid, signal);
    expect(await server.exited).toEqual({ code: 0, signal: null });
    expect(elapsed()).toBeLessThan(STOP_LIMIT_MS);
    expect(server.stderr).toBe("");
  });

  test("a second signal does no harm", async () => {
    const server = await startServe();
    await openWebSocket(server.httpPort);
    server.child.kill("SIGTERM");
    server.child.kill("SIGINT");
    expect(await server.exited).toEqual({ code: 0, signal: null });
    expect(server.stderr).toBe("");
  });

  test("a signal that comes while it starts ends it, too", async () => {
    const dataDir = temporaryDir();
    const running = holdfast(["serve", ...(await freePorts()), "--godistlock-port", "0", "--data-dir", dataDir]);
    await eventually("the data", () => existsSync(join(dataDir, "holdfast.db")) || running.child.exitCode !== null);
    running.child.kill("SIGTERM");
    expect(await running.exited).toEqual({ code: 0, signal: null });
    expect(running.stderr).toBe("");
  });

  test("if nobody reads its output, it goes on", async () => {
    const server = await startServe({ args: ["--debug"] });
    server.child.stderr?.destroy();
    server.child.stdout?.destroy();
    const client = await TcpClient.open(server.port);
    client.socket.write("ping\n_\n_\nl\nkey\n0\n");
    await eventually("the answers", () => /^ok\nok \w{32} 33\n$/.test(client.text));
  });
});

describe("the ports of holdfast serve", () => {
  test.each(["port", "httpPort"] as const)("an occupied %s is one line and exit code 1", async (which) => {
    const taken = await occupied();
    const ports = { port: await freePort(), httpPort: await freePort(), [which]: taken };
    const args = ["--port", String(ports.port), "--http-port", String(ports.httpPort), "--godistlock-port", "0"];
    expect(await outcome(["serve", ...args, "--data-dir", ":memory:"])).toEqual({
      code: 1,
      signal: null,
      stdout: "",
      stderr: `holdfast: port ${taken} on 127.0.0.1 is already in use\n`,
    });
  });

  test("godistlock's, occupied but asked for, is one line and exit code 1", async () => {
    const taken = await occupied();
    const args = [...(await freePorts()), "--godistlock-port", String(taken), "--data-dir", ":memory:"];
    expect(await outcome(["serve", ...args])).toEqual({
      code: 1,
      signal: null,
      stdout: "",
      stderr: `holdfast: port ${taken} on 127.0.0.1 is already in use\n`,
    });
  });

  test("godistlock's, occupied but a default, is done without, and that is said", async () => {
    // If another program has it already, that is as good.
    await occupied(10_000).catch(() => {});
    const server = await startServe({ godistlockPort: "default" });
    expect(server.stderr).toBe(
      "holdfast: port 10000 on 127.0.0.1 is already in use: godistlock clients are not served there\n",
    );
    expect(server.stdout).not.toContain("godistlock");
    await TcpClient.open(server.port);
  });

  test("godistlock's, if free, is named in the ready line", async () => {
    const port = await freePort();
    const server = await startServe({ godistlockPort: String(port) });
    expect(server.stdout).toContain(`, godistlock 127.0.0.1:${port}, `);
    await TcpClient.open(port);
  });

  test("an address of another machine is one line and exit code 1", async () => {
    const { code, stderr } = await outcome(["serve", "--host", "192.0.2.1", "--data-dir", temporaryDir()]);
    expect(code).toBe(1);
    expect(stderr).toMatch(/^holdfast: cannot listen on 192\.0\.2\.1:6388: [^\n]+\n$/);
  });
});

describe("after its end", () => {
  test.each(["SIGTERM", "SIGKILL"] as const)("by %s, the same ports and data serve again at once", async (signal) => {
    const first = await startServe();
    await TcpClient.open(first.port);
    await openWebSocket(first.httpPort);
    first.child.kill(signal);
    await first.exited;
    const second = await startServe({ dataDir: first.dataDir, port: first.port, httpPort: first.httpPort });
    await TcpClient.open(second.port);
    expect(second.stderr).toBe("");
  });

  test.each(["SIGTERM", "SIGKILL"] as const)("by %s, locks that were held still are", async (signal) => {
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
  });
});
