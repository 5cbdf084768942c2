import type { ChildProcess } from "node:child_process";
import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { resolve } from "node:path";
import { createInterface } from "node:readline";
import type { Readable } from "node:stream";
import type { Address } from "../../node/listeners/addresses.ts";
import { Failure, reasonOf } from "../../node/listeners/failure.ts";
import { workerdBinary } from "../system/package.ts";
import { environmentName, type Listen, workerdConfig } from "./config.ts";
import { objectsDir, pidFile, workerdConfigFile } from "./data-dir.ts";
import { CONTROL_FD, guardedPid, spawnGuarded } from "./guard.ts";

export interface WorkerdOptions {
  /** Path of the bundled Worker. */
  readonly worker: string;
  readonly dataDir: string;
  /** Where workerd accepts HTTP and WebSockets; port 0 picks a free port. */
  readonly http: Listen;
  /** Raw TCP without a front door, for benchmarks. */
  readonly tcp?: Address;
  /** Passed to the Worker as they are, unchecked. */
  readonly variables: Readonly<Record<string, string>>;
  /** A descriptor that workerd holds as long as it lives. */
  readonly lock?: number;
  /** Receives the logs of workerd and the Worker; the default is standard error. */
  readonly log?: (text: string) => void;
}

export interface WorkerdExit {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

export interface RunningWorkerd {
  readonly pid: number;
  /** Where workerd accepts HTTP and WebSockets. */
  readonly http: Listen;
  /** 0 for a Unix socket. */
  readonly httpPort: number;
  readonly tcpPort: number;
  /** Resolves when the process has ended, for whatever reason. */
  readonly exited: Promise<WorkerdExit>;
  /** Ends the process with SIGTERM, and with SIGKILL after `STOP_GRACE_MS`. Resolves when it has ended. */
  stop(): Promise<void>;
  /** Ends the process immediately (SIGKILL). Safe: everything a client was told is on disk. */
  kill(): Promise<void>;
}

interface Ports {
  readonly http: number;
  readonly tcp: number;
}

const STOP_GRACE_MS = 1_000;
const START_LIMIT_MS = 15_000;

/**
 * Starts workerd and resolves once it accepts connections. Otherwise rejects with a one-line `Failure`, leaving nothing
 * running. The process never outlives this one, even if this one is killed.
 */
export async function startWorkerd(options: WorkerdOptions): Promise<RunningWorkerd> {
  const guard = spawnGuarded({
    command: [workerdBinary(), "serve", writeConfig(options), "-I/", `--control-fd=${CONTROL_FD}`],
    env: Object.fromEntries(Object.entries(options.variables).map(([name, value]) => [environmentName(name), value])),
    pidFile: pidFile(options.dataDir),
    lock: options.lock,
  });
  const exited = new Promise<WorkerdExit>((resolve) => {
    // "close", not "exit": by then all output has been read as well.
    guard.once("close", (code, signal) => resolve({ code, signal }));
    guard.once("error", () => resolve({ code: null, signal: null }));
  });
  const failed = new Promise<string>((resolve) => guard.once("error", (error) => resolve(reasonOf(error))));
  // A failed write to the guard needs no handling: its exit is handled.
  guard.stdin?.on("error", () => {});
  const output = collectOutput(guard, options.log ?? ((text) => process.stderr.write(text)));
  const announced = listening(guard, options.tcp ? ["http", "tcp"] : ["http"]);
  const pid = await guardedPid(guard);
  if (pid === undefined) throw new Failure(`cannot start workerd: ${await Promise.race([failed, limit(100)])}`);
  guard.once("exit", (_, signal) => {
    // The guard itself was killed, which leaves workerd unguarded.
    if (signal !== null) killQuietly(pid, "SIGKILL");
  });

  const ports = await Promise.race([announced, exited, limit(START_LIMIT_MS)]);
  if (!ports || "code" in ports) {
    killQuietly(pid, "SIGKILL");
    await exited;
    throw new Failure(ports ? explainStart(output.held()) : "workerd did not start in time");
  }
  output.passThrough();
  let isGone = false;
  void exited.then(() => {
    isGone = true;
  });
  const kill = async () => {
    if (!isGone) killQuietly(pid, "SIGKILL");
    await exited;
  };
  return {
    pid,
    http: "path" in options.http ? options.http : { host: options.http.host, port: ports.http },
    httpPort: ports.http,
    tcpPort: ports.tcp,
    exited,
    kill,
    async stop() {
      if (!isGone) killQuietly(pid, "SIGTERM");
      const timer = setTimeout(kill, STOP_GRACE_MS);
      await exited;
      clearTimeout(timer);
    },
  };
}

function killQuietly(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch {
    // It has already exited.
  }
}

function writeConfig({ worker, dataDir, http, tcp, variables }: WorkerdOptions): string {
  const storage = objectsDir(dataDir);
  try {
    mkdirSync(storage, { recursive: true, mode: 0o700 });
    const path = workerdConfigFile(dataDir);
    rmSync(path, { force: true });
    // The socket of a killed workerd is still there and would be in the way.
    if ("path" in http) rmSync(http.path, { force: true });
    const reachesPeers = variables.RELAY_PEERS !== undefined;
    const layout = { worker: resolve(worker), storage, http, tcp, reachesPeers, variables: Object.keys(variables) };
    writeFileSync(path, workerdConfig(layout), { mode: 0o600 });
    return path;
  } catch (error) {
    throw new Failure(`cannot write to data directory ${dataDir}: ${reasonOf(error)}`);
  }
}

/** Resolves with the ports of these sockets once workerd has announced them all; a Unix socket has port 0. */
function listening(guard: ChildProcess, names: readonly string[]): Promise<Ports> {
  const ports: Record<string, number> = {};
  return new Promise((resolve) => {
    createInterface({ input: guard.stdio[CONTROL_FD] as Readable }).on("line", (line) => {
      const message = JSON.parse(line) as { event: string; socket: string; port: number };
      if (message.event === "listen") ports[message.socket] = message.port;
      if (names.every((name) => name in ports)) resolve({ http: ports.http ?? 0, tcp: ports.tcp ?? 0 });
    });
  });
}

function limit(ms: number): Promise<undefined> {
  return new Promise((resolve) => setTimeout(resolve, ms, undefined).unref());
}

/** Holds back workerd's output until it is known whether it is a log or the reason of a failed start. */
function collectOutput(child: ChildProcess, log: (text: string) => void) {
  let held: string[] | undefined = [];
  for (const stream of [child.stdout, child.stderr]) {
    stream?.setEncoding("utf8").on("data", (text: string) => (held ? held.push(text) : log(text)));
  }
  return {
    held: () => (held ?? []).join(""),
    passThrough() {
      for (const text of held ?? []) log(text);
      held = undefined;
    },
  };
}

/** Summarises workerd's errors in one line. */
function explainStart(output: string): string {
  const lines = output.split("\n").filter((line) => line.trim() !== "" && !line.includes(": warning: "));
  return `workerd did not start: ${lines.find((line) => line.startsWith("Socket ")) ?? lines[0] ?? "no reason given"}`;
}
