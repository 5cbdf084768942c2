/** What a key costs that is used once, beside one in use: cycles per second, and fsyncs from its founding to its pruning. */
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { openClient } from "./client.ts";
import { Crew, type Result } from "./measure.ts";
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
/** Keys are pruned between one and two times this after their use, in seconds; every object involved has slept by then. */
const IDLE_S = 8;
const LOOKS_EVERY_S = 4;
/** Objects that have nothing to do with a key's life write now and then, too. */
const COUNTED = /fsync\(\d+<[^>]*holdfast-(?:Key|Session|Directory)Object/;

interface Pair {
  readonly fresh: Result;
  readonly inUse: Result;
  readonly ratio: Ratio;
}

export interface FreshReport {
  readonly clients: number;
  readonly holdfast: Pair;
  /** An object that writes one row and has no directory: what the platform asks for a new object. */
  readonly floor: Pair;
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
  const floor = await lab.start("floor");
  for (const clients of CLIENTS) {
    const crews: Crew[] = [];
    for (const each of [server, floor]) {
      for (const pattern of ["fresh", "own"] as const)
        crews.push(await Crew.connect(each, { transport: "ws", pattern, clients }));
    }
    const [fresh, inUse, floorFresh, floorInUse] = await inTurns(crews, options, isStopped);
    if (!fresh || !inUse || !floorFresh || !floorInUse || isStopped()) break;
    reports.push({ clients, holdfast: pairOf(fresh, inUse), floor: pairOf(floorFresh, floorInUse) });
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
  await pause((2 * IDLE_S + 3 * LOOKS_EVERY_S) * 1000);
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

const pairOf = (fresh: Result, inUse: Result): Pair => ({ fresh, inUse, ratio: ratioOf(fresh.turns, inUse.turns) });

export function freshLines({ reports, fsyncsPerLife }: FreshReports): string[] {
  const cell = (text: string, width = 8) => text.padStart(width);
  const cells = ({ cyclesPerSecond, cycle, cpuPerCycle = Number.NaN }: Result) =>
    cell(cyclesPerSecond.toFixed(0)) + cell(cycle.p50.toFixed(2)) + cell(cpuPerCycle.toFixed(2));
  const line = (name: string, clients: number, { fresh, inUse, ratio }: Pair) =>
    `${`${name}, ${clients}`.padEnd(14)}${cells(fresh)}${cells(inUse)}  ${inWords(ratio)}`;
  const worst = Math.min(...reports.map(({ holdfast }) => holdfast.ratio.median));
  const isDoubtful = reports.some(({ holdfast }) => isNoisy(holdfast.ratio));
  const head = ["fresh", "p50", "cpu", "in use", "p50", "cpu"].map((word) => cell(word)).join("");
  return [
    "a key used for the first time beside one in use, over WebSocket: cycles per second, p50 and processor time of a cycle, ms",
    `${"clients".padEnd(14)}${head}  fresh / in use`,
    ...reports.flatMap(({ clients, holdfast, floor }) => [
      line("holdfast", clients, holdfast),
      line("floor", clients, floor),
    ]),
    `verdict: a fresh key runs at ${worst.toFixed(2)} of one in use: the aim of ${FRESH_AIM} is ` +
      `${worst >= FRESH_AIM ? "MET" : "MISSED"}${isDoubtful ? "; the turns disagree: repeat on a quiet machine" : ""}`,
    fsyncsPerLife === undefined
      ? "fsyncs of a key's life: not counted, strace is not installed"
      : `fsyncs of a key's life, founding to pruning: ${fsyncsPerLife.toFixed(1)} (${LIVES} lives; files of keys, ` +
        `sessions and the directory): the limit of ${FSYNCS_LIMIT} is ${fsyncsPerLife <= FSYNCS_LIMIT ? "KEPT" : "BROKEN"}`,
  ];
}
