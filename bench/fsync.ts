import { closeSync, fsyncSync, openSync, writeSync } from "node:fs";
import { join } from "node:path";
import { performance } from "node:perf_hooks";

const TRIES = 50;

/** Median time, in milliseconds, to make one page durable in this folder: what every commit pays at least. */
export function fsyncMs(folder: string): number {
  const file = openSync(join(folder, "fsync"), "w");
  const page = new Uint8Array(4096);
  const times = Array.from({ length: TRIES }, (_, index) => {
    const startedAt = performance.now();
    writeSync(file, page, 0, page.length, index * page.length);
    fsyncSync(file);
    return performance.now() - startedAt;
  });
  closeSync(file);
  return times.sort((a, b) => a - b)[TRIES / 2] as number;
}
