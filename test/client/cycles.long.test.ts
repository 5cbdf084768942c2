import { afterAll, beforeAll, expect, it } from "vitest";
import { poll } from "../support/poll.ts";
import { startServer, type TestServer } from "../support/server.ts";
import { connectTo, freshKey } from "./support.ts";

let server: TestServer;
beforeAll(async () => {
  server = await startServer();
});
afterAll(() => server.stop());

const resources = () => process.getActiveResourcesInfo().filter((each) => /Timeout|TCP|Socket/.test(each)).length;

it("thousands of acquires, released, aborted and timed out, leave no timer, socket, holder or waiter", async () => {
  const before = resources();
  const locks = connectTo(server.httpPort);
  const keys = Array.from({ length: 8 }, () => freshKey());
  let held = 0;
  const worker = async (number: number) => {
    for (let round = 0; round < 250; round += 1) {
      const stop = new AbortController();
      const isAborted = round % 5 === 0;
      if (isAborted) setTimeout(() => stop.abort("enough"), Math.random() * 10);
      const key = keys[(number + round) % keys.length] as string;
      const options = { signal: stop.signal, timeout: round % 7 === 0 ? Math.random() * 20 : 30_000 };
      await locks
        .request(key, options, () => {
          held += 1;
        })
        .catch((reason) => {
          if (reason !== "enough" && reason.code !== "timeout") throw reason;
        });
    }
  };
  await Promise.all(Array.from({ length: 10 }, (_, number) => worker(number)));
  expect(held).toBeGreaterThan(1_500);
  for (const key of keys) {
    await poll(`${key} to be free`, 5_000, async () => {
      const report = await locks.query(key);
      return (report?.holders === 0 && report.waiters === 0) || undefined;
    });
  }
  await locks.close();
  await poll("everything to be gone", 5_000, async () => resources() <= before || undefined);
}, 120_000);
