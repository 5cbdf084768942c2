/** What clients do to the HTTP connection itself: none of it may reach another client's. On Cloudflare that is the platform's. */
import { connect, type Socket } from "node:net";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { send } from "../../support/http-client.ts";
import { poll } from "../../support/poll.ts";
import { startServer, type TestServer } from "../../support/server.ts";

let server: TestServer;
beforeAll(async () => {
  server = await startServer({ variables: { READ_TIMEOUT_S: "1" } });
});
afterAll(() => server.stop());

interface Raw {
  readonly socket: Socket;
  readonly heard: () => string;
}

function raw(words: string): Raw {
  let heard = "";
  const socket = connect(server.httpPort, "127.0.0.1");
  onTestFinished(() => void socket.destroy());
  socket.on("error", () => {});
  socket.setEncoding("latin1").on("data", (text: string) => {
    heard += text;
  });
  socket.write(words);
  return { socket, heard: () => heard };
}

const statuses = ({ heard }: Raw) => [...heard().matchAll(/HTTP\/1\.1 ([0-9]{3})/g)].map(([, status]) => status);

const answers = (client: Raw, count: number) =>
  poll(`${count} answers`, 5_000, async () => (statuses(client).length >= count ? true : undefined));

describe("a request inside the body of another", () => {
  const hidden = "GET /nope HTTP/1.1\r\nHost: localhost\r\nX-Holdfast-Peer: 192.0.2.6\r\n\r\n";
  const chunked = `${hidden.length.toString(16)}\r\n${hidden}\r\n0\r\n\r\n`;

  it.each([
    [
      "whose length is called the connection's",
      `Connection: content-length\r\nContent-Length: ${hidden.length}`,
      hidden,
    ],
    ["whose encoding is", "Connection: transfer-encoding\r\nTransfer-Encoding: chunked", chunked],
  ])("%s is no request", async (_, headers, body) => {
    for (const method of ["GET", "DELETE", "HEAD"]) {
      for (let round = 0; round < 5; round += 1) {
        const client = raw(`${method} /health HTTP/1.1\r\nHost: localhost\r\n${headers}\r\n\r\n${body}`);
        await answers(client, 1);
        // Others, on whatever connection to the service was used before.
        for (let other = 0; other < 3; other += 1) {
          expect(await send(server.httpPort, { method: "GET", path: "/health" })).toMatchObject({ status: 200 });
        }
        expect(statuses(client)).toHaveLength(1);
        client.socket.destroy();
      }
    }
  });
});

it("a head that does not come is waited for as long as a request may take, and no longer", async () => {
  const half = raw("GET /health HTTP/1.1\r\nHost: local");
  const silent = raw("");
  await poll("both to be closed", 10_000, async () => (half.socket.closed && silent.socket.closed ? true : undefined));
  expect(statuses(half)).toEqual(["408"]);
});

it("an upgrade behind a request that is being answered is not mixed up with its answer", async () => {
  const upgrade =
    "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: aG9sZGZhc3QtaXMtaGVyZQ==";
  const client = raw(
    `GET /health HTTP/1.1\r\nHost: localhost\r\n\r\nGET /v1/ws HTTP/1.1\r\nHost: localhost\r\n${upgrade}\r\n\r\n`,
  );
  await poll("the end", 5_000, async () => (client.socket.closed ? true : undefined));
  expect(statuses(client)).not.toContain("101");
});

it("a client of HTTP/1.0 gets a body that ends with the connection", async () => {
  const client = raw("GET /v1/openapi.json HTTP/1.0\r\nHost: localhost\r\n\r\n");
  await poll("the end", 5_000, async () => (client.socket.closed ? true : undefined));
  const [head = "", body = ""] = client.heard().split("\r\n\r\n");
  expect(head.toLowerCase()).not.toContain("transfer-encoding");
  expect(JSON.parse(body)).toMatchObject({ openapi: "3.1.0" });
});
