/** Clients that take and release locks with as little work as possible: what is measured is the server. */
import { randomBytes } from "node:crypto";
import { type Address, Channel, type Framing, LINES } from "./channel.ts";
import { openEtcd } from "./etcd.ts";
import { openRedis } from "./redis.ts";
import { openRest } from "./rest.ts";

/** Has one request under way at a time. */
export interface LockClient {
  /** Waits for its turn, if the server has a queue; polls if it has not. */
  acquire(key: string, granted: (token: string) => void): void;
  release(key: string, token: string, released: () => void): void;
  /** Resolves when the server has been told, where that takes a request. */
  close(): Promise<void>;
}

export type Transport = "tcp" | "ws" | "rest" | "redis" | "etcd";

const OPEN: Readonly<Record<Transport, (address: Address) => Promise<LockClient>>> = {
  tcp: async (address) => new WireClient(await openTcp(address)),
  ws: async (address) => new WireClient(await openWebSocket(address)),
  rest: openRest,
  redis: openRedis,
  etcd: openEtcd,
};

export const openClient = (transport: Transport, address: Address) => OPEN[transport](address);

export const openTcp = (address: Address) => Channel.open(address, LINES);

/** Short text frames. The mask may be anything: zeros leave the text as it is. */
const FRAMES: Framing = {
  wrap(request) {
    if (request.length > 125) throw new Error("the benchmark sends short frames only");
    return `\x81${String.fromCharCode(0x80 | request.length)}\0\0\0\0${request}`;
  },
  lengthOf(text) {
    if (text.length < 2) return 0;
    const length = text.charCodeAt(1);
    if (text[0] !== "\x81" || length > 125) throw new Error(`an unexpected frame: ${JSON.stringify(text)}`);
    return text.length < length + 2 ? 0 : length + 2;
  },
  unwrap: (reply) => reply.slice(2),
};

const HEAD_END = "\r\n\r\n";

/** The reply to the upgrade is the head of an HTTP response; after it, frames. */
class WebSocketFraming implements Framing {
  #isOpen = false;

  wrap(request: string): string {
    return this.#isOpen ? FRAMES.wrap(request) : request;
  }

  lengthOf(text: string): number {
    if (this.#isOpen) return FRAMES.lengthOf(text);
    const end = text.indexOf(HEAD_END);
    return end < 0 ? 0 : end + HEAD_END.length;
  }

  unwrap(reply: string): string {
    if (this.#isOpen) return FRAMES.unwrap(reply);
    this.#isOpen = true;
    return reply;
  }
}

export async function openWebSocket(address: Address): Promise<Channel> {
  const channel = await Channel.open(address, new WebSocketFraming());
  const key = randomBytes(16).toString("base64");
  const reply = await channel.asked(
    `GET /v1/ws HTTP/1.1\r\nHost: ${address.host}:${address.port}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n` +
      `Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: ${key}${HEAD_END}`,
  );
  if (!reply.startsWith("HTTP/1.1 101")) throw new Error(`an upgrade was answered ${reply}`);
  return channel;
}

/** Longer than any queue takes, shorter than a benchmark that hangs. */
export const WAIT_SECONDS = 60;

/** The three-line protocol, over TCP or WebSocket. */
class WireClient implements LockClient {
  readonly #channel: Channel;
  #granted: (token: string) => void = () => {};
  #released: () => void = () => {};

  constructor(channel: Channel) {
    this.#channel = channel;
  }

  acquire(key: string, granted: (token: string) => void): void {
    this.#granted = granted;
    this.#channel.ask(`l\n${key}\n${WAIT_SECONDS}\n`, this.#onAcquired);
  }

  release(key: string, token: string, released: () => void): void {
    this.#released = released;
    this.#channel.ask(`r\n${key}\n${token}\n`, this.#onReleased);
  }

  async close(): Promise<void> {
    this.#channel.close();
  }

  readonly #onAcquired = (reply: string) => {
    if (!reply.startsWith("ok ")) throw new Error(`an acquire was answered ${JSON.stringify(reply)}`);
    this.#granted(reply.slice(3, reply.indexOf(" ", 3)));
  };

  readonly #onReleased = (reply: string) => {
    if (!reply.startsWith("ok")) throw new Error(`a release was answered ${JSON.stringify(reply)}`);
    this.#released();
  };
}
