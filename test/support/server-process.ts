/** Starts `holdfast serve`, as built, in a process of its own: for tests about memory, `kill -9` and servers that stand still. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { freePort } from "./free-port.ts";
import { poll } from "./poll.ts";
import type { TestServer } from "./server.ts";

const COMMAND = fileURLToPath(new URL("../../dist/holdfast.js", import.meta.url));
const START_DEADLINE_MS = 20_000;

export interface ServerProcess extends Omit<TestServer, "relayPort"> {
  /** Stands still, as a machine that is asleep does, until it is told to go on. */
  freeze(): void;
  thaw(): void;
}

/** Its ports stay the same over restarts. Variables are given without `DFLOCKD_`. */
export async function startServerProcess(variables: Readonly<Record<string, string>> = {}): Promise<ServerProcess> {
  const dataDir = await mkdtemp(join(tmpdir(), "holdfast-test-"));
  const [tcpPort, httpPort, godistlockPort] = [await freePort(), await freePort(), await freePort()];
  const settings: Record<string, string> = { ...variables };
  let log = "";
  let child: ChildProcess | undefined;

  const start = async () => {
    const ports = { port: tcpPort, "http-port": httpPort, "godistlock-port": godistlockPort };
    const flags = Object.entries(ports).flatMap(([name, port]) => [`--${name}`, String(port)]);
    const own = Object.entries(process.env).filter(([name]) => !/^(DFLOCKD|HOLDFAST)_/.test(name));
    const env = Object.entries(settings).map(([name, value]) => [`DFLOCKD_${name}`, value]);
    const started = spawn(process.execPath, [COMMAND, "serve", ...flags, "--data-dir", dataDir], {
      env: Object.fromEntries([...own, ...env]),
      stdio: ["ignore", "pipe", "pipe"],
    });
    child = started;
    let isReady = false;
    started.stdout.on("data", () => {
      isReady = true;
    });
    started.stderr.setEncoding("utf8").on("data", (text: string) => {
      log += text;
    });
    await poll("the server to be ready", START_DEADLINE_MS, async () => {
      if (started.exitCode !== null || started.signalCode !== null) throw new Error(`the server has ended: ${log}`);
      return isReady || undefined;
    });
  };
  const end = async (signal: NodeJS.Signals) => {
    const ending = child;
    child = undefined;
    if (!ending || ending.exitCode !== null || ending.signalCode !== null) return;
    const ended = once(ending, "exit");
    ending.kill(signal);
    await ended;
  };
  const stop = async () => {
    await end("SIGKILL");
    await rm(dataDir, { recursive: true, force: true });
  };
  await start();
  return {
    dataDir,
    tcpPort,
    httpPort,
    godistlockPort,
    get pid() {
      return child?.pid ?? 0;
    },
    get log() {
      return log;
    },
    async stall(seconds) {
      child?.kill("SIGSTOP");
      await sleep(seconds * 1000);
      child?.kill("SIGCONT");
    },
    kill9: () => end("SIGKILL"),
    async restart(added = {}) {
      await end("SIGKILL");
      Object.assign(settings, added);
      await start();
    },
    freeze: () => void child?.kill("SIGSTOP"),
    thaw: () => void child?.kill("SIGCONT"),
    stop,
    [Symbol.asyncDispose]: stop,
  };
}
