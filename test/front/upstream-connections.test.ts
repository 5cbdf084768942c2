import { once } from "node:events";
import { createServer, type RequestListener, type ServerResponse } from "node:http";
import { type AddressInfo, connect, type Socket } from "node:net";
import { afterEach, expect, test, vi } from "vitest";
import { openDoor } from "./support.ts";

const HOST = "127.0.0.1";

const cleanUps: (() => void)[] = [];
afterEach(() => {
  for (const cleanUp of cleanUps.splice(0).reverse()) cleanUp();
});

/** A front door, and something behind it that notes the connections on which requests arrive. */
async function opened(answer: RequestListener) {
  const connections: Socket[] = [];
  const behind = createServer(answer).on("connection", (socket: Socket) => connections.push(socket));
  await once(behind.listen(0, HOST), "listening");
  const listen = { host: HOST, port: (behind.address() as AddressInfo).port };
  const door = await openDoor({ upstream: { ready: async () => listen } });
  cleanUps.push(() => {
    behind.closeAllConnections();
    behind.close();
  });
  return { connections, port: door.httpPort, ask: (path: string) => fetch(`http://${HOST}:${door.httpPort}${path}`) };
}

function send(port: number, text: string) {
  const socket = connect(port, HOST).on("error", () => {});
  cleanUps.push(() => socket.destroy());
  const client = { socket, heard: "" };
  socket.setEncoding("latin1").on("data", (piece: string) => {
    client.heard += piece;
  });
  socket.write(text);
  return client;
}

const eventually = (check: () => void) => vi.waitFor(check, { timeout: 5_000, interval: 10 });

test("requests that follow each other share a connection to workerd, also those of different clients", async () => {
  const { ask, port, connections } = await opened((_, reply) => reply.end("well"));
  expect(await (await ask("/a")).text()).toBe("well");
  const other = send(port, "GET /b HTTP/1.1\r\nHost: x\r\n\r\n");
  await eventually(() => expect(other.heard).toMatch(/well/));
  expect(connections.length).toBe(1);
});

test("requests at the same time never share a connection", async () => {
  const waiting: ServerResponse[] = [];
  const { ask, connections } = await opened((_, reply) => {
    waiting.push(reply);
    if (waiting.length === 3) for (const each of waiting) each.end("well");
  });
  await Promise.all(["/a", "/b", "/c"].map(async (path) => expect(await (await ask(path)).text()).toBe("well")));
  expect(connections.length).toBe(3);
});

test("a client that hangs up takes its connection along, and no other request with it", async () => {
  const { ask, port, connections } = await opened((request, reply) => {
    if (request.url !== "/poll") reply.end("well");
  });
  await (await ask("/first")).text();
  const leaving = send(port, "GET /poll HTTP/1.1\r\nHost: x\r\n\r\n");
  const staying = ask("/poll");
  staying.catch(() => {});
  await eventually(() => expect(connections.length).toBe(2));
  leaving.socket.destroy();
  await eventually(() => expect(connections.map(({ destroyed }) => destroyed).toSorted()).toEqual([false, true]));
  expect(await (await ask("/next")).text()).toBe("well");
});

test("a connection on which the answer came before the whole request is not used again", async () => {
  const { ask, port, connections } = await opened((_, reply) => reply.end("refused"));
  const slow = send(port, "POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nab");
  await eventually(() => expect(slow.heard).toMatch(/refused/));
  slow.socket.write("cd");
  // At once, and not when it has been idle for long.
  await vi.waitFor(() => expect(connections[0]?.destroyed).toBe(true), { timeout: 1_000, interval: 10 });
  await (await ask("/b")).text();
  expect(connections.length).toBe(2);
});

test("an idle connection is closed before workerd would do it", async () => {
  const { ask, connections } = await opened((_, reply) => reply.end("well"));
  await (await ask("/a")).text();
  expect(connections[0]?.destroyed).toBe(false);
  await eventually(() => expect(connections[0]?.destroyed).toBe(true));
});

test("a request may take longer than a connection may be idle", async () => {
  const { ask, connections } = await opened((request, reply) => {
    if (request.url === "/poll") setTimeout(() => reply.end("at last"), 2_500);
    else reply.end("well");
  });
  await (await ask("/a")).text();
  expect(await (await ask("/poll")).text()).toBe("at last");
  expect(connections.length).toBe(1);
});
