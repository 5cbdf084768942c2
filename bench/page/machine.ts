import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { availableParallelism, cpus, loadavg, release, totalmem, type } from "node:os";
import { workerdBinary } from "../../src/front/system/package.ts";
import { fsyncMs } from "../fsync.ts";

export interface Machine {
  readonly cores: number;
  readonly processor: string;
  readonly memoryGb: number;
  readonly kernel: string;
  readonly fileSystem: string;
  readonly fsyncMs: number;
  readonly node: string;
  readonly workerd: string;
  readonly holdfast: string;
}

/** The machine, and the disk on which the folder lies. */
export function describeMachine(folder: string): Machine {
  const { version } = JSON.parse(readFileSync(new URL("../../package.json", import.meta.url), "utf8")) as {
    readonly version: string;
  };
  return {
    cores: availableParallelism(),
    processor: (cpus()[0]?.model ?? "unknown processor").replace(/\s+/g, " ").trim(),
    memoryGb: Math.round(totalmem() / 2 ** 30),
    kernel: `${type()} ${release()}`,
    fileSystem: outputOf("df", ["--output=fstype", folder])?.split("\n").at(-1) ?? "unknown file system",
    fsyncMs: fsyncMs(folder),
    node: process.versions.node,
    workerd: outputOf(workerdBinary(), ["--version"])?.replace(/^workerd /, "") ?? "unknown",
    holdfast: version,
  };
}

/** Load of the machine over one minute: what else was running. */
export const loadNow = () => loadavg()[0] ?? Number.NaN;

function outputOf(program: string, args: readonly string[]): string | undefined {
  try {
    return execFileSync(program, args, { encoding: "utf8" }).trim();
  } catch {
    return undefined;
  }
}
