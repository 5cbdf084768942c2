import { fork } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import { startWorkerd } from "../src/front/workerd/process.ts";
import type { Address } from "./client.ts";
import { processesOf } from "./cpu.ts";
import type { Server } from "./measure.ts";
import { TRANSPORTS, type Transport } from "./options.ts";
import { type Peer, type RunningPeer, startPeer } from "./peers/peers.ts";
import type { Serving } from "./serve.ts";
import { startServer } from "./served.ts";
import { withoutWarnings } from "./server-log.ts";

const HOST = "127.0.0.1";

const pathOf = (name: string) => fileURLToPath(new URL(name, import.meta.url));

/** Workers on a workerd of their own, without a front door. */
export const WORKERS = {
  /** The service as it is delivered; `npm run bench` builds it first. */
  direct: { built: pathOf("../dist/worker.js") },
  floor: { source: pathOf("floor/worker.ts") },
  counted: { source: pathOf("floor/counted.ts") },
} as const;

type WorkerFile = { readonly built: string } | { readonly source: string };

export interface RunningServer extends Server {
  readonly addresses: Readonly<Record<Transport, Address>>;
  /** Ends it at once, with all its processes. */
  kill(): Promise<void>;
}

/** Everything that has to be gone at the end: processes and their data, all in one temporary folder. */
export class Lab {
  readonly #folder = mkdtempSync(join(tmpdir(), "holdfast-bench-"));
  readonly #running: Promise<{ kill(): Promise<void> }>[] = [];
  #isClosed = false;

  get folder(): string {
    return this.#folder;
  }

  /** Starts holdfast behind its front door, as `holdfast serve` does; with another built Worker if one is named. */
  startService(name = "holdfast", worker?: string): Promise<RunningServer> {
    return this.#keep(startBehindDoor(name, join(this.#folder, name), worker));
  }

  /** Starts a whole release as `holdfast serve` does: any version, from its folder. */
  startRelease(name: string, root: string): Promise<RunningServer> {
    return this.#keep(startRelease(name, root, join(this.#folder, name)));
  }

  /** Starts a Worker in a workerd of its own, on free ports and an empty disk. */
  async start(name: keyof typeof WORKERS, variables: Readonly<Record<string, string>> = {}): Promise<RunningServer> {
    const worker = await this.#bundle(name, WORKERS[name]);
    return this.#keep(startDirect(name, worker, mkdtempSync(join(this.#folder, `${name}-`)), variables));
  }

  /** Starts another lock server; undefined if it is not installed. */
  async startPeer(peer: Peer): Promise<RunningPeer | undefined> {
    const folder = join(this.#folder, peer.name.replace(/\W+/g, "-"));
    const running = await startPeer(peer, folder);
    return running && this.#keep(Promise.resolve(running));
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    for (const result of await Promise.allSettled(this.#running)) {
      if (result.status === "fulfilled") await result.value.kill();
    }
    rmSync(this.#folder, { recursive: true, force: true });
  }

  #keep<Kept extends { kill(): Promise<void> }>(starting: Promise<Kept>): Promise<Kept> {
    this.#running.push(starting);
    if (this.#isClosed) {
      void starting.then((server) => server.kill());
      throw new Error("the benchmark was stopped");
    }
    return starting;
  }

  async #bundle(name: string, worker: WorkerFile): Promise<string> {
    if ("built" in worker) return worker.built;
    const outfile = join(this.#folder, `${name}.js`);
    await build({
      entryPoints: [worker.source],
      outfile,
      bundle: true,
      format: "esm",
      target: "es2024",
      platform: "neutral",
      mainFields: ["module", "main"],
      conditions: ["workerd", "worker", "browser"],
      external: ["cloudflare:*", "node:*"],
    });
    return outfile;
  }
}

async function startBehindDoor(name: string, dataDir: string, worker?: string): Promise<RunningServer> {
  const args = worker === undefined ? [dataDir] : [dataDir, worker];
  const child = fork(pathOf("serve.ts"), args, { stdio: ["ignore", "inherit", "inherit", "ipc"] });
  const exited = new Promise<void>((resolve) => child.once("exit", () => resolve()));
  const serving = await Promise.race([once(child, "message"), exited]);
  if (!serving) throw new Error("holdfast did not start");
  const [{ tcpPort, httpPort, workerdPid }] = serving as [Serving];
  let isWanted = true;
  void exited.then(() => {
    if (isWanted) process.stderr.write("[holdfast] the front door ended by itself\n");
  });
  return {
    ...serverAt(name, tcpPort, httpPort),
    locksOver: TRANSPORTS,
    pids: [child.pid ?? 0, workerdPid],
    async kill() {
      isWanted = false;
      if (child.connected) child.disconnect();
      await exited;
    },
  };
}

async function startRelease(name: string, root: string, dataDir: string): Promise<RunningServer> {
  // Earlier versions do not know that flag, and know nothing of the variable.
  const variables = { DFLOCKD_GODISTLOCK_PORT: "0" };
  const server = await startServer(join(root, "dist/holdfast.js"), ["--data-dir", dataDir], variables);
  return {
    ...serverAt(name, server.port, server.httpPort),
    locksOver: TRANSPORTS,
    pids: processesOf(server.pid),
    kill: async () => server[Symbol.asyncDispose](),
  };
}

async function startDirect(
  name: string,
  worker: string,
  dataDir: string,
  variables: Readonly<Record<string, string>>,
): Promise<RunningServer> {
  const workerd = await startWorkerd({
    worker,
    dataDir,
    http: { host: HOST, port: 0 },
    tcp: { host: HOST, port: 0 },
    variables: { CLIENT_IP_HEADER: "", HTTP_SESSION_IDLE_S: "3600", ...variables },
    log: withoutWarnings((line) => process.stderr.write(`[${name}] ${line}`)),
  });
  let isWanted = true;
  void workerd.exited.then(({ code, signal }) => {
    if (isWanted) process.stderr.write(`[${name}] workerd ended by itself: ${signal ?? `exit code ${code}`}\n`);
  });
  return {
    ...serverAt(name, workerd.tcpPort, workerd.httpPort),
    locksOver: name === "floor" ? ["tcp", "ws"] : TRANSPORTS,
    pids: [workerd.pid],
    kill() {
      isWanted = false;
      return workerd.kill();
    },
  };
}

function serverAt(name: string, tcpPort: number, httpPort: number) {
  const http = { host: HOST, port: httpPort };
  return { name, addresses: { tcp: { host: HOST, port: tcpPort }, ws: http, rest: http } };
}
