/** A report whose client hangs up keeps nobody else from theirs. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { Clients } from "../support/clients.ts";
import { send, startRequest } from "../support/http-client.ts";
import { sleep } from "../support/poll.ts";
import { startServer, type TestServer } from "../support/server.ts";
import { ask, holdKeys, TRANSPORTS } from "../support/wire-client.ts";

/** So many that a report takes long enough to hang up in the middle of it. */
const KEYS = 500;
/** At least one of these is in the middle of a report. */
const HANG_UP_AFTER_MS = [2, 10, 20, 30, 50, 80];
const AT_MOST_MS = 5_000;

let server: TestServer;
let clients: Clients;
beforeAll(async () => {
  server = await startServer();
  clients = new Clients(server);
  await holdKeys(await clients.ws(), KEYS);
});
afterAll(async () => {
  clients[Symbol.dispose]();
  await server.stop();
});

async function askAndHangUp(path: string, afterMs: number): Promise<void> {
  const exchange = startRequest(server.httpPort, { method: "GET", path });
  exchange.reply.catch(() => {});
  await sleep(afterMs / 1000);
  exchange.close();
}

describe("over HTTP", () => {
  it.each(["/v1/stats?limit=500&detail=true", "/metrics"])("the next to ask for %s is answered", async (path) => {
    for (const afterMs of HANG_UP_AFTER_MS) {
      await askAndHangUp(path, afterMs);
      const reply = await send(server.httpPort, { method: "GET", path });
      expect(reply.status).toBe(200);
      expect(reply.ms).toBeLessThan(AT_MOST_MS);
    }
  });

  it("those who ask for something else are answered, however many have hung up", async () => {
    for (let limit = 400; limit < 420; limit += 1) await askAndHangUp(`/v1/stats?limit=${limit}`, 10);
    expect((await send(server.httpPort, { method: "GET", path: "/metrics" })).ms).toBeLessThan(AT_MOST_MS);
  });
});

describe.each(TRANSPORTS)("over %s", (transport) => {
  it("the next to ask for the stats is answered", async () => {
    const other = await clients.open(transport);
    for (const afterMs of HANG_UP_AFTER_MS) {
      const leaver = await clients.open(transport);
      leaver.send("stats\n_\n_\n");
      await sleep(afterMs / 1000);
      leaver.destroy();
      const askedAt = performance.now();
      expect(await ask(other, "stats", "_", "_")).toMatch(/^ok /);
      expect(performance.now() - askedAt).toBeLessThan(AT_MOST_MS);
    }
  });
});
