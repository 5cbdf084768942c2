/** The history of a key, as a page that draws it is told. Every reply is held against the OpenAPI document. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { KeyReply } from "../../../src/http/openapi/schemas.ts";
import { HOSTS } from "../../support/hosts.ts";
import { poll } from "../../support/poll.ts";
import { expectError, expectNoContent, grantIn } from "../../support/replies.ts";
import { Api, freshKey } from "../../support/rest.ts";
import type { TestServer } from "../../support/server.ts";
import { ask, fenceOf, TcpClient } from "../../support/wire-client.ts";

const ADMIN = "let-me-in";

describe.each(HOSTS)("history, on $name", (host) => {
  let server: TestServer;
  let api: Api;
  beforeAll(async () => {
    server = await host.start({ variables: { ADMIN_TOKEN: ADMIN } });
    api = new Api(server);
  });
  afterAll(() => server.stop());

  const named = (label: string) => api.session({ "X-Holdfast-Label": label });

  async function reportOn(key: string): Promise<KeyReply> {
    const reply = await api.get(`/v1/keys/${key}?history=true`);
    expect(reply.status, reply.body).toBe(200);
    return JSON.parse(reply.body) as KeyReply;
  }

  async function grantsOf(key: string) {
    return (await reportOn(key)).history?.grants;
  }

  /** Resolves to the grants once the newest of them has ended. */
  const onceEnded = (key: string) =>
    poll(`the end of the newest hold on ${key}`, 5_000, async () => {
      const grants = await grantsOf(key);
      return grants?.at(-1)?.ended === undefined ? undefined : grants;
    });

  describe("a lock", () => {
    it("tells who had it, how long each waited and held, and how it ended, by its own clock", async () => {
      const [key, ada, bob] = [freshKey("told"), await named("ada"), await named("bob")];
      const first = await ada.lock(key, { lease_ttl_s: 60 });
      const polling = await bob.waitInLine(key, 60);
      const { held_by, history } = await reportOn(key);
      expect(held_by).toMatchObject([{ label: "ada", lease_s: 60 }]);
      expect(history?.grants).toEqual([
        {
          fence: fenceOf(first),
          owner_conn_id: held_by[0]?.owner_conn_id,
          label: "ada",
          granted_at: held_by[0]?.since,
          waited_s: 0,
        },
      ]);
      expect(Date.parse(history?.now ?? "")).toBeGreaterThanOrEqual(Date.parse(held_by[0]?.since ?? ""));

      await ada.release(key, first);
      const second = grantIn(await polling.reply);
      const [released, standing] = (await grantsOf(key)) ?? [];
      expect(released).toEqual({ ...history?.grants[0], held_s: expect.any(Number), ended: "released" });
      expect(released?.held_s).toBeGreaterThan(0);
      expect(standing).toMatchObject({ fence: fenceOf(second), label: "bob" });
      expect(standing?.waited_s).toBeGreaterThan(0);
      expect(Object.keys(standing ?? {})).toEqual(["fence", "owner_conn_id", "label", "granted_at", "waited_s"]);

      // His name goes with him, but had been seen before.
      expectNoContent(await bob.end());
      const grants = await onceEnded(key);
      expect(grants).toMatchObject([released, { ...standing, ended: "disconnect" }]);
      expect(JSON.stringify(grants)).not.toContain(first);
      expect(JSON.stringify(grants)).not.toContain(second);
    });
  });

  describe("a semaphore", () => {
    it("tells of leases that ran out and of slots that were taken away", async () => {
      const [key, s] = [freshKey("slots"), await api.session()];
      const stolen = await s.take(key, 2);
      const admin = api.with({ Authorization: `Bearer ${ADMIN}` });
      expect((await admin.delete(`/v1/admin/holders/${key}?token_fence=${fenceOf(stolen)}`)).status).toBe(200);
      const short = grantIn(await s.post(`/v1/semaphores/${key}`, { acquire_timeout_s: 0, limit: 2, lease_ttl_s: 1 }));
      expect(await onceEnded(key)).toMatchObject([
        { fence: fenceOf(stolen), ended: "stolen" },
        { fence: fenceOf(short), held_s: 1, ended: "expired" },
      ]);
    });
  });

  it("after a restart the holds that stand are told of, and the end of each", async () => {
    await using own = await host.start();
    const mine = new Api(own);
    const s = await mine.session();
    await s.release("kept", await s.lock("kept"));
    const token = await s.lock("kept", { lease_ttl_s: 60 });
    await own.restart();
    const grants = async () => (JSON.parse((await mine.get("/v1/keys/kept?history=true")).body) as KeyReply).history;
    const before = (await grants())?.grants;
    expect(before).toMatchObject([{ fence: fenceOf(token), waited_s: 0 }]);
    await s.release("kept", token);
    expect((await grants())?.grants).toEqual([{ ...before?.[0], held_s: expect.any(Number), ended: "released" }]);
  });

  it("after a restart new grants are told of beside the holds that stand, whether somebody has looked or not", async () => {
    await using own = await host.start();
    const mine = new Api(own);
    const s = await mine.session();
    const first = await s.take("slots", 2);
    await own.restart();
    const second = await s.take("slots", 2);
    await s.release("slots", first);
    const { history } = JSON.parse((await mine.get("/v1/keys/slots?history=true")).body) as KeyReply;
    expect(history?.grants).toMatchObject([{ fence: fenceOf(first), ended: "released" }, { fence: fenceOf(second) }]);
    expect(history?.grants[1]).not.toHaveProperty("ended");
  });

  it("is told only where it is asked for, in these words", async () => {
    const [key, s] = [freshKey("plain"), await api.session()];
    await s.lock(key);
    for (const query of ["", "?history=false"]) {
      expect(JSON.parse((await api.get(`/v1/keys/${key}${query}`)).body)).not.toHaveProperty("history");
    }
    expectError(await api.get(`/v1/keys/${key}?history=1`), 400, "bad_request", "history must be true or false");
    expectError(await api.get(`/v1/keys/${freshKey("none")}?history=true`), 404, "not_found");
  });

  it("a query on the wire shows leases as the HTTP API does, and no history", async () => {
    const [key, s] = [freshKey("wire"), await api.session()];
    await s.lock(key, { lease_ttl_s: 45 });
    const client = await TcpClient.open(server.tcpPort);
    const report = JSON.parse((await ask(client, "query", key, "_")).replace(/^ok /, ""));
    client.close();
    expect(report.held_by).toMatchObject([{ lease_s: 45 }]);
    expect(report).not.toHaveProperty("history");
  });
});
