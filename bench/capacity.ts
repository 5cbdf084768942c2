/** What the Node host takes: connections a second, memory, time to start, and a crash with thousands of clients. */
import { setTimeout as pause } from "node:timers/promises";
import { openTcp } from "./load/client.ts";
import { Load } from "./load/load.ts";
import { residentBytes } from "./machine.ts";
import type { Holdfast, Lab } from "./servers.ts";

export interface Capacity {
  /** Clients a second that connect and have a first answer. */
  readonly connectsPerSecond: { readonly tcp: number; readonly ws: number };
  /** Resident memory of the server for each connection that does nothing. */
  readonly bytesPerConnection: { readonly tcp: number; readonly ws: number };
  /** Resident memory of a server that has nothing to do. */
  readonly idleBytes: number;
  /** Resident memory for each key that is held. */
  readonly bytesPerHeldKey: number;
  /** How long a server with that many held keys takes for a report. */
  readonly reportMs: { readonly keys: number; readonly metrics: number; readonly stats: number };
  /** From the start of the process to its first answer. */
  readonly startMs: { readonly empty: number; readonly withHeldKeys: number };
  readonly comeBack: ComeBack;
}

/** Clients with a lock or a place in a queue, whose server was killed and started again. */
export interface ComeBack {
  readonly clients: number;
  readonly back: number;
  /** From the kill until half of them, and all of them, had their sessions again. */
  readonly halfMs: number;
  readonly allMs: number;
  readonly lost: number;
}

export const HELD_KEYS_AT_START = 20_000;
export const RETURNING = { holders: 4_000, waiters: 1_000 };
const CONNECTIONS = 5_000;
const AT_ONCE = 64;
const TRIES = 3;
const HELD_KEYS = 100_000;
const HOLDING_CONNECTIONS = 50;
const LEASE_SECONDS = 3_600;
/** V8 gives memory back when nothing happens for a while. */
const SETTLE_MS = 4_000;
const DOWN_MS = 1_000;
const PATIENCE_MS = 60_000;

export async function measureCapacity(lab: Lab, say: (line: string) => void): Promise<Capacity> {
  say("start-up");
  const startMs = { empty: await startEmpty(lab), withHeldKeys: await startWithHeldKeys(lab) };
  say("connections");
  const tcp = await measureConnections(lab, "tcp");
  const ws = await measureConnections(lab, "ws");
  say("held keys");
  const { idleBytes, bytesPerHeldKey, reportMs } = await measureHeldKeys(lab);
  say("a crash");
  const comeBack = await measureComeBack(lab);
  return {
    connectsPerSecond: { tcp: tcp.perSecond, ws: ws.perSecond },
    bytesPerConnection: { tcp: tcp.bytes, ws: ws.bytes },
    idleBytes,
    bytesPerHeldKey,
    reportMs,
    startMs,
    comeBack,
  };
}

const median = (values: readonly number[]) => values.toSorted((a, b) => a - b)[values.length >> 1] ?? Number.NaN;

/** Memory after a rest; the least that was seen, because garbage comes and goes. */
async function settledBytes({ pid }: Holdfast): Promise<number> {
  let least = Number.POSITIVE_INFINITY;
  for (const until = performance.now() + SETTLE_MS; performance.now() < until; await pause(500)) {
    least = Math.min(least, residentBytes(pid));
  }
  return least;
}

/** From the start of the process to the answer of a ping. */
async function firstAnswerMs(lab: Lab, dataDir: string): Promise<number> {
  const server = await lab.startNode({ dataDir });
  const askedAt = performance.now();
  const channel = await openTcp(server.tcp);
  await channel.asked("ping\n_\n_\n");
  const ms = server.readyMs + performance.now() - askedAt;
  channel.close();
  await server.kill();
  return ms;
}

async function startEmpty(lab: Lab): Promise<number> {
  const times: number[] = [];
  for (let round = 0; round < TRIES; round++) times.push(await firstAnswerMs(lab, lab.newFolder()));
  return median(times);
}

async function startWithHeldKeys(lab: Lab): Promise<number> {
  const dataDir = lab.newFolder();
  const server = await lab.startNode({ dataDir });
  await using load = new Load();
  await hold(load, server, HELD_KEYS_AT_START);
  await server.kill();
  const times: number[] = [];
  for (let round = 0; round < TRIES; round++) times.push(await firstAnswerMs(lab, dataDir));
  return median(times);
}

const hold = (load: Load, { tcp: address }: Holdfast, keys: number) =>
  load.run({ work: "hold", address, keys, connections: HOLDING_CONNECTIONS, leaseSeconds: LEASE_SECONDS });

async function measureConnections(lab: Lab, transport: "tcp" | "ws") {
  const rates: number[] = [];
  const bytes: number[] = [];
  for (let round = 0; round < TRIES; round++) {
    const server = await lab.startNode();
    const before = await settledBytes(server);
    await using load = new Load();
    const address = transport === "tcp" ? server.tcp : server.http;
    const { seconds } = await load.run({ work: "connect", transport, address, count: CONNECTIONS, atOnce: AT_ONCE });
    rates.push(CONNECTIONS / seconds);
    bytes.push(((await settledBytes(server)) - before) / CONNECTIONS);
    await server.kill();
  }
  return { perSecond: median(rates), bytes: median(bytes) };
}

async function measureHeldKeys(lab: Lab) {
  const server = await lab.startNode();
  const idleBytes = await settledBytes(server);
  await using load = new Load();
  await hold(load, server, HELD_KEYS);
  const bytesPerHeldKey = ((await settledBytes(server)) - idleBytes) / HELD_KEYS;
  const reportMs = {
    keys: HELD_KEYS,
    metrics: await timeToGet(`${server.url}/metrics`),
    stats: await timeToGet(`${server.url}/v1/stats`),
  };
  await server.kill();
  return { idleBytes, bytesPerHeldKey, reportMs };
}

async function timeToGet(url: string): Promise<number> {
  const times: number[] = [];
  for (let round = 0; round < TRIES; round++) {
    const askedAt = performance.now();
    const reply = await fetch(url);
    await reply.arrayBuffer();
    if (reply.status !== 200) throw new Error(`${url} was answered ${reply.status}`);
    times.push(performance.now() - askedAt);
  }
  return median(times);
}

async function measureComeBack(lab: Lab): Promise<ComeBack> {
  const dataDir = lab.newFolder();
  let server = await lab.startNode({ dataDir });
  await using load = new Load();
  await load.run({ work: "join", url: server.url, ...RETURNING, atOnce: AT_ONCE });
  const returned = load.run({ work: "return", patienceMs: PATIENCE_MS });
  await pause(DOWN_MS);
  const killedAt = Date.now();
  const { tcp, http } = server;
  await server.kill();
  await pause(DOWN_MS);
  server = await lab.startNode({ dataDir, ports: { tcp: tcp.port, http: http.port } });
  const { backAt, lost, held } = await returned;
  await server.kill();
  const times = backAt.map((at) => at - killedAt).sort((a, b) => a - b);
  return {
    clients: RETURNING.holders + RETURNING.waiters,
    back: times.length,
    halfMs: times[times.length >> 1] ?? Number.NaN,
    allMs: times.at(-1) ?? Number.NaN,
    lost: Math.max(lost, RETURNING.holders - held),
  };
}
