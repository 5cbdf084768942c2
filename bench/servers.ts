/** The servers of a benchmark, each in a process of its own, on free ports, with its data in a folder of the lab. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { Address } from "./load/channel.ts";

export const HOST = "127.0.0.1";
const pathOf = (path: string) => fileURLToPath(new URL(`../${path}`, import.meta.url));
/** As it is delivered; `npm run bench` builds it first. */
export const COMMAND = pathOf("dist/holdfast.js");
const WRANGLER_DEV = pathOf("scripts/dev.ts");
/** Sessions of REST clients that have to wait for their turn do not end meanwhile. */
const PATIENT = ["--http-session-idle", "3600"];

export interface Running {
  readonly pid: number;
  /** Ends it without warning. */
  kill(): Promise<void>;
}

export interface Holdfast extends Running {
  readonly tcp: Address;
  readonly http: Address;
  readonly url: string;
  /** From the start of the process to the line that says it is ready. */
  readonly readyMs: number;
}

export interface NodeOptions {
  /** A new one if it is not given. */
  readonly dataDir?: string;
  /** Free ones if they are not given. */
  readonly ports?: Ports;
  readonly flags?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
}

interface Ports {
  readonly tcp: number;
  readonly http: number;
}

/** Ends all its servers and removes their data. */
export class Lab implements AsyncDisposable {
  /** Below `TMPDIR`: on a memory disk, commits are free. */
  readonly folder = mkdtempSync(join(tmpdir(), "holdfast-bench-"));
  readonly #running: Running[] = [];
  #folders = 0;

  newFolder(): string {
    const folder = join(this.folder, String(this.#folders++));
    mkdirSync(folder);
    return folder;
  }

  /** `holdfast serve`. */
  async startNode({ dataDir, flags = [], ...options }: NodeOptions = {}): Promise<Holdfast> {
    const args = [COMMAND, "serve", "--data-dir", dataDir ?? this.newFolder(), ...PATIENT];
    return this.add(await startHoldfast([...args, "--godistlock-port", "0", ...flags], options));
  }

  /** `wrangler dev`: the Durable Objects in workerd, on this machine. */
  async startWorkerd(): Promise<Holdfast> {
    return this.add(
      await startHoldfast([WRANGLER_DEV, "--data-dir", this.newFolder(), ...PATIENT, "--godistlock-port", "0"]),
    );
  }

  add<R extends Running>(running: R): R {
    this.#running.push(running);
    return running;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.#running.map((each) => each.kill()));
    rmSync(this.folder, { recursive: true, force: true });
  }
}

async function startHoldfast(args: readonly string[], options: NodeOptions = {}): Promise<Holdfast> {
  const ports = options.ports ?? { tcp: await freePort(), http: await freePort() };
  const flags = ["--port", `${ports.tcp}`, "--http-port", `${ports.http}`];
  const startedAt = performance.now();
  const child = spawn(process.execPath, [...args, ...flags], {
    env: { ...process.env, ...options.env },
    stdio: ["ignore", "pipe", "inherit"],
  });
  await ready(child);
  return {
    tcp: { host: HOST, port: ports.tcp },
    http: { host: HOST, port: ports.http },
    url: `http://${HOST}:${ports.http}`,
    pid: child.pid ?? 0,
    readyMs: performance.now() - startedAt,
    // wrangler ends what it has started on SIGTERM only.
    kill: () => end(child, args.includes(WRANGLER_DEV) ? "SIGTERM" : "SIGKILL"),
  };
}

/** Reads on afterwards, so that the server never waits for a reader. */
function ready(child: ChildProcess): Promise<void> {
  return new Promise((resolve, reject) => {
    let output = "";
    child.stdout?.setEncoding("utf8").on("data", (text: string) => {
      if (output.includes(" ready")) return;
      output += text;
      if (output.includes(" ready")) resolve();
    });
    child.once("exit", () => reject(new Error(`the server did not start: ${output}`)));
  });
}

export async function end(child: ChildProcess, signal: NodeJS.Signals): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exited = once(child, "exit");
  child.kill(signal);
  await exited;
}

export async function freePort(): Promise<number> {
  const server = createServer().listen(0, HOST);
  await once(server, "listening");
  const { port } = server.address() as { port: number };
  server.close();
  await once(server, "close");
  return port;
}
