/** Starts the Cloudflare host: the Worker on a workerd of its own, on free ports and with storage of its own. */
import { rmSync } from "node:fs";
import { inject } from "vitest";
import { freePort } from "../cli/support.ts";
import { poll, sleep } from "./poll.ts";
import { isHealthy, type ServerOptions, START_DEADLINE_MS, type TestServer } from "./server.ts";
import { storageFolder } from "./storage.ts";
import { type Neighbour, type RunningWorkerd, startWorkerd } from "./workerd.ts";

export interface WorkerOptions extends ServerOptions {
  /** Other Workers in the same process, with bindings to this one. */
  readonly neighbours?: readonly Neighbour[];
}

export interface TestWorker extends TestServer {
  /** The HTTP port of a neighbour. */
  portOf(neighbour: string): number;
}

export async function startWorker(options: WorkerOptions = {}): Promise<TestWorker> {
  const dataDir = storageFolder();
  const variables: Record<string, string> = { ...options.variables };
  const hasRelay = options.hasRelay === true || options.relayPort !== undefined;
  let log = "";

  const start = async (): Promise<RunningWorkerd> => {
    // The port that a TCP client came to decides what is spoken there, so the Worker has to know them.
    const godistlock = await freePort();
    const relay = hasRelay ? (options.relayPort ?? (await freePort())) : 0;
    const workerd = await startWorkerd({
      worker: inject("worker"),
      storage: dataDir,
      variables: { GODISTLOCK_PORT: String(godistlock), RELAY_PORT: String(relay), ...variables },
      tcp: { dflockd: 0, godistlock, ...(hasRelay && { relay }) },
      neighbours: options.neighbours,
      log: (text) => {
        log += text;
      },
    }).catch((error: unknown) => {
      // Between their choice and their use, another process may have taken a port.
      if (options.relayPort === undefined && String(error).includes("Address already in use")) return start();
      throw error;
    });
    await poll("the Worker to answer /health", START_DEADLINE_MS, () => isHealthy(workerd.ports.http ?? 0));
    return workerd;
  };
  let current = await start().catch((error: unknown) => {
    rmSync(dataDir, { recursive: true, force: true });
    throw error;
  });
  let isRunning = true;

  const kill9 = async () => {
    if (isRunning) await current.kill();
    isRunning = false;
  };
  const stop = async () => {
    await kill9();
    rmSync(dataDir, { recursive: true, force: true });
  };
  return {
    dataDir,
    get tcpPort() {
      return current.ports.dflockd ?? 0;
    },
    get httpPort() {
      return current.ports.http ?? 0;
    },
    get relayPort() {
      return current.ports.relay ?? 0;
    },
    get godistlockPort() {
      return current.ports.godistlock ?? 0;
    },
    portOf: (neighbour) => current.ports[neighbour] ?? 0,
    get pid() {
      return current.pid;
    },
    get log() {
      return log;
    },
    async stall(seconds) {
      process.kill(current.pid, "SIGSTOP");
      await sleep(seconds);
      process.kill(current.pid, "SIGCONT");
    },
    kill9,
    async restart(added = {}) {
      await kill9();
      Object.assign(variables, added);
      current = await start();
      isRunning = true;
    },
    stop,
    [Symbol.asyncDispose]: stop,
  };
}
