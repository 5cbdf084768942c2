import { setTimeout as pause } from "node:timers/promises";
import { workerData } from "node:worker_threads";

const PIECE_MS = 20;
const EVERY_MS = 400;
/** Pieces that are looked at together: those of four seconds. One alone may have had bad luck. */
const TOGETHER = 10;

const worst = workerData as Float64Array;
const tookMs: number[] = [];

function ranMs(): number {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1000;
}

for (;;) {
  const startedAt = performance.now();
  const ranBefore = ranMs();
  while (ranMs() - ranBefore < PIECE_MS);
  tookMs.push(performance.now() - startedAt);
  if (tookMs.length > TOGETHER) tookMs.shift();
  if (tookMs.length === TOGETHER) {
    const stretch = tookMs.reduce((sum, ms) => sum + ms) / (TOGETHER * PIECE_MS);
    worst[0] = Math.max(worst[0] ?? 0, stretch);
  }
  await pause(EVERY_MS);
}
