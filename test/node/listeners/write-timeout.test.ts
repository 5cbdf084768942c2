import { setImmediate as turn } from "node:timers/promises";
import { expect, it } from "vitest";
import { type PendingWrite, WriteTimeout } from "../../../src/node/listeners/outbox.ts";

const TIMEOUT_MS = 100;

function pendingWrite() {
  const write = {
    since: 0,
    isStalled: false,
    stalled() {
      write.isStalled = true;
    },
  };
  return write satisfies PendingWrite;
}

/** Nothing else runs meanwhile, as during a long commit. */
function block(ms: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
}

it("a reader is not cut off for the time in which the server did not look", async () => {
  const timeout = new WriteTimeout(TIMEOUT_MS);
  const write = pendingWrite();
  timeout.add(write);
  await turn();
  block(5 * TIMEOUT_MS);
  // Timers come first in the next turn; what readers have taken is reported after them.
  await turn();
  await turn();
  expect(write.isStalled).toBe(false);
  timeout.delete(write);
});

it("a reader that takes nothing is cut off all the same once the server looks again", async () => {
  const timeout = new WriteTimeout(TIMEOUT_MS);
  const write = pendingWrite();
  timeout.add(write);
  block(5 * TIMEOUT_MS);
  await expect.poll(() => write.isStalled, { timeout: 10_000, interval: 10 }).toBe(true);
});
