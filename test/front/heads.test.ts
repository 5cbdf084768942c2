import { expect, test } from "vitest";
import { dial, eventually, openDoor, startBehind, statusesOf } from "./support.ts";

async function opened() {
  const asked: string[] = [];
  const behind = await startBehind((request, reply) => {
    asked.push(`${request.url} ${request.headers.host}`);
    if (request.url === "/v1/ws") reply.writeHead(426, { Upgrade: "websocket", "Content-Length": 2 }).end("no");
    else reply.end("well");
  });
  behind.server.on("upgrade", (request) => void asked.push(`upgrade ${request.url}`));
  const door = await openDoor({ upstream: { ready: async () => behind.listen } });
  return { asked, port: door.httpPort };
}

const UPGRADE = "GET /v1/ws HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n";
const KEY = "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n";

test.each([
  ["no Host", "GET /health HTTP/1.1\r\n", 400, "Host header must be given once"],
  ["an empty Host", "GET /health HTTP/1.1\r\nHost:\r\n", 400, "Host header must be given once"],
  ["two Hosts", "GET /health HTTP/1.1\r\nHost: a\r\nHost: b\r\n", 400, "Host header must be given once"],
  [
    "an upgrade without Host",
    `${UPGRADE.replace("Host: x\r\n", "")}${KEY}Sec-WebSocket-Version: 13\r\n`,
    400,
    "Host header must be given once",
  ],
  ["an upgrade without key", `${UPGRADE}Sec-WebSocket-Version: 13\r\n`, 400, "Sec-WebSocket-Key header is missing"],
  ["an upgrade without version", `${UPGRADE}${KEY}`, 426, undefined],
  ["an upgrade of another version", `${UPGRADE}${KEY}Sec-WebSocket-Version: 12\r\n`, 426, undefined],
])("%s is refused in the form of all errors", async (_, head, status, detail) => {
  const { asked, port } = await opened();
  const client = dial(port, `${head}\r\n`);
  await eventually(() => expect(statusesOf(client)).toEqual([status]));
  const error = status === 426 ? "upgrade_required" : "bad_request";
  await eventually(() => expect(client.heard.endsWith(`\r\n\r\n${JSON.stringify({ error, detail })}\n`)).toBe(true));
  if (status === 426) expect(client.heard).toMatch(/\r\nSec-WebSocket-Version: 13\r\nUpgrade: websocket\r\n/);
  await eventually(() => expect(client.socket.closed).toBe(true));
  expect(asked).toEqual([]);
});

test.each(["GET /health HTTP/1.0\r\n\r\n", "GET /health HTTP/1.0\r\nHost:\r\n\r\n"])(
  "a probe of HTTP/1.0 need not name a host: %j",
  async (head) => {
    const { asked, port } = await opened();
    const client = dial(port, head);
    await eventually(() => expect(statusesOf(client)).toEqual([200]));
    expect(asked).toEqual(["/health localhost"]);
  },
);

test("a 426 says to what a client has to upgrade, and keeps or ends the connection as the client asked", async () => {
  const { port } = await opened();
  const kept = dial(port, "GET /v1/ws HTTP/1.1\r\nHost: x\r\n\r\n");
  await eventually(() => expect(statusesOf(kept)).toEqual([426]));
  expect(kept.heard).toMatch(/\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n/);
  kept.socket.write("GET /health HTTP/1.1\r\nHost: x\r\n\r\n");
  await eventually(() => expect(statusesOf(kept)).toEqual([426, 200]));
  const ended = dial(port, "GET /v1/ws HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  await eventually(() => expect(ended.heard).toMatch(/\r\nConnection: Upgrade, close\r\n/));
  await eventually(() => expect(ended.socket.closed).toBe(true));
});
