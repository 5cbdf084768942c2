import { readFileSync } from "node:fs";
import type { Socket } from "node:net";
import { setTimeout as pause } from "node:timers/promises";
import fc from "fast-check";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { WebSocket } from "ws";
import { textFrames } from "../../../src/node/listeners/frames.ts";
import type { ListenerOptions } from "../../../src/node/listeners/index.ts";
import type { ClientEntry } from "../../../src/service.ts";
import { announcement, OPCODE, openRaw, shortFrame } from "../../abuse/raw-socket.ts";
import { fixture } from "../../cli/support.ts";
import { becomes, dial, eventually, HOST, openPorts, statusesOf, TOO_MUCH_BYTES } from "./support.ts";

const UPGRADE =
  "Host: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n" +
  "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n";

/** An app that lets everybody in on `/v1/ws`, as the service's does. */
async function opened(
  options: Partial<ListenerOptions> & { readonly entry?: Partial<ClientEntry>; decides?: () => Promise<void> } = {},
) {
  const asked: string[] = [];
  const ports = await openPorts({
    fetch: async (request, address) => {
      asked.push(`${request.method} ${new URL(request.url).pathname}`);
      if (request.headers.get("Upgrade") === null || request.method !== "GET") return new Response("well");
      await options.decides?.();
      const entry: ClientEntry = {
        protocol: "dflockd",
        transport: "ws",
        address,
        isAuthenticated: false,
        rights: { scope: undefined, isAdmin: false },
        hasWindow: false,
        ...options.entry,
      };
      const offered = request.headers.get("Sec-WebSocket-Protocol") ?? "";
      const headers = new Headers(offered.includes("dflockd.v2") ? { "Sec-WebSocket-Protocol": "dflockd.v2" } : {});
      const credential = offered.includes("holdfast.resume") ? { session: "s", secret: "t" } : undefined;
      const end = await ports.listeners.sockets.upgrade(request, { type: "client", entry, credential }, headers);
      if (end.status === "upgraded") return end.response;
      return Response.json({ error: end.status }, { status: 503 });
    },
    ...options,
  });
  return { ...ports, asked, url: `ws://${HOST}:${ports.http}/v1/ws` };
}

interface Client {
  readonly ws: WebSocket;
  readonly texts: string[];
  readonly binaries: Buffer[];
  readonly codes: number[];
}

function join(url: string, protocols: string[] = ["dflockd.v2"], options: WebSocket.ClientOptions = {}): Client {
  const ws = new WebSocket(url, protocols, options).on("error", () => {});
  onTestFinished(() => ws.terminate());
  const client: Client = { ws, texts: [], binaries: [], codes: [] };
  ws.on("message", (data: Buffer, isBinary) => {
    if (isBinary) client.binaries.push(data);
    else client.texts.push(data.toString());
  });
  ws.on("close", (code) => client.codes.push(code));
  return client;
}

async function joined(options: Parameters<typeof opened>[0] = {}) {
  const here = await opened(options);
  const client = join(here.url);
  await becomes(() => here.guests.length, 1);
  await becomes(() => client.ws.readyState, WebSocket.OPEN);
  const [guest] = here.guests;
  if (!guest) throw new Error("nobody");
  return { ...here, client, guest };
}

