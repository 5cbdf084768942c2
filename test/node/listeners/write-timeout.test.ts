import { connect, createServer, type Socket } from "node:net";
import { setImmediate as turn } from "node:timers/promises";
import { expect, it, onTestFinished } from "vitest";
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

/** Both ends of a connection. */
async function connected(): Promise<readonly [Socket, Socket]> {
  const server = createServer();
  onTestFinished(() => void server.close());
  const arrived = new Promise<Socket>((resolve) => server.once("connection", resolve));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = server.address();
  const client = connect({ port: typeof address === "object" && address ? address.port : 0, host: "127.0.0.1" });
  const ends = [await arrived, client] as const;
  onTestFinished(() => {
    for (const end of ends) end.destroy();
  });
  return ends;
}

it("a reader that has taken everything during a long commit is not cut off", async () => {
  const timeout = new WriteTimeout(TIMEOUT_MS);
  const [here, there] = await connected();
  const write = pendingWrite();
  timeout.add(write);
  here.on("data", () => timeout.delete(write));
  await turn();
  there.write("taken");
  block(5 * TIMEOUT_MS);
  await new Promise((resolve) => here.once("data", resolve));
  await turn();
  await turn();
  expect(write.isStalled).toBe(false);
});

it("a reader that takes nothing is cut off", async () => {
  const timeout = new WriteTimeout(TIMEOUT_MS);
  const write = pendingWrite();
  timeout.add(write);
  block(5 * TIMEOUT_MS);
  await expect.poll(() => write.isStalled, { timeout: 10_000, interval: 10 }).toBe(true);
});
