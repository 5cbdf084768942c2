/** Locking for the `http` backend of Terraform and OpenTofu. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { Clients } from "../../support/clients.ts";
import { basic, decimalFence, Files, lockTextIn } from "../../support/files.ts";
import { HOSTS } from "../../support/hosts.ts";
import type { HttpReply } from "../../support/http-client.ts";
import { poll, sleep } from "../../support/poll.ts";
import { expectError, expectJson } from "../../support/replies.ts";
import { Api, type Body, freshKey } from "../../support/rest.ts";
import type { TestServer } from "../../support/server.ts";
import { ask, lock as take } from "../../support/wire-client.ts";

const A1 = '{"ID":"a1","Who":"u@h"}';
const B2 = '{"ID":"b2"}';

describe.each(HOSTS)("Terraform, on $name", (host) => {
  let server: TestServer;
  let api: Api;
  beforeAll(async () => {
    server = await host.start();
    api = new Api(server);
  });
  afterAll(() => server.stop());

  const on = (method: string, name: string, body?: Body, headers = {}) =>
    api.ask(method, `/v1/terraform/${name}`, body, headers);
  const answer = ({ status, body }: HttpReply) => [status, body];

  /** A lock that a1 holds. */
  async function locked(): Promise<string> {
    const name = freshKey("t");
    expect(answer(await on("LOCK", name, A1))).toEqual([200, A1]);
    return name;
  }

  describe("LOCK", () => {
    it("answers the info as it was sent; to others the holder's [T01] [T02] [T08]", async () => {
      const t = freshKey("t");
      expectJson(await on("GET", t), 404, { error: "not_held" });
      const first = await on("LOCK", t, A1);
      expect(answer(first)).toEqual([200, A1]);
      expect(first.headers.etag).toMatch(/^"[0-9]+"$/);
      const refused = await on("LOCK", t, B2);
      expect(answer(refused)).toEqual([423, A1]);
      const read = await on("GET", t);
      expect(answer(read)).toEqual([200, A1]);
      expect([refused.headers.etag, read.headers.etag]).toEqual([first.headers.etag, first.headers.etag]);
    });

    it("by the holder again changes nothing, whatever else it says [T03]", async () => {
      const t = await locked();
      expect(answer(await on("LOCK", t, A1))).toEqual([200, A1]);
      expect(answer(await on(`LOCK`, `${t}?stale=1`, '{"ID":"a1","Who":"else"}'))).toEqual([200, A1]);
      await sleep(1.2);
      expect(answer(await on("GET", t))).toEqual([200, A1]);
    });

    it.each(["{}", "[]", '{"ID":""}', '{"ID":5}', "x", "null", "", `{"ID":"${"x".repeat(257)}"}`])(
      "with the body %s is refused [T09]",
      async (body) => {
        expectError(await on("LOCK", freshKey("t"), body), 400, "bad_request");
      },
    );

    it("with a body that is too long, or no UTF-8, is refused; one byte less is kept", async () => {
      const t = freshKey("t");
      const info = (bytes: number) => `{"ID":"a1","Info":"${"x".repeat(bytes - 21)}"}`;
      expect(info(65_537)).toHaveLength(65_537);
      expectError(await on("LOCK", t, info(65_537)), 400, "bad_request");
      expectError(
        await on("LOCK", t, new Uint8Array([...Buffer.from('{"ID":"'), 0xff, ...Buffer.from('"}')])),
        400,
        "bad_request",
      );
      expect((await on("LOCK", t, info(65_536))).status).toBe(200);
      expect((await on("GET", t)).body).toBe(info(65_536));
    });

    it("keeps the bytes it was sent [T18]", async () => {
      const t = freshKey("t");
      const info = '{"ID":"a1","Info":"é \\"q\\"","extra":{"n":1}}';
      expect(answer(await on("LOCK", t, info))).toEqual([200, info]);
      expect(answer(await on("GET", t))).toEqual([200, info]);
      const spread = ' {\n  "ID" : "a1",\t"Info": "\\u00e9" }\n';
      const other = freshKey("t");
      expect(answer(await on("LOCK", other, spread))).toEqual([200, spread]);
      expect(answer(await on("GET", other))).toEqual([200, spread]);
    });

    it("lasts as long as it says, by default a year [T14]", async () => {
      const t = freshKey("t");
      expect((await on("LOCK", `${t}?stale=1`, A1)).status).toBe(200);
      await sleep(1.5);
      expect(answer(await on("LOCK", t, B2))).toEqual([200, B2]);
      expect((await new Files(api).get(t)).headers["x-stale-timeout"]).toBe("31536000");
      for (const stale of ["0", "x", "9223372037"]) {
        expectError(await on("LOCK", `${freshKey("t")}?stale=${stale}`, A1), 400, "bad_request", "stale");
      }
    });

    it("by ten at once is done by one, and the others learn which [T16]", async () => {
      const t = freshKey("t");
      const replies = await Promise.all(Array.from({ length: 10 }, (_, index) => on("LOCK", t, { ID: `id-${index}` })));
      const winners = replies.filter(({ status }) => status === 200);
      expect(winners).toHaveLength(1);
      const others = replies.filter(({ status }) => status === 423);
      expect(others.map(({ body }) => body)).toEqual(Array(9).fill(winners[0]?.body));
    });
  });

  describe("UNLOCK", () => {
    it("of another lock is refused with the holder's info [T04]", async () => {
      const t = await locked();
      expect(answer(await on("UNLOCK", t, B2))).toEqual([409, A1]);
      expect(answer(await on("GET", t))).toEqual([200, A1]);
    });

    it("releases the lock, and again changes nothing [T05]", async () => {
      const t = await locked();
      expect(answer(await on("UNLOCK", t, '{"ID":"a1"}'))).toEqual([200, A1]);
      expect(answer(await on("UNLOCK", t, '{"ID":"a1"}'))).toEqual([200, "{}"]);
      expect((await on("GET", t)).status).toBe(404);
    });

    it("without a body releases whatever Terraform holds [T06]", async () => {
      const t = await locked();
      expect((await on("UNLOCK", t)).status).toBe(200);
      expect((await on("GET", t)).status).toBe(404);
    });

    it("takes the id from the query where there is no body [T07]", async () => {
      const t = await locked();
      expect(answer(await on("UNLOCK", `${t}?ID=b2`))).toEqual([409, A1]);
      expect((await on("UNLOCK", `${t}?ID=a1`)).status).toBe(200);
      expect((await on("GET", t)).status).toBe(404);
      expectError(await on("UNLOCK", `${t}?ID=`), 400, "bad_request", "ID");
      expectError(await on("UNLOCK", t, "{}"), 400, "bad_request");
    });
  });

  it("ordinary methods do the same [T10]", async () => {
    const t = await locked();
    expect(answer(await on("PUT", t, B2))).toEqual([423, A1]);
    expect((await on("DELETE", t, '{"ID":"a1"}')).status).toBe(200);
    expect(answer(await on("POST", t, B2))).toEqual([200, B2]);
    expect((await on("DELETE", t)).status).toBe(200);
  });

  it("a body without a length reaches UNLOCK and DELETE too", async () => {
    for (const method of ["UNLOCK", "DELETE"]) {
      const t = await locked();
      expect(answer(await on(method, t, B2, { "Transfer-Encoding": "chunked" }))).toEqual([409, A1]);
    }
  });

  it("other methods are refused, and told which there are [T11]", async () => {
    const reply = await on("PATCH", await locked(), A1);
    expectJson(reply, 405, { error: "method_not_allowed" });
    expect(reply.headers.allow).toBe("GET, HEAD, POST, LOCK, PUT, DELETE, UNLOCK");
  });

  describe("Terraform and other protocols", () => {
    it("wait for it, and see it as what it is [T12]", async () => {
      const t = await locked();
      using clients = new Clients(server);
      expect(await ask(await clients.tcp(), "l", t, "0")).toBe("timeout");
      expect(lockTextIn(await new Files(api).get(t), 200)).toMatchObject({ pid: "0", tag: "holdfast:terraform" });
      expectError(await new Files(api).remove(t), 409, "foreign_holder");
      const { held_by } = JSON.parse((await api.get(`/v1/keys/${t}`)).body);
      expect(held_by).toEqual([expect.objectContaining({ protocol: "terraform", label: "u@h" })]);
    });

    it("are named to it, and cannot be unlocked by it [T13]", async () => {
      const t = freshKey("t");
      using clients = new Clients(server);
      const token = await take(await clients.tcp(), t, "0 60");
      const replies = [await on("LOCK", t, '{"ID":"a1"}'), await on("UNLOCK", t, '{"ID":"a1"}'), await on("UNLOCK", t)];
      expect(replies.map(({ status }) => status)).toEqual([423, 409, 409]);
      for (const { body } of replies) {
        expect(JSON.parse(body)).toEqual({
          ID: decimalFence(token),
          Operation: "holdfast:dflockd",
          Info: "",
          Who: "",
          Version: "",
          Created: expect.stringMatching(/^[0-9-]{10}T[0-9:.]+Z$/),
          Path: t,
        });
      }
    });

    it("a file is named with its tag, and stays", async () => {
      const t = freshKey("t");
      const fence = await new Files(api).held(t, "tag=deploy\n");
      const refused = JSON.parse((await on("LOCK", t, A1)).body);
      expect(refused).toMatchObject({ ID: fence, Operation: "holdfast:file", Info: "deploy", Path: t });
      expect((await on("UNLOCK", t)).status).toBe(409);
      expect((await new Files(api).get(t)).status).toBe(200);
    });

    it("a semaphore is locked by somebody, and when it is free it is still none of ours", async () => {
      const t = freshKey("t");
      using clients = new Clients(server);
      const client = await clients.tcp();
      const reply = await ask(client, "sl", t, "0 3");
      expect((await on("LOCK", t, A1)).status).toBe(423);
      expect(await ask(client, "sr", t, reply.split(" ")[1] as string)).toBe("ok");
      expectError(await on("LOCK", t, A1), 409, "limit_mismatch");
      expect(answer(await on("UNLOCK", t))).toEqual([200, "{}"]);
    });
  });

  it("the token is the password, as the backend sends it [T15]", async () => {
    await using guarded = await host.start({ variables: { AUTH_TOKEN: "secret" } });
    const lock = (headers: Record<string, string>) => new Api(guarded).ask("LOCK", "/v1/terraform/t", A1, headers);
    expectJson(await lock(basic("wrong")), 401, { error: "unauthorized" });
    expect(answer(await lock(basic("secret")))).toEqual([200, A1]);
  });

  it("a lock that is held leaves no line in the log; an UNLOCK of another does, with its word", async () => {
    const t = await locked();
    expect((await on("LOCK", t, B2)).status).toBe(423);
    expect((await on("UNLOCK", t, B2)).status).toBe(409);
    await poll("the log", 3_000, async () => (server.log.includes('"error":"id_mismatch"') ? true : undefined));
    expect(server.log).not.toContain('"status":423');
    expect(server.log).not.toContain('"error":"unknown"');
  });
});
