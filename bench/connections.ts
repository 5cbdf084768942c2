/**
 * How fast clients come in, and come back: new connections a second, and the time until every client of the library has its
 * session again after the server was killed. See docs/benchmarks-history.md.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { type AddressInfo, createServer } from "node:net";
import { loadavg, tmpdir } from "node:os";
import { join } from "node:path";
import { performance } from "node:perf_hooks";
import { setTimeout as pause } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { WebSocket } from "ws";
import { connect, type Lock, type Locks } from "../src/client/index.ts";
import { openClient } from "./client.ts";
import { cpuMs } from "./cpu.ts";

const HOST = "127.0.0.1";
const COMMAND = fileURLToPath(new URL("../dist/holdfast.js", import.meta.url));
/** Longer than any client may take to come back. */
const PATIENCE_MS = 60_000;
const DOWN_MS = 1_000;

const { values } = parseArgs({
  options: {
    connections: { type: "string", default: "1000" },
    holders: { type: "string", default: "1000" },
    waiters: { type: "string", default: "250" },
    "at-once": { type: "string", default: "32" },
    lease: { type: "string", default: "33" },
    fsyncs: { type: "boolean", default: false },
  },
});
const atOnce = Number(values["at-once"]);

/** `holdfast serve` as it is delivered, in processes of its own. */
class Server {
  readonly #dataDir = mkdtempSync(join(tmpdir(), "holdfast-bench-"));
  #launcher: ChildProcess | undefined;
  #ports: readonly [http: number, tcp: number] = [0, 0];

  get port(): number {
    return this.#ports[0];
  }

