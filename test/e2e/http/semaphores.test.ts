/** Semaphores over HTTP, and what they have in common with locks. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { HOSTS } from "../../support/hosts.ts";
import { expectError, expectJson, expectNoContent, grantIn } from "../../support/replies.ts";
import { Api, freshKey } from "../../support/rest.ts";
import type { TestServer } from "../../support/server.ts";

describe.each(HOSTS)("semaphores over HTTP, on $name", (host) => {
  let server: TestServer;
  let api: Api;
  beforeAll(async () => {
    server = await host.start();
    api = new Api(server);
  });
  afterAll(() => server.stop());

  describe.concurrent("a semaphore", () => {
    it("has as many slots as its limit says, each with a higher token [HC65]", async () => {
      const [s, p] = [await api.session(), freshKey("p")];
      const tokens: string[] = [];
      const acquire = () => s.post(`/v1/semaphores/${p}`, { acquire_timeout_s: 0, limit: 3 });
      for (let slot = 0; slot < 3; slot += 1) tokens.push(grantIn(await acquire(), "ok", 33));
      expect(tokens.toSorted()).toEqual(tokens);
      expect(new Set(tokens).size).toBe(3);
      expectJson(await acquire(), 200, { status: "timeout" });
    });

    it("keeps its limit while it is in use [HC66]", async () => {
      const [s, p] = [await api.session(), freshKey("p")];
      await s.take(p, 3);
      expectError(
        await s.post(`/v1/semaphores/${p}`, { acquire_timeout_s: 0, limit: 2 }),
        409,
        "limit_mismatch",
        "in use with limit 3, not 2; ask with limit 3",
      );
    });

    it("is no lock [HC67]", async () => {
      const [s, p] = [await api.session(), freshKey("p")];
      await s.take(p, 3);
      expectError(
        await s.post(`/v1/locks/${p}`, { acquire_timeout_s: 0 }),
        409,
        "limit_mismatch",
        "in use with limit 3, not 1;",
      );
    });

    it("of limit 1 is a lock [HC68]", async () => {
      const [[s, s2], k] = [await api.sessions(2), freshKey()];
      await s.lock(k);
      expectJson(await s2.post(`/v1/semaphores/${k}`, { acquire_timeout_s: 0, limit: 1 }), 200, { status: "timeout" });
    });

    it("release gives back a lock too [HC69]", async () => {
      const [s, k] = [await api.session(), freshKey()];
      const token = await s.lock(k);
      expectNoContent(await s.post(`/v1/semaphores/${k}/release`, { token }));
      await s.lock(k);
    });

    it("needs a limit [HC70]", async () => {
      const s = await api.session();
      expectError(
        await s.post(`/v1/semaphores/${freshKey("p")}`, { acquire_timeout_s: 0 }),
        400,
        "bad_request",
        "limit",
      );
    });

    it("has a limit within bounds [HC71]", async () => {
      const [s, p] = [await api.session(), freshKey("p")];
      for (const limit of [0, -1, 1_048_577]) {
        const reply = await s.post(`/v1/semaphores/${p}`, { acquire_timeout_s: 0, limit });
        expectError(reply, 400, "bad_request", /^limit /);
      }
      expect((await api.get(`/v1/keys/${p}`)).status).toBe(404);
    });

    it("may have the highest limit [HC72]", async () => {
      const s = await api.session();
      grantIn(await s.post(`/v1/semaphores/${freshKey("p")}`, { acquire_timeout_s: 0, limit: 1_048_576 }), "ok", 33);
    });

    it("enqueue cannot do without a body [HC73]", async () => {
      const s = await api.session();
      for (const body of [undefined, ""]) {
        expectError(await s.post(`/v1/semaphores/${freshKey("p")}/enqueue`, body), 400, "bad_request", "body");
      }
    });

    it("is acquired in two steps, renewed and released [HC74]", async () => {
      const [[s, s2], p] = [await api.sessions(2), freshKey("p")];
      const held = await s2.take(p, 1);
      const at = `/v1/semaphores/${p}`;
      expectJson(await s.post(`${at}/enqueue`, { limit: 1, lease_ttl_s: 9 }), 200, { status: "queued" });
      expectNoContent(await s2.post(`${at}/release`, { token: held }));
      const token = grantIn(await s.post(`${at}/wait`, { timeout_s: 5 }), "ok", 9);
      expectJson(await s.post(`${at}/renew`, { token }), 200, { remaining_s: 33 });
      expectNoContent(await s.post(`${at}/release`, { token }));
    });
  });
});
