/** Who takes part: holdfast on both of its hosts, and its peers. */
import type { Contender, Workload } from "./cycles.ts";
import { PEERS, startPeer } from "./peers.ts";
import type { Lab } from "./servers.ts";

/** What all others are compared with. */
export const ON_DISK = "holdfast (Node, on disk)";
export const IN_MEMORY = "holdfast (Node, in memory)";
export const SIMULATOR = "holdfast (Cloudflare, local simulator)";
export const WEBSOCKET = `${ON_DISK}, WebSocket`;
export const REST = `${ON_DISK}, REST`;
export const REDIS = "Redis, fsync always";
export const ETCD = "etcd";
export const DFLOCKD = "dflockd";

/** A server as the report describes it. */
export interface ServerNote {
  readonly name: string;
  /** What a grant means there. */
  readonly promise: string;
  readonly isDurable: boolean;
  /** Undefined if it is not installed. */
  readonly version: string | undefined;
}

const always = () => true;
const wheneverOthersDiffer = ({ pattern, clients }: Workload) => clients === 50 || pattern === "hot";
/** The simulator is there to be looked at, not to be compared: the usual cases will do. */
const someCases = ({ pattern, clients }: Workload) => pattern !== "hot" || clients > 1;

export interface Field {
  readonly contenders: readonly Contender[];
  readonly servers: readonly ServerNote[];
}

/** Starts them all, or only those on which a goal depends. */
export async function startField(lab: Lab, version: string, isForGoals: boolean): Promise<Field> {
  const contenders: Contender[] = [];
  const servers: ServerNote[] = [];
  const disk = await lab.startNode();
  const onDisk = { pid: disk.pid, isDurable: true };
  contenders.push({ ...onDisk, label: ON_DISK, transport: "tcp", address: disk.tcp, takes: always });
  servers.push({ name: ON_DISK, version, isDurable: true, promise: "on disk before the reply; a queue; a fence" });
  for (const peer of PEERS) {
    if (isForGoals && !([REDIS, ETCD, DFLOCKD] as string[]).includes(peer.name)) continue;
    const running = await startPeer(peer, lab.newFolder());
    servers.push({ ...peer, version: running?.version });
    if (!running) continue;
    const { name: label, transport, isDurable } = peer;
    contenders.push({ ...lab.add(running), label, transport, isDurable, takes: always });
  }
  const memory = await lab.startNode({ dataDir: ":memory:" });
  const inMemory = { pid: memory.pid, isDurable: false };
  contenders.push({ ...inMemory, label: IN_MEMORY, transport: "tcp", address: memory.tcp, takes: always });
  servers.push({
    name: IN_MEMORY,
    version,
    isDurable: false,
    promise: "in memory: a crash forgets it; a queue; a fence",
  });
  const others = { ...onDisk, address: disk.http, takes: wheneverOthersDiffer };
  contenders.push({ ...others, label: WEBSOCKET, transport: "ws" }, { ...others, label: REST, transport: "rest" });
  if (isForGoals) return { contenders, servers };
  const simulator = await lab.startWorkerd();
  const { pid, tcp: address } = simulator;
  contenders.push({ label: SIMULATOR, pid, address, transport: "tcp", isDurable: true, takes: someCases });
  const promise =
    "on disk before the reply; a queue; a fence. `wrangler dev` on this machine: it shows that the Worker works, not how fast it is on Cloudflare";
  servers.push({ name: SIMULATOR, version, isDurable: true, promise });
  return { contenders, servers };
}
