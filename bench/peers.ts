/** Other lock servers, if they are installed. */
import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { accessSync, constants } from "node:fs";
import { connect } from "node:net";
import { delimiter, join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import type { Address } from "./load/channel.ts";
import type { Transport } from "./load/client.ts";
import { end, freePort, HOST, type Running } from "./servers.ts";

const STARTS_WITHIN_MS = 15_000;

export interface Peer {
  readonly name: string;
  readonly program: string;
  /** What a grant means there. */
  readonly promise: string;
  /** Whether a grant is on disk before it is told. */
  readonly isDurable: boolean;
  version(output: string): string | undefined;
  arguments(port: number, folder: string, otherPort: number): string[];
  readonly transport: Transport;
}

const REDIS = {
  program: "redis-server",
  version: (output: string) => /v=(\S+)/.exec(output)?.[1],
  transport: "redis",
} as const;

const redisArguments = (port: number, folder: string) => ["--port", `${port}`, "--bind", HOST, "--dir", folder];

const DFLOCKD: Peer = {
  name: "dflockd",
  program: "dflockd",
  promise: "in memory: a crash forgets it; a queue; a fence",
  isDurable: false,
  version: (output) => /(\d+\.\d+\.\d+)/.exec(output)?.[1],
  // It takes 1,024 keys otherwise.
  arguments: (port) => ["--host", HOST, "--port", `${port}`, "--max-locks", "1000000"],
  transport: "tcp",
};

export const PEERS: readonly Peer[] = [
  {
    ...REDIS,
    name: "Redis, fsync always",
    promise: "on disk before the reply (`appendonly yes`, `appendfsync always`); no queue: clients poll; no fence",
    isDurable: true,
    arguments: (port, folder) => [...redisArguments(port, folder), "--appendonly", "yes", "--appendfsync", "always"],
  },
  {
    name: "etcd",
    program: "etcd",
    promise: "on disk before the reply, here of one node instead of a majority; a queue; the revision is a fence",
    isDurable: true,
    version: (output) => /etcd Version: (\S+)/.exec(output)?.[1],
    arguments: (port, folder, peerPort) => {
      const [client, peer] = [`http://${HOST}:${port}`, `http://${HOST}:${peerPort}`];
      return [
        ...["--data-dir", folder, "--log-level", "error", "--initial-cluster", `default=${peer}`],
        ...["--listen-client-urls", client, "--advertise-client-urls", client],
        ...["--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer],
      ];
    },
    transport: "etcd",
  },
  {
    ...REDIS,
    name: "Redis, default",
    promise: "in memory: a crash may forget it and grant it again; no queue: clients poll; no fence",
    isDurable: false,
    arguments: redisArguments,
  },
  DFLOCKD,
];

/** The program's path, or undefined if it is not installed. */
export function whereIs(program: string, path = process.env.PATH ?? ""): string | undefined {
  return path
    .split(delimiter)
    .map((folder) => join(folder, program))
    .find((file) => {
      try {
        accessSync(file, constants.X_OK);
        return true;
      } catch {
        return false;
      }
    });
}

export interface RunningPeer extends Running {
  readonly address: Address;
  readonly version: string;
}

/** Starts a peer with its data in the folder; undefined if it is not installed. */
export async function startPeer(peer: Peer, folder: string): Promise<RunningPeer | undefined> {
  const program = whereIs(peer.program);
  if (!program) return undefined;
  const address = { host: HOST, port: await freePort() };
  const child = spawn(program, peer.arguments(address.port, folder, await freePort()), { stdio: "ignore" });
  const kill = () => end(child, "SIGKILL");
  try {
    await answers(address, () => child.exitCode !== null);
  } catch (error) {
    await kill();
    throw new Error(`${peer.name} did not start: ${(error as Error).message}`);
  }
  return { address, pid: child.pid ?? 0, version: versionOf(peer, program), kill };
}

function versionOf(peer: Peer, program: string): string {
  try {
    return peer.version(execFileSync(program, ["--version"], { encoding: "utf8" })) ?? "unknown version";
  } catch {
    return "unknown version";
  }
}

async function answers({ host, port }: Address, isOver: () => boolean): Promise<void> {
  for (const until = performance.now() + STARTS_WITHIN_MS; performance.now() < until && !isOver(); ) {
    const socket = connect({ host, port });
    const isOpen = await once(socket, "connect").then(
      () => true,
      () => false,
    );
    socket.destroy();
    if (isOpen) return;
    await pause(50);
  }
  throw new Error(isOver() ? "it ended at once" : "it does not answer");
}
