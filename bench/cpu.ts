import { readFileSync } from "node:fs";

/** Linux counts in hundredths of a second, whatever the kernel's own clock. */
const TICK_MS = 10;

/** Processor time a process has used so far, in milliseconds; undefined where the system does not tell (not Linux). */
export function cpuMs(pid: number): number | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    // The name in brackets may hold anything; user and system time are the 12th and 13th field after it.
    const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    return (Number(fields[11]) + Number(fields[12])) * TICK_MS;
  } catch {
    return undefined;
  }
}
