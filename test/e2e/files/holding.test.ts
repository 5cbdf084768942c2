/** A lock file over HTTP by itself: created, read, refreshed, removed, gone after its time. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { Files, fenceIn, lockTextIn } from "../../support/files.ts";
import { HOSTS } from "../../support/hosts.ts";
import { poll, sleep } from "../../support/poll.ts";
import { expectError, expectJson, expectNoContent } from "../../support/replies.ts";
import { Api, freshKey } from "../../support/rest.ts";
import type { TestServer } from "../../support/server.ts";

const NOT_HELD = { error: "not_held" };

describe.each(HOSTS)("holding files, on $name", (host) => {
  let server: TestServer;
  let api: Api;
  let files: Files;
  beforeAll(async () => {
    server = await host.start();
    api = new Api(server);
    files = new Files(api);
  });
  afterAll(() => server.stop());

  const gone = (name: string) =>
    poll(`${name} to be gone`, 4_000, async () => ((await files.get(name)).status === 404 ? true : undefined));

  describe.concurrent("creating a file", () => {
    it("that is free finds nothing before [E01]", async () => {
      expectJson(await files.get(freshKey()), 404, NOT_HELD);
    });

    it("answers its text, its fence and its lease; GET and HEAD say the same [E02] [E03] [E04]", async () => {
      const a = freshKey();
      const now = Date.now() / 1000;
      const created = await files.create(a, "pid=42\ntag=deploy\n");
      const text = lockTextIn(created, 201);
      expect(text).toMatchObject({ pid: "42", tag: "deploy" });
      expect(Math.abs(Number(text.timestamp) - now)).toBeLessThanOrEqual(1);
      expect(Math.abs(Number(text.expires) - Number(text.timestamp) - 3600)).toBeLessThanOrEqual(1);
      expect(created.headers).toMatchObject({ "x-stale-timeout": "3600", location: `/v1/files/${a}` });
      const read = await files.get(a);
      expect([read.status, read.body, read.headers.etag]).toEqual([200, created.body, created.headers.etag]);
      const head = await files.head(a);
      expect([head.status, head.body]).toEqual([200, ""]);
      expect(head.headers).toMatchObject({ etag: created.headers.etag, "x-stale-timeout": "3600" });
      expect(head.headers["content-type"]).toBe("text/plain; charset=utf-8");
    });

    it("that is there answers 412 and who has it [E05]", async () => {
      const a = freshKey();
      const created = await files.create(a, "pid=42\ntag=deploy\n");
      const refused = await files.create(a);
      expect([refused.status, refused.body]).toEqual([412, created.body]);
      expect(refused.headers.etag).toBe(created.headers.etag);
    });

    it("needs no body [E06]", async () => {
      const text = lockTextIn(await files.create(freshKey()), 201);
      expect(text).toEqual({ pid: "0", timestamp: text.timestamp, fence: text.fence, expires: text.expires });
    });

    it("holds it for as long as it says, and no longer [E07] [E08]", async () => {
      const a = freshKey();
      const first = await files.create(a, undefined, { "X-Stale-Timeout": "5" });
      const fence = fenceIn(first, 201);
      expect(first.headers["x-stale-timeout"]).toBe("5");
      await sleep(1.5);
      expect(fenceIn(await files.get(a), 200)).toBe(fence);
      await sleep(4);
      expectJson(await files.get(a), 404, NOT_HELD);
      expect(BigInt(await files.held(a))).toBeGreaterThan(BigInt(fence));
    });

    it.each(["0", "-1", "1.5", "abc", "9223372037"])("for %s seconds is refused [E09]", async (seconds) => {
      expectError(
        await files.create(freshKey(), undefined, { "X-Stale-Timeout": seconds }),
        400,
        "bad_request",
        "X-Stale",
      );
    });

    it("for the longest time there is works", async () => {
      const reply = await files.create(freshKey(), undefined, { "X-Stale-Timeout": "9223372036" });
      lockTextIn(reply, 201);
      expect(reply.headers["x-stale-timeout"]).toBe("9223372036");
    });

    it("needs a condition [E22]", async () => {
      expectJson(await files.put(freshKey()), 428, { error: "precondition_required" });
    });

    it("needs one condition that can be read [E23]", async () => {
      expectError(await files.create(freshKey(), undefined, { "If-Match": "*" }), 400, "bad_request", "not both");
      expectError(
        await files.put(freshKey(), undefined, { "If-None-Match": '"x"' }),
        400,
        "bad_request",
        "If-None-Match",
      );
      for (const match of ["x", '"x"', '"1" "2"', '"1",', "1", "W/"]) {
        expectError(await files.refresh(freshKey(), match), 400, "bad_request", "If-Match");
        expectError(await files.remove(freshKey(), match), 400, "bad_request", "If-Match");
      }
    });

    it("again with the same nonce changes nothing; with another one it is somebody else [E35]", async () => {
      const a = freshKey();
      const first = await files.create(a, "pid=1\nnonce=00ff\n");
      expect(lockTextIn(first, 201).nonce).toBe("00ff");
      const again = await files.create(a, "pid=2\ntag=x\nnonce=00ff\n", { "X-Stale-Timeout": "1" });
      expect([again.status, again.body, again.headers["x-stale-timeout"]]).toEqual([200, first.body, "3600"]);
      expect((await files.create(a, "nonce=00fe\n")).status).toBe(412);
      const waiting = await files.create(`${a}?wait=30`, "nonce=00ff\n");
      expect([waiting.status, waiting.body]).toEqual([200, first.body]);
    });

    it("cleans the tag, and refuses a body that is no lock text [E36]", async () => {
      expect(lockTextIn(await files.create(freshKey(), "tag=a\tb\x1b"), 201).tag).toBe("a b");
      expectError(await files.create(freshKey(), new Uint8Array([0xff])), 400, "bad_request", "UTF-8");
      expectError(await files.create(freshKey(), "pid=x"), 400, "bad_request", "pid");
      expectError(await files.create(freshKey(), "x".repeat(16_385)), 400, "bad_request", "16384");
      expect((await files.create(freshKey(), `tag=${"x".repeat(16_380)}`)).status).toBe(201);
      expect(lockTextIn(await files.create(freshKey(), "tag=\n"), 201).tag).toBe("");
      expect(lockTextIn(await files.create(freshKey(), "nonce=XYZ\n"), 201).nonce).toBeUndefined();
    });

    it("follows the rule of keys [E37]", async () => {
      expectError(await files.create("a%20b"), 400, "bad_request", "key");
      const slash = await files.create("a%2Fb");
      expect([slash.status, slash.headers.location]).toEqual([201, "/v1/files/a%2Fb"]);
      expectError(await files.create("x".repeat(257)), 400, "bad_request", "key");
      expectError(await files.get("a%ffb"), 400, "bad_request", "key");
    });

    it("by twenty at once is done by one of them [E42]", async () => {
      const a = freshKey();
      const replies = await Promise.all(Array.from({ length: 20 }, (_, index) => files.create(a, `tag=${index}`)));
      const winners = replies.filter(({ status }) => status === 201);
      expect(winners).toHaveLength(1);
      const fence = fenceIn(winners[0] as (typeof replies)[0], 201);
      const others = replies.filter(({ status }) => status !== 201);
      expect(others.map((reply) => fenceIn(reply, 412))).toEqual(Array(19).fill(fence));
    });
  });

  describe("removing a file", () => {
    it("answers 204 once [E10]", async () => {
      const a = freshKey();
      await files.held(a);
      expectNoContent(await files.remove(a));
      expectJson(await files.remove(a), 404, NOT_HELD);
    });

    it("by its fence, alone, in a list, or any [E11] [E13]", async () => {
      const a = freshKey();
      expectNoContent(await files.remove(a, `"${await files.held(a)}"`));
      expectNoContent(await files.remove(a, `"1", "${await files.held(a)}"`));
      await files.held(a);
      expectNoContent(await files.remove(a, "*"));
    });

    it("by another fence, or a weak tag, leaves it alone [E12] [E14]", async () => {
      const a = freshKey();
      const fence = await files.held(a, "pid=7\n");
      for (const match of ['"1"', `W/"${fence}"`, `"0${fence}"`, '"99999999999999999999999"']) {
        const refused = lockTextIn(await files.remove(a, match), 412);
        expect(refused).toMatchObject({ pid: "7", fence });
      }
      expect(fenceIn(await files.get(a), 200)).toBe(fence);
    });

    it("that is not there answers 404, whatever the fence [E15]", async () => {
      expectJson(await files.remove(freshKey(), '"5"'), 404, NOT_HELD);
    });
  });

  describe.concurrent("refreshing a file", () => {
    it("starts its lease anew, with the same fence and lease [E16]", async () => {
      const a = freshKey();
      const before = lockTextIn(await files.create(a, "pid=3\ntag=t\nnonce=aa\n", { "X-Stale-Timeout": "60" }), 201);
      await sleep(2);
      const refreshed = await files.refresh(a, `"${before.fence}"`);
      const after = lockTextIn(refreshed, 200);
      expect(Number(after.timestamp)).toBeGreaterThanOrEqual(Number(before.timestamp) + 1);
      expect(after).toMatchObject({ pid: "3", tag: "t", nonce: "aa", fence: before.fence });
      expect(refreshed.headers["x-stale-timeout"]).toBe("60");
    });

    it("may shorten the lease, and the shorter one stays [E17]", async () => {
      const a = freshKey();
      const fence = await files.held(a);
      const reply = await files.refresh(a, "*", { "X-Stale-Timeout": "4" });
      expect([fenceIn(reply, 200), reply.headers["x-stale-timeout"]]).toEqual([fence, "4"]);
      const again = await files.refresh(a, `"${fence}"`);
      expect(again.headers["x-stale-timeout"]).toBe("4");
      await sleep(4.5);
      expectJson(await files.get(a), 404, NOT_HELD);
    });

    it("in time keeps it for ever [E18]", async () => {
      const a = freshKey();
      const fence = await files.held(a, undefined, { "X-Stale-Timeout": "4" });
      for (let second = 0; second < 5; second += 1) {
        await sleep(1);
        expect(fenceIn(await files.refresh(a, `"${fence}"`), 200)).toBe(fence);
      }
      expect(fenceIn(await files.get(a), 200)).toBe(fence);
    });

    it("by another fence is refused with the holder's text [E19]", async () => {
      const a = freshKey();
      const fence = await files.held(a, "pid=9\n");
      expect(lockTextIn(await files.refresh(a, '"1"'), 412)).toMatchObject({ pid: "9", fence });
    });

    it("does not revive it, and does not touch its successor [E20] [E21]", async () => {
      const a = freshKey();
      const first = await files.held(a, undefined, { "X-Stale-Timeout": "1" });
      await gone(a);
      expectJson(await files.refresh(a, `"${first}"`), 404, NOT_HELD);
      const second = await files.held(a, "pid=2\n");
      expect(lockTextIn(await files.refresh(a, `"${first}"`), 412)).toMatchObject({ pid: "2", fence: second });
      expect(lockTextIn(await files.remove(a, `"${first}"`), 412)).toMatchObject({ pid: "2", fence: second });
      expect(fenceIn(await files.get(a), 200)).toBe(second);
    });

    it("replaces the tag if one is given, and nothing else", async () => {
      const a = freshKey();
      const fence = await files.held(a, "pid=3\ntag=old\nnonce=aa\n");
      const after = lockTextIn(await files.refresh(a, `"${fence}"`, {}, "pid=4\ntag=new\nnonce=bb\n"), 200);
      expect(after).toMatchObject({ pid: "3", tag: "new", nonce: "aa", fence });
      expectError(await files.refresh(a, `"${fence}"`, {}, "pid=x"), 400, "bad_request", "pid");
    });
  });

  // workerd hides a condition without a value (2026-11).
  if (host.name === "Node")
    it("an empty condition is no condition, and is refused", async () => {
      const a = freshKey();
      const fence = await files.held(a);
      expect((await files.remove(a, "")).status).toBe(400);
      expect((await files.refresh(a, "")).status).toBe(400);
      expect((await files.put(a, undefined, { "If-None-Match": "" })).status).toBe(400);
      expect(fenceIn(await files.get(a), 200)).toBe(fence);
    });

  it("other methods are refused, and told which there are [E40]", async () => {
    const reply = await api.post(`/v1/files/${freshKey()}`);
    expectJson(reply, 405, { error: "method_not_allowed" });
    expect(reply.headers.allow).toBe("GET, HEAD, PUT, DELETE");
    expect((await api.ask("LOCK", "/v1/files/a")).status).toBe(405);
  });

  it("a file that is held leaves no line in the log; a wrong fence does, with its word", async () => {
    const a = freshKey();
    await files.held(a);
    const before = server.log.length;
    expect((await files.create(a)).status).toBe(412);
    expect((await files.create(`${a}?wait=1`)).status).toBe(412);
    expect((await files.remove(a, '"1"')).status).toBe(412);
    const line = await poll("a line", 3_000, async () => /^.+(?=\n)/.exec(server.log.slice(before))?.[0]);
    expect(JSON.parse(line)).toMatchObject({ event: "request_failed", method: "DELETE", error: "fence_mismatch" });
  });

  it("a file outlives a crash of the service, with all it says", async () => {
    const a = freshKey();
    const created = await files.create(a, "pid=42\ntag=deploy\nnonce=0a\n");
    await server.restart();
    const read = await files.get(a);
    expect([read.status, read.body]).toEqual([200, created.body]);
    expect((await files.create(a, "nonce=0a\n")).status).toBe(200);
    expectNoContent(await files.remove(a, read.headers.etag as string));
  });
});
