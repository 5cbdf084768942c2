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

function threadMs(path: string): number {
  try {
    const [nanoseconds] = readFileSync(path, "utf8").split(" ");
    return Number(nanoseconds) / 1e6;
  } catch {
    // It has ended meanwhile.
    return 0;
  }
}
