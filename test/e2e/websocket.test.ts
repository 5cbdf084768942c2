import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { Clients } from "../support/clients.ts";
import { HOSTS } from "../support/hosts.ts";
import type { TestServer } from "../support/server.ts";
import { handshake } from "../support/upgrade.ts";
import { ask, joinQueue, lock, type WsClient } from "../support/wire-client.ts";

describe.each(HOSTS)("WebSockets, on $name", (host) => {
  let server: TestServer;
  beforeAll(async () => {
    server = await host.start();
  });
  afterAll(() => server.stop());

  describe("the upgrade", () => {
    it("selects dflockd.v2 when it is offered, also among others", async () => {
      for (const offer of ["dflockd.v2", "chat, dflockd.v2"]) {
        const answer = await handshake(server.httpPort, { "Sec-WebSocket-Protocol": offer });
        expect(answer.status).toBe(101);
        expect(answer.headers["sec-websocket-protocol"]).toBe("dflockd.v2");
      }
    });

    it("succeeds without a subprotocol when none or only others are offered", async () => {
      for (const headers of [{}, { "Sec-WebSocket-Protocol": "chat, dflockd.v1" }]) {
        const answer = await handshake(server.httpPort, headers);
        expect(answer.status).toBe(101);
        expect(answer.headers["sec-websocket-protocol"]).toBeUndefined();
      }
    });

    it("is asked for with 426 and JSON when missing", async () => {
      const response = await fetch(`http://127.0.0.1:${server.httpPort}/v1/ws`);
      // No look at the `Upgrade` header: workerd keeps it from leaving with anything but a 101 (2026-11).
      expect(response.status).toBe(426);
      expect(response.headers.get("content-type")).toMatch(/^application\/json/);
      expect(await response.json()).toEqual({
        error: "upgrade_required",
        detail: expect.stringContaining("Upgrade: websocket"),
      });
    });
  });

  describe("a close frame", () => {
    /** Closes and returns the code of the server's answer, which has to come within a second. */
    async function answerTo(client: WsClient, code?: number): Promise<number | undefined> {
      client.close(code);
      return (await client.closed(1_000)).code;
    }

    it("is answered at once with the same code", async () => {
      using clients = new Clients(server);
      expect(await answerTo(await clients.ws(), 4005)).toBe(4005);
      expect(await answerTo(await clients.ws(), 1000)).toBe(1000);
    });

    it("without a code is answered with 1000", async () => {
      using clients = new Clients(server);
      expect(await answerTo(await clients.ws())).toBe(1000);
    });

    it("ends the session whatever its code", async () => {
      using clients = new Clients(server);
      for (const code of [undefined, 1000, 1001, 4005]) {
        const [leaving, next] = [await clients.ws(), await clients.ws()];
        const key = `close-${code}`;
        await lock(leaving, key);
        await joinQueue(next, key, "30");
        leaving.close(code);
        expect(await next.next(2_000)).toMatch(/^@wait ok /);
      }
    });
  });

  describe("a message", () => {
    it("of one mebibyte is judged by its lines", async () => {
      using clients = new Clients(server);
      const client = await clients.ws();
      const request = `ping\n${"_".repeat(256)}\n`;
      client.send(`${request}${"_".repeat(2 ** 20 - request.length - 1)}\n`);
      expect(await client.next()).toBe("error\n");
      await client.closed();
    });

    it("of one byte more is answered with close 1009 and nothing else, and the session ends", async () => {
      using clients = new Clients(server);
      const [big, next] = [await clients.ws(), await clients.ws()];
      await lock(big, "too-big");
      await joinQueue(next, "too-big", "30");
      big.send(Buffer.alloc(2 ** 20 + 1, "x"));
      expect((await big.closed()).code).toBe(1009);
      expect(await next.next(2_000)).toMatch(/^@wait ok /);
    });

    it("that is the keep-alive is answered, also behind a wait", async () => {
      using clients = new Clients(server);
      const [holder, client] = [await clients.ws(), await clients.ws()];
      await lock(holder, "keepalive");
      client.send("l\nkeepalive\n30\n");
      for (let round = 0; round < 3; round += 1) {
        client.send("@keepalive ping\n_\n_\n");
        expect(await client.next()).toBe("@keepalive ok\n");
      }
      await client.silence(200);
    });
  });

  describe("with a token configured", () => {
    let guarded: TestServer;
    beforeAll(async () => {
      guarded = await host.start({ variables: { AUTH_TOKEN: "secret" } });
    });
    afterAll(() => guarded.stop());
    const bearer = (token: string) => ({ headers: { Authorization: `Bearer ${token}` } });

    it("the right bearer token opens an authenticated session", async () => {
      using clients = new Clients(guarded);
      const client = await clients.ws(bearer("secret"));
      await lock(client, "bearer");
    });

    it("the right bearer token may be followed by the right auth", async () => {
      using clients = new Clients(guarded);
      const client = await clients.ws(bearer("secret"));
      expect(await ask(client, "auth", "_", "secret")).toBe("ok");
      expect(await ask(client, "ping", "_", "_")).toBe("ok");
    });

    it("the right bearer token does not excuse a wrong auth", async () => {
      using clients = new Clients(guarded);
      const client = await clients.ws(bearer("secret"));
      expect(await ask(client, "auth", "_", "wrong")).toBe("error_auth");
      expect((await client.closed()).code).toBe(4401);
    });

    it("a wrong bearer token is refused with 401", async () => {
      using clients = new Clients(guarded);
      for (const token of ["wrong", "secre", "secret2", "SECRET"]) {
        await expect(clients.ws(bearer(token))).rejects.toMatchObject({ status: 401 });
      }
    });

    it("without one the first request must be auth", async () => {
      using clients = new Clients(guarded);
      const [polite, rude] = [await clients.ws(), await clients.ws()];
      expect(await ask(polite, "auth", "_", "secret")).toBe("ok");
      expect(await ask(rude, "ping", "_", "_")).toBe("error_auth");
      expect((await rude.closed()).code).toBe(4401);
    });

    it("a token in the address is no token", async () => {
      using clients = new Clients(guarded);
      const client = await clients.ws({ query: "?token=secret&access_token=secret&auth=secret" });
      expect(await ask(client, "ping", "_", "_")).toBe("error_auth");
    });
  });
});
