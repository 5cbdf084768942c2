import type { ServerResponse } from "node:http";
import { expect, test } from "vitest";
import { dial, eventually, openDoor, startBehind, statusesOf } from "./support.ts";

const POLL = "GET /poll HTTP/1.1\r\nHost: x\r\n\r\n";
const SHORT = "GET /short HTTP/1.1\r\nHost: x\r\n\r\n";
const LONG_HEAD = `GET /long HTTP/1.1\r\nHost: x\r\n${"X-Filler: ".padEnd(2_000, "a")}\r\n\r\n`.replace(
  /X-Filler.*\r\n/,
  (line) => line.repeat(30),
);

/** A request that is not answered until the test says so, and others behind it. */
async function opened() {
  const polls: ServerResponse[] = [];
  const asked: string[] = [];
  const behind = await startBehind((request, reply) => {
    asked.push(request.url ?? "");
    if (request.url === "/poll") polls.push(reply);
    else reply.end("well");
  });
  const door = await openDoor({ upstream: { ready: async () => behind.listen } });
  return { behind, asked, polls, port: door.httpPort };
}

test("requests behind one that is being answered wait for it, and are answered in their order", async () => {
  const { asked, polls, port } = await opened();
  const client = dial(port, POLL + SHORT.repeat(250));
  await eventually(() => expect(polls).toHaveLength(1));
  expect(asked).toEqual(["/poll"]);
  polls[0]?.writeHead(204).end();
  await eventually(() => expect(statusesOf(client)).toEqual([204, ...Array(250).fill(200)]));
});

test.each([
  ["more than 256 of them", SHORT.repeat(257)],
  ["heads of more than 256 KiB together", LONG_HEAD.repeat(5)],
  [
    "bodies of more than 256 KiB together",
    `POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 60000\r\n\r\n${"a".repeat(60_000)}`.repeat(5),
  ],
  [
    "bodies that do not tell their length",
    "POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n".repeat(5),
  ],
])("a client is cut off when too much waits behind a request: %s", async (_, waiting) => {
  const { polls, port } = await opened();
  const client = dial(port, POLL);
  await eventually(() => expect(polls).toHaveLength(1));
  client.socket.write(waiting);
  await eventually(() => expect(client.socket.closed).toBe(true));
});

test("a few long heads may wait", async () => {
  const { polls, port } = await opened();
  const client = dial(port, POLL + LONG_HEAD.repeat(4));
  await eventually(() => expect(polls).toHaveLength(1));
  polls[0]?.writeHead(204).end();
  await eventually(() => expect(statusesOf(client)).toEqual([204, 200, 200, 200, 200]));
});

test("what waits does not count twice: places come back as requests are answered", async () => {
  const { port } = await opened();
  const client = dial(port);
  for (let round = 1; round <= 4; round += 1) {
    client.socket.write(LONG_HEAD.repeat(4));
    await eventually(() => expect(statusesOf(client)).toEqual(Array(4 * round).fill(200)));
  }
});

test("a client that hangs up with requests behind a long poll is known to be gone at once", async () => {
  const { behind, polls, port } = await opened();
  const client = dial(port, POLL + SHORT.repeat(200));
  await eventually(() => expect(polls).toHaveLength(1));
  client.socket.destroy();
  await eventually(() => expect(behind.connections[0]?.destroyed).toBe(true), 1_000);
});
