/** Sessions: how they begin, how they are kept alive, and how they end. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { HOSTS } from "../../support/hosts.ts";
import { sleep } from "../../support/poll.ts";
import { expectAfter, expectError, expectJson, expectNoContent, grantIn } from "../../support/replies.ts";
import { Api, freshKey } from "../../support/rest.ts";
import type { TestServer } from "../../support/server.ts";

describe.each(HOSTS)("sessions over HTTP, on $name", (host) => {
  describe("a session", () => {
    let server: TestServer;
    let api: Api;
    beforeAll(async () => {
      server = await host.start();
      api = new Api(server);
    });
    afterAll(() => server.stop());

    it("is made without a body, and says how long it may be idle [HC23]", async () => {
      // A body of no bytes is no body either.
      const made = [await api.post("/v1/sessions"), await api.post("/v1/sessions", "")];
      const ids = made.map(({ body }) => /"session_id":"([0-9a-f]{32})"/.exec(body)?.[1]);
      for (const [index, reply] of made.entries()) {
        expectJson(reply, 200, { session_id: ids[index], idle_timeout_s: 20 });
      }
      expect(new Set(ids).size).toBe(made.length);
    });

    it("is made with an empty object [HC24]", async () => {
      const reply = await api.post("/v1/sessions", {});
      expect(reply.status).toBe(200);
      expect(JSON.parse(reply.body)).toEqual({
        session_id: expect.stringMatching(/^[0-9a-f]{32}$/),
        idle_timeout_s: 20,
      });
    });

    it("takes no fields [HC25]", async () => {
      expectError(await api.post("/v1/sessions", { stable_ref: "x" }), 400, "bad_request", "stable_ref");
    });

    it("is pinged without an answer to read [HC26]", async () => {
      expectNoContent(await (await api.session()).ping());
    });

    it("is deleted once, and then gone [HC27]", async () => {
      const s = await api.session();
      expectNoContent(await s.end());
      expectError(await s.end(), 410, "session_gone", /unknown, was deleted, or was idle .* POST \/v1\/sessions$/);
    });

    it("that never was is gone as well [HC28]", async () => {
      expectJson(await api.post(`/v1/sessions/${"0".repeat(32)}/ping`), 410, { error: "session_gone" });
    });

    it("cannot have just any name [HC29]", async () => {
      expectError(await api.post("/v1/sessions/XYZ/ping"), 400, "bad_request", "session id");
    });

    it("has no capitals in its name [HC30]", async () => {
      expectError(await api.delete(`/v1/sessions/${"A".repeat(32)}`), 400, "bad_request", "session id");
    });

    it("that was deleted takes no lock [HC31]", async () => {
      const s = await api.session();
      expectNoContent(await s.end());
      expectJson(await s.post(`/v1/locks/${freshKey()}`, { acquire_timeout_s: 0 }), 410, { error: "session_gone" });
    });

    it("that was deleted can do nothing at all [HC32]", async () => {
      const [s, k, token] = [await api.session(), freshKey(), "0".repeat(32)];
      expectNoContent(await s.end());
      const replies = [
        await s.post(`/v1/locks/${k}/enqueue`, {}),
        await s.post(`/v1/locks/${k}/wait`, { timeout_s: 0 }),
        await s.post(`/v1/locks/${k}/renew`, { token }),
        await s.post(`/v1/locks/${k}/release`, { token }),
        await s.post(`/v1/semaphores/${k}`, { acquire_timeout_s: 0, limit: 2 }),
        await s.ping(),
      ];
      for (const reply of replies) expectJson(reply, 410, { error: "session_gone" });
    });

    it("has released what it held when its deletion is answered [HC33]", async () => {
      const [[s, s2], k] = [await api.sessions(2), freshKey()];
      await s.lock(k);
      expectNoContent(await s.end());
      grantIn(await s2.post(`/v1/locks/${k}`, { acquire_timeout_s: 0 }), "ok", 33);
    });
  });

  describe.concurrent("with an idle time of one second", () => {
    let server: TestServer;
    let api: Api;
    beforeAll(async () => {
      server = await host.start({ variables: { HTTP_SESSION_IDLE_S: "1" } });
      api = new Api(server);
    });
    afterAll(() => server.stop());

    it("a silent session ends by itself and frees what it held [HC34]", async () => {
      const [s, k] = [await api.session(), freshKey()];
      await s.lock(k);
      await sleep(5);
      const s2 = await api.session();
      grantIn(await s2.post(`/v1/locks/${k}`, { acquire_timeout_s: 0 }), "ok", 33);
      expectJson(await s.ping(), 410, { error: "session_gone" });
    });

    it("a session that is pinged lives on [HC35]", async () => {
      const [s, k] = [await api.session(), freshKey()];
      for (let pings = 0; pings < 8; pings += 1) {
        await sleep(0.5);
        expectNoContent(await s.ping());
      }
      grantIn(await s.post(`/v1/locks/${k}`, { acquire_timeout_s: 0 }), "ok", 33);
    });

    it("a session that polls lives on, and has not aged when the poll is over [HC36]", async () => {
      const [[s, s2], k] = [await api.sessions(2), freshKey()];
      await s2.lock(k);
      await using _alive = s2.keepAlive();
      const reply = await s.post(`/v1/locks/${k}`, { acquire_timeout_s: 5 });
      expectNoContent(await s.ping());
      expectJson(reply, 200, { status: "timeout" });
      expectAfter(reply, 5, 7);
    });
  });

  it("no more sessions are made than the service may have, and a deleted one makes room [HC37]", async () => {
    await using server = await host.start({ variables: { HTTP_MAX_SESSIONS: "1" } });
    const api = new Api(server);
    const s = await api.session();
    expectJson(await api.post("/v1/sessions"), 503, { error: "max_sessions" });
    expectNoContent(await s.end());
    expect((await api.post("/v1/sessions")).status).toBe(200);
  });

  it("no more sessions are made than an address may have; another one is not concerned [HC38]", async () => {
    await using server = await host.start({
      variables: { HTTP_MAX_SESSIONS_PER_IP: "1", CLIENT_IP_HEADER: "CF-Connecting-IP" },
    });
    const from = (address: string) => new Api(server, { "CF-Connecting-IP": address });
    await from("192.0.2.1").session();
    expectJson(await from("192.0.2.1").post("/v1/sessions"), 503, { error: "max_sessions_per_ip" });
    expect((await from("192.0.2.2").post("/v1/sessions")).status).toBe(200);
  });

  it("a service that drains makes no sessions [HC39]", async () => {
    await using server = await host.start({ variables: { DRAINING: "true" } });
    expectJson(await new Api(server).post("/v1/sessions"), 503, { error: "draining" });
  });
});
