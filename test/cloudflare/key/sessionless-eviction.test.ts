/** Holders without a session: what outlives the sleep of their key, what they cost, and what older rows become. */
import { evictDurableObject, listDurableObjectIds, runInDurableObject } from "cloudflare:test";
import { env, exports } from "cloudflare:workers";
import { afterEach, describe, expect, it, vi } from "vitest";
import type { ClaimCommand } from "../../../src/core/engine/index.ts";
import { newSessionlessOwner } from "../../../src/core/session-names.ts";
import { expectLog } from "../../support/expected-logs.ts";
import { askKey, fresh, keyStub, rowsWritten, until } from "../support.ts";

afterEach(() => {
  vi.restoreAllMocks();
});

const ask = (method: string, path: string, headers: Record<string, string> = {}, body?: string) =>
  exports.default.fetch(`http://holdfast${path}`, { method, headers, ...(body !== undefined && { body }) });
const CREATE = { "If-None-Match": "*" };

function claim(overrides: Partial<ClaimCommand> = {}): ClaimCommand {
  const sessionless = { kind: "file", note: "42", tag: "deploy", mark: "0a" };
  const session = newSessionlessOwner("file");
  return { session, request: fresh("request"), leaseSeconds: 60, waitMs: 0, sessionless, ...overrides };
}

describe("a key whose object is evicted", () => {
  it("still has its file, and lets it be removed [E41]", async () => {
    const name = fresh("file");
    const created = await ask("PUT", `/v1/files/${name}`, CREATE, "pid=42\ntag=deploy\nnonce=0a\n");
    expect(created.status).toBe(201);
    const text = await created.text();
    await evictDurableObject(keyStub(name));
    const read = await ask("GET", `/v1/files/${name}`);
    expect([read.status, await read.text()]).toEqual([200, text]);
    await evictDurableObject(keyStub(name));
    expect((await ask("PUT", `/v1/files/${name}`, CREATE, "nonce=0a")).status).toBe(200);
    expect((await ask("DELETE", `/v1/files/${name}`)).status).toBe(204);
    expect((await ask("GET", `/v1/files/${name}`)).status).toBe(404);
    expectLog("request_failed", { path: "/v1/files/{name}", status: 404 });
  });

  it("still has its Terraform lock [T17]", async () => {
    const name = fresh("state");
    const info = '{"ID":"a1","Who":"u@h"}';
    expect((await ask("LOCK", `/v1/terraform/${name}`, {}, info)).status).toBe(200);
    await evictDurableObject(keyStub(name));
    const unlocked = await ask("UNLOCK", `/v1/terraform/${name}`, {}, '{"ID":"a1"}');
    expect([unlocked.status, await unlocked.text()]).toEqual([200, info]);
  });

  it.each(["hibernate", "close"] as const)(
    "still has a PUT that waits, its sockets kept or cut (%s)",
    async (webSockets) => {
      const name = fresh("file");
      await ask("PUT", `/v1/files/${name}`, CREATE);
      const order: string[] = [];
      const wait = async (tag: string) => {
        const reply = await ask("PUT", `/v1/files/${name}?wait=20`, CREATE, `tag=${tag}`);
        order.push(tag);
        return reply.status;
      };
      const waiting = [];
      for (const [index, tag] of ["one", "two"].entries()) {
        waiting.push(wait(tag));
        await until(async () => (await keyStub(name).describe())?.waiters === index + 1, { interval: 10 });
      }
      await evictDurableObject(keyStub(name), { webSockets });
      // Who was cut off comes back and stands where it stood.
      await until(
        () =>
          runInDurableObject(
            keyStub(name),
            (_, ctx) => ctx.getWebSockets().filter((s) => s.readyState === 1).length === 2,
          ),
        { timeout: 5_000, interval: 10 },
      );
      expect((await keyStub(name).describe())?.waiters).toBe(2);
      expect((await ask("DELETE", `/v1/files/${name}`)).status).toBe(204);
      expect(await waiting[0]).toBe(201);
      expect((await ask("DELETE", `/v1/files/${name}`)).status).toBe(204);
      expect(await waiting[1]).toBe(201);
      expect(order).toEqual(["one", "two"]);
    },
  );

  it("passes over a claim whose listener is gone, after giving it time to return", async () => {
    const stub = keyStub(fresh("key"));
    await askKey(stub, { type: "claim", command: claim() });
    expect(
      await askKey(stub, {
        type: "claim",
        command: claim({ waitMs: 60_000, sessionless: { kind: "file", note: "0" } }),
      }),
    ).toEqual({
      status: "queued",
    });
    expect((await askKey(stub, { type: "remove", selector: { kind: "file", which: { by: "any" } } })).status).toBe(
      "removed",
    );
    await until(async () => (await askKey(stub, { type: "current" })) === undefined, { timeout: 8_000, interval: 20 });
  });
});

describe("what a file costs", () => {
  it("is one row for the grant and one for the removal, and no session object", async () => {
    const stub = keyStub(fresh("key"));
    const sessionsBefore =
      (await listDurableObjectIds(env.HTTP_SESSION)).length + (await listDurableObjectIds(env.SESSION)).length;
    await askKey(stub, { type: "claim", command: claim() });
    await askKey(stub, { type: "remove", selector: { kind: "file", which: { by: "any" } } });
    await runInDurableObject(stub, async (instance, ctx) => {
      const cycle = async () => {
        await askKey(instance, { type: "claim", command: claim() });
        await askKey(instance, { type: "remove", selector: { kind: "file", which: { by: "any" } } });
      };
      expect(await rowsWritten(ctx, cycle)).toBe(2);
    });
    const sessions =
      (await listDurableObjectIds(env.HTTP_SESSION)).length + (await listDurableObjectIds(env.SESSION)).length;
    expect(sessions).toBe(sessionsBefore);
  });
});
