/** An HTTP session that its client deletes. */

import { evictDurableObject, runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, describe, expect, it, vi } from "vitest";
import { allDirectories } from "../../../src/cloudflare/calls/directories.ts";
import { DirectoryObject } from "../../../src/cloudflare/directory/directory-object.ts";
import { HttpSessionObject } from "../../../src/cloudflare/http-session/http-session-object.ts";
import { PolledSession } from "../../../src/core/session/polled-session.ts";
import { httpSessionName, newSessionId } from "../../../src/core/session-names.ts";
import { errorBody } from "../../../src/http/reply/errors.ts";
import { expectLog } from "../../support/expected-logs.ts";
import { call, NOTHING_STORED, RestClient, soon, storedBy, tokenIn, wordOf } from "../rest.ts";
import { replaceCommand } from "../spies.ts";
import { fresh, keyStub, never, sessionsOn, until } from "../support.ts";

afterEach(() => {
  vi.restoreAllMocks();
});

const GONE = { status: 410, body: errorBody("session_gone") };
const nameOf = (object: unknown) => (object as { ctx: DurableObjectState }).ctx.id.name ?? "";

/** The sessions that the directory lists, with those of other tests, which may end at any moment. */
async function listedSessions(): Promise<string[]> {
  const shards = allDirectories(env).map(async (directory) => {
    // Has it write down what it has gathered.
    await directory.census();
    return runInDurableObject(directory, (_, { storage }) =>
      storage.sql.exec<{ session: string }>("SELECT session FROM sessions").toArray(),
    );
  });
  return (await Promise.all(shards)).flat().map(({ session }) => session);
}

const isFree = async (key: string) => (await keyStub(key).describe())?.holderCount === 0;

/** Whether a session has begun to end. */
function watchEnds(): () => boolean {
  let hasEnded = false;
  const { end } = HttpSessionObject.prototype;
  vi.spyOn(HttpSessionObject.prototype, "end").mockImplementation(function (this: HttpSessionObject) {
    const ending = end.call(this);
    hasEnded = true;
    return ending;
  });
  return () => hasEnded;
}

describe("a session that is deleted", () => {
  it("leaves nothing behind: not in keys, not in its object, not in the directory", async () => {
    const [held, wanted, enqueued] = [fresh("key"), fresh("key"), fresh("key")];
    const [client, other] = [await RestClient.open(), await RestClient.open()];
    await client.hold(held);
    for (const key of [wanted, enqueued]) await other.hold(key);
    expect(wordOf(await client.enqueue(enqueued))).toBe("queued");
    const poll = await client.queue(wanted);
    expect((await client.end()).status).toBe(204);
    expect(await poll.reply).toEqual(GONE);
    expect(await isFree(held)).toBe(true);
    for (const key of [wanted, enqueued]) expect(await sessionsOn(key)).toEqual([other.name]);
    expect(await storedBy(client.object)).toEqual(NOTHING_STORED);
    const listed = await listedSessions();
    expect(listed).toContain(other.name);
    expect(listed).not.toContain(client.name);
  });

  it("gets nothing from a request that was on its way to its key", async () => {
    const [key, client] = [fresh("key"), await RestClient.open()];
    const [reached, hasEnded] = [Promise.withResolvers<void>(), watchEnds()];
    replaceCommand("acquire", async (_, carryOut) => {
      reached.resolve();
      await soon(hasEnded);
      return carryOut();
    });
    const acquiring = client.acquire(key);
    await reached.promise;
    const ending = client.end();
    expect(await acquiring).toEqual(GONE);
    expect((await ending).status).toBe(204);
    expect(await sessionsOn(key)).toEqual([]);
  });

  it("gets no place from a request that has only just been queued", async () => {
    const [key, client, holder] = [fresh("key"), await RestClient.open(), await RestClient.open()];
    await holder.hold(key);
    const [queued, hasEnded] = [Promise.withResolvers<void>(), watchEnds()];
    replaceCommand("acquire", async (_, carryOut) => {
      const outcome = await carryOut();
      queued.resolve();
      await soon(hasEnded);
      return outcome;
    });
    const acquiring = client.acquire(key, 60);
    await queued.promise;
    const ending = client.end();
    expect(await acquiring).toEqual(GONE);
    expect((await ending).status).toBe(204);
    expect(await sessionsOn(key)).toEqual([holder.name]);
  });

  it.each([0, 5, 20, 40, 60])(
    "%i ms after the release that would have served it leaves the lock to the next in line",
    async (ms) => {
      const [key, holder] = [fresh("key"), await RestClient.open()];
      const [leaving, next] = [await RestClient.open(), await RestClient.open()];
      const token = await holder.hold(key);
      const poll = await leaving.queue(key);
      const behind = await next.queue(key);
      const releasing = holder.release(key, token);
      await scheduler.wait(ms);
      expect((await leaving.end()).status).toBe(204);
      expect((await releasing).status).toBe(204);
      // A reply that had begun cannot turn into an error; one that was just over is a grant, and lost with its session.
      expect(["session_gone", "timeout", "ok"]).toContain(wordOf(await poll.reply));
      tokenIn(await behind.reply);
      expect(await sessionsOn(key)).toEqual([next.name]);
    },
  );

  it("twice at the same time is told so once", async () => {
    for (let round = 0; round < 10; round++) {
      const client = await RestClient.open();
      await client.hold(fresh("key"));
      const replies = await Promise.all([client.end(), client.end(), client.end()]);
      expect(replies.map(({ status }) => status).sort()).toEqual([204, 410, 410]);
    }
  });

  it("is ended by one of two calls that come in the same moment", async () => {
    const client = await RestClient.open();
    const ends = await runInDurableObject(client.object, (session) => Promise.all([session.end(), session.end()]));
    expect(ends.map(({ wasThere }) => wasThere).sort()).toEqual([false, true]);
  });

  it("touches no newer holder when its cleanup comes late, or twice", async () => {
    expectLog("key_unreachable", { error: "Error: the answer is lost" });
    const [key, client, other] = [fresh("key"), await RestClient.open(), await RestClient.open()];
    await client.hold(key);
    let visits = 0;
    replaceCommand("leave", async (_, carryOut) => {
      visits += 1;
      if (visits === 1) {
        await carryOut();
        throw new Error("the answer is lost");
      }
      return carryOut();
    });
    expect((await client.end()).status).toBe(204);
    const token = await other.hold(key);
    await runDurableObjectAlarm(client.object);
    expect(visits).toBe(2);
    expect(await storedBy(client.object)).toEqual(NOTHING_STORED);
    expect((await other.renew(key, token)).status).toBe(200);
  });

  it("frees every key but the one that cannot be reached, and that one as soon as it can, also after a crash", async () => {
    expectLog("key_unreachable", { error: "Error: unreachable" });
    const client = await RestClient.open();
    const keys = Array.from({ length: 200 }, () => fresh("key"));
    const unreachable = keys[77] ?? "";
    await Promise.all(keys.map((key) => client.hold(key)));
    let isReachable = false;
    replaceCommand("leave", function (_, carryOut) {
      if (nameOf(this) === unreachable && !isReachable) throw new Error("unreachable");
      return carryOut();
    });
    expect((await client.end()).status).toBe(204);
    for (const key of keys) expect([key, await isFree(key)]).toEqual([key, key !== unreachable]);
    expect(await client.ping()).toEqual(GONE);
    await evictDurableObject(client.object);
    expect(await client.acquire(fresh("key"))).toEqual(GONE);
    isReachable = true;
    await soon(() => isFree(unreachable));
    await soon(async () => (await storedBy(client.object)).alarm === null);
    expect(await storedBy(client.object)).toEqual(NOTHING_STORED);
  });
});