  get pids(): readonly number[] {
    return [this.#launcher?.pid ?? 0, this.workerdPid];
  }

  get workerdPid(): number {
    return Number(readFileSync(join(this.#dataDir, "workerd.pid"), "utf8"));
  }

  async start(): Promise<void> {
    if (this.port === 0) this.#ports = [await freePort(), await freePort()];
    const args = ["serve", "--host", HOST, "--http-host", HOST, "--data-dir", this.#dataDir];
    const ports = ["--http-port", String(this.#ports[0]), "--port", String(this.#ports[1]), "--godistlock-port", "0"];
    const launcher = spawn(process.execPath, [COMMAND, ...args, ...ports], { stdio: ["ignore", "pipe", "inherit"] });
    this.#launcher = launcher;
    await once(launcher.stdout, "data");
  }

  /** Without warning: the launcher's guard then kills workerd. */
  async kill(): Promise<void> {
    const [launcher, workerd] = [this.#launcher, this.workerdPid];
    launcher?.kill("SIGKILL");
    while (existsSync(`/proc/${workerd}`)) await pause(5);
  }

  async end(): Promise<void> {
    await this.kill();
    rmSync(this.#dataDir, { recursive: true, force: true });
  }
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, HOST);
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  server.close();
  return port;
}

/** Runs the work on every item, so many at a time. */
async function inParallel<Item, Result>(
  items: readonly Item[],
  work: (item: Item) => Promise<Result>,
): Promise<Result[]> {
  const results: Result[] = [];
  let next = 0;
  const runner = async () => {
    for (let index = next++; index < items.length; index = next++) results[index] = await work(items[index] as Item);
  };
  await Promise.all(Array.from({ length: atOnce }, runner));
  return results;
}

/** Times some work; says what it cost the server, this process and, if asked, the disk. */
async function measure(what: string, count: number, server: Server, work: () => Promise<unknown>): Promise<void> {
  const busy = { door: server.pids[0] ?? 0, workerd: server.workerdPid, clients: process.pid };
  const tracer = values.fsyncs ? await traceFsyncs(busy.workerd) : undefined;
  const before = Object.values(busy).map((pid) => cpuMs(pid) ?? 0);
  const startedAt = performance.now();
  await work();
  const seconds = (performance.now() - startedAt) / 1000;
  const costs = Object.entries(busy).map(([name, pid], index) => {
    const usedMs = (cpuMs(pid) ?? 0) - (before[index] ?? 0);
    return `${name} ${(usedMs / count).toFixed(2)} ms`;
  });
  const rate = `${count} in ${seconds.toFixed(2)} s = ${Math.round(count / seconds)}/s`;
  console.log(`${what}: ${rate}; processor time each: ${costs.join(", ")}; load ${loadavg()[0]?.toFixed(1)}`);
  if (tracer) console.log(`  fsyncs each: ${((await fsyncsOf(tracer)) / count).toFixed(2)}`);
}

interface Tracer {
  readonly child: ChildProcess;
  readonly words: string[];
}

/** Needs Linux's `perf` and the right to use it. */
async function traceFsyncs(pid: number): Promise<Tracer> {
  const events = ["fsync", "fdatasync"].map((name) => `syscalls:sys_enter_${name}`).join(",");
  const child = spawn("perf", ["stat", "-x,", "-e", events, "-p", String(pid)], {
    stdio: ["ignore", "ignore", "pipe"],
  });
  const words: string[] = [];
  child.stderr.setEncoding("utf8").on("data", (text: string) => words.push(text));
  await pause(200);
  return { child, words };
}

async function fsyncsOf({ child, words }: Tracer): Promise<number> {
  child.kill("SIGINT");
  await once(child, "close");
  return [...words.join("").matchAll(/^(\d+),/gm)].reduce((sum, [, calls]) => sum + Number(calls), 0);
}

const numbers = (count: number) => Array.from({ length: count }, (_, index) => index);

async function measureOpening(server: Server): Promise<void> {
  const count = Number(values.connections);
  const open = async () => {
    const client = await openClient("ws", { host: HOST, port: server.port });
    await client.ask("ping\n_\n_\n");
    return client;
  };
  const clients: Awaited<ReturnType<typeof open>>[] = [];
  await measure("open and first answer", count, server, async () => {
    clients.push(...(await inParallel(numbers(count), open)));
  });
  await measure("first lock", count, server, () =>
    inParallel(numbers(count), (index) => clients[index]?.ask(`l\nfirst-${index}\n0 60\n`) ?? Promise.resolve("")),
  );
  for (const client of clients) client.close();
}

interface Member {
  readonly locks: Locks;
  readonly lock?: Lock;
  readonly waiting?: Promise<Lock>;
}

async function measureComingBack(server: Server): Promise<void> {
  const [holders, waiters] = [Number(values.holders), Number(values.waiters)];
  const url = `http://${HOST}:${server.port}`;
  const lease = Number(values.lease) * 1000;
  const join = async (index: number): Promise<Member> => {
    const locks = connect(url, { WebSocket });
    if (index < holders) return { locks, lock: await locks.acquire(`held-${index}`, { lease }) };
    return { locks, waiting: locks.acquire(`held-${index % holders}`, { lease }) };
  };
  const members: Member[] = [];
  await measure("clients of the library, with a lock or a place", holders + waiters, server, async () => {
    members.push(...(await inParallel(numbers(holders + waiters), join)));
  });
  await pause(2_000);
  let lost = 0;
  for (const { lock } of members) void lock?.lost.then(() => (lost += 1));
  for (const { waiting } of members) waiting?.catch(() => (lost += 1));
  const killedAt = performance.now();
  await server.kill();
  await pause(DOWN_MS);
  await server.start();
  const times: number[] = [];
  const back = Promise.all(
    members.map(({ locks }) => isBack(locks).then(() => times.push(performance.now() - killedAt))),
  );
  await measure("back after kill -9", members.length, server, () => Promise.race([back, pause(PATIENCE_MS)]));
  const quantile = (part: number) => ((times[Math.ceil(times.length * part) - 1] ?? 0) / 1000).toFixed(1);
  console.log(
    `  back: ${times.length}, after the kill: half ${quantile(0.5)} s, nine in ten ${quantile(0.9)} s, all ${quantile(1)} s`,
  );
  await pause(5_000);
  const held = members.filter(({ lock }) => lock?.isHeld).length;
  console.log(`  lost: ${lost}; locks held: ${held} of ${holders}`);
  await measure("leaving", members.length, server, () => Promise.all(members.map(({ locks }) => locks.close())));
}

async function isBack(locks: Locks): Promise<void> {
  for await (const status of locks.statuses()) if (status === "resumed" || status === "connected") return;
}

const server = new Server();
process.once("SIGINT", () => void server.end().then(() => process.exit(130)));
await server.start();
try {
  if (Number(values.connections) > 0) await measureOpening(server);
  if (Number(values.holders) > 0) await measureComingBack(server);
} finally {
  await server.end();
}
process.exit();
