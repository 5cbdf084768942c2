/** Starts the Node host in this process, on free ports and a data directory of its own. */
import { readFile, rm } from "node:fs/promises";
import { serve } from "../../src/node/index.ts";
import { poll } from "./poll.ts";
import { storageFolder } from "./storage.ts";

export const START_DEADLINE_MS = 20_000;

export interface ServerOptions {
  readonly variables?: Readonly<Record<string, string>>;
  /** With a port for relays: this one, or any free one. */
  readonly relayPort?: number;
  readonly hasRelay?: boolean;
}

export interface TestServer extends AsyncDisposable {
  readonly tcpPort: number;
  readonly httpPort: number;
  /** 0 if there is none. */
  readonly relayPort: number;
  readonly godistlockPort: number;
  readonly dataDir: string;
  /** The process id of the server. On Node that is the test's own process. */
  readonly pid: number;
  /** The server stands still for a while, as on a machine that is overloaded or asleep. */
  stall(seconds: number): Promise<void>;
  /** Ends the server as a crash would: whatever has not been stored is lost, and no client is told. */
  kill9(): Promise<void>;
  /** Everything the server has logged so far. */
  readonly log: string;
  /** Starts again on the same storage (the ports may be others), with variables added; kills first if still running. */
  restart(variables?: Readonly<Record<string, string>>): Promise<void>;
  /** Stops the server and removes its data. */
  stop(): Promise<void>;
}

export async function startServer(options: ServerOptions = {}): Promise<TestServer> {
  const dataDir = storageFolder();
  const variables: Record<string, string> = { ...options.variables };
  const hasRelay = options.hasRelay === true || options.relayPort !== undefined;
  let log = "";

  const start = async () => {
    const started = await serve({
      dataDir,
      tcp: { host: "127.0.0.1", port: 0 },
      http: { host: "127.0.0.1", port: 0 },
      godistlock: { host: "127.0.0.1", port: 0 },
      relay: hasRelay ? { host: "127.0.0.1", port: options.relayPort ?? 0 } : undefined,
      variables,
      log: (text) => {
        log += text;
      },
    });
    await poll("the server to answer /health", START_DEADLINE_MS, () => isHealthy(started.httpPort));
    return started;
  };
  let current = await start().catch(async (error: unknown) => {
    await rm(dataDir, { recursive: true, force: true });
    throw error;
  });
  let isRunning = true;

  const kill9 = async () => {
    if (isRunning) await current.kill();
    isRunning = false;
  };
  const stop = async () => {
    if (isRunning) await current.stop();
    isRunning = false;
    await rm(dataDir, { recursive: true, force: true });
  };
  return {
    dataDir,
    get tcpPort() {
      return current.tcpPort;
    },
    get httpPort() {
      return current.httpPort;
    },
    get relayPort() {
      return current.relayPort;
    },
    get godistlockPort() {
      return current.godistlockPort;
    },
    get pid() {
      return process.pid;
    },
    async stall(seconds) {
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, seconds * 1000);
    },
    get log() {
      return log;
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

/** Resident memory of a process in bytes. */
export async function residentBytes(pid: number): Promise<number> {
  const match = /^VmRSS:\s+([0-9]+) kB$/m.exec(await readFile(`/proc/${pid}/status`, "utf8"));
  if (!match) throw new Error(`no resident memory shown for process ${pid}`);
  return Number(match[1]) * 1024;
}

export async function isHealthy(httpPort: number): Promise<true | undefined> {
  const response = await fetch(`http://127.0.0.1:${httpPort}/health`).catch(() => undefined);
  await response?.arrayBuffer();
  return response?.ok ? true : undefined;
}