describe("a session that never was", () => {
  it("is gone for whoever tries its name, and nothing is stored for that", async () => {
    const ids = Array.from({ length: 50 }, () => newSessionId());
    const attempts = ids.map((id) => call("POST", `/v1/sessions/${id}/ping`));
    expect(await Promise.all(attempts)).toEqual(ids.map(() => GONE));
    for (const id of ids) {
      expect(await storedBy(env.HTTP_SESSION.getByName(httpSessionName(id)))).toEqual(NOTHING_STORED);
    }
  });

  it("neither keeps nor asks for anything when keys and Workers speak to it", async () => {
    const session = env.HTTP_SESSION.getByName(httpSessionName(newSessionId()));
    const key = fresh("key");
    for (const kind of ["granted", "promoted", "timeout", "lease_expired"] as const) {
      expect(await session.deliver({ key, request: "r", kind })).toEqual({ answer: "gone" });
    }
    await session.lose({ key, token: "0".repeat(32), reason: "expired" });
    await session.withdraw({ key, id: "r" });
    expect(await session.isLive()).toEqual({ isLive: false });
    expect(await session.perform({ id: "r", request: { type: "release", key, token: "t" }, label: "me" })).toEqual({
      type: "gone",
    });
    expect(await storedBy(session)).toEqual(NOTHING_STORED);
    expect(await storedBy(keyStub(key))).toEqual(NOTHING_STORED);
  });
});

describe("a session that cannot be made", () => {
  it("says no more than that, and leaves nothing behind", async () => {
    expectLog("session_create_failed", { error: "Error: a secret of ours" });
    const opening = vi.spyOn(PolledSession.prototype, "open").mockImplementation(() => {
      throw new Error("a secret of ours");
    });
    const listing = vi.spyOn(DirectoryObject.prototype, "openSession");
    expect(await call("POST", "/v1/sessions")).toEqual({ status: 500, body: errorBody("session_create_failed") });
    expect(opening).toHaveBeenCalledOnce();
    const session = await until(() => listing.mock.calls[0]?.[0].session);
    vi.restoreAllMocks();
    expect(await storedBy(env.HTTP_SESSION.getByName(session))).toEqual(NOTHING_STORED);
    await until(async () => !(await listedSessions()).includes(session));
  });

  it("is made although the directory does not answer, and its client does not wait for it", async () => {
    vi.spyOn(DirectoryObject.prototype, "openSession").mockImplementation(() => never());
    const { status } = await call("POST", "/v1/sessions");
    vi.restoreAllMocks();
    expect(status).toBe(200);
  });
});
