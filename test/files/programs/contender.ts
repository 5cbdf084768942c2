/**
 * A process that contends for locks as it is told, one JSON line each way. At random it stops for a moment before a system call, so
 * that contenders on few processors still meet between any two calls.
 */
import { createInterface } from "node:readline";
import { FileLock, HeldError } from "../../../src/lockfile/index.ts";
import { interpose, real } from "../support/interpose.ts";
import { SeedLock } from "../support/seed.ts";

/** `round`: one attempt on a path. `loop`: take and release it so many times, with a marker that no two may have. */
export type Order =
  | { readonly kind: "round"; readonly path: string }
  | {
      readonly kind: "loop";
      readonly path: string;
      readonly times: number;
      readonly marker: string;
      readonly by: "holdfast" | "seed";
    };

export type Report =
  | { readonly kind: "won" | "lost" | "looped" }
  | { readonly kind: "overlap" | "failed"; readonly why: string };

const [stopShare = "0"] = process.argv.slice(2);
const cell = new Int32Array(new SharedArrayBuffer(4));
interpose(() => {
  if (Math.random() < Number(stopShare)) Atomics.wait(cell, 0, 0, Math.random() * 1.5);
});

async function round(path: string): Promise<Report> {
  try {
    await new FileLock(path).tryAcquire();
    return { kind: "won" };
  } catch (error) {
    if (error instanceof HeldError) return { kind: "lost" };
    throw error;
  }
}

async function loop({ path, times, marker, by }: Extract<Order, { kind: "loop" }>): Promise<Report> {
  const lock = by === "seed" ? new SeedLock(path) : new FileLock(path, { stale: 0, retryMs: 4 });
  for (let time = 0; time < times; time += 1) {
    await lock.acquire();
    try {
      real.closeSync(real.openSync(marker, "wx"));
    } catch {
      return { kind: "overlap", why: `${by} acquired a lock that another had` };
    }
    Atomics.wait(cell, 0, 0, Math.random());
    real.unlinkSync(marker);
    await lock.release();
  }
  return { kind: "looped" };
}

for await (const line of createInterface(process.stdin)) {
  const order = JSON.parse(line) as Order;
  const reporting = order.kind === "round" ? round(order.path) : loop(order);
  const report = await reporting.catch((error: unknown): Report => ({ kind: "failed", why: String(error) }));
  process.stdout.write(`${JSON.stringify(report)}\n`);
}
