import { type ChildProcess, spawn } from "node:child_process";
import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { resolve } from "node:path";
import { createInterface } from "node:readline";
import type { Readable } from "node:stream";
import { type Address, formatAddress } from "./addresses.ts";
import { objectsDir, pidFile, workerdConfigFile } from "./data-dir.ts";
import { Failure, reasonOf } from "./failure.ts";
import { workerdBinary } from "./package.ts";
import { environmentName, workerdConfig } from "./workerd-config.ts";

export interface WorkerdOptions {
  /** Path of the bundled Worker. */
  readonly worker: string;
  readonly dataDir: string;
  readonly host: string;
  /** Port of the raw TCP listener; 0 takes a free one. */
  readonly tcpPort: number;
  /** Where HTTP listens, if not on `host`. */
  readonly httpHost?: string;
  /** Port of the HTTP listener; 0 takes a free one. */
  readonly httpPort: number;
  /** Handed to the Worker as they are, unchecked. */
  readonly variables: Readonly<Record<string, string>>;
  readonly tls?: { readonly certPath: string; readonly keyPath: string } | undefined;
  /** Receives what workerd and the Worker log; the default is standard error. */
  readonly log?: (text: string) => void;
}

export interface WorkerdExit {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

export interface RunningWorkerd {
  readonly pid: number;
  readonly tcpPort: number;
  readonly httpPort: number;
  /** Resolves when the process is gone, for whatever reason. */
  readonly exited: Promise<WorkerdExit>;
  /** Ends the process politely, after `STOP_GRACE_MS` without mercy. Resolves when it is gone. */
  stop(): Promise<void>;
  /** Ends the process at once (SIGKILL). Safe: whatever a client was told is on disk. */
  kill(): Promise<void>;
}

const STOP_GRACE_MS = 1_000;
const START_LIMIT_MS = 15_000;

/**
 * Starts workerd and resolves once both listeners accept connections. Rejects with a one-line `Failure` otherwise, and
 * then nothing is left running. The process never outlives this one, even if this one is killed.
 */
export async function startWorkerd(options: WorkerdOptions): Promise<RunningWorkerd> {
  const addresses = {
    http: { host: options.httpHost ?? options.host, port: options.httpPort },
    dflockd: { host: options.host, port: options.tcpPort },
  };
  const variables = { CLIENT_IP_HEADER: "", ...options.variables };
  const child = spawn(workerdBinary(), ["serve", writeConfig(options, addresses, variables), "-I/", "--control-fd=3"], {
    // Its own process group: Ctrl-C reaches only the launcher, which then stops workerd in order.
    detached: true,
    stdio: ["ignore", "pipe", "pipe", "pipe"],
    env: Object.fromEntries(Object.entries(variables).map(([name, value]) => [environmentName(name), value])),
  });
  const exited = new Promise<WorkerdExit>((resolve) => {
    // "close", not "exit": by then its last words have been read as well.
    child.once("close", (code, signal) => resolve({ code, signal }));
    child.once("error", () => resolve({ code: null, signal: null }));
  });
  const { pid } = child;
  if (pid === undefined) throw new Failure(`cannot start workerd: ${await spawnError(child)}`);
  writeFileSync(pidFile(options.dataDir), `${pid}\n`, { mode: 0o600 });
  const guard = startGuard(pid);
  void exited.then(() => guard.stdin?.end("workerd is gone\n"));

  const log = options.log ?? ((text: string) => process.stderr.write(text));
  const output = collectOutput(child, log);
  const ports = await Promise.race([listening(child), exited, limit(START_LIMIT_MS)]);
  if (!ports || "code" in ports) {
    child.kill("SIGKILL");
    await exited;
    throw new Failure(ports ? explainStart(output.held(), addresses) : "workerd did not start in time");
  }
  output.passThrough();

  const kill = async () => {
    child.kill("SIGKILL");
    await exited;
  };
  return {
    pid,
    tcpPort: ports.dflockd,
    httpPort: ports.http,
    exited,
    kill,
    async stop() {
      child.kill("SIGTERM");
      const timer = setTimeout(kill, STOP_GRACE_MS);
      await exited;
      clearTimeout(timer);
    },
  };
}

type SocketName = "http" | "dflockd";

function writeConfig(
  { worker, dataDir, tls }: WorkerdOptions,
  { http, dflockd }: Record<SocketName, Address>,
  variables: Readonly<Record<string, string>>,
): string {
  const storage = objectsDir(dataDir);
  try {
    mkdirSync(storage, { recursive: true, mode: 0o700 });
    const path = workerdConfigFile(dataDir);
    rmSync(path, { force: true });
    const layout = { worker: resolve(worker), storage, tcp: dflockd, http, variables: Object.keys(variables), tls };
    writeFileSync(path, workerdConfig(layout), { mode: 0o600 });
    return path;
  } catch (error) {
    throw new Failure(`cannot write to data directory ${dataDir}: ${reasonOf(error)}`);
  }
}

/** A process that kills workerd when this one is gone without saying so (kill -9): its standard input then ends. */
function startGuard(pid: number): ChildProcess {
  const guard = spawn("sh", ["-c", 'read -r _ || kill -9 "$0"', String(pid)], {
    detached: true,
    stdio: ["pipe", "ignore", "ignore"],
  });
  guard.on("error", () =>
    process.stderr.write("holdfast: no `sh` here: workerd would survive a kill -9 of holdfast\n"),
  );
  guard.stdin?.on("error", () => {
    // The guard is gone already; there is nothing left to tell it.
  });
  guard.unref();
  return guard;
}

function spawnError(child: ChildProcess): Promise<string> {
  return new Promise((resolve) => child.once("error", (error) => resolve(reasonOf(error))));
}

/** Resolves with the ports of both sockets once workerd has announced them. */
function listening(child: ChildProcess): Promise<Record<SocketName, number>> {
  const ports = new Map<string, number>();
  return new Promise((resolve) => {
    createInterface({ input: child.stdio[3] as Readable }).on("line", (line) => {
      const message = JSON.parse(line) as { event: string; socket: string; port: number };
      if (message.event === "listen") ports.set(message.socket, message.port);
      const http = ports.get("http");
      const dflockd = ports.get("dflockd");
      if (http !== undefined && dflockd !== undefined) resolve({ http, dflockd });
    });
  });
}

function limit(ms: number): Promise<undefined> {
  return new Promise((resolve) => setTimeout(resolve, ms, undefined).unref());
}

/** Keeps what workerd says until it is known whether that is a log or the reason of a failed start. */
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

/** One line for a person out of workerd's complaints. */
function explainStart(output: string, addresses: Record<SocketName, Address>): string {
  const lines = output.split("\n").filter((line) => line.trim() !== "" && !line.includes(": warning: "));
  const first = lines.find((line) => line.startsWith("Socket ")) ?? lines[0] ?? "no reason given";
  const [, socket, reason = ""] = /^Socket "(http|dflockd)": (.*)$/.exec(first) ?? [];
  if (socket === undefined) return `workerd did not start: ${first}`;
  const address = addresses[socket as SocketName];
  if (reason.includes("Address already in use")) return `port ${address.port} on ${address.host} is already in use`;
  const cause = reason.replace(/^[a-z]+\(\): /, "").replace(/ \(os error \d+\)$/, "");
  return `cannot listen on ${formatAddress(address)}: ${cause}`;
}
