import type { IncomingMessage, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { expect, test } from "vitest";
import { dial, eventually, openDoor, startBehind, statusesOf } from "./support.ts";

/** Answers 401 without reading the body, as the Worker does to who shows no token. */
const refuse = (_: IncomingMessage, reply: ServerResponse) => reply.writeHead(401).end("no");

async function opened(answer: (request: IncomingMessage, reply: ServerResponse) => void) {
  const behind = await startBehind(answer);
  const door = await openDoor({ upstream: { ready: async () => behind.listen } });
  return { behind, port: door.httpPort };
}

test("a body that dribbles on after the answer is not waited for", async () => {
  const { port } = await opened(refuse);
  const client = dial(port, "POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n{");
  const dribble = setInterval(() => client.socket.write(" "), 50);
  await eventually(() => expect(statusesOf(client)).toEqual([401]), 500);
  expect(client.heard).toMatch(/\r\nConnection: close\r\n/i);
  await eventually(() => expect(client.socket.closed).toBe(true), 2_500);
  clearInterval(dribble);
});

test("an endless body is cut off after the answer", async () => {
  const { port } = await opened(refuse);
  const client = dial(port, "POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n");
  const chunk = Buffer.concat([Buffer.from("10000\r\n"), Buffer.alloc(65_536, 32), Buffer.from("\r\n")]);
  let sent = 0;
  const go = () => {
    while (!client.socket.destroyed && sent < 200e6) {
      sent += chunk.length;
      if (!client.socket.write(chunk)) {
        client.socket.once("drain", go);
        return;
      }
    }
  };
  go();
  await eventually(() => expect(client.socket.closed).toBe(true), 2_500);
  // What the operating system takes on both sides comes on top.
  expect(sent).toBeLessThan(30e6);
});

test("a client that finishes its body soon after the answer is not cut off", async () => {
  const { port } = await opened(refuse);
  const client = dial(port, `POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 500001\r\n\r\n{`);
  const errors: Error[] = [];
  client.socket.on("error", (error) => errors.push(error));
  await eventually(() => expect(statusesOf(client)).toEqual([401]));
  client.socket.write(Buffer.alloc(500_000));
  await eventually(() => expect(client.socket.closed).toBe(true), 900);
  expect(errors).toEqual([]);
});

test("a body that is refused because workerd cannot be reached is not waited for either", async () => {
  const door = await openDoor({ upstream: { ready: async () => undefined } });
  const client = dial(door.httpPort, "POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n{");
  await eventually(() => expect(client.heard).toContain('{"error":"unavailable"}\n'), 500);
  await eventually(() => expect(client.socket.closed).toBe(true), 2_500);
});

test("a connection whose bodies come whole is kept", async () => {
  const { port } = await opened(refuse);
  const post = "POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}";
  const client = dial(port, post);
  await eventually(() => expect(statusesOf(client)).toEqual([401]));
  client.socket.write(post);
  await eventually(() => expect(statusesOf(client)).toEqual([401, 401]));
});

test("a body that never ends is not waited for longer than twice the time for a request", async () => {
  const { behind, port } = await opened((request) => void request.resume());
  const client = dial(port, "POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n{");
  const dribble = setInterval(() => client.socket.write(" "), 50);
  await eventually(() => expect(client.socket.closed).toBe(true));
  clearInterval(dribble);
  await eventually(() => expect(behind.connections[0]?.destroyed).toBe(true));
});

test("an answer may take longer than a body", async () => {
  const { port } = await opened((request, reply) => {
    request.resume().on("end", () => setTimeout(() => reply.end("at last"), 3_500));
  });
  const client = dial(port, "POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}");
  await eventually(() => expect(statusesOf(client)).toEqual([200]), 4_500);
});

test.each([
  ["with a length", "Content-Length: 5\r\n\r\nhello", "content-length", "5"],
  ["in chunks", "Transfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n", "transfer-encoding", "chunked"],
  ["that is not there", "\r\n", "content-length", "0"],
] as const)(
  "a body %s is passed on with its framing, and the connection stays usable",
  async (_, rest, header, value) => {
    const seen: string[] = [];
    const { port, behind } = await opened((request, reply) => {
      let body = "";
      request.setEncoding("latin1").on("data", (piece: string) => {
        body += piece;
      });
      request.on("end", () => {
        seen.push(`${request.headers[header]} ${body}`);
        reply.end("well");
      });
    });
    const head = "POST /a HTTP/1.1\r\nHost: x\r\n";
    const client = dial(port, head + rest + head + rest);
    await eventually(() => expect(statusesOf(client)).toEqual([200, 200]));
    expect(seen).toEqual(Array(2).fill(`${value} ${rest.length > 2 ? "hello" : ""}`));
    expect(behind.connections).toHaveLength(1);
  },
);

test("a head and the body that came with it reach workerd in one piece", async () => {
  const pieces: string[] = [];
  const { port, behind } = await opened((_, reply) => reply.end("well"));
  behind.server.on("connection", (socket: Socket) =>
    socket.on("data", (bytes: Buffer) => pieces.push(bytes.toString("latin1"))),
  );
  const client = dial(port, "POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello");
  await eventually(() => expect(statusesOf(client)).toEqual([200]));
  expect(pieces).toHaveLength(1);
  expect(pieces[0]).toMatch(/^POST \/a HTTP.*\r\n\r\nhello$/s);
});
