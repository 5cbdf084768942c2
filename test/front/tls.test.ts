import { readFileSync } from "node:fs";
import { connect as connectTls } from "node:tls";
import { expect, onTestFinished, test } from "vitest";
import { WebSocketServer } from "ws";
import { fixture } from "../cli/support.ts";
import { dial, eventually, HOST, openDoor, startBehind } from "./support.ts";

/** Echoes what it hears; counts the WebSockets that were opened. */
async function opened() {
  const behind = await startBehind();
  const sockets = new WebSocketServer({ noServer: true });
  let count = 0;
  behind.server.on("upgrade", (request, socket, head) => {
    count += 1;
    sockets.handleUpgrade(request, socket, head, (ws) => {
      ws.on("message", (data) => ws.send(String(data)));
    });
  });
  const tls = { cert: readFileSync(fixture("cert.pem")), key: readFileSync(fixture("key.pem")) };
  const door = await openDoor({ upstream: { ready: async () => behind.listen }, tls, readTimeoutMs: 500 });
  return { door, sessions: () => count };
}

test.each([
  ["nothing", ""],
  ["half a greeting", Buffer.from([0x16, 3, 1, 2, 0, 1])],
])("over TLS, a TCP client that sends %s has no session, and is not waited for", async (_, words) => {
  const { door, sessions } = await opened();
  const clients = Array.from({ length: 5 }, () => dial(door.tcpPort, words));
  await eventually(() => expect(clients.map(({ socket }) => socket.closed)).not.toContain(false));
  expect([sessions(), door.waiting]).toEqual([0, 0]);
});

test("over TLS, a TCP client that speaks something else is cut at once", async () => {
  const { door, sessions } = await opened();
  const client = dial(door.tcpPort, "l\nkey\n10\n");
  await eventually(() => expect(client.socket.closed).toBe(true), 400);
  expect(sessions()).toBe(0);
});

test("over TLS, a TCP client is served after its handshake, and may then be silent", async () => {
  const { door, sessions } = await opened();
  const socket = connectTls({ port: door.tcpPort, host: HOST, rejectUnauthorized: false }).on("error", () => {});
  onTestFinished(() => void socket.destroy());
  let heard = "";
  socket.setEncoding("latin1").on("data", (text: string) => {
    heard += text;
  });
  await eventually(() => expect(sessions()).toBe(1));
  await new Promise((resolve) => setTimeout(resolve, 700));
  socket.write("ping\n_\n_\n");
  await eventually(() => expect(heard).toBe("ping\n_\n_\n"));
});

test("over TLS, a client whose first words come with its handshake is heard", async () => {
  const { door } = await opened();
  const socket = connectTls({ port: door.tcpPort, host: HOST, rejectUnauthorized: false }).on("error", () => {});
  onTestFinished(() => void socket.destroy());
  let heard = "";
  socket.setEncoding("latin1").on("data", (text: string) => {
    heard += text;
  });
  socket.end("ping\n_\n_\n");
  await eventually(() => expect(heard).toBe("ping\n_\n_\n"));
});