describe("a WebSocket client", () => {
  test("is heard in text and binary, and gets each line as a frame", async () => {
    const { client, guest } = await joined();
    client.ws.send("a\n");
    client.ws.send(Buffer.from("b\n"));
    await becomes(() => guest.heardText, "a\nb\n");
    guest.carrier.send(["one\n", "two é\n", "three\n"]);
    await becomes(() => client.texts, ["a\n", "b\n", "one\n", "two é\n", "three\n"]);
    expect(guest.arrival).toMatchObject({ transport: "ws", address: HOST, protocol: "dflockd" });
  });

  test("gives a sign of life with an empty text, and ends its input with an empty binary frame", async () => {
    const { client, guest } = await joined();
    client.ws.send("");
    await becomes(() => guest.signs, 1);
    expect([guest.heardText, guest.hasEndedInput]).toEqual(["", false]);
    client.ws.send(Buffer.alloc(0));
    await becomes(() => guest.hasEndedInput, true);
    guest.carrier.send(["late\n"]);
    await becomes(() => client.texts, ["late\n"]);
  });

  test("that is a bridge gets all lines in one frame, and acknowledgements", async () => {
    const { client, guest } = await joined({ entry: { hasWindow: true } });
    guest.carrier.send(["one\n", "two\n"]);
    guest.carrier.acknowledge(new Uint8Array([0, 0, 1, 2]));
    await becomes(() => [client.texts, client.binaries.map((bytes) => [...bytes])], [["one\ntwo\n"], [[0, 0, 1, 2]]]);
  });

  test("gets an answer to its ping", async () => {
    const { client } = await joined();
    const pongs: string[] = [];
    client.ws.on("pong", (data) => pongs.push(String(data)));
    client.ws.ping("hello");
    await becomes(() => pongs, ["hello"]);
  });

  test("gives a sign of life with each ping and pong, so that a flood of them is counted", async () => {
    const { client, guest } = await joined();
    client.ws.ping();
    client.ws.pong();
    await becomes(() => guest.signs, 2);
  });

  test("gets long lines whole, with pongs between their parts", async () => {
    const { client, guest } = await joined();
    const pongs: string[] = [];
    client.ws.on("pong", (data) => pongs.push(String(data)));
    const long = `${"é".repeat(700_000)}\n`;
    guest.carrier.send(["a\n", long, "b\n"]);
    client.ws.ping("hello");
    await becomes(() => client.texts.map(({ length }) => length), [2, long.length, 2]);
    expect(client.texts[1] === long).toBe(true);
    await becomes(() => pongs, ["hello"]);
  });

  test("may send its first words with its upgrade", async () => {
    const { http, guests } = await opened();
    const head = Buffer.from(`GET /v1/ws HTTP/1.1\r\n${UPGRADE}\r\n`);
    dial(http, Buffer.concat([head, shortFrame(OPCODE.text, "early\n")]));
    await becomes(() => guests[0]?.heardText, "early\n");
  });

  test("may send bytes that are no UTF-8 as text: the session judges them", async () => {
    const { http, guests } = await opened();
    const raw = await openRaw(http);
    raw.write(Buffer.from([0x81, 0x82, 0, 0, 0, 0, 0xff, 0xfe]));
    await becomes(() => guests[0]?.heardText.length, 2);
    raw.destroy();
  });

  test("is read from when its host wants to", async () => {
    const { client, guest } = await joined();
    guest.carrier.pause();
    client.ws.send("a\n");
    await pause(100);
    expect(guest.heardText).toBe("");
    guest.carrier.resume();
    await becomes(() => client.texts, ["a\n"]);
  });
});

