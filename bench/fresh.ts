/** What a key costs that is used once, beside one in use: cycles per second, and fsyncs from its founding to its pruning. */
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { openClient } from "./client.ts";
import { Crew, type Latency } from "./measure.ts";
import type { Options } from "./options.ts";
import { inWords, isNoisy, type Ratio, ratioOf } from "./ratio.ts";
import type { Lab, RunningServer } from "./servers.ts";
import { inTurns } from "./turns.ts";

/** A cycle on a fresh key is at least so much of one on a key in use. */
export const FRESH_AIM = 0.45;
export const FSYNCS_LIMIT = 16;
const CLIENTS = [1, 10];
/** Lives whose fsyncs are counted. */
const LIVES = 200;
/** Keys are pruned this long after their use, in seconds; every object involved has slept once by then. */
const IDLE_S = 15;
const LOOKS_EVERY_S = 5;
/** Objects that have nothing to do with a key's life write now and then, too. */
const COUNTED = /fsync\(\d+<[^>]*holdfast-(?:Key|Session|Directory)Object/;

export interface FreshReport {
  readonly clients: number;
  readonly fresh: { readonly cyclesPerSecond: number; readonly cycle: Latency };
  readonly inUse: { readonly cyclesPerSecond: number; readonly cycle: Latency };
  readonly ratio: Ratio;
}

export interface FreshReports {
  readonly reports: readonly FreshReport[];
  /** Undefined where `strace` is not installed. */
  readonly fsyncsPerLife: number | undefined;
}

/** Clients with a key of their own, and clients that take another key every time, take turns at the same server. */
export async function measureFresh(
  lab: Lab,
  server: RunningServer,
  options: Options,
  isStopped: () => boolean,
): Promise<FreshReports> {
  const reports: FreshReport[] = [];
  for (const clients of CLIENTS) {
    const crews = [
      await Crew.connect(server, { transport: "ws", pattern: "fresh", clients }),
      await Crew.connect(server, { transport: "ws", pattern: "own", clients }),
    ];
    const [fresh, inUse] = await inTurns(crews, options, isStopped);
    if (fresh && inUse && !isStopped())
      reports.push({ clients, fresh, inUse, ratio: ratioOf(fresh.turns, inUse.turns) });
  }
  const isTraceable = spawnSync("strace", ["-V"]).status === 0;
  return { reports, fsyncsPerLife: isTraceable && !isStopped() ? await countFsyncs(lab) : undefined };
}

/** Counts on a server of its own, whose keys are pruned soon, until the last of them is. */
async function countFsyncs(lab: Lab): Promise<number> {
  const server = await lab.start("direct", { GC_MAX_IDLE_S: String(IDLE_S), GC_INTERVAL_S: String(LOOKS_EVERY_S) });
  const client = await openClient("ws", server.addresses.ws);
  const cycle = async (key: string) => client.release(key, await client.acquire(key, 0));
  const file = join(lab.folder, "fsyncs");
  const tracer = spawn(
    "strace",
    ["-f", "-y", "-e", "trace=fsync,fdatasync", "-o", file, "-p", String(server.pids[0])],
    {
      stdio: ["ignore", "ignore", "pipe"],
    },
  );
  await attached(tracer);
  for (let life = 0; life < LIVES; life++) await cycle(`life-${life}`);
  await pause((IDLE_S + 3 * LOOKS_EVERY_S) * 1000);
  client.close();
  const ended = new Promise((resolve) => tracer.once("exit", resolve));
  tracer.kill("SIGINT");
  await ended;
  await server.kill();
  return (
    readFileSync(file, "utf8")
      .split("\n")
      .filter((line) => COUNTED.test(line)).length / LIVES
  );
}

function attached({ stderr }: ChildProcess): Promise<void> {
  return new Promise((resolve) => {
    stderr?.on("data", (text: Buffer) => {
      if (text.toString().includes("attached")) resolve();
    });
  });
}

export function freshLines({ reports, fsyncsPerLife }: FreshReports): string[] {
  const ms = (time: number) => time.toFixed(2).padStart(8);
  const cells = ({ cyclesPerSecond, cycle }: FreshReport["fresh"]) =>
    `${cyclesPerSecond.toFixed(0).padStart(10)}${ms(cycle.p50)}${ms(cycle.p99)}`;
  const worst = Math.min(...reports.map(({ ratio }) => ratio.median));
  return [
    "a key used for the first time beside one in use, over WebSocket: cycles per second, p50 and p99 of a cycle in ms",
    `${"clients".padEnd(8)}${"fresh".padStart(10)}${"p50".padStart(8)}${"p99".padStart(8)}${"in use".padStart(10)}${"p50".padStart(8)}${"p99".padStart(8)}  fresh / in use`,
    ...reports.map(
      ({ clients, fresh, inUse, ratio }) =>
        `${String(clients).padEnd(8)}${cells(fresh)}${cells(inUse)}  ${inWords(ratio)}`,
    ),
    `verdict: a fresh key runs at ${worst.toFixed(2)} of one in use: the aim of ${FRESH_AIM} is ${worst >= FRESH_AIM ? "MET" : "MISSED"}` +
      (reports.some(({ ratio }) => isNoisy(ratio)) ? "; the turns disagree: repeat on a quiet machine" : ""),
    fsyncsPerLife === undefined
      ? "fsyncs of a key's life: not counted, strace is not installed"
      : `fsyncs of a key's life, founding to pruning: ${fsyncsPerLife.toFixed(1)} (${LIVES} lives, files of keys, sessions and the directory): ` +
        `the limit of ${FSYNCS_LIMIT} is ${fsyncsPerLife <= FSYNCS_LIMIT ? "KEPT" : "BROKEN"}`,
  ];
}
