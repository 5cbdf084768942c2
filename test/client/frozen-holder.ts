/** A thread that takes a lock and then does not run for a while. Says how it finds the lock afterwards. */
import { parentPort, workerData } from "node:worker_threads";
import { connect } from "../../src/client/index.ts";

const { port, key, lease, frozenMs } = workerData as { port: number; key: string; lease: number; frozenMs: number };
const locks = connect(`http://127.0.0.1:${port}`);
const lock = await locks.acquire(key, { lease });
parentPort?.postMessage({ type: "held" });
// Lets the message out first.
await new Promise((resolve) => setTimeout(resolve, 100));
Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, frozenMs);
const isHeldAtOnce = lock.isHeld;
const started = performance.now();
const outcome = await Promise.race([
  lock.lost.then(({ reason }) => reason),
  new Promise((resolve) => setTimeout(resolve, 1_500, "kept")),
]);
const toldAfterMs = performance.now() - started;
await locks.close();
parentPort?.postMessage({ type: "thawed", isHeldAtOnce, outcome, toldAfterMs });
