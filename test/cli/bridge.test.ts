import { once } from "node:events";
import { readFileSync } from "node:fs";
import { connect as connectTls } from "node:tls";
import { describe, expect, onTestFinished, test } from "vitest";
import { WINDOW_BYTES } from "../../src/core/protocols/carrier/window.ts";
import { stopwatch } from "../support/stopwatch.ts";
import { randomPieces, randomText, settled, startService, startTestBridge } from "./bridge-support.ts";
import { eventually, fixture, freePort, holdfast, outcome, TcpClient } from "./support.ts";

const MEGABYTE = 1_048_576;
const FRAME_LIMIT = 65_536;

describe("the bytes", () => {
  test("reach both sides unchanged, however they are cut", async () => {
    const service = await startService();
    const bridge = await startTestBridge(service.url);
    const client = await TcpClient.open(bridge.port);
    const session = await service.session();
    const up = randomText(MEGABYTE);
    const down = randomText(MEGABYTE);
    for (const piece of randomPieces(down, 9_000)) session.ws.send(piece.toString("latin1"));
    for (const piece of randomPieces(up, 9_000)) {
      if (!client.socket.write(piece)) await once(client.socket, "drain");
    }
    await eventually("all input", () => session.input.length >= MEGABYTE);
    await eventually("all output", () => client.received.length >= MEGABYTE);
    expect(session.input.equals(up)).toBe(true);
    expect(client.received.equals(down)).toBe(true);
    expect(Math.max(...session.frames.map((frame) => frame.length))).toBeLessThanOrEqual(FRAME_LIMIT);
  });

  test("may be any bytes at all on their way in", async () => {
    const service = await startService();
    const bridge = await startTestBridge(service.url);
    const client = await TcpClient.open(bridge.port);
    const every = Buffer.from(Uint8Array.from({ length: 256 }, (_, i) => i));
    client.socket.write(every);
    const session = await service.session();
    await eventually("all input", () => session.input.length === 256);
    expect(session.input.equals(every)).toBe(true);
  });

  test("sent before the WebSocket is open wait for it, in order", async () => {
    let open = () => {};
    const opened = new Promise<boolean>((resolve) => {
      open = () => resolve(true);
    });
    const service = await startService({ gate: () => opened });
    const bridge = await startTestBridge(service.url);
    const client = await TcpClient.open(bridge.port);
    const up = randomText(300_000);
    client.socket.end(up);
    await settled(() => client.socket.bytesWritten);
    open();
    const session = await service.session();
    await eventually("end of input", () => session.hasEndOfInput);
    expect(session.input.equals(up)).toBe(true);
  });
});

