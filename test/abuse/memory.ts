/** The memory of a server: that of its launcher and of every process below it. */
import { readFileSync } from "node:fs";
import { processes } from "../cli/support.ts";

export const MEGABYTE = 2 ** 20;
const LOOK_EVERY_MS = 100;

export interface MemoryWatch {
  /** By how much the memory has exceeded that of the beginning at most, so far. */
  readonly mostAdded: () => number;
  stop(): void;
}

/** Watches the memory of the process and of all its descendants. */
export function watchMemory(pid: number): MemoryWatch {
  const before = treeBytes(pid);
  let most = 0;
  const look = () => {
    most = Math.max(most, treeBytes(pid) - before);
  };
  const timer = setInterval(look, LOOK_EVERY_MS);
  return {
    mostAdded: () => {
      look();
      return most;
    },
    stop: () => clearInterval(timer),
  };
}

function treeBytes(root: number): number {
  const status = new Map<number, string>();
  for (const { pid } of processes()) status.set(pid, statusOf(pid));
  const isBelow = (pid: number): boolean => {
    if (pid === root) return true;
    const parent = Number(/^PPid:\s+([0-9]+)$/m.exec(status.get(pid) ?? "")?.[1] ?? 0);
    return parent > 1 && isBelow(parent);
  };
  let kilobytes = 0;
  for (const [pid, text] of status) {
    if (isBelow(pid)) kilobytes += Number(/^VmRSS:\s+([0-9]+) kB$/m.exec(text)?.[1] ?? 0);
  }
  return kilobytes * 1_024;
}

function statusOf(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/status`, "utf8");
  } catch {
    return "";
  }
}
