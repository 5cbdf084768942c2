/** Files and everybody else in one queue: waiting, hand-over, hang-ups, and what each sees of the other. */
import { execFile } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { temporaryDir } from "../../cli/support.ts";
import { speakTo } from "../../godistlock/speaker.ts";
import { parseExposition, sampleValue } from "../../metrics/parse.ts";
import { Clients } from "../../support/clients.ts";
import { decimalFence, Files, fenceIn, lockTextIn } from "../../support/files.ts";
import { HOSTS } from "../../support/hosts.ts";
import { poll, sleep } from "../../support/poll.ts";
import { expectAfter, expectError, expectNoContent, expectWaiting, grantIn } from "../../support/replies.ts";
import { Api, freshKey } from "../../support/rest.ts";
import type { TestServer } from "../../support/server.ts";
import { stopwatch } from "../../support/stopwatch.ts";
import { ask, fenceOf, joinQueue, lock, tokenOf } from "../../support/wire-client.ts";

const COMMAND = fileURLToPath(new URL("../../../dist/holdfast.js", import.meta.url));

describe.each(HOSTS)("waiting for files, on $name", (host) => {
  let server: TestServer;
  let api: Api;
  let files: Files;
  beforeAll(async () => {
    server = await host.start({ variables: { MAX_WAITERS: "3", ADMIN_TOKEN: "root" } });
    api = new Api(server);
    files = new Files(api);
  });
  afterAll(() => server.stop());

  describe("a PUT that waits", () => {
    it("answers 412 with the holder when its time is over [E24]", async () => {
      const a = freshKey();
      const fence = await files.held(a);
      const reply = await files.create(`${a}?wait=1`);
      expect(fenceIn(reply, 412)).toBe(fence);
      expectAfter(reply, 0.9, 2);
      expect(await api.queue(a)).toEqual([]);
    });

    it("is granted when the file is removed, with its lease from then [E25]", async () => {
      const a = freshKey();
      const fence = await files.held(a);
      const waiting = await files.waitInLine(a, 10, "pid=5\ntag=next\n");
      await sleep(0.9);
      expectNoContent(await files.remove(a));
      const reply = await waiting.reply;
      const text = lockTextIn(reply, 201);
      expectAfter(reply, 0.9, 2);
      expect(text).toMatchObject({ pid: "5", tag: "next" });
      expect(BigInt(text.fence as string)).toBeGreaterThan(BigInt(fence));
      expect(Number(text.expires)).toBeGreaterThanOrEqual(Date.now() / 1000 + 3599);
      expect(reply.headers.location).toBe(`/v1/files/${a}`);
    });

    it("is granted when the lease before it ends [E26]", async () => {
      const a = freshKey();
      const askedAt = performance.now();
      const fence = await files.held(a, undefined, { "X-Stale-Timeout": "1" });
      const reply = await files.create(`${a}?wait=10`);
      expect(performance.now() - askedAt).toBeGreaterThanOrEqual(1_000);
      expect(BigInt(fenceIn(reply, 201))).toBeGreaterThan(BigInt(fence));
      expectAfter(reply, 0, 3);
    });

    it("is granted in the order of its coming [E27]", async () => {
      const a = freshKey();
      await files.held(a);
      const waiting = [
        await files.waitInLine(a, 30, "tag=1"),
        await files.waitInLine(a, 30, "tag=2"),
        await files.waitInLine(a, 30, "tag=3"),
      ];
      for (const [index, exchange] of waiting.entries()) {
        expectNoContent(await files.remove(a));
        expect(lockTextIn(await exchange.reply, 201).tag).toBe(String(index + 1));
        for (const later of waiting.slice(index + 1)) await expectWaiting(later);
      }
    });

    it.each(["301", "-1", "x", "", "1.5"])(
      "for %s seconds is refused; in a refresh that is not looked at [E28]",
      async (seconds) => {
        const a = freshKey();
        expectError(await files.create(`${a}?wait=${seconds}`), 400, "bad_request", "wait");
        await files.held(a);
        expect((await files.refresh(`${a}?wait=${seconds}`, "*")).status).toBe(200);
      },
    );

    it("beyond MAX_WAITERS is refused; one that does not wait is told who holds", async () => {
      const a = freshKey();
      const fence = await files.held(a);
      for (let count = 0; count < 3; count += 1) await files.waitInLine(a, 30);
      expectError(await files.create(`${a}?wait=5`), 503, "max_waiters");
      expect(fenceIn(await files.create(a), 412)).toBe(fence);
      expectNoContent(await files.remove(a));
    });

    it.each(host.hangUps)("loses its place when its client hangs up (%s)", async (how) => {
      const a = freshKey();
      await files.held(a);
      const abandoned = await files.waitInLine(a, 60);
      const next = await files.waitInLine(a, 60, "tag=next");
      abandoned[how]();
      await api.waitersOn(a, 1);
      const elapsed = stopwatch();
      expectNoContent(await files.remove(a));
      const reply = await next.reply;
      expect(lockTextIn(reply, 201).tag).toBe("next");
      expect(elapsed()).toBeLessThanOrEqual(500);
    });

    it("that crosses a hang-up has been answered or is given back within a second", async () => {
      for (let round = 0; round < 6; round += 1) {
        const a = freshKey();
        await files.held(a);
        const waiting = await files.waitInLine(a, 60, "nonce=0a");
        const removing = files.remove(a);
        await sleep(round / 2_000);
        waiting.reset();
        await removing;
        // A reply that was written is the client's, although it was not there to read it.
        const taken = await poll(`${a} to be free or answered`, 1_000, async () => {
          const reply = await files.create(a, "nonce=0a");
          return reply.status === 200 || reply.status === 201 ? reply : undefined;
        });
        expectNoContent(await files.remove(a, taken.headers.etag));
      }
    });

    it("that a crash of the service cut off has left the queue, and the next one is served within seconds", async () => {
      const a = freshKey();
      await files.held(a);
      const cut = await files.waitInLine(a, 60);
      await server.restart();
      await expect(cut.reply).rejects.toThrow();
      const next = await files.waitInLine(a, 60, "tag=next");
      const elapsed = stopwatch();
      expectNoContent(await files.remove(a));
      const reply = await next.reply;
      expect(lockTextIn(reply, 201).tag).toBe("next");
      expect(elapsed()).toBeLessThanOrEqual(5_000);
    });

    it("that a crash cut off and that came up since is the client's for good once it has asked again", async () => {
      const a = freshKey();
      await files.held(a);
      const cut = await files.waitInLine(a, 60, "nonce=abcd");
      await server.restart();
      await expect(cut.reply).rejects.toThrow();
      expectNoContent(await files.remove(a));
      const again = await files.create(a, "nonce=abcd");
      const fence = fenceIn(again, again.status);
      expect([200, 201]).toContain(again.status);
      const other = await files.create(`${a}?wait=5`, "tag=other");
      expect([other.status, lockTextIn(other, 412).fence]).toEqual([412, fence]);
    });

    it("costs no session, and is shown with its tag while it waits and holds", async () => {
      const a = freshKey();
      const sessions = (await api.stats()).connections;
      const fence = await files.held(a, "tag=deploy by ada\n");
      const waiting = await files.waitInLine(a, 30, "tag=bob\u0007\u200b\n");
      expect((await api.stats()).connections).toBe(sessions);
      const { held_by, queue, history } = JSON.parse((await api.get(`/v1/keys/${a}?history=true`)).body);
      const holder = { protocol: "file", label: "deploy by ada", fence: BigInt(fence).toString(16).padStart(16, "0") };
      expect(held_by).toEqual([expect.objectContaining(holder)]);
      expect(queue).toEqual([expect.objectContaining({ position: 1, protocol: "file", label: "bob" })]);
      expect(history.grants).toEqual([expect.objectContaining(holder)]);
      expect(held_by[0].owner_conn_id).not.toBe(queue[0].owner_conn_id);
      expect((await api.stats()).locks.find(({ key }) => key === a)).toMatchObject({
        owner_conn_id: held_by[0].owner_conn_id,
        waiters: 1,
      });
      const removed = await api
        .with({ Authorization: "Bearer root" })
        .ask("DELETE", `/v1/admin/holders/${a}?token_fence=${holder.fence}`);
      expect(JSON.parse(removed.body)).toMatchObject({ key: a, ...holder });
      expect(lockTextIn(await waiting.reply, 201).tag).toBe("bob \u200b");
    });
  });

  describe("files and other protocols", () => {
    it("wait for each other: dflockd behind a file [E29]", async () => {
      const a = freshKey();
      const fence = await files.held(a);
      using clients = new Clients(server);
      const client = await clients.tcp();
      expect(await ask(client, "l", a, "0")).toBe("timeout");
      await joinQueue(client, a, "10");
      expectNoContent(await files.remove(a));
      const token = tokenOf(await client.next());
      expect(BigInt(decimalFence(token))).toBeGreaterThan(BigInt(fence));
    });

    it("see each other: dflockd's holder as a made-up text, which cannot be removed [E30] [E31]", async () => {
      const a = freshKey();
      using clients = new Clients(server);
      const client = await clients.tcp();
      const token = await lock(client, a, "0 60");
      const fence = decimalFence(token);
      const made = { pid: "0", tag: "holdfast:dflockd", fence };
      expect(lockTextIn(await files.create(a), 412)).toMatchObject(made);
      const read = await files.get(a);
      expect(lockTextIn(read, 200)).toMatchObject(made);
      expect(read.headers["x-stale-timeout"]).toBe("60");
      expectError(await files.remove(a), 409, "foreign_holder");
      expectError(await files.remove(a, `"${fence}"`), 409, "foreign_holder");
      expect(lockTextIn(await files.refresh(a, `"${fence}"`), 412)).toMatchObject(made);
      expect(await ask(client, "r", a, token)).toBe("ok");
    });

    it("the HTTP API's holder too", async () => {
      const a = freshKey();
      const session = await api.session();
      const token = await session.lock(a, { lease_ttl_s: 60 });
      expect(lockTextIn(await files.get(a), 200)).toMatchObject({ tag: "holdfast:http", fence: decimalFence(token) });
      // A lease that was renewed for longer than it was granted counts from no later than now.
      await session.post(`/v1/locks/${a}/renew`, { token, lease_ttl_s: 600 });
      const renewed = await files.get(a);
      const { timestamp } = lockTextIn(renewed, 200);
      expect(Number(timestamp)).toBeLessThanOrEqual(Date.now() / 1000);
      expect(renewed.headers["x-stale-timeout"]).toBe("600");
    });

    it("stand in one queue, first come, first served [E32]", async () => {
      const a = freshKey();
      using clients = new Clients(server);
      const [holder, later] = [await clients.tcp(), await clients.tcp()];
      const token = await lock(holder, a, "0 60");
      const put = await files.waitInLine(a, 10);
      await joinQueue(later, a, "10");
      expect(await ask(holder, "r", a, token)).toBe("ok");
      const fence = fenceIn(await put.reply, 201);
      expect(BigInt(fence)).toBeGreaterThan(BigInt(decimalFence(token)));
      expectNoContent(await files.remove(a));
      expect(BigInt(decimalFence(tokenOf(await later.next())))).toBeGreaterThan(BigInt(fence));
    });

    it("godistlock names the fence of a file [E33]", async () => {
      const a = freshKey();
      const fence = await files.held(a);
      const speaker = await speakTo({ port: server.godistlockPort });
      for (const request of [`IS ${a} n1`, `TRY ${a} 1000 n2`]) {
        speaker.send(Buffer.from(`${request}\n`));
        expect(await speaker.inbox.take(5_000)).toMatchObject({ line: `LOCK ${request.slice(-2)} ${fence}` });
      }
      speaker.close();
    });

    it("a godistlock holder is named as one to files and to Terraform", async () => {
      const a = freshKey();
      const speaker = await speakTo({ port: server.godistlockPort });
      speaker.send(Buffer.from(`ON ${a} 60000 n1\n`));
      expect(await speaker.inbox.take(5_000)).toMatchObject({ line: expect.stringMatching(/^GIVE n1 /) });
      expect(lockTextIn(await files.get(a), 200)).toMatchObject({ pid: "0", tag: "holdfast:godistlock" });
      const refused = await api.ask("POST", `/v1/terraform/${a}`, '{"ID":"t"}');
      expect(refused.status).toBe(423);
      expect(JSON.parse(refused.body)).toMatchObject({ Operation: "holdfast:godistlock" });
      speaker.close();
    });

    it("a REST client gets the lock after a file", async () => {
      const a = freshKey();
      await files.held(a);
      const session = await api.session();
      const polling = await session.waitInLine(a, 10);
      expectNoContent(await files.remove(a));
      grantIn(await polling.reply);
    });

    it("do not share a key that is a semaphore [E34]", async () => {
      const a = freshKey();
      using clients = new Clients(server);
      const client = await clients.tcp();
      const [, first] = [await ask(client, "sl", a, "0 3"), tokenOf(await ask(client, "sl", a, "0 3"))];
      expectError(await files.create(a), 409, "limit_mismatch");
      expectError(await files.refresh(a, "*"), 409, "limit_mismatch");
      expect(fenceIn(await files.get(a), 200)).toBe(decimalFence(first));
      expectError(await files.remove(a), 409, "foreign_holder");
      client.destroy();
      await poll("the semaphore to be free", 3_000, async () =>
        (await files.get(a)).status === 404 ? true : undefined,
      );
      expectError(await files.remove(a), 404, "not_held");
    });

    it("an operator may end a file by force, and others get the key", async () => {
      const a = freshKey();
      const fence = await files.held(a);
      expect((await files.get(a)).status).toBe(200);
      const stolen = await api
        .with({ Authorization: "Bearer root" })
        .ask("DELETE", `/v1/admin/holders/${a}?token_fence=${BigInt(fence).toString(16).padStart(16, "0")}`);
      expect(stolen.status).toBe(200);
      expect((await files.get(a)).status).toBe(404);
      using clients = new Clients(server);
      expect(fenceOf(await lock(await clients.tcp(), a))).toMatch(/^[0-9a-f]{16}$/);
    });
  });

  it("what the service answers is a lock file that the command reads [E43]", async () => {
    const { body } = await files.create(freshKey(), "pid=42\ntag=deploy\n");
    const path = join(temporaryDir(), "deploy.lock");
    writeFileSync(path, body);
    const run = promisify(execFile)(process.execPath, [COMMAND, "file", "status", path]);
    const { stdout } = await run.catch((error: { stdout: string; stderr: string }) => error);
    expect(stdout).toMatch(/held/);
    expect(stdout).toMatch(/\b42\b/);
    expect(stdout).toMatch(/deploy/);
  });

  it("grants, hold times and requests of files are measured like all others", async () => {
    const metrics = async () => parseExposition((await api.get("/metrics")).body);
    const value = (families: Awaited<ReturnType<typeof metrics>>, name: string, labels: Record<string, string>) =>
      sampleValue(families, name, labels) ?? 0;
    const put = { method: "PUT", path: "/v1/files/{name}", status: "201" };
    const [before, a] = [await metrics(), freshKey()];
    await files.held(a);
    expectNoContent(await files.remove(a));
    const counted = await poll("the grant to be counted", 5_000, async () => {
      const now = await metrics();
      const [grants, releases] = [
        { kind: "lock", how: "immediate" },
        { kind: "lock", reason: "released" },
      ];
      const isUp = (name: string, labels: Record<string, string>) =>
        value(now, name, labels) > value(before, name, labels);
      const isCounted = isUp("dflockd_grants_total", grants) && isUp("dflockd_releases_total", releases);
      return isCounted && isUp("dflockd_http_requests_total", put) ? now : undefined;
    });
    expect(value(counted, "dflockd_http_requests_total", put)).toBeGreaterThan(0);
  });
});