describe("the end", () => {
  test("of the client's input is one empty frame, and replies still arrive", async () => {
    const service = await startService();
    const bridge = await startTestBridge(service.url);
    const client = await TcpClient.open(bridge.port);
    client.socket.end("l\nk\n0\n");
    const session = await service.session();
    await eventually("end of input", () => session.hasEndOfInput);
    expect(session.input.toString()).toBe("l\nk\n0\n");
    expect(session.frames.filter((frame) => frame.length === 0)).toHaveLength(1);
    session.ws.send("ok 1 33\n");
    await eventually("the reply", () => client.text === "ok 1 33\n");
    expect(client.hasEnded).toBe(false);
    session.ws.close(1000);
    await eventually("the end", () => client.isClosed);
    expect(client.text).toBe("ok 1 33\n");
  });

  test("of input without any input is told as well", async () => {
    const service = await startService();
    const bridge = await startTestBridge(service.url);
    const client = await TcpClient.open(bridge.port);
    client.socket.end();
    const session = await service.session();
    await eventually("end of input", () => session.hasEndOfInput);
    expect(session.frames).toHaveLength(1);
  });

  test("by a reset closes the WebSocket with 1000", async () => {
    const service = await startService();
    const bridge = await startTestBridge(service.url);
    const client = await TcpClient.open(bridge.port);
    const session = await service.session();
    client.socket.resetAndDestroy();
    await eventually("the close", () => session.closeCode !== undefined);
    expect(session.closeCode).toBe(1000);
    expect(session.hasEndOfInput).toBe(false);
  });

  test("by a reset before the WebSocket is open leaves no session behind", async () => {
    let open = () => {};
    const opened = new Promise<boolean>((resolve) => {
      open = () => resolve(true);
    });
    let arrivals = 0;
    const service = await startService({
      gate: () => {
        arrivals++;
        return opened;
      },
    });
    const bridge = await startTestBridge(service.url);
    const client = await TcpClient.open(bridge.port);
    await eventually("the upgrade request", () => arrivals === 1);
    client.socket.resetAndDestroy();
    // By the time a later connection has come through, the bridge has seen the reset.
    await TcpClient.open(bridge.port);
    await eventually("the next upgrade request", () => arrivals === 2);
    open();
    await eventually("the later session", () => service.sessions.some(({ ws }) => ws.readyState === ws.OPEN));
    await eventually("one session alone", () => service.sessions.filter((each) => !each.closeCode).length === 1);
    expect(bridge.log).toEqual([]);
  });

  test("by the service lets its last bytes through, even to a client that is still talking", async () => {
    const service = await startService();
    const bridge = await startTestBridge(service.url);
    const client = await TcpClient.open(bridge.port);
    const session = await service.session();
    const last = randomText(200_000);
    client.socket.pause();
    const chatter = setInterval(() => client.socket.writable && client.socket.write("ping\n_\n_\n"), 1);
    onTestFinished(() => clearInterval(chatter));
    session.ws.send(last.toString("latin1"));
    session.ws.close(1012);
    await eventually("the close", () => session.closeCode);
    client.socket.resume();
    await eventually("the end", () => client.hasEnded);
    expect(client.received.equals(last)).toBe(true);
  });

  test("by a service that vanishes closes the client", async () => {
    const service = await startService();
    const bridge = await startTestBridge(service.url);
    const client = await TcpClient.open(bridge.port);
    (await service.session()).ws.terminate();
    await eventually("the end", () => client.hasEnded);
    expect(service.sessions).toHaveLength(1);
  });
});

describe("back-pressure", () => {
  test("the client is not read beyond the window until the session acknowledges", async () => {
    const service = await startService({ acknowledges: false });
    const bridge = await startTestBridge(service.url);
    const client = await TcpClient.open(bridge.port);
    const session = await service.session();
    const up = randomText(MEGABYTE);
    client.socket.write(up);
    for (let expected = WINDOW_BYTES; expected <= 3 * WINDOW_BYTES; expected += WINDOW_BYTES) {
      const length = await settled(() => session.input.length);
      expect(length).toBeGreaterThanOrEqual(expected);
      expect(length).toBeLessThan(expected + 3 * FRAME_LIMIT);
      session.acknowledge();
      await eventually("more input", () => session.input.length > length);
    }
    expect(session.input.equals(up.subarray(0, session.input.length))).toBe(true);
  });

  test("a client that reads slowly holds the service back and loses nothing", async () => {
    const service = await startService();
    const bridge = await startTestBridge(service.url, { writeTimeoutMs: 0 });
    const client = await TcpClient.open(bridge.port);
    client.socket.pause();
    const session = await service.session();
    const down = randomText(65_536);
    const rounds = 512;
    for (let i = 0; i < rounds; i++) session.ws.send(down.toString("latin1"));
    const heldBack = await settled(() => session.ws.bufferedAmount);
    expect(heldBack).toBeGreaterThan(10 * MEGABYTE);
    let length = 0;
    client.socket.removeAllListeners("data").on("data", (bytes: Buffer) => {
      length += bytes.length;
    });
    client.socket.resume();
    await eventually("all output", () => length === rounds * down.length, 30_000);
  });

  test("a client that takes nothing for the write time-out is closed", async () => {
    const service = await startService();
    const bridge = await startTestBridge(service.url, { writeTimeoutMs: 500 });
    const client = await TcpClient.open(bridge.port);
    client.socket.pause();
    const session = await service.session();
    for (let i = 0; i < 512; i++) session.ws.send("x".repeat(65_536));
    await eventually("the close", () => session.closeCode !== undefined);
    expect(session.closeCode).toBe(1000);
  });
});

