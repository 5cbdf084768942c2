/** Whose address counts: one that a client cannot make up. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import WebSocket from "ws";
import { HOSTS } from "../support/hosts.ts";
import { poll } from "../support/poll.ts";
import type { TestServer } from "../support/server.ts";

const SECRET = "between bridge and worker";

describe.each(HOSTS)("addresses of clients, on $name", (host) => {
  let server: TestServer;
  let trusting: TestServer;
  beforeAll(async () => {
    const MAX_CONNECTIONS_PER_IP = "1";
    server = await host.start({ variables: { MAX_CONNECTIONS_PER_IP } });
    trusting = await host.start({ variables: { MAX_CONNECTIONS_PER_IP, BRIDGE_SECRET: SECRET } });
  });
  afterAll(() => Promise.all([server.stop(), trusting.stop()]));

  /** The status of an upgrade with these headers: 101, or that of the refusal. */
  async function upgrade(
    { httpPort }: TestServer,
    headers: Record<string, string>,
  ): Promise<[number, AsyncDisposable]> {
    const socket = new WebSocket(`ws://127.0.0.1:${httpPort}/v1/ws`, { headers });
    const status = await new Promise<number>((resolve, reject) => {
      socket.on("open", () => resolve(101));
      socket.on("unexpected-response", (_, response) => resolve(response.statusCode ?? 0));
      socket.on("error", reject);
    });
    const isOpen = status === 101;
    const close = async () => {
      if (!isOpen) return;
      const closed = new Promise((resolve) => socket.on("close", resolve));
      socket.close();
      await closed;
    };
    return [status, { [Symbol.asyncDispose]: close }];
  }

  const told = (address: string, secret = SECRET) => ({
    "X-Holdfast-Bridge": secret,
    "X-Holdfast-Client-Address": address,
  });

  describe("a bridge that knows the secret", () => {
    it("is believed about its clients' addresses", async () => {
      const [first, one] = await upgrade(trusting, told("192.0.2.1"));
      const [second, two] = await upgrade(trusting, told("192.0.2.2"));
      const [third] = await upgrade(trusting, told("192.0.2.1"));
      expect([first, second, third]).toEqual([101, 101, 503]);
      await one[Symbol.asyncDispose]();
      await two[Symbol.asyncDispose]();
    });
  });

  describe("a bridge with another secret", () => {
    it("is refused, so that its operator notices", async () => {
      const [status] = await upgrade(trusting, told("192.0.2.3", "guessed"));
      expect(status).toBe(401);
    });
  });

  describe("a client that only claims an address", () => {
    async function expectOneClient(one: Record<string, string>, two: Record<string, string>): Promise<void> {
      // The place of the case before returns a moment after its connection has closed.
      const open = await poll("a place", 2_000, async () => {
        const [status, connection] = await upgrade(server, one);
        return status === 101 ? connection : undefined;
      });
      const [second] = await upgrade(server, two);
      expect(second).toBe(503);
      await open[Symbol.asyncDispose]();
    }

    it("is not believed without a secret configured", () => expectOneClient(told("192.0.2.1"), told("192.0.2.2")));

    it("is not believed by forwarding headers", () =>
      expectOneClient({ "X-Forwarded-For": "192.0.2.1" }, { "X-Forwarded-For": "192.0.2.2" }));

    // At the edge nobody but the edge can set it.
    if (host.name === "Node")
      it("is not believed by the edge's header on a machine of one's own", () =>
        expectOneClient({ "CF-Connecting-IP": "192.0.2.1" }, { "CF-Connecting-IP": "192.0.2.2" }));
  });
});
