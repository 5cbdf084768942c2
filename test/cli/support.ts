import { type ChildProcess, spawn } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { connect, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { onTestFinished } from "vitest";
import { WebSocket } from "ws";
import { SETTINGS } from "../../src/cli/settings.ts";
import { freePort } from "../support/free-port.ts";

export { freePort };

export const fixture = (name: string) => fileURLToPath(new URL(`fixtures/${name}`, import.meta.url));
const command = fileURLToPath(new URL("../../dist/holdfast.js", import.meta.url));

/** Polls until the probe gives something, and fails loudly when it never does. */
export async function eventually<T>(
  what: string,
  probe: () => T | Promise<T>,
  limitMs = 10_000,
): Promise<NonNullable<T>> {
  const deadline = Date.now() + limitMs;
  for (;;) {
    const value = await probe();
    if (value) return value;
    if (Date.now() > deadline) throw new Error(`not within ${limitMs} ms: ${what}`);
    await pause(10);
  }
}

/** A directory of its own for one test. */
export function temporaryDir(): string {
  const path = mkdtempSync(join(tmpdir(), "holdfast-test-"));
  onTestFinished(() => rmSync(path, { recursive: true, force: true }));
  return path;
}

export interface Exit {
  readonly code: number | null;
  readonly signal: string | null;
}

export interface Running {
  readonly child: ChildProcess;
  readonly exited: Promise<Exit>;
  stdout: string;
  stderr: string;
}

/** Variables that it would warn of. */
const MISTAKEN = new Set<string>(SETTINGS.map(({ name }) => name));

/**
 * Runs the built command in an environment free of its own variables, with a limit of open files if one is given.
 * Whatever still runs after the test is killed.
 */
export function holdfast(
  args: readonly string[],
  env: Record<string, string> = {},
  { openFiles, cwd }: { readonly openFiles?: number | undefined; readonly cwd?: string | undefined } = {},
): Running {
  const clean = Object.entries(process.env).filter(
    ([name]) => !/^(DFLOCKD|HOLDFAST)_/.test(name) && !MISTAKEN.has(name),
  );
  const program = [process.execPath, command, ...args];
  const limited =
    openFiles === undefined ? program : ["sh", "-c", `ulimit -n ${openFiles}; exec "$@"`, "sh", ...program];
  const [file = "", ...rest] = limited;
  const child = spawn(file, rest, {
    env: { ...Object.fromEntries(clean), ...env },
    detached: true,
    stdio: ["ignore", "pipe", "pipe"],
    cwd,
  });
  const exited = new Promise<Exit>((resolve) => child.once("exit", (code, signal) => resolve({ code, signal })));
  const running: Running = { child, exited, stdout: "", stderr: "" };
  child.stdout.setEncoding("utf8").on("data", (text: string) => {
    running.stdout += text;
  });
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    running.stderr += text;
  });
  onTestFinished(async () => {
    child.kill("SIGTERM");
    const timer = setTimeout(() => child.kill("SIGKILL"), 4_000);
    await exited;
    clearTimeout(timer);
  });
  return running;
}

/** Runs the command to its end. */
export async function outcome(args: readonly string[], env: Record<string, string> = {}) {
  const running = holdfast(args, env);
  const timer = setTimeout(() => running.child.kill("SIGKILL"), 15_000);
  const { code, signal } = await running.exited;
  clearTimeout(timer);
  await eventually(
    "the end of its output",
    () => running.child.stdout?.readableEnded && running.child.stderr?.readableEnded,
  );
  return { code, signal, stdout: running.stdout, stderr: running.stderr };
}

export interface RunningServe extends Running {
  readonly port: number;
  readonly httpPort: number;
  readonly dataDir: string;
  readonly pid: number;
}

/** Starts `holdfast serve` on free ports and waits for its ready line. */
export async function startServe(
  options: {
    dataDir?: string;
    port?: number;
    httpPort?: number;
    args?: string[];
    env?: Record<string, string>;
    openFiles?: number;
    cwd?: string;
    /** `"default"`, or a number; there is none without it. */
    godistlockPort?: string;
  } = {},
): Promise<RunningServe> {
  const dataDir = options.dataDir ?? temporaryDir();
  const port = options.port ?? (await freePort());
  const httpPort = options.httpPort ?? (await freePort());
  const { godistlockPort = "0" } = options;
  const ports = ["--port", String(port), "--http-port", String(httpPort)];
  if (godistlockPort !== "default") ports.push("--godistlock-port", godistlockPort);
  const listeners = [...ports, "--data-dir", dataDir];
  const running = holdfast(["serve", ...listeners, ...(options.args ?? [])], options.env, options);
  await eventually("ready line or exit", () => running.stdout.includes("\n") || running.child.exitCode !== null);
  if (running.child.exitCode !== null) throw new Error(`serve ended: ${running.stderr}`);
  return Object.assign(running, { port, httpPort, dataDir, pid: running.child.pid ?? 0 });
}

/** Whether a process runs; the unreaped remains of one do not count. */
export function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
    const state = /^\d+ \(.*\) (\S)/s.exec(readFileSync(`/proc/${pid}/stat`, "utf8"))?.[1];
    return state !== "Z";
  } catch {
    return false;
  }
}

/** Every process of the machine, with its command line. */
export function* processes(): Generator<{ readonly pid: number; readonly args: readonly string[] }> {
  for (const name of readdirSync("/proc").filter((each) => /^[0-9]+$/.test(each))) {
    try {
      yield { pid: Number(name), args: readFileSync(`/proc/${name}/cmdline`, "utf8").split("\0").slice(0, -1) };
    } catch {
      // It has ended meanwhile.
    }
  }
}

/** A TCP client that remembers everything it was told. */
export class TcpClient {
  readonly socket: Socket;
  received = Buffer.alloc(0);
  hasEnded = false;
  isClosed = false;

  constructor(socket: Socket) {
    this.socket = socket;
    socket.on("data", (bytes: Buffer) => {
      this.received = Buffer.concat([this.received, bytes]);
    });
    socket.on("end", () => {
      this.hasEnded = true;
    });
    socket.on("close", () => {
      this.isClosed = true;
    });
    socket.on("error", () => {});
    onTestFinished(() => {
      socket.destroy();
    });
  }

  get text(): string {
    return this.received.toString("latin1");
  }

  static async open(port: number): Promise<TcpClient> {
    const socket = connect({ port, host: "127.0.0.1", allowHalfOpen: true });
    await new Promise((resolve, reject) => socket.once("connect", resolve).once("error", reject));
    return new TcpClient(socket);
  }
}

/** A WebSocket of the server on this port, once it is open. It ends with the test. */
export async function openWebSocket(port: number): Promise<WebSocket> {
  const ws = new WebSocket(`ws://127.0.0.1:${port}/v1/ws`);
  onTestFinished(() => ws.terminate());
  ws.on("error", () => {});
  await eventually("an open WebSocket", () => ws.readyState === WebSocket.OPEN);
  return ws;
}