describe("a service that does not want", () => {
  test("closes the client without a byte and is logged", async () => {
    const service = await startService({ gate: () => Promise.resolve(false) });
    const bridge = await startTestBridge(service.url);
    const client = await TcpClient.open(bridge.port);
    client.socket.write("ping\n_\n_\n");
    await eventually("the end", () => client.hasEnded);
    expect(client.received).toHaveLength(0);
    expect(bridge.log).toEqual([`no WebSocket to ${service.url.host} for 127.0.0.1: Unexpected server response: 503`]);
  });

  test("or is not there at all does the same", async () => {
    const bridge = await startTestBridge(new URL(`ws://127.0.0.1:${await freePort()}/v1/ws`));
    const client = await TcpClient.open(bridge.port);
    await eventually("the end", () => client.hasEnded);
    expect(client.received).toHaveLength(0);
    expect(bridge.log).toHaveLength(1);
  });
});

describe("who the client is", () => {
  test("is vouched for with the secret", async () => {
    const service = await startService();
    const bridge = await startTestBridge(service.url, { secret: "s3cret" });
    await TcpClient.open(bridge.port);
    const { headers, url } = (await service.session()).request;
    expect(url).toBe("/v1/ws");
    expect(headers).toMatchObject({
      "sec-websocket-protocol": "dflockd.v2",
      "x-holdfast-window": "1",
      "x-holdfast-bridge": "s3cret",
      "x-holdfast-client-address": "127.0.0.1",
    });
    expect(headers["sec-websocket-extensions"]).toBeUndefined();
  });

  test("is not told without one", async () => {
    const service = await startService();
    const bridge = await startTestBridge(service.url);
    await TcpClient.open(bridge.port);
    const { headers } = (await service.session()).request;
    expect(Object.keys(headers).filter((name) => name.startsWith("x-holdfast"))).toEqual(["x-holdfast-window"]);
  });

  test.each([
    ["byte by byte", 1],
    ["at once", 1_000],
  ])("comes from the PROXY header, sent %s", async (_, longest) => {
    const service = await startService();
    const bridge = await startTestBridge(service.url, { secret: "s", expectsProxyHeader: true });
    const client = await TcpClient.open(bridge.port);
    client.socket.setNoDelay(true);
    const bytes = Buffer.from("PROXY TCP4 203.0.113.7 10.0.0.1 56100 6388\r\nping\n_\n_\n");
    for (let at = 0; at < bytes.length; at += longest) {
      await new Promise((resolve) => client.socket.write(bytes.subarray(at, at + longest), resolve));
    }
    const session = await service.session();
    await eventually("the input", () => session.input.toString() === "ping\n_\n_\n");
    expect(session.request.headers["x-holdfast-client-address"]).toBe("203.0.113.7");
  });

  test.each(["ping\n_\n_\n", ""])("a missing PROXY header (%j) closes the connection", async (bytes) => {
    const service = await startService();
    const bridge = await startTestBridge(service.url, { expectsProxyHeader: true });
    const client = await TcpClient.open(bridge.port);
    client.socket.end(bytes);
    await eventually("the close", () => client.isClosed);
    expect(service.sessions).toHaveLength(0);
    expect(client.received).toHaveLength(0);
  });

  test("is read before TLS begins, and TLS clients may half-close", async () => {
    const service = await startService();
    const bridge = await startTestBridge(service.url, { tls: keyPair(), secret: "s", expectsProxyHeader: true });
    const raw = await TcpClient.open(bridge.port);
    raw.socket.removeAllListeners("data");
    raw.socket.write("PROXY TCP6 2001:db8::42 2001:db8::1 56100 6388\r\n");
    const client = new TcpClient(connectTls({ socket: raw.socket, rejectUnauthorized: false }));
    const up = randomText(300_000);
    client.socket.end(up);
    const session = await service.session();
    await eventually("end of input", () => session.hasEndOfInput);
    expect(session.input.equals(up)).toBe(true);
    expect(session.request.headers["x-holdfast-client-address"]).toBe("2001:db8::42");
    session.ws.send("ok\n");
    session.ws.close(1000);
    await eventually("the end", () => client.hasEnded);
    expect(client.text).toBe("ok\n");
  });
});

