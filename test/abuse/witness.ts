/** Somebody who sees how busy the machine is, whoever keeps it busy. */
import { Worker } from "node:worker_threads";

export interface Witness extends AsyncDisposable {
  /** How many times as long as on an idle machine a piece of work took when things were at their worst; at least 1. */
  readonly worstStretch: number;
}

/** Starts a thread that does a small piece of work now and then, and compares how long it took with how long it ran. */
export function startWitness(): Witness {
  const worst = new Float64Array(new SharedArrayBuffer(Float64Array.BYTES_PER_ELEMENT));
  const thread = new Worker(new URL("./witness-thread.ts", import.meta.url), { workerData: worst });
  return {
    get worstStretch() {
      return Math.max(1, worst[0] ?? 1);
    },
    async [Symbol.asyncDispose]() {
      await thread.terminate();
    },
  };
}
