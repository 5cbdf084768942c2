import { describe, expect, test } from "vitest";
import { dial, eventually, openDoor, startBehind, statusesOf } from "./support.ts";

const WEBSOCKET =
  "Host: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n" +
  "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n";

/** Counts what reaches workerd as an upgrade and as an ordinary request; upgrades are never answered. */
async function opened() {
  const asked: string[] = [];
  const behind = await startBehind((request, reply) => {
    asked.push(`${request.method} ${request.url}`);
    request.resume().on("end", () => reply.end("well"));
  });
  behind.server.on("upgrade", (request) => void asked.push(`upgrade ${request.url}`));
  const admission = { maxInFlight: 1, maxTurnMs: 60_000, maxWaitMs: 60_000 };
  const door = await openDoor({ upstream: { ready: async () => behind.listen }, admission });
  return { asked, door };
}

test("who says to resume and has no session loses the precedence of its address, and nobody else's", async () => {
  const asked: string[] = [];
  const answers = new Map<string, () => void>();
  const behind = await startBehind();
  behind.server.on("upgrade", (request, socket) => {
    const name = new URL(request.url ?? "", "http://x").searchParams.get("name") ?? "";
    asked.push(name);
    const refusal = name.startsWith("guess") ? "X-Holdfast-Refusal: session_gone\r\n" : "";
    const open = `HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n${refusal}\r\n`;
    answers.set(name, () => socket.write(open));
  });
  const admission = { maxInFlight: 1, maxTurnMs: 60_000, maxWaitMs: 60_000 };
  const door = await openDoor({ upstream: { ready: async () => behind.listen }, admission });
  const knock = (name: string, isResuming: boolean, host?: string) => {
    const resume = `Sec-WebSocket-Protocol: dflockd.v2, holdfast.resume.${"a".repeat(32)}.${"b".repeat(32)}\r\n`;
    return dial(door.httpPort, `GET /v1/ws?name=${name} HTTP/1.1\r\n${WEBSOCKET}${isResuming ? resume : ""}\r\n`, host);
  };
  const guess = knock("guess-1", true);
  await eventually(() => expect(asked).toEqual(["guess-1"]));
  answers.get("guess-1")?.();
  await eventually(() => expect(statusesOf(guess)).toEqual([101]));
  // What the door is told is not for clients.
  expect(guess.heard).not.toMatch(/refusal/i);
  knock("first", false);
  await eventually(() => expect(asked).toContain("first"));
  for (const [index, arrive] of [
    () => knock("guess-2", true),
    () => knock("new", false, "127.0.0.2"),
    () => knock("back", true, "127.0.0.2"),
  ].entries()) {
    arrive();
    await eventually(() => expect(door.waiting).toBe(index + 1));
  }
  for (const [index, name] of ["first", "back", "new"].entries()) {
    answers.get(name)?.();
    await eventually(() => expect(asked.length).toBe(index + 3));
  }
  expect(asked).toEqual(["guess-1", "first", "back", "new", "guess-2"]);
});

describe("a request for a WebSocket", () => {
  test.each(["Content-Length: 14\r\n", "Transfer-Encoding: chunked\r\n", "Transfer-Encoding: gzip, chunked\r\n"])(
    "with a body (%j) is refused: workerd would pass over the body, and read frames from another place than we do",
    async (header) => {
      const { asked, door } = await opened();
      const client = dial(door.httpPort, `GET /v1/ws HTTP/1.1\r\n${WEBSOCKET}${header}\r\n0\r\n\r\n`);
      await eventually(() => expect(statusesOf(client)).toEqual([400]));
      expect(client.heard).toContain('{"error":"bad_request","detail":"an upgrade must not have a body"}\n');
      await eventually(() => expect(client.socket.closed).toBe(true));
      expect([asked, door.waiting]).toEqual([[], 0]);
    },
  );

  test("with a body of no bytes is an ordinary one", async () => {
    const { asked, door } = await opened();
    dial(door.httpPort, `GET /v1/ws HTTP/1.1\r\n${WEBSOCKET}Content-Length: 0\r\n\r\n`);
    await eventually(() => expect(asked).toEqual(["upgrade /v1/ws"]));
  });

  test.each([
    ["POST /v1/sessions", "Content-Length: 2\r\n", "{}"],
    ["POST /v1/ws", "Content-Length: 2\r\n", "{}"],
    ["GET /v1/stats", "", ""],
    ["GET /v1/stats", "Content-Length: 2\r\n", "{}"],
  ])("where there is none (%s, %j) takes nobody's turn to come in", async (what, header, body) => {
    const { asked, door } = await opened();
    // Takes the only turn there is.
    dial(door.httpPort, `GET /v1/ws HTTP/1.1\r\n${WEBSOCKET}\r\n`);
    await eventually(() => expect(asked).toEqual(["upgrade /v1/ws"]));
    const client = dial(door.httpPort, `${what} HTTP/1.1\r\n${WEBSOCKET}${header}\r\n${body}`);
    await eventually(() => expect(statusesOf(client)).toEqual([200]));
    expect(asked.slice(1)).toEqual([what]);
  });

  test.each(["/v1/ws?label=a", "/v1/./ws", "http://x/v1/ws?label=a"])("may be written as %s", async (path) => {
    const { asked, door } = await opened();
    dial(door.httpPort, `GET ${path} HTTP/1.1\r\n${WEBSOCKET}\r\n`);
    await eventually(() => expect(asked).toEqual([`upgrade ${path}`]));
  });
});
