import { afterAll, beforeAll, expect, it } from "vitest";
import { Clients } from "../support/clients.ts";
import { send } from "../support/http-client.ts";
import { residentBytes } from "../support/server.ts";
import { type ServerProcess, startServerProcess } from "../support/server-process.ts";
import { holdKeys, tokenOf, type WireClient } from "../support/wire-client.ts";
import { ANSWERED_WITHIN_MS, besideBystanders } from "./bystanders.ts";
import { scaled, TIMEOUT_MS } from "./scale.ts";

const KEYS = 100;
const MEGABYTE = 2 ** 20;

let server: ServerProcess;
let clients: Clients;
beforeAll(async () => {
  server = await startServerProcess();
  clients = new Clients(server);
  await holdKeys(await clients.ws(), KEYS);
});
afterAll(async () => {
  clients[Symbol.dispose]();
  await server.stop();
});

/** Reads the answers to tagged reports until each has one; fails if one is not the whole document. */
async function readReports(client: WireClient, count: number): Promise<void> {
  const tags = new Set<string>();
  while (tags.size < count) {
    const [, tag = "", status, document = ""] = /^@(\S+) (\S+) (.*)\n$/.exec(await client.next(60_000)) ?? [];
    expect(status).toBe("ok");
    expect((JSON.parse(document) as { locks: unknown[] }).locks.length).toBeGreaterThanOrEqual(KEYS);
    tags.add(tag);
  }
}

it.each([
  ["tcp", 300],
  ["ws", scaled(1_000, 5_000)],
] as const)(
  "over %s, %i reports asked for in one write cost no bystander its lock, nor its answer",
  { timeout: TIMEOUT_MS },
  async (transport, count) => {
    const { slowestMs, lost } = await besideBystanders({ clients, httpPort: server.httpPort }, async () => {
      const asker = await clients.open(transport);
      asker.send(Array.from({ length: count }, (_, index) => `@s${index} stats\n_\n_\n`).join(""));
      await readReports(asker, count);
      asker.close();
    });
    expect(lost).toBe(0);
    expect(slowestMs).toBeLessThan(ANSWERED_WITHIN_MS);
  },
);

it("300 reports asked for over HTTP at once are all answered, and cost no bystander its lock", async () => {
  const { result, slowestMs, lost } = await besideBystanders({ clients, httpPort: server.httpPort }, () =>
    Promise.all(
      Array.from({ length: 300 }, (_, index) =>
        send(server.httpPort, { method: "GET", path: index % 3 === 0 ? "/metrics" : "/v1/stats?detail=true" }, 60_000),
      ),
    ),
  );
  expect(result.map(({ status }) => status).filter((status) => status !== 200)).toEqual([]);
  expect(lost).toBe(0);
  expect(slowestMs).toBeLessThan(ANSWERED_WITHIN_MS);
});

it("a client that asks for reports and never reads them costs little memory and nobody's lock", async () => {
  const before = await residentBytes(server.pid);
  const { slowestMs, lost } = await besideBystanders({ clients, httpPort: server.httpPort }, async () => {
    const asker = await clients.ws();
    asker.pause();
    for (let round = 0; round < 3; round += 1)
      asker.send(Array.from({ length: 300 }, (_, index) => `@${round}-${index} stats\n_\n_\n`).join(""));
    await new Promise((resolve) => setTimeout(resolve, 5_000));
    asker.destroy();
  });
  expect(lost).toBe(0);
  expect(slowestMs).toBeLessThan(ANSWERED_WITHIN_MS);
  expect((await residentBytes(server.pid)) - before).toBeLessThan(200 * MEGABYTE);
});

it("a report shows what its own client has done before it asked, however many others ask", async () => {
  const crowd = await Promise.all(Array.from({ length: 8 }, () => clients.ws()));
  let isOver = false;
  const asking = Promise.all(
    crowd.map(async (client) => {
      while (!isOver) {
        client.send("stats\n_\n_\n");
        await client.next(20_000);
      }
    }),
  );
  const client = await clients.ws();
  for (let round = 0; round < 10; round += 1) {
    client.send(`l\nown-${round}\n0 300\nstats\n_\n_\n`);
    tokenOf(await client.next(20_000));
    expect(await client.next(20_000)).toContain(`"own-${round}"`);
  }
  isOver = true;
  await asking;
});
