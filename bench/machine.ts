import { execFileSync } from "node:child_process";
import { closeSync, fsyncSync, openSync, readdirSync, readFileSync, rmSync, writeSync } from "node:fs";
import { availableParallelism, cpus, loadavg, release, totalmem, type } from "node:os";
import { join } from "node:path";
import { performance } from "node:perf_hooks";
import { VERSION } from "../src/version.ts";

export interface Machine {
  readonly cores: number;
  readonly processor: string;
  readonly memoryGb: number;
  readonly kernel: string;
  readonly fileSystem: string;
  readonly fsyncMs: number;
  readonly node: string;
  readonly holdfast: string;
}

/** The machine, and the disk on which the folder lies. */
export function describeMachine(folder: string): Machine {
  return {
    cores: availableParallelism(),
    processor: (cpus()[0]?.model ?? "unknown processor").replace(/\s+/g, " ").trim(),
    memoryGb: Math.round(totalmem() / 2 ** 30),
    kernel: `${type()} ${release()}`,
    fileSystem: fileSystemOf(folder),
    fsyncMs: fsyncMs(folder),
    node: process.versions.node,
    holdfast: VERSION,
  };
}

/** Load of the machine over one minute: what else was running. */
export const loadNow = () => loadavg()[0] ?? Number.NaN;

function fileSystemOf(folder: string): string {
  try {
    const output = execFileSync("df", ["--output=fstype", folder], { encoding: "utf8" });
    return output.trim().split("\n").at(-1) ?? "";
  } catch {
    return "unknown file system";
  }
}

const FSYNC_TRIES = 50;

/** Median time, in milliseconds, to make one page durable in this folder: what every commit pays at least. */
function fsyncMs(folder: string): number {
  const path = join(folder, "fsync");
  const file = openSync(path, "w");
  const page = new Uint8Array(4096);
  const times = Array.from({ length: FSYNC_TRIES }, (_, index) => {
    const startedAt = performance.now();
    writeSync(file, page, 0, page.length, index * page.length);
    fsyncSync(file);
    return performance.now() - startedAt;
  });
  closeSync(file);
  rmSync(path);
  return times.sort((a, b) => a - b)[FSYNC_TRIES / 2] as number;
}

/** Processor time that a process and its children have used so far, in milliseconds; NaN where the system does not tell (not Linux). */
export function cpuMs(pid: number): number {
  try {
    const threads = readdirSync(`/proc/${pid}/task`);
    const own = threads.reduce((sum, thread) => sum + threadMs(`/proc/${pid}/task/${thread}/schedstat`), 0);
    return childrenOf(pid).reduce((sum, child) => sum + cpuMs(child), own);
  } catch {
    return Number.NaN;
  }
}

export function childrenOf(pid: number): number[] {
  const children = readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8");
  return children.split(" ").filter(Boolean).map(Number);
}

function threadMs(path: string): number {
  try {
    const [nanoseconds] = readFileSync(path, "utf8").split(" ");
    return Number(nanoseconds) / 1e6;
  } catch {
    // The thread has ended meanwhile.
    return 0;
  }
}

/** Resident memory of a process, in bytes; NaN where the system does not tell. */
export function residentBytes(pid: number): number {
  try {
    return Number(/^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1]) * 1024;
  } catch {
    return Number.NaN;
  }
}
