import { connect as connectTcp, type Socket } from "node:net";
import { expect, test } from "vitest";
import { WebSocketServer } from "ws";
import { dial, eventually, HOST, openDoor, startBehind, statusesOf } from "./support.ts";

/** A port on which nobody listens yet. */
async function nobody(): Promise<{ host: string; port: number }> {
  const { server, listen } = await startBehind();
  await new Promise((resolve) => server.close(resolve));
  return listen;
}

const WEBSOCKET =
  "GET /v1/ws HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n" +
  "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n";

test.each([
  ["a request", "GET /a HTTP/1.1\r\nHost: x\r\n\r\n", 200],
  ["a request with a body", `POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n${"a".repeat(100_000)}`, 200],
  ["a WebSocket", WEBSOCKET, 101],
])("%s waits for a workerd that has ended and is not known to have", async (_, words, status) => {
  const listen = await nobody();
  const door = await openDoor({ upstream: { ready: async () => listen } });
  const client = dial(door.httpPort, words);
  await new Promise((resolve) => setTimeout(resolve, 300));
  expect(client.heard).toBe("");
  const bodies: number[] = [];
  const { server } = await startBehind((request, reply) => {
    let bytes = 0;
    request.on("data", (piece: Buffer) => {
      bytes += piece.length;
    });
    request.on("end", () => {
      bodies.push(bytes);
      reply.end("well");
    });
  }, listen.port);
  server.on("upgrade", (_, socket) =>
    socket.write("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"),
  );
  await eventually(() => expect(statusesOf(client)).toEqual([status]));
  if (words.startsWith("POST")) expect(bodies).toEqual([100_000]);
});

test("a TCP connection that a workerd has accepted and reset while it ended is carried to the next one", async () => {
  const { server, listen } = await startBehind();
  const sockets = new WebSocketServer({ noServer: true });
  let upgrades = 0;
  server.on("upgrade", (request, socket: Socket, head) => {
    upgrades += 1;
    if (upgrades === 1) socket.resetAndDestroy();
    else
      sockets.handleUpgrade(request, socket, head, (session) =>
        session.on("message", (bytes) => {
          // The front door sends an empty message first.
          if (String(bytes) !== "") session.send(`heard ${String(bytes)}`);
        }),
      );
  });
  const logged: string[] = [];
  const door = await openDoor({ upstream: { ready: async () => listen }, log: (line) => logged.push(line) });
  const client = dial(door.tcpPort, "ping\n");
  await eventually(() => expect(client.heard).toBe("heard ping\n"));
  expect(upgrades).toBe(2);
  expect(logged).toEqual([]);
});

test("a request that workerd may have seen is not sent twice", async () => {
  let asked = 0;
  const behind = await startBehind((request) => {
    asked += 1;
    request.socket.destroy();
  });
  const door = await openDoor({ upstream: { ready: async () => behind.listen } });
  const client = dial(door.httpPort, "POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}");
  await eventually(() => expect(statusesOf(client)).toEqual([503]));
  expect(asked).toBe(1);
});

test("a client that hangs up while it waits for workerd is forgotten", async () => {
  const listen = await nobody();
  const door = await openDoor({ upstream: { ready: async () => listen } });
  const client = dial(door.httpPort, "GET /a HTTP/1.1\r\nHost: x\r\n\r\n");
  await new Promise((resolve) => setTimeout(resolve, 100));
  client.socket.destroy();
  await new Promise((resolve) => setTimeout(resolve, 100));
  let asked = 0;
  await startBehind((_, reply) => {
    asked += 1;
    reply.end("well");
  }, listen.port);
  await eventually(() => expect(connectTcp(listen.port, HOST).on("error", () => {}).destroyed).toBe(false));
  await new Promise((resolve) => setTimeout(resolve, 200));
  expect(asked).toBe(0);
});
