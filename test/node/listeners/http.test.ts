import { readFileSync } from "node:fs";
import { request as requestTls } from "node:https";
import { setTimeout as pause } from "node:timers/promises";
import { describe, expect, onTestFinished, test } from "vitest";
import { fixture } from "../../cli/support.ts";
import { becomes, dial, eventually, openPorts, statusesOf } from "./support.ts";

type Fetch = (request: Request, address: string) => Response | Promise<Response>;
const opened = async (fetch: Fetch, options: Parameters<typeof openPorts>[0] = {}) => openPorts({ fetch, ...options });

const get = (path: string, headers = "") => `GET ${path} HTTP/1.1\r\nHost: x\r\n${headers}\r\n`;
const post = (path: string, body: string) =>
  `POST ${path} HTTP/1.1\r\nHost: x\r\nContent-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`;

describe("a request", () => {
  test("reaches the app as it was sent, with the address of its connection", async () => {
    const seen: unknown[] = [];
    const { http } = await opened(async (request, address) => {
      const { method, url, headers } = request;
      seen.push([method, url, headers.get("X-Some"), await request.text(), address]);
      return new Response("well", { headers: { "X-Other": "b" } });
    });
    const client = dial(http, post("/a%2Fb?c=d", '{"é":1}').replace("Host", "X-Some: a\r\nHost"));
    await becomes(() => statusesOf(client), [200]);
    expect(seen).toEqual([["POST", "http://x/a%2Fb?c=d", "a", '{"é":1}', "127.0.0.1"]]);
    expect(client.heard).toMatch(/\r\nx-other: b\r\n/i);
    expect(client.heard).toMatch(/\r\ncontent-length: 4\r\n/i);
    expect(client.heard).not.toMatch(/\r\ndate:/i);
    expect(client.heard.endsWith("\r\n\r\nwell")).toBe(true);
  });

  test.each([
    ["a\\b", "http://x/v1/locks/a%5Cb"],
    ["a%5Cb", "http://x/v1/locks/a%5Cb"],
    ["a?b\\c", "http://x/v1/locks/a?b\\c"],
    ["a%ff", "http://x/v1/locks/a%ff"],
  ])("with the key %s is not taken for another path", async (key, url) => {
    const seen: string[] = [];
    const { http } = await opened((request) => {
      seen.push(request.url);
      return new Response("well");
    });
    for (const host of ["x", "x:6389", "[::1]:6389"]) {
      const client = dial(http, get(`/v1/locks/${key}`).replace("Host: x", `Host: ${host}`));
      await becomes(() => statusesOf(client), [200]);
    }
    const without = (text: string) => text.replace(/^https?:\/\/[^/]+/, "");
    expect(seen.map(without)).toEqual(Array(3).fill(without(url)));
  });

  test.each([
    ["http", "", "http://x/a"],
    ["https", "X-Forwarded-Proto: https\r\n", "https://x/a"],
    ["http", "X-Forwarded-Proto: gopher\r\n", "http://x/a"],
  ])("comes by %s if a proxy says so (%j)", async (_, header, url) => {
    const seen: string[] = [];
    const { http } = await opened((request) => {
      seen.push(request.url);
      return new Response("well");
    });
    const client = dial(http, get("/a", header));
    await becomes(() => statusesOf(client), [200]);
    expect(seen).toEqual([url]);
  });

  test("with an empty condition has one", async () => {
    const seen: unknown[] = [];
    const { http } = await opened(({ headers }) => {
      seen.push(headers.get("If-Match"), headers.has("If-Match"));
      return new Response("well");
    });
    const client = dial(http, get("/a", "If-Match:\r\n"));
    await becomes(() => statusesOf(client), [200]);
    expect(seen).toEqual(["", true]);
  });

  test.each(["GET /health HTTP/1.0\r\n\r\n", "GET /health HTTP/1.0\r\nHost:\r\n\r\n"])(
    "of HTTP/1.0 need not name a host: %j",
    async (head) => {
      const seen: unknown[] = [];
      const { http } = await opened(({ url, headers }) => {
        seen.push(url, headers.get("Host"));
        return new Response("well");
      });
      const client = dial(http, head);
      await becomes(() => [client.heard.slice(0, 15), client.socket.closed], ["HTTP/1.1 200 OK", true]);
      expect(client.heard.endsWith("\r\n\r\nwell")).toBe(true);
      expect(seen).toEqual(["http://localhost/health", "localhost"]);
    },
  );

  test("for the head alone gets no body and keeps the connection", async () => {
    const { http } = await opened(({ method }) => new Response(method === "HEAD" ? null : "well"));
    const client = dial(http, get("/a").replace("GET", "HEAD"));
    await becomes(() => statusesOf(client), [200]);
    expect(client.heard).not.toMatch(/content-length/i);
    client.socket.write(get("/a"));
    await becomes(() => statusesOf(client), [200, 200]);
  });

  test("whose answer has no body", async () => {
    const { http } = await opened(() => new Response(null, { status: 204 }));
    const client = dial(http, get("/a") + get("/a"));
    await becomes(() => statusesOf(client), [204, 204]);
    expect(client.heard).not.toMatch(/content-length|transfer-encoding/i);
  });

  test("that the app fails to answer costs its connection only", async () => {
    const { http, lines } = await opened(({ url }) => {
      if (url.endsWith("/bad")) throw new Error("oops");
      return new Response("well");
    });
    const client = dial(http, get("/bad"));
    await becomes(() => client.socket.closed, true);
    expect(lines).toEqual(["a request was not answered: Error: oops"]);
    const next = dial(http, get("/good"));
    await becomes(() => statusesOf(next), [200]);
  });
});