describe("the upgrade", () => {
  test("tells the subprotocol that the app has chosen, and compresses nothing", async () => {
    const { http } = await opened();
    const offer = "Sec-WebSocket-Protocol: chat, dflockd.v2, chat\r\nSec-WebSocket-Extensions: permessage-deflate\r\n";
    const client = dial(http, `GET /v1/ws HTTP/1.1\r\n${UPGRADE}${offer}\r\n`);
    await becomes(() => statusesOf(client), [101]);
    expect(client.heard).toMatch(/\r\nSec-WebSocket-Protocol: dflockd\.v2\r\n/i);
    expect(client.heard).not.toMatch(/extensions/i);
    const other = dial(http, `GET /v1/ws HTTP/1.1\r\n${UPGRADE}\r\n`);
    await becomes(() => statusesOf(other), [101]);
    expect(other.heard).not.toMatch(/Sec-WebSocket-Protocol/i);
  });

  test.each(["Content-Length: 14\r\n", "Transfer-Encoding: chunked\r\n", "Transfer-Encoding: gzip, chunked\r\n"])(
    "with a body (%j) is refused",
    async (header) => {
      const { asked, http } = await opened();
      const client = dial(http, `GET /v1/ws HTTP/1.1\r\n${UPGRADE}${header}\r\n0\r\n\r\n`);
      await becomes(() => statusesOf(client), [400]);
      await eventually(() =>
        expect(client.heard).toContain('{"error":"bad_request","detail":"an upgrade must not have a body"}\n'),
      );
      await becomes(() => client.socket.closed, true);
      expect(asked).toEqual([]);
    },
  );

  test.each(["/v1/ws?label=a", "/v1/./ws", "http://x/v1/ws?label=a"])("may be written as %s", async (path) => {
    const { http } = await opened();
    const client = dial(http, `GET ${path} HTTP/1.1\r\n${UPGRADE}Content-Length: 0\r\n\r\n`);
    await becomes(() => statusesOf(client), [101]);
  });

  test.each([
    ["POST /v1/sessions", "Content-Length: 2\r\n", "{}"],
    ["POST /v1/ws", "Content-Length: 2\r\n", "{}"],
    ["GET /v1/stats", "", ""],
    ["GET /v1\\ws", "", ""],
  ])("is none where there is no WebSocket: %s", async (what, header, body) => {
    const { guests, http } = await openPorts();
    const client = dial(http, `${what} HTTP/1.1\r\n${UPGRADE}${header}\r\n${body}`);
    await becomes(() => statusesOf(client), [200]);
    expect(guests).toEqual([]);
  });

  test("behind a request that is being answered is not mixed up with its answer", async () => {
    const { http } = await opened();
    const client = dial(http, `GET /a HTTP/1.1\r\nHost: x\r\n\r\nGET /v1/ws HTTP/1.1\r\n${UPGRADE}\r\n`);
    await becomes(() => client.socket.closed, true);
    expect(statusesOf(client)).not.toContain(101);
  });

  test("that the app refuses is answered, and the connection closed", async () => {
    const { clients, http } = await opened();
    clients.refusal = "unavailable";
    const client = dial(http, `GET /v1/ws HTTP/1.1\r\n${UPGRADE}\r\n`);
    await eventually(() => expect(client.heard).toContain('{"error":"unavailable"}'));
    await becomes(() => client.socket.closed, true);
    expect(statusesOf(client)).toEqual([503]);
  });

  test.each([
    ["session_gone", 4410, /X-Holdfast-Refusal: session_gone\r\n/i],
    ["session_in_use", 4409, /101/],
  ] as const)("of a client that cannot resume (%s) opens, and closes with a code", async (refusal, code, header) => {
    const { clients, guests, http, url } = await opened();
    clients.refusal = refusal;
    const client = join(url, ["dflockd.v2", "holdfast.resume.a.b"]);
    await becomes(() => client.codes, [code]);
    expect([clients.credentials.length, guests.length]).toEqual([1, 0]);
    const raw = dial(http, `GET /v1/ws HTTP/1.1\r\n${UPGRADE}Sec-WebSocket-Protocol: holdfast.resume.a\r\n\r\n`);
    await eventually(() => expect(raw.heard).toMatch(header));
    // It does not answer the close frame.
    await becomes(() => raw.socket.closed, true);
  });

  test("of a client that hangs up while the app decides takes no place", async () => {
    const decided = Promise.withResolvers<void>();
    const { guests, http, asked, url } = await opened({
      caps: { sockets: 9, clients: 1, clientsPerAddress: 0, httpPerAddress: 0 },
      decides: () => decided.promise,
    });
    const client = dial(http, `GET /v1/ws HTTP/1.1\r\n${UPGRADE}\r\n`);
    await becomes(() => asked.length, 1);
    client.socket.resetAndDestroy();
    // The server has seen the reset before it answers this.
    const bystander = dial(http, "GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    await becomes(() => statusesOf(bystander), [200]);
    decided.resolve();
    const next = join(url);
    await becomes(() => next.ws.readyState, WebSocket.OPEN);
    expect(guests.length).toBe(1);
  });

  test("of a client that hangs up while it is being let in leaves nothing behind", async () => {
    const { clients, http } = await opened({
      caps: { sockets: 9, clients: 1, clientsPerAddress: 0, httpPerAddress: 0 },
    });
    let letIn = () => {};
    const { admit } = clients;
    clients.resume = (arrival) =>
      new Promise((resolve) => {
        letIn = () => resolve(admit.call(clients, arrival));
      });
    const client = dial(http, `GET /v1/ws HTTP/1.1\r\n${UPGRADE}Sec-WebSocket-Protocol: holdfast.resume.a\r\n\r\n`);
    await pause(100);
    client.socket.resetAndDestroy();
    await pause(50);
    letIn();
    await eventually(() => expect(clients.abandoned + (clients.guests[0]?.ends.length ?? 0)).toBe(1));
    const next = join(`ws://${HOST}:${http}/v1/ws`);
    await becomes(() => next.ws.readyState, WebSocket.OPEN);
  });

  test("counts clients by the address that the app has found", async () => {
    const caps = { sockets: 100, clients: 0, clientsPerAddress: 1, httpPerAddress: 0 };
    const { http, url, client } = await joined({ caps, entry: { address: "192.0.2.1" } });
    const refused = dial(http, `GET /v1/ws HTTP/1.1\r\n${UPGRADE}\r\n`);
    await eventually(() => expect(refused.heard).toContain('{"error":"max_connections_per_ip"}'));
    client.ws.close();
    await becomes(() => client.codes.length, 1);
    await eventually(() => {
      const again = join(url);
      return becomes(() => again.ws.readyState, WebSocket.OPEN, 200);
    });
  });

  test("frees its place among the connections to the HTTP port", async () => {
    const caps = { sockets: 100, clients: 0, clientsPerAddress: 0, httpPerAddress: 1 };
    const { url } = await joined({ caps });
    const next = join(url);
    await becomes(() => next.ws.readyState, WebSocket.OPEN);
  });
});

describe("the end of a WebSocket", () => {
  test.each([
    [1000, 1000, 1000],
    [4005, 4005, 4005],
    [undefined, 1000, 1005],
  ])("by a close frame with code %s is answered at once", async (code, answer, told) => {
    const { client, guest } = await joined();
    client.ws.close(code);
    await becomes(() => [client.codes, guest.ends], [[answer], [told]], 1_000);
  });

  test("by a close frame is told at once, also if the client keeps the connection", async () => {
    const { http, guests } = await opened();
    const raw = await openRaw(http);
    raw.write(Buffer.from([0x88, 0x82, 0, 0, 0, 0, 0x03, 0xe9]));
    await becomes(() => guests[0]?.ends, [1001], 500);
    raw.resume();
    await becomes(() => raw.closed, true);
  });

  test.each(["a FIN", "a reset"])("by %s is one without a close frame", async (how) => {
    const { http, guests } = await opened();
    const raw = await openRaw(http);
    raw.on("error", () => {});
    if (how === "a FIN") raw.end();
    else raw.resetAndDestroy();
    await becomes(() => guests[0]?.ends, [1006], 500);
  });

  test("by the host comes after everything that was sent", async () => {
    const { client, guest } = await joined();
    const lines = Array.from({ length: 5_000 }, (_, index) => `${index} ${"x".repeat(100)}\n`);
    guest.carrier.send(lines);
    guest.carrier.close(4408);
    guest.carrier.send(["never\n"]);
    await becomes(() => client.codes, [4408]);
    expect(client.texts).toEqual(lines);
    await becomes(() => guest.ends, [4408]);
  });

  test("by the host is not waited for, and the client is not heard again", async () => {
    const { http, guests } = await opened();
    const raw = await openRaw(http);
    await becomes(() => guests.length, 1);
    guests[0]?.carrier.close(4408);
    raw.write(shortFrame(OPCODE.text, "more\n"));
    raw.resume();
    await becomes(() => raw.closed, true);
    expect([guests[0]?.heardText, guests[0]?.ends]).toEqual(["", [1006]]);
  });

  test("by us is not told", async () => {
    const { client, guest, listeners } = await joined();
    listeners.cut();
    await becomes(() => client.codes, [1012]);
    expect(guest.ends).toEqual([]);
  });

  test("by a client that breaks the rules is told as one without a close frame", async () => {
    const { http, guests } = await opened();
    const raw = await openRaw(http);
    // Not masked.
    raw.write(Buffer.from([0x81, 0x01, 0x61]));
    await becomes(() => guests[0]?.ends, [1006]);
    let heard = "";
    raw.on("data", (bytes) => {
      heard += bytes.toString("latin1");
    });
    raw.resume();
    await becomes(() => heard, "\x88\x02\x03\xea");
  });
});

describe("a message that is too long", () => {
  test("of exactly one mebibyte is not", async () => {
    const { client, guest } = await joined();
    guest.answer = () => {};
    client.ws.send("x".repeat(2 ** 20));
    await becomes(() => guest.heardText.length, 2 ** 20);
  });

  test("is refused before it is sent, and answers before it are not lost", async () => {
    const { http, guests } = await opened();
    const raw = await openRaw(http);
    let heard = "";
    raw.on("data", (bytes) => {
      heard += bytes.toString("latin1");
    });
    await becomes(() => guests.length, 1);
    const [guest] = guests;
    if (!guest) throw new Error("nobody");
    guest.sentTooMuch = () => {
      guest.hasSentTooMuch = true;
      // As the host does: after the commit.
      setImmediate(() => {
        guest.carrier.send(["ok\n"]);
        guest.carrier.close(1009);
      });
    };
    raw.resume();
    raw.write(announcement(2 ** 40));
    await becomes(() => heard, "\x81\x03ok\n\x88\x02\x03\xf1");
    await becomes(() => raw.closed, true);
    expect([guest.hasSentTooMuch, guest.heardText]).toEqual([true, ""]);
  });

  test("is measured over all its parts", async () => {
    const { client, guest } = await joined();
    for (let part = 0; part < 3; part += 1) client.ws.send(Buffer.alloc(400_000, 120), { fin: part === 2 });
    await becomes(() => client.codes, [1009]);
    expect([guest.hasSentTooMuch, guest.heardText.length]).toEqual([true, 0]);
  });
});

describe("a WebSocket client that does not read", () => {
  test("is cut off a minute after it was sent away, also without a write time-out", async () => {
    const { guests, http } = await opened({ writeTimeoutMs: 0 });
    const socket = await openRaw(http);
    onTestFinished(() => void socket.destroy());
    await becomes(() => guests.length, 1);
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
    onTestFinished(() => void vi.useRealTimers());
    guests[0]?.carrier.send(["y".repeat(TOO_MUCH_BYTES)]);
    guests[0]?.carrier.close(1000);
    await vi.advanceTimersByTimeAsync(59_000);
    expect(guests[0]?.ends).toEqual([]);
    await vi.advanceTimersByTimeAsync(1_000);
    await becomes(() => guests[0]?.ends.length, 1);
  });

  async function deaf(writeTimeoutMs: number, frame: Buffer) {
    const here = await opened({ writeTimeoutMs });
    const raw: Socket = await openRaw(here.http);
    onTestFinished(() => void raw.destroy());
    raw.on("error", () => {});
    await becomes(() => here.guests.length, 1);
    const [guest] = here.guests;
    if (!guest) throw new Error("nobody");
    guest.answer = () => guest.carrier.send(["y".repeat(65_536)]);
    const asking = setInterval(() => raw.writable && raw.write(frame), 5);
    onTestFinished(() => clearInterval(asking));
    return { raw, guest };
  }
  const more = shortFrame(OPCODE.text, "more\n");

  test("is cut off when it takes nothing for the write time-out", async () => {
    const { guest } = await deaf(300, more);
    await becomes(() => guest.ends, [1006]);
  });

  test("is cut off also if it only pings", async () => {
    const pings = Buffer.concat(Array(2_000).fill(shortFrame(OPCODE.ping, "p".repeat(125))));
    const { guest } = await deaf(300, pings);
    await becomes(() => guest.ends, [1006], 10_000);
  });

  test("is not read from meanwhile", async () => {
    const { raw, guest } = await deaf(0, more);
    let heard = -1;
    for (let rounds = 0; heard !== guest.heardText.length; rounds += 1) {
      expect(rounds).toBeLessThan(40);
      heard = guest.heardText.length;
      await pause(500);
    }
    expect(guest.ends).toEqual([]);
    raw.resume();
    await eventually(() => expect(guest.heardText.length).toBeGreaterThan(heard));
  });

  test("and then reads slowly stays", async () => {
    const { raw, guest } = await deaf(2_000, more);
    const reading = setInterval(() => {
      raw.resume();
      setTimeout(() => raw.pause(), 5);
    }, 150);
    onTestFinished(() => clearInterval(reading));
    await pause(5_000);
    expect(guest.ends).toEqual([]);
  });
});

test("over TLS, a WebSocket client is served", async () => {
  const tls = { cert: readFileSync(fixture("cert.pem")), key: readFileSync(fixture("key.pem")) };
  const { url, guests } = await opened({ tls });
  const client = join(url.replace("ws:", "wss:"), [], { rejectUnauthorized: false });
  await becomes(() => guests.length, 1);
  guests[0]?.carrier.send(["z".repeat(500_000)]);
  await becomes(() => client.texts[0]?.length, 500_000);
  client.ws.close();
  await becomes(() => guests[0]?.ends, [1005]);
});

/** The messages in a server's frames. */
function messagesIn(bytes: Buffer): string[] {
  const messages: string[] = [];
  let parts: Buffer[] = [];
  for (let at = 0; at < bytes.length; ) {
    const short = bytes.readUInt8(at + 1);
    const [start, length] = short < 126 ? [at + 2, short] : [at + 4, bytes.readUInt16BE(at + 2)];
    expect(bytes.readUInt8(at) & 0x7f).toBe(parts.length === 0 ? 1 : 0);
    parts.push(bytes.subarray(start, start + length));
    if (bytes.readUInt8(at) >= 0x80) {
      messages.push(Buffer.concat(parts).toString());
      parts = [];
    }
    at = start + length;
  }
  return messages;
}

test("lines become frames of at most 16 KiB, and are the same when put together", () => {
  const line = fc.oneof(
    fc.string({ unit: "binary" }),
    fc.tuple(fc.constantFrom("a", "é", "😀"), fc.integer({ min: 0, max: 40_000 })).map(([text, n]) => text.repeat(n)),
  );
  fc.assert(
    fc.property(fc.array(line, { maxLength: 12 }), (lines) => {
      const buffers = textFrames(lines);
      expect(buffers.every(({ length }) => length <= 16_384)).toBe(true);
      // Surrogates that stand alone cannot be sent.
      expect(messagesIn(Buffer.concat(buffers))).toEqual(lines.map((each) => each.toWellFormed()));
    }),
    { numRuns: 20 },
  );
});
