import { connect } from "node:net";
import { expect, it, onTestFinished } from "vitest";
import { startServe } from "../cli/support.ts";
import { scaled, TIMEOUT_MS } from "./scale.ts";

const RESUME = `Sec-WebSocket-Protocol: dflockd.v2, holdfast.resume.${"a".repeat(32)}.${"b".repeat(32)}\r\n`;

function upgrade(request: string, more = ""): string {
  return (
    `${request} HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n` +
    `Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: aG9sZGZhc3QtaXMtaGVyZQ==\r\n${more}\r\n`
  );
}

/** Sends these words from an address of this machine. Resolves with how long the first byte took, and the first line. */
function say(port: number, words: string, localAddress: string): Promise<{ ms: number; line: string | undefined }> {
  const startedAt = performance.now();
  const socket = connect({ port, host: "127.0.0.1", localAddress });
  onTestFinished(() => void socket.destroy());
  socket.write(words);
  return new Promise((resolve) => {
    const settle = (line?: string) => {
      resolve({ ms: performance.now() - startedAt, line });
      socket.destroy();
    };
    socket.once("data", (bytes: Buffer) => settle(bytes.toString("latin1").split(/\r?\n/, 1)[0]));
    socket.on("error", () => settle()).on("close", () => settle());
  });
}

it.each([
  ["upgrades of requests whose body never comes", upgrade("POST /v1/sessions", "Content-Length: 2\r\n"), "127.0.0.1"],
  ["the same, that say to resume", upgrade("POST /v1/sessions", `${RESUME}Content-Length: 2\r\n`), "127.0.0.1"],
  ["attempts to resume a session that is none, from another address", upgrade("GET /v1/ws", RESUME), "127.0.0.2"],
])("newcomers come in beside %s", { timeout: TIMEOUT_MS }, async (_, words, newcomer) => {
  const server = await startServe();
  let isOver = false;
  const crowd = Array.from({ length: scaled(200, 400) }, async () => {
    while (!isOver) {
      await Promise.race([say(server.httpPort, words, "127.0.0.1"), new Promise((done) => setTimeout(done, 5_000))]);
    }
  });
  await new Promise((resolve) => setTimeout(resolve, 500));
  const [ws, tcp] = await Promise.all([
    say(server.httpPort, upgrade("GET /v1/ws"), newcomer),
    say(server.port, "ping\n_\n_\n", newcomer),
  ]);
  isOver = true;
  expect(ws).toMatchObject({ line: "HTTP/1.1 101 Switching Protocols" });
  expect(tcp.line).toMatch(/^ok/);
  expect(Math.max(ws.ms, tcp.ms)).toBeLessThan(5_000);
  void Promise.all(crowd);
});
