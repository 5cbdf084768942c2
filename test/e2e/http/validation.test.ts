/** What a request has to look like, and in which order it is judged. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { HOSTS } from "../../support/hosts.ts";
import { expectAfter, expectError, expectJson, expectNoContent, grantIn } from "../../support/replies.ts";
import { Api, type Body, freshKey, type RestSession } from "../../support/rest.ts";
import type { TestServer } from "../../support/server.ts";

const MAX_BODY_BYTES = 1_048_576;
const GONE = { error: "session_gone" };

describe.each(HOSTS)("what a request looks like, on $name", (host) => {
  let server: TestServer;
  let api: Api;
  let s: RestSession;
  beforeAll(async () => {
    server = await host.start();
    api = new Api(server);
    s = await api.session();
  });
  afterAll(() => server.stop());

  /** Every one of these bodies is refused for what is named, and the lock stays free. */
  async function expectRefused(bodies: readonly Body[], about: string | RegExp): Promise<void> {
    const k = freshKey();
    for (const body of bodies) expectError(await s.post(`/v1/locks/${k}`, body), 400, "bad_request", about);
    expect((await api.get(`/v1/keys/${k}`)).status, "a refused request has made a key").toBe(404);
  }

  describe.concurrent("the session header", () => {
    it("is required [HC75]", async () => {
      const path = `/v1/locks/${freshKey()}`;
      const body = { acquire_timeout_s: 0 };
      expectError(await api.post(path, body), 400, "bad_request", "X-Dflockd-Session");
      expectError(await api.post(path, body, { "X-Dflockd-Session": "" }), 400, "bad_request", "X-Dflockd-Session");
    });

    it("that cannot name a session names one that is gone [HC76]", async () => {
      const headers = { "X-Dflockd-Session": "nope" };
      expectJson(await api.post(`/v1/locks/${freshKey()}`, { acquire_timeout_s: 0 }, headers), 410, {
        ...GONE,
        detail: "header X-Dflockd-Session must be the 32 lowercase hex digits that POST /v1/sessions returns",
      });
    });

    it("of a deleted session counts before a broken body [HC96]", async () => {
      const deleted = await api.session();
      expectNoContent(await deleted.end());
      expectJson(await deleted.post(`/v1/locks/${freshKey()}`, "{broken"), 410, GONE);
    });
  });

  describe.concurrent("a key", () => {
    it("has no blanks and no line breaks [HC77]", async () => {
      for (const key of ["a%20b", "a%09b", "a%0Ab", "a%0Db"]) {
        expectError(await s.post(`/v1/locks/${key}`, {}), 400, "bad_request", "key");
      }
    });

    it("is percent-encoded UTF-8 [HC78]", async () => {
      for (const key of ["%ff", "%zz"]) expectError(await s.post(`/v1/locks/${key}`, {}), 400, "bad_request", "key");
    });

    it("has at most 256 bytes [HC79]", async () => {
      const [longest, wide] = ["k".repeat(256), "%C3%A9".repeat(128)];
      for (const key of [longest, wide]) grantIn(await s.post(`/v1/locks/${key}`, {}), "ok", 33);
      for (const key of [`${longest}k`, `${wide}k`]) {
        expectError(await s.post(`/v1/locks/${key}`, {}), 400, "bad_request", "key");
      }
    });

    it("is exactly one segment of the path [HC80]", async () => {
      const k = freshKey();
      for (const path of ["/v1/locks/", "/v1/locks/a/b/c", `/v1/locks/${k}/`]) {
        expectJson(await s.post(path, {}), 404, { error: "not_found" });
      }
    });

    it("counts before a missing session header [HC97]", async () => {
      expectError(await api.post("/v1/locks/a%20b"), 400, "bad_request", "key");
    });
  });

  describe.concurrent("a body", () => {
    it("is required [HC81]", async () => {
      await expectRefused([undefined, "", " \t\r\n"], "body");
    });

    it("is complete JSON [HC82]", async () => {
      await expectRefused(['{"acquire_timeout_s":0'], "body");
    });

    it("is one value and nothing behind it [HC83]", async () => {
      await expectRefused(['{"acquire_timeout_s":0}{}', '{"acquire_timeout_s":0} x'], "body");
    });

    it("has no field that is unknown, misspelt or of another route [HC84]", async () => {
      await expectRefused(['{"acquire_timeout_s":0,"extra":1}'], "extra");
      await expectRefused(['{"Acquire_Timeout_S":0}'], "Acquire_Timeout_S");
      await expectRefused(['{"limit":1}'], "limit");
      await expectRefused(['{"__proto__":{}}'], "__proto__");
    });

    it("is an object [HC90]", async () => {
      await expectRefused(["[]", "5", '"x"', "true"], "body");
    });

    it("counts the last of a repeated field [HC91]", async () => {
      const k = freshKey();
      const body = '{"acquire_timeout_s":5,"acquire_timeout_s":0,"lease_ttl_s":9}';
      grantIn(await s.post(`/v1/locks/${k}`, body), "ok", 9);
      // On a lock that is held the 5 would show.
      const refused = await s.post(`/v1/locks/${k}`, body);
      expectJson(refused, 200, { status: "timeout" });
      expectAfter(refused, 0, 4);
    });

    it("has at most a mebibyte [HC92]", async () => {
      const k = freshKey();
      const object = '{"acquire_timeout_s":0}';
      const longest = `${" ".repeat(MAX_BODY_BYTES - object.length)}${object}`;
      expectError(await s.post(`/v1/locks/${k}`, ` ${longest}`), 400, "bad_request", "body");
      grantIn(await s.post(`/v1/locks/${k}`, longest), "ok", 33);
    });

    it("is JSON whatever its type is said to be [HC95]", async () => {
      const headers = { "Content-Type": "application/x-www-form-urlencoded" };
      grantIn(await s.post(`/v1/locks/${freshKey()}`, { acquire_timeout_s: 0 }, headers), "ok", 33);
    });
  });

  describe.concurrent("a field", () => {
    it("that is a number is written as a whole one [HC85]", async () => {
      const values = ['"1"', "true", "1.0", "1e1", "[]", "{}"];
      await expectRefused(
        values.map((value) => `{"acquire_timeout_s":${value}}`),
        "acquire_timeout_s",
      );
    });

    it("that is a time is within its range [HC86]", async () => {
      const values = ["-1", "9223372037", "99999999999999999999"];
      await expectRefused(
        values.map((value) => `{"acquire_timeout_s":${value}}`),
        "acquire_timeout_s",
      );
    });

    it("that is a time may be as long as a time can be [HC87]", async () => {
      grantIn(await s.post(`/v1/locks/${freshKey()}`, { acquire_timeout_s: 9_223_372_036 }), "ok", 33);
    });

    it("that is a lease is not negative, wherever it stands [HC88]", async () => {
      const [k, token, lease_ttl_s] = [freshKey(), "0".repeat(32), -1];
      const refused: [path: string, body: object][] = [
        [`/v1/locks/${k}`, { lease_ttl_s }],
        [`/v1/locks/${k}/enqueue`, { lease_ttl_s }],
        [`/v1/locks/${k}/renew`, { token, lease_ttl_s }],
        [`/v1/semaphores/${k}`, { limit: 2, lease_ttl_s }],
        [`/v1/semaphores/${k}/enqueue`, { limit: 2, lease_ttl_s }],
        [`/v1/semaphores/${k}/renew`, { token, lease_ttl_s }],
      ];
      for (const [path, body] of refused) expectError(await s.post(path, body), 400, "bad_request", "lease_ttl_s");
    });

    it("that is null is absent [HC89]", async () => {
      const body = { acquire_timeout_s: null, lease_ttl_s: null };
      grantIn(await s.post(`/v1/locks/${freshKey()}`, body), "ok", 33);
    });

    it("that is a token is one word and not too long; nothing in it is carried out [HC93]", async () => {
      const k = freshKey();
      const token = await s.lock(k);
      const bodies = ["abc\nping\n_\n", "a b", "", "a".repeat(257)].map((value) => ({ token: value }));
      for (const body of [...bodies, {}]) {
        expectError(await s.post(`/v1/locks/${k}/release`, body), 400, "bad_request", "token");
      }
      expectJson(await s.post(`/v1/locks/${k}/renew`, { token }), 200, { remaining_s: 33 });
    });

    it("that is a token may be any other text, which is then simply not held [HC94]", async () => {
      expectJson(await s.post(`/v1/locks/${freshKey()}/release`, { token: "short" }), 404, { error: "not_held" });
    });
  });
});
