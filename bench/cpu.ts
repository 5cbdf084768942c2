import { readdirSync, readFileSync } from "node:fs";

/** Processor time that a process's threads have used so far, in milliseconds; undefined where the system does not tell (not Linux). */
export function cpuMs(pid: number): number | undefined {
  try {
    const threads = readdirSync(`/proc/${pid}/task`);
    return threads.reduce((sum, thread) => sum + threadMs(`/proc/${pid}/task/${thread}/schedstat`), 0);
  } catch {
    return undefined;
  }
}

/** A process and those that it has started; only itself where the system does not tell. */
export function processesOf(pid: number): number[] {
  try {
    const children = readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8").split(" ").filter(Boolean);
    return [pid, ...children.flatMap((child) => processesOf(Number(child)))];
  } catch {
    return [pid];
  }
}

function threadMs(path: string): number {
  try {
    const [nanoseconds] = readFileSync(path, "utf8").split(" ");
    return Number(nanoseconds) / 1e6;
  } catch {
    // It has ended meanwhile.
    return 0;
  }
}
