import { once } from "node:events";
import { createServer, type IncomingMessage, type Server } from "node:http";
import { type AddressInfo, connect, type Socket } from "node:net";
import { afterEach, describe, expect, it, vi } from "vitest";
import { WebSocketServer } from "ws";
import { FrontDoor } from "../../src/front/door.ts";

const HOST = "127.0.0.1";
const RESUME = `holdfast.resume.${"a".repeat(32)}.${"b".repeat(32)}`;

/** Stands in for workerd: notes who asks, and opens a WebSocket only when told to. */
class Behind {
  readonly asked: string[] = [];
  readonly extensions: (string | undefined)[] = [];
  readonly #http: Server = createServer();
  readonly #sockets = new WebSocketServer({ noServer: true });
  readonly #waiting: (() => void)[] = [];

  constructor() {
    this.#http.on("upgrade", (request: IncomingMessage, socket: Socket, head) => {
      socket.on("error", () => {});
      this.asked.push(new URL(request.url ?? "", "http://x").searchParams.get("name") ?? "tcp");
      this.extensions.push(request.headers["sec-websocket-extensions"]);
      this.#waiting.push(() => this.#sockets.handleUpgrade(request, socket, head, () => {}));
    });
  }

  async listen(): Promise<{ host: string; port: number }> {
    await once(this.#http.listen(0, HOST), "listening");
    return { host: HOST, port: (this.#http.address() as AddressInfo).port };
  }

  answerNext(): void {
    this.#waiting.shift()?.();
  }

  close(): void {
    for (const client of this.#sockets.clients) client.terminate();
    this.#http.closeAllConnections();
    this.#http.close();
  }
}

const cleanUps: (() => void)[] = [];
afterEach(() => {
  for (const cleanUp of cleanUps.splice(0).reverse()) cleanUp();
});

async function opened({ clients = 0, maxWaitMs = 30_000 } = {}) {
  const behind = new Behind();
  const listen = await behind.listen();
  const door = await FrontDoor.open({
    tcp: { host: HOST, port: 0 },
    http: { host: HOST, port: 0 },
    tls: undefined,
    caps: { sockets: 100, clients, clientsPerAddress: 0, httpPerAddress: 0 },
    admission: { maxInFlight: 2, maxTurnMs: 60_000, maxWaitMs },
    writeTimeoutMs: 1_000,
    readTimeoutMs: 1_000,
    ownSecret: "secret",
    bridgeSecret: undefined,
    clientIpHeader: "X-Holdfast-Peer",
    upstream: { ready: async () => listen },
    log: () => {},
  });
  cleanUps.push(
    () => behind.close(),
    () => {
      door.stopListening();
      door.cut();
    },
  );
  return { behind, door };
}

function dial(port: number): Socket {
  const socket = connect(port, HOST).on("error", () => {});
  cleanUps.push(() => socket.destroy());
  return socket;
}

/** Asks for a WebSocket in so many words, so that a test sees every byte of the answer. */
function knock(port: number, name: string, protocols = "dflockd.v2") {
  const socket = dial(port);
  const client = { socket, heard: "" };
  socket.setEncoding("latin1").on("data", (text: string) => {
    client.heard += text;
  });
  socket.write(
    `GET /v1/ws?name=${name} HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n` +
      "Sec-WebSocket-Extensions: permessage-deflate\r\n" +
      `Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Protocol: ${protocols}\r\n\r\n`,
  );
  return client;
}

const becomes = (read: () => unknown, expected: unknown) =>
  vi.waitFor(() => expect(read()).toEqual(expected), { timeout: 5_000, interval: 10 });

/** Both places in flight are taken. */
async function crowded(options: Parameters<typeof opened>[0] = {}) {
  const here = await opened(options);
  const first = [knock(here.door.httpPort, "a"), knock(here.door.httpPort, "b")];
  await becomes(() => here.behind.asked.toSorted(), ["a", "b"]);
  return { ...here, first };
}

describe("the front door", () => {
  it("lets those in that resume before new ones, a bounded number at a time", async () => {
    const { behind, door } = await crowded();
    let waiting = 0;
    const arrive = async (come: () => unknown) => {
      come();
      waiting += 1;
      await becomes(() => door.waiting, waiting);
    };
    for (const name of ["new1", "new2"]) await arrive(() => knock(door.httpPort, name));
    await arrive(() => dial(door.tcpPort));
    for (const name of ["back1", "back2"]) {
      await arrive(() => knock(door.httpPort, name, `dflockd.v2, ${RESUME}`));
    }
    expect(behind.asked.length).toBe(2);
    const order = ["back1", "back2", "new1", "new2", "tcp"];
    for (const [index] of order.entries()) {
      behind.answerNext();
      await becomes(() => behind.asked.slice(2), order.slice(0, index + 1));
    }
  });

  it.each(["a FIN", "a reset"])("forgets a client that hangs up with %s while it waits", async (how) => {
    const { behind, door } = await crowded({ clients: 3 });
    const leaving = knock(door.httpPort, "left");
    await becomes(() => door.waiting, 1);
    if (how === "a FIN") leaving.socket.end();
    else leaving.socket.resetAndDestroy();
    await becomes(() => door.waiting, 0);
    // Its place under the cap is free again.
    knock(door.httpPort, "next");
    await becomes(() => door.waiting, 1);
    behind.answerNext();
    await becomes(() => behind.asked.slice(2), ["next"]);
  });

  it("forgets a TCP client that resets its connection while it waits, and not one that only ends its input", async () => {
    const { behind, door } = await crowded();
    const [reset, ended] = [dial(door.tcpPort), dial(door.tcpPort)];
    reset.write("ping\n_\n_\n");
    ended.end("ping\n_\n_\n");
    await becomes(() => door.waiting, 2);
    reset.resetAndDestroy();
    await becomes(() => door.waiting, 1);
    behind.answerNext();
    await becomes(() => behind.asked.slice(2), ["tcp"]);
  });

  it("counts a client that waits towards the caps, resuming ones too, and wakes nothing for those it refuses", async () => {
    const { behind, door } = await crowded({ clients: 3 });
    const waiting = knock(door.httpPort, "waiting");
    await becomes(() => door.waiting, 1);
    const refused = knock(door.httpPort, "refused", `dflockd.v2, ${RESUME}`);
    await becomes(() => refused.heard.includes("max_connections"), true);
    expect(refused.heard).toMatch(/^HTTP\/1\.1 503 /);
    expect(waiting.heard).toBe("");
    expect(behind.asked.length).toBe(2);
  });

  it("refuses a client that would have to wait too long", async () => {
    const { behind, door } = await crowded({ maxWaitMs: 200 });
    const late = knock(door.httpPort, "late");
    await becomes(() => late.heard.includes("unavailable"), true);
    expect(late.heard).toMatch(/^HTTP\/1\.1 503 /);
    expect(late.heard).toContain("Retry-After: 1");
    expect([door.waiting, behind.asked.length]).toEqual([0, 2]);
  });

  it("lets no client compress its messages: a short one could become a very long one behind it", async () => {
    const { behind, first } = await crowded();
    expect(behind.extensions).toEqual([undefined, undefined]);
    behind.answerNext();
    await becomes(() => first.some(({ heard }) => heard.includes(" 101 ")), true);
    expect(first.some(({ heard }) => /extensions/i.test(heard))).toBe(false);
  });

  it("makes room when a client in flight hangs up", async () => {
    const { behind, door, first } = await crowded();
    knock(door.httpPort, "next");
    await becomes(() => door.waiting, 1);
    first[0]?.socket.resetAndDestroy();
    await becomes(() => behind.asked.slice(2), ["next"]);
  });
});
