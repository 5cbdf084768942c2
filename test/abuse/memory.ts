/** The memory of a server's process. */
import { readFileSync } from "node:fs";
import { isLong } from "./scale.ts";

export const MEGABYTE = 2 ** 20;
const LOOK_EVERY_MS = 100;

export interface MemoryWatch {
  /** By how much the memory has exceeded that of the beginning at most, so far. */
  readonly mostAdded: () => number;
  stop(): void;
}

/** Watches the resident memory of a process, until it ends. */
export function watchMemory(pid: number): MemoryWatch {
  const before = residentBytes(pid);
  let most = 0;
  const look = () => {
    most = Math.max(most, residentBytes(pid) - before);
  };
  const timer = setInterval(look, LOOK_EVERY_MS);
  return {
    mostAdded: () => {
      look();
      if (isLong) console.log(`memory + ${Math.round(most / MEGABYTE)} MB`);
      return most;
    },
    stop: () => clearInterval(timer),
  };
}

function residentBytes(pid: number): number {
  try {
    return Number(/^VmRSS:\s+([0-9]+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1] ?? 0) * 1_024;
  } catch {
    return 0;
  }
}
