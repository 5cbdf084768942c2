/** A client may send faster than it reads, for as long as it reads at all. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { Clients } from "../support/clients.ts";
import { sleep } from "../support/poll.ts";
import { startServer, type TestServer } from "../support/server.ts";
import type { TcpClient } from "../support/wire-client.ts";

let server: TestServer;
beforeAll(async () => {
  server = await startServer();
});
afterAll(() => server.stop());

/** Reads `count` lines with a pause after every batch. */
async function readSlowly(client: TcpClient, count: number): Promise<string[]> {
  const lines: string[] = [];
  while (lines.length < count) {
    client.resume();
    const batch = Math.min(count - lines.length, 2_000);
    for (let index = 0; index < batch; index += 1) lines.push(await client.next(20_000));
    client.pause();
    await sleep(0.02);
  }
  client.resume();
  return lines;
}

describe("a client that reads slowly", () => {
  it("gets every reply to a megabyte of pings", async () => {
    using clients = new Clients(server);
    const client = await clients.tcp();
    const count = Math.ceil(2 ** 20 / 9);
    client.pause();
    client.send("ping\n_\n_\n".repeat(count));
    await sleep(0.5);
    const lines = await readSlowly(client, count);
    expect(lines.every((line) => line === "ok\n")).toBe(true);
    await client.silence(200);
  });

  it("gets every reply to a megabyte of acquires and releases, in order", async () => {
    using clients = new Clients(server);
    const client = await clients.tcp();
    const keyOf = (pair: number) => `${pair % 20}-${"k".repeat(245)}`;
    const requests: string[] = [];
    const expected: RegExp[] = [];
    for (let pair = 0, bytes = 0; bytes < 2 ** 20; pair += 1) {
      const request = `l\n${keyOf(pair)}\n0\nr\n${keyOf(pair)}\nnobody\n`;
      requests.push(request);
      bytes += request.length;
      expected.push(pair < 20 ? /^ok [0-9a-f]{32} 33\n$/ : /^timeout\n$/, /^error\n$/);
    }
    client.pause();
    client.send(requests.join(""));
    await sleep(0.5);
    const lines = await readSlowly(client, expected.length);
    const wrong = lines.findIndex((line, index) => !expected[index]?.test(line));
    expect(wrong === -1 ? "all right" : `reply ${wrong}: ${lines[wrong]}`).toBe("all right");
    await client.silence(200);
  });
});