describe("TLS", () => {
  test("a client that has not completed its handshake has no WebSocket", async () => {
    const service = await startService();
    const bridge = await startTestBridge(service.url, { tls: keyPair() });
    const silent = await TcpClient.open(bridge.port);
    const client = new TcpClient(connectTls({ port: bridge.port, host: "127.0.0.1", rejectUnauthorized: false }));
    client.socket.write("ping\n_\n_\n");
    const session = await service.session();
    await eventually("the input", () => session.input.toString() === "ping\n_\n_\n");
    expect(service.sessions).toHaveLength(1);
    expect(silent.isClosed).toBe(false);
  });

  test("a client that hangs up before has none either, and the log says so", async () => {
    const service = await startService();
    const bridge = await startTestBridge(service.url, { tls: keyPair() });
    const client = await TcpClient.open(bridge.port);
    client.socket.write("ping\n_\n_\n", () => client.socket.destroy());
    await eventually("a line", () => bridge.log.length > 0);
    expect(bridge.log).toEqual(["no TLS handshake from 127.0.0.1: closed"]);
    expect(service.sessions).toHaveLength(0);
  });
});

describe("holdfast bridge", () => {
  test("says that it is ready, carries bytes, and says goodbye in time", async () => {
    const service = await startService();
    const port = await freePort();
    const running = holdfast(["bridge", "--listen", `127.0.0.1:${port}`, "--to", service.url.href], {
      HOLDFAST_BRIDGE_SECRET: "s3cret",
    });
    await eventually("the ready line", () => running.stdout.includes("\n"));
    expect(running.stdout).toBe(`holdfast 0.1.0 bridge ready: tcp 127.0.0.1:${port} -> ${service.url.href}\n`);
    const client = await TcpClient.open(port);
    client.socket.write("ping\n_\n_\n");
    const session = await service.session();
    await eventually("the input", () => session.input.length === 9);
    expect(session.request.headers["x-holdfast-bridge"]).toBe("s3cret");
    const elapsed = stopwatch();
    running.child.kill("SIGTERM");
    expect(await running.exited).toEqual({ code: 0, signal: null });
    expect(elapsed()).toBeLessThan(3_000);
    await eventually("the close", () => session.closeCode);
    expect(session.closeCode).toBe(1001);
    await eventually("the end", () => client.hasEnded || client.isClosed);
  });

  test("an occupied port is one line and exit code 1", async () => {
    const service = await startService();
    const bridge = await startTestBridge(service.url);
    expect(await outcome(["bridge", "--listen", `127.0.0.1:${bridge.port}`, "--to", "ws://x"])).toEqual({
      code: 1,
      signal: null,
      stdout: "",
      stderr: `holdfast: port ${bridge.port} on 127.0.0.1 is already in use\n`,
    });
  });
});

function keyPair() {
  const [certPath, keyPath] = [fixture("cert.pem"), fixture("key.pem")];
  return { certPath, keyPath, cert: readFileSync(certPath), key: readFileSync(keyPath) };
}
