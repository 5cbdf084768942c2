/** The HTTP API as tests use it: every reply is checked against the rules that all replies have to keep. */
import { expect } from "vitest";
import { type HttpExchange, type HttpReply, type HttpRequest, send, startRequest } from "./http-client.ts";
import { poll } from "./poll.ts";
import { expectNoContent, grantIn } from "./replies.ts";
import { checkReply } from "./reply-rules.ts";
import type { Stats } from "./stats.ts";

/** Text and bytes are sent as they are, an object in JSON; undefined is no body at all. */
export type Body = string | Uint8Array | object | undefined;
type Headers = Readonly<Record<string, string>>;

let keys = 0;

/** A key that no other test uses. */
export function freshKey(prefix = "k"): string {
  keys += 1;
  return `${prefix}-${keys}`;
}

export class Api {
  readonly #server: { readonly httpPort: number };
  readonly #headers: Headers;

  /** `headers` go with every request. */
  constructor(server: { readonly httpPort: number }, headers: Headers = {}) {
    this.#server = server;
    this.#headers = headers;
  }

  /** The same with more headers. */
  with(headers: Headers): Api {
    return new Api(this.#server, { ...this.#headers, ...headers });
  }

  get(path: string, headers: Headers = {}): Promise<HttpReply> {
    return this.ask("GET", path, undefined, headers);
  }
  post(path: string, body?: Body, headers: Headers = {}): Promise<HttpReply> {
    return this.ask("POST", path, body, headers);
  }
  delete(path: string): Promise<HttpReply> {
    return this.ask("DELETE", path);
  }

  async ask(method: string, path: string, body?: Body, headers: Headers = {}): Promise<HttpReply> {
    const request = this.#request(method, path, body, headers);
    const reply = await send(this.#server.httpPort, request);
    await checkReply(request, reply);
    return reply;
  }

  /** The WebSocket handshake alone: hangs up after a 101. */
  upgrade(headers: Headers = {}): Promise<HttpReply> {
    return this.get("/v1/ws", {
      Connection: "Upgrade",
      Upgrade: "websocket",
      "Sec-WebSocket-Version": "13",
      "Sec-WebSocket-Key": "aG9sZGZhc3QtaXMtaGVyZQ==",
      ...headers,
    });
  }

  /** Sends a request that is expected to take its time. */
  start(method: string, path: string, body?: Body, headers: Headers = {}): HttpExchange {
    const request = this.#request(method, path, body, headers);
    const exchange = startRequest(this.#server.httpPort, request);
    const reply = exchange.reply.then(async (whole) => {
      await checkReply(request, whole);
      return whole;
    });
    // Whether anybody is still interested shows only later.
    reply.catch(() => {});
    return { ...exchange, reply };
  }

  async session(headers: Headers = {}): Promise<RestSession> {
    const reply = await this.post("/v1/sessions", undefined, headers);
    expect(reply.status, reply.body).toBe(200);
    return new RestSession(this, (JSON.parse(reply.body) as { session_id: string }).session_id);
  }

  /** `count` sessions, each of its own. */
  async sessions<Count extends number>(count: Count): Promise<Tuple<RestSession, Count>> {
    const made = await Promise.all(Array.from({ length: count }, () => this.session()));
    return made as Tuple<RestSession, Count>;
  }

  async stats(): Promise<Stats> {
    const reply = await this.get("/v1/stats");
    expect(reply.status, reply.body).toBe(200);
    return JSON.parse(reply.body) as Stats;
  }

  /** The owner numbers of those who wait for the key, in order. */
  async queue(key: string): Promise<number[]> {
    const reply = await this.get(`/v1/keys/${key}`);
    expect(reply.status, reply.body).toBe(200);
    const { queue } = JSON.parse(reply.body) as { queue: { owner_conn_id: number }[] };
    return queue.map(({ owner_conn_id }) => owner_conn_id);
  }

  /** Resolves once `count` requests wait for the key. */
  async waitersOn(key: string, count: number): Promise<void> {
    await poll(`${count} waiters on ${key}`, 20_000, async () =>
      (await this.queue(key)).length === count ? true : undefined,
    );
  }

  #request(method: string, path: string, body: Body, headers: Headers): HttpRequest {
    const isRaw = typeof body === "string" || body instanceof Uint8Array || body === undefined;
    return { method, path, headers: { ...this.#headers, ...headers }, body: isRaw ? body : JSON.stringify(body) };
  }
}

/** Requests in the name of one session. */
export class RestSession {
  readonly id: string;
  readonly #api: Api;

  constructor(api: Api, id: string) {
    this.id = id;
    this.#api = api;
  }

  post(path: string, body?: Body, headers: Headers = {}): Promise<HttpReply> {
    return this.#api.post(path, body, { ...headers, "X-Dflockd-Session": this.id });
  }
  /** Sends a request that is expected to wait. */
  start(path: string, body: Body): HttpExchange {
    return this.#api.start("POST", path, body, { "X-Dflockd-Session": this.id });
  }
  ping(): Promise<HttpReply> {
    return this.#api.post(`/v1/sessions/${this.id}/ping`);
  }
  end(): Promise<HttpReply> {
    return this.#api.delete(`/v1/sessions/${this.id}`);
  }

  /** Takes the lock and returns the token. */
  async lock(key: string, body: object = {}): Promise<string> {
    return grantIn(await this.post(`/v1/locks/${key}`, { acquire_timeout_s: 0, ...body }));
  }
  /** Takes a slot and returns the token. */
  async take(key: string, limit: number): Promise<string> {
    return grantIn(await this.post(`/v1/semaphores/${key}`, { acquire_timeout_s: 0, limit }));
  }
  async release(key: string, token: string): Promise<void> {
    expectNoContent(await this.post(`/v1/locks/${key}/release`, { token }));
  }

  /** Polls for the lock and resolves once it stands in the queue, or no longer does. */
  async waitInLine(key: string, seconds: number): Promise<HttpExchange> {
    const before = await this.#api.queue(key);
    const polling = this.start(`/v1/locks/${key}`, { acquire_timeout_s: seconds });
    let isAnswered = false;
    const answered = () => {
      isAnswered = true;
    };
    polling.reply.then(answered, answered);
    await poll(`a waiter on ${key}`, 20_000, async () =>
      isAnswered || (await this.#api.queue(key)).length > before.length ? true : undefined,
    );
    return polling;
  }

  /** Shows every half second that it is alive, until disposed of. */
  keepAlive(): AsyncDisposable {
    const stop = Promise.withResolvers<"stop">();
    const pinging = (async () => {
      do expectNoContent(await this.ping());
      while ((await Promise.race([stop.promise, halfSecond()])) !== "stop");
    })();
    pinging.catch(() => {});
    const dispose = () => {
      stop.resolve("stop");
      return pinging;
    };
    return { [Symbol.asyncDispose]: dispose };
  }
}

type Tuple<Item, Count extends number, Made extends Item[] = []> = number extends Count
  ? Item[]
  : Made["length"] extends Count
    ? Made
    : Tuple<Item, Count, [...Made, Item]>;

const halfSecond = () => new Promise((resolve) => setTimeout(resolve, 500));