describe("the listener refuses", () => {
  const UPGRADE = "GET /v1/ws HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n";
  const KEY = "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n";
  const VERSION = "Sec-WebSocket-Version: 13\r\n";
  const HOST_FAULT = "Host header must be given once";

  test.each([
    ["no Host", "GET /health HTTP/1.1\r\n", 400, HOST_FAULT],
    ["an empty Host", "GET /health HTTP/1.1\r\nHost:\r\n", 400, HOST_FAULT],
    ["two Hosts", "GET /health HTTP/1.1\r\nHost: a\r\nHost: b\r\n", 400, HOST_FAULT],
    ["an upgrade without Host", `${UPGRADE.replace("Host: x\r\n", "")}${KEY}${VERSION}`, 400, HOST_FAULT],
    ["a Host that is none", "GET /health HTTP/1.1\r\nHost: a b\r\n", 400, "header Host must name a host"],
    ["a Host with a path", "GET /health HTTP/1.1\r\nHost: a/b\r\n", 400, "header Host must name a host"],
    [
      "an upgrade with such a Host",
      `${UPGRADE.replace("x", "a b")}${KEY}${VERSION}`,
      400,
      "header Host must name a host",
    ],
    ["an upgrade without key", `${UPGRADE}${VERSION}`, 400, "Sec-WebSocket-Key header is missing"],
    [
      "an upgrade with a bad key",
      `${UPGRADE}Sec-WebSocket-Key: a\r\n${VERSION}`,
      400,
      "Sec-WebSocket-Key header must be 16 bytes in base64",
    ],
    ["an upgrade without version", `${UPGRADE}${KEY}`, 426, "header Sec-WebSocket-Version must be 13"],
    [
      "an upgrade of another version",
      `${UPGRADE}${KEY}Sec-WebSocket-Version: 12\r\n`,
      426,
      "header Sec-WebSocket-Version must be 13",
    ],
  ])("%s, in the form of all errors", async (_, head, status, detail) => {
    const asked: string[] = [];
    const { http } = await opened(({ url }) => {
      asked.push(url);
      return new Response("well");
    });
    const client = dial(http, `${head}\r\n`);
    await becomes(() => statusesOf(client), [status]);
    const error = status === 426 ? "upgrade_required" : "bad_request";
    await eventually(() => expect(client.heard.endsWith(`\r\n\r\n${JSON.stringify({ error, detail })}\n`)).toBe(true));
    if (status === 426) expect(client.heard).toMatch(/\r\nSec-WebSocket-Version: 13\r\nUpgrade: websocket\r\n/);
    expect(asked).toEqual([]);
  });

  test.each([
    ["CONNECT", "CONNECT x:1 HTTP/1.1\r\nHost: x\r\n\r\n", 501, "not_implemented"],
    ["a method that is none", "FOO / HTTP/1.1\r\nHost: x\r\n\r\n", 501, "not_implemented"],
    ["a head that is too long", get("/", `X-Filler: ${"a".repeat(66_000)}\r\n`), 431, "bad_request"],
    ["something else", "GET / HTTP/9.9\r\n\r\n", 400, "bad_request"],
    ["two lengths", "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 400, "bad_request"],
    [
      "a length and an encoding",
      "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
      400,
      "bad_request",
    ],
  ])("%s", async (_, words, status, error) => {
    const { http } = await opened(() => new Response("well"));
    const client = dial(http, words);
    await becomes(() => statusesOf(client)[0], status);
    await eventually(() => expect(client.heard).toContain(`{"error":"${error}","detail":"`));
    await becomes(() => client.socket.closed, true);
  });

  test.each(["ключ", "a\x01b"])(
    "the path %j with its cause: Node reads no path beyond printable ASCII",
    async (key) => {
      const { http } = await opened(() => new Response("well"));
      const client = dial(http, get(`/v1/locks/${key}`));
      await becomes(() => statusesOf(client), [400]);
      const detail = "the path has a character that must be percent-encoded";
      await eventually(() => expect(client.heard).toContain(JSON.stringify({ error: "bad_request", detail })));
    },
  );

  test("a head that does not come in time, and a connection that says nothing", async () => {
    const { http } = await opened(() => new Response("well"), { readTimeoutMs: 300 });
    const [half, silent] = [dial(http, "GET /health HTTP/1.1\r\nHost: x"), dial(http)];
    await becomes(() => [half.socket.closed, silent.socket.closed], [true, true]);
    expect(statusesOf(half)).toEqual([408]);
  });

  test("connections beyond the caps, in the form of all errors", async () => {
    const caps = { sockets: 4, clients: 0, clientsPerAddress: 0, httpPerAddress: 2 };
    const { http } = await opened(() => new Promise<Response>(() => {}), { caps });
    for (const _ of [1, 2]) dial(http, get("/"));
    await pause(50);
    const third = dial(http);
    await eventually(() => expect(third.heard).toContain('{"error":"max_connections_per_ip",'));
    for (const _ of [1, 2]) dial(http, get("/"), "127.0.0.2");
    await pause(50);
    const fifth = dial(http, "", "127.0.0.3");
    await eventually(() => expect(fifth.heard).toContain('{"error":"max_connections",'));
    expect([statusesOf(third), statusesOf(fifth)]).toEqual([[503], [503]]);
  });

  test("nobody for connections that only wait for a request", async () => {
    const caps = { sockets: 1, clients: 0, clientsPerAddress: 0, httpPerAddress: 0 };
    const { http } = await opened(() => new Response("well"), { caps });
    const idle = dial(http, get("/"));
    await becomes(() => statusesOf(idle), [200]);
    const next = dial(http, get("/"));
    await becomes(() => statusesOf(next), [200]);
    expect(idle.socket.closed).toBe(true);
  });
});

test("a 426 says to what a client has to upgrade, and keeps or ends the connection as the client asked", async () => {
  const { http } = await opened(({ url }) =>
    url.endsWith("/v1/ws")
      ? new Response("no", { status: 426, headers: { Upgrade: "websocket" } })
      : new Response("well"),
  );
  const kept = dial(http, get("/v1/ws"));
  await becomes(() => statusesOf(kept), [426]);
  expect(kept.heard).toMatch(/\r\nupgrade: websocket\r\n/i);
  expect(kept.heard).toMatch(/\r\nconnection: Upgrade\r\n/i);
  kept.socket.write(get("/health"));
  await becomes(() => statusesOf(kept), [426, 200]);
  const ended = dial(http, get("/v1/ws", "Connection: close\r\n"));
  await eventually(() => expect(ended.heard).toMatch(/\r\nconnection: Upgrade, close\r\n/i));
  await becomes(() => ended.socket.closed, true);
});

describe("a client that hangs up", () => {
  test.each(["a FIN", "a reset"])("with %s aborts its request at once", async (how) => {
    const signals: AbortSignal[] = [];
    const { http } = await opened(({ signal }) => {
      signals.push(signal);
      return new Promise<Response>(() => {});
    });
    const client = dial(http, post("/poll", "{}") + get("/behind").repeat(100));
    await becomes(() => signals.length, 1);
    expect(signals[0]?.aborted).toBe(false);
    if (how === "a FIN") client.socket.end();
    else client.socket.resetAndDestroy();
    await eventually(() => expect(signals[0]?.aborted).toBe(true), 500);
    expect(signals).toHaveLength(1);
  });

  test("aborts nothing if it is we who hang up", async () => {
    const signals: AbortSignal[] = [];
    const { http, listeners } = await opened(({ signal }) => {
      signals.push(signal);
      return new Promise<Response>(() => {});
    });
    const client = dial(http, get("/poll"));
    await becomes(() => signals.length, 1);
    listeners.cut();
    await becomes(() => client.socket.closed, true);
    expect(signals[0]?.aborted).toBe(false);
  });

  test("after it was answered has aborted nothing", async () => {
    const signals: AbortSignal[] = [];
    const { http } = await opened(({ signal }) => {
      signals.push(signal);
      return new Response("well");
    });
    const client = dial(http, get("/"));
    await becomes(() => statusesOf(client), [200]);
    client.socket.destroy();
    await pause(50);
    expect(signals[0]?.aborted).toBe(false);
  });
});

describe("pipelined requests", () => {
  const POLL = get("/poll");
  const SHORT = get("/short");
  const LONG_HEAD = get("/long", `${"X-Filler: ".padEnd(2_000, "a")}\r\n`.repeat(30));

  async function polled() {
    const asked: string[] = [];
    const { promise, resolve } = Promise.withResolvers<Response>();
    const { http } = await opened(({ url }) => {
      asked.push(url.replace("http://x", ""));
      return url.endsWith("/poll") ? promise : new Response("well");
    });
    return { http, asked, answer: () => resolve(new Response(null, { status: 204 })) };
  }

  test("wait for the one that is being answered, and are answered in their order", async () => {
    const { http, asked, answer } = await polled();
    const client = dial(http, POLL + SHORT.repeat(250));
    await becomes(() => asked.length, 1);
    await pause(50);
    expect(asked).toEqual(["/poll"]);
    answer();
    await becomes(() => statusesOf(client), [204, ...Array(250).fill(200)]);
  });

  test.each([
    ["more than 256 of them", SHORT.repeat(257)],
    ["heads of more than 256 KiB together", LONG_HEAD.repeat(5)],
    ["bodies of more than 256 KiB together", post("/a", "a".repeat(60_000)).repeat(5)],
    [
      "bodies that do not tell their length",
      "POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n".repeat(5),
    ],
  ])("cost a client its connection if they are too many: %s", async (_, waiting) => {
    const { http, asked } = await polled();
    const client = dial(http, POLL);
    await becomes(() => asked.length, 1);
    client.socket.write(waiting);
    await becomes(() => client.socket.closed, true);
  });

  test("may have long heads, if they are few, and do not count twice", async () => {
    const { http } = await polled();
    const client = dial(http);
    for (let round = 1; round <= 4; round += 1) {
      client.socket.write(LONG_HEAD.repeat(4));
      await becomes(() => statusesOf(client), Array(4 * round).fill(200));
    }
  });

  test("behind a body are no requests inside it", async () => {
    const hidden = get("/nope");
    const chunked = `${hidden.length.toString(16)}\r\n${hidden}\r\n0\r\n\r\n`;
    const { http, asked } = await polled();
    for (const [headers, body] of [
      [`Connection: content-length\r\nContent-Length: ${hidden.length}\r\n`, hidden],
      ["Connection: transfer-encoding\r\nTransfer-Encoding: chunked\r\n", chunked],
    ]) {
      const client = dial(http, get("/short", headers) + body + SHORT);
      await becomes(() => statusesOf(client), [200, 200]);
    }
    expect(asked).toEqual(Array(4).fill("/short"));
  });
});

describe("a body", () => {
  const refuse = () => new Response("no", { status: 401 });

  test("that dribbles on after the answer is not waited for", async () => {
    const { http } = await opened(refuse);
    const client = dial(http, "POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n{");
    const dribble = setInterval(() => client.socket.write(" "), 50);
    onTestFinished(() => clearInterval(dribble));
    await eventually(() => expect(statusesOf(client)).toEqual([401]), 500);
    expect(client.heard).toMatch(/\r\nConnection: close\r\n/i);
    await becomes(() => client.socket.closed, true, 2_500);
  });

  test("that is endless is cut off after the answer", async () => {
    const { http } = await opened(refuse);
    const client = dial(http, "POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n");
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
    await becomes(() => client.socket.closed, true, 2_500);
    // What the operating system takes on both sides comes on top.
    expect(sent).toBeLessThan(30e6);
  });

  test("that ends soon after the answer costs no error", async () => {
    const { http } = await opened(refuse);
    const client = dial(http, "POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 500001\r\n\r\n{");
    const errors: Error[] = [];
    client.socket.on("error", (error) => errors.push(error));
    await becomes(() => statusesOf(client), [401]);
    client.socket.write(Buffer.alloc(500_000));
    await becomes(() => client.socket.closed, true, 900);
    expect(errors).toEqual([]);
  });

  test("that the app stops reading is answered all the same", async () => {
    const { http } = await opened(async (request) => {
      const reader = request.body?.getReader();
      await reader?.read();
      reader?.cancel().catch(() => {});
      return new Response("too long", { status: 400 });
    });
    const client = dial(http, "POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 300001\r\n\r\n{");
    const errors: Error[] = [];
    client.socket.on("error", (error) => errors.push(error));
    client.socket.write(Buffer.alloc(300_000));
    await becomes(() => statusesOf(client), [400]);
    await becomes(() => client.socket.closed, true, 2_500);
    expect(errors).toEqual([]);
  });

  test("that comes whole keeps the connection, read or not", async () => {
    const { http } = await opened(refuse);
    const client = dial(http, post("/a", "{}"));
    await becomes(() => statusesOf(client), [401]);
    client.socket.write(post("/a", "{}"));
    await becomes(() => statusesOf(client), [401, 401]);
  });

  test("that never ends is not waited for longer than twice the time for a request", async () => {
    const signals: AbortSignal[] = [];
    const { http } = await opened(
      async (request) => {
        signals.push(request.signal);
        await request.text();
        return new Response("well");
      },
      { readTimeoutMs: 400 },
    );
    const client = dial(http, "POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n{");
    const dribble = setInterval(() => client.socket.write(" "), 50);
    onTestFinished(() => clearInterval(dribble));
    await becomes(() => client.socket.closed, true);
    expect(signals[0]?.aborted).toBe(true);
  });

  test("may be answered later than it takes", async () => {
    const { http } = await opened(
      async (request) => {
        await request.text();
        await pause(1_500);
        return new Response("at last");
      },
      { readTimeoutMs: 300 },
    );
    const client = dial(http, post("/a", "{}"));
    await becomes(() => statusesOf(client), [200]);
  });
});

describe("a long answer", () => {
  const LENGTH = 20_000_000;
  const long = () => new Response("z".repeat(LENGTH));

  test("is sent whole, also to a client that reads slowly", async () => {
    // Each pause is a tenth of the time-out, all of them together are longer.
    const { http } = await opened(long, { writeTimeoutMs: 2_000 });
    const client = dial(http, get("/"));
    let pauses = 0;
    client.socket.on("data", () => {
      if (client.heard.length < (pauses + 1) * 1_500_000) return;
      pauses += 1;
      client.socket.pause();
      setTimeout(() => client.socket.resume(), 200);
    });
    await eventually(() => expect(client.heard.length).toBeGreaterThan(LENGTH), 40_000);
    expect(pauses).toBeGreaterThan(10);
    client.socket.write(get("/"));
    await becomes(() => statusesOf(client).length, 2);
  });

  test("is not kept for a client that does not read", async () => {
    const { http } = await opened(long, { writeTimeoutMs: 300 });
    const client = dial(http, get("/"));
    client.socket.pause();
    await pause(1_000);
    client.socket.resume();
    await becomes(() => client.socket.closed, true);
    expect(client.heard.length).toBeLessThan(LENGTH);
  });

  test("made of short ones is not kept either", async () => {
    const { http } = await opened(() => new Response("z".repeat(15_000)), { writeTimeoutMs: 300 });
    const client = dial(http);
    client.socket.pause();
    let isOver = false;
    client.socket.on("error", () => {
      isOver = true;
    });
    const asking = setInterval(() => client.socket.write(get("/").repeat(200)), 20);
    onTestFinished(() => clearInterval(asking));
    await becomes(() => isOver, true, 10_000);
  });
});

test("over TLS, requests come by https", async () => {
  const tls = { cert: readFileSync(fixture("cert.pem")), key: readFileSync(fixture("key.pem")) };
  const { http } = await opened(({ url }) => new Response(url), { tls });
  const body = await new Promise<string>((resolve, reject) => {
    const asking = requestTls({ port: http, path: "/a", rejectUnauthorized: false, agent: false }, (response) => {
      let text = "";
      response.setEncoding("utf8").on("data", (piece: string) => {
        text += piece;
      });
      response.on("end", () => resolve(text));
    });
    asking.on("error", reject).end();
  });
  expect(body).toBe(`https://localhost:${http}/a`);
});
