/** Lock files over HTTP, as tests use them. */
import { expect } from "vitest";
import type { HttpExchange, HttpReply } from "./http-client.ts";
import type { Api, Body } from "./rest.ts";

type Headers = Readonly<Record<string, string>>;

export const CREATE: Headers = { "If-None-Match": "*" };
export const basic = (password: string, user = "terraform"): Headers => ({
  Authorization: `Basic ${Buffer.from(`${user}:${password}`).toString("base64")}`,
});

/** The lines of a lock text, in their order. */
export type LockLines = Readonly<Record<string, string>>;

export class Files {
  readonly #api: Api;

  constructor(api: Api) {
    this.#api = api;
  }

  get(name: string): Promise<HttpReply> {
    return this.#api.get(`/v1/files/${name}`);
  }
  head(name: string): Promise<HttpReply> {
    return this.#api.ask("HEAD", `/v1/files/${name}`);
  }
  /** `name` may bring a query. */
  create(name: string, body?: Body, headers: Headers = {}): Promise<HttpReply> {
    return this.put(name, body, { ...CREATE, ...headers });
  }
  put(name: string, body?: Body, headers: Headers = {}): Promise<HttpReply> {
    return this.#api.ask("PUT", `/v1/files/${name}`, body, headers);
  }
  refresh(name: string, match: string, headers: Headers = {}, body?: Body): Promise<HttpReply> {
    return this.put(name, body, { "If-Match": match, ...headers });
  }
  remove(name: string, match?: string): Promise<HttpReply> {
    return this.#api.ask("DELETE", `/v1/files/${name}`, undefined, match === undefined ? {} : { "If-Match": match });
  }

  /** Creates the file, which must be free, and returns its fence in decimal. */
  async held(name: string, body?: Body, headers: Headers = {}): Promise<string> {
    return fenceIn(await this.create(name, body, headers), 201);
  }

  /** Sends a PUT that is expected to wait, and resolves once it stands in the queue. */
  async waitInLine(name: string, seconds: number, body?: Body): Promise<HttpExchange> {
    const before = await this.#api.queue(name);
    const exchange = this.#api.start("PUT", `/v1/files/${name}?wait=${seconds}`, body, CREATE);
    await this.#api.waitersOn(name, before.length + 1);
    return exchange;
  }
}

/** The fields of a reply that carries a lock text, once its headers have been found to agree with it. */
export function lockTextIn(reply: HttpReply, status: number): LockLines {
  expect(reply.status, reply.body).toBe(status);
  expect(reply.headers["content-type"]).toBe("text/plain; charset=utf-8");
  expect(reply.headers["cache-control"]).toBe("no-store");
  expect(reply.body).toMatch(/^(?:\w+=.*\n)+$/);
  const lines = reply.body.trimEnd().split("\n");
  const fields = Object.fromEntries(lines.map((line) => [line.split("=")[0], line.slice(line.indexOf("=") + 1)]));
  const known = ["pid", "timestamp", "tag", "nonce", "fence", "expires"];
  expect(Object.keys(fields)).toEqual(known.filter((name) => name in fields));
  expect(reply.headers.etag).toBe(`"${fields.fence}"`);
  const left = Number(reply.headers["x-expires-in"]);
  expect(left).toBeGreaterThanOrEqual(1);
  expect(left).toBeLessThanOrEqual(Number(reply.headers["x-stale-timeout"]));
  return fields;
}

export function fenceIn(reply: HttpReply, status: number): string {
  return lockTextIn(reply, status).fence as string;
}

/** The fence of a token, in decimal. */
export const decimalFence = (token: string): string => String(BigInt(`0x${token.slice(0, 16)}`));
