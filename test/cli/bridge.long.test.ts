import { describe, expect, test } from "vitest";
import { randomText, settled, startService, startTestBridge } from "./bridge-support.ts";
import { eventually, TcpClient } from "./support.ts";

const MEGABYTE = 1_048_576;

describe("back-pressure", () => {
  test("a window that is never acknowledged opens again after five quiet seconds", async () => {
    const service = await startService({ acknowledges: false });
    const bridge = await startTestBridge(service.url);
    const client = await TcpClient.open(bridge.port);
    const session = await service.session();
    client.socket.write(randomText(MEGABYTE));
    const length = await settled(() => session.input.length);
    const start = Date.now();
    await eventually("more input", () => session.input.length > length);
    expect(Date.now() - start).toBeGreaterThan(3_500);
  });

  test("a client that reads a little now and then is kept", async () => {
    const service = await startService();
    const bridge = await startTestBridge(service.url, { writeTimeoutMs: 1_000 });
    const client = await TcpClient.open(bridge.port);
    const session = await service.session();
    let length = 0;
    client.socket.removeAllListeners("data").on("data", (bytes: Buffer) => {
      length += bytes.length;
      client.socket.pause();
      setTimeout(() => client.socket.resume(), 20);
    });
    const total = 12 * MEGABYTE;
    for (let sent = 0; sent < total; sent += 65_536) session.ws.send("x".repeat(65_536));
    await eventually("all output", () => length === total, 40_000);
    expect(session.closeCode).toBeUndefined();
  });
});

describe("who the client is", () => {
  test("an unfinished PROXY header closes the connection after five seconds", async () => {
    const service = await startService();
    const bridge = await startTestBridge(service.url, { expectsProxyHeader: true });
    const client = await TcpClient.open(bridge.port);
    client.socket.write("PROXY TCP4");
    const start = Date.now();
    await eventually("the close", () => client.isClosed || client.hasEnded);
    expect(Date.now() - start).toBeGreaterThan(4_500);
    expect(service.sessions).toHaveLength(0);
  });
});
