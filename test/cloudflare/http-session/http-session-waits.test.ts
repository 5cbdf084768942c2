/** `wait` after `enqueue`: clients that leave at any moment, and several `wait`s of one session on one key. */
import { runInDurableObject } from "cloudflare:test";
import { afterEach, describe, expect, it, vi } from "vitest";
import { RemoteKeys } from "../../../src/cloudflare/calls/remote-keys.ts";
import { HttpSessionObject } from "../../../src/cloudflare/http-session/http-session-object.ts";
import { expectLog } from "../../support/expected-logs.ts";
import { RestClient, type RestReply, soon, tokenIn, wordOf } from "../rest.ts";
import { callsAbout, replaceCommand, replaceNext, replaceNextCommand } from "../spies.ts";
import { fresh, keyStub, sessionsOn } from "../support.ts";

afterEach(() => {
  vi.restoreAllMocks();
});

/** What becomes of a request that its client has left. */
const fateOf = (reply: Promise<RestReply>) => reply.then(wordOf, () => "left");

/** A reply that has to come at once, and not when a lease ends. */
const inTime = (reply: Promise<RestReply>): Promise<RestReply> =>
  Promise.race([reply, scheduler.wait(3_000).then(() => Promise.reject(new Error("no reply")))]);

const reset = (client: RestClient) => runInDurableObject(client.object, (_, state) => state.abort()).catch(() => {});

/** A key that is held, a client that has a place there, and one behind it. */
async function placed() {
  const key = fresh("key");
  const [holder, client, next] = [await RestClient.open(), await RestClient.open(), await RestClient.open()];
  const token = await holder.hold(key);
  expect(wordOf(await client.enqueue(key))).toBe("queued");
  const behind = await next.queue(key);
  const release = async () => expect((await holder.release(key, token)).status).toBe(204);
  return { key, holder, client, next, behind, release };
}

describe("a client that leaves its `wait`", () => {
  it("before that has reached its key keeps no place: the next one gets the lock", async () => {
    expectLog("operation_failed", { error: "Error: lost on its way" });
    const { key, holder, client, next, behind, release } = await placed();
    const cancels = replaceCommand("cancel");
    const leaving = new AbortController();
    replaceNextCommand("wait", key, async () => {
      leaving.abort();
      await soon(() => cancels(key).length > 0);
      throw new Error("lost on its way");
    });
    expect(await fateOf(client.wait(key, 60, leaving.signal))).toBe("left");
    await soon(async () => (await sessionsOn(key)).join() === [holder.name, next.name].join());
    await release();
    tokenIn(await inTime(behind.reply));
    expect(wordOf(await client.wait(key))).toBe("not_enqueued");
    expect(wordOf(await client.enqueue(key))).toBe("queued");
  });

  it("before that has reached its key does not hold what its place has become", async () => {
    expectLog("operation_failed", { error: "Error: lost on its way" });
    const { key, client, behind, release } = await placed();
    const cancels = replaceCommand("cancel");
    const leaving = new AbortController();
    replaceNextCommand("wait", key, async () => {
      await release();
      expect((await keyStub(key).describe())?.holders[0]?.session).toBe(client.name);
      leaving.abort();
      await soon(() => cancels(key).length > 0);
      throw new Error("lost on its way");
    });
    expect(await fateOf(client.wait(key, 60, leaving.signal))).toBe("left");
    tokenIn(await inTime(behind.reply));
  });

  it("before that has reached its key keeps a lock that it knows from its `enqueue`", async () => {
    expectLog("operation_failed", { error: "Error: lost on its way" });
    const [client, key] = [await RestClient.open(), fresh("key")];
    const token = tokenIn(await client.enqueue(key));
    let isWithdrawn = false;
    const cancels = replaceCommand("cancel", async (_, carryOut) => {
      const outcome = await carryOut();
      isWithdrawn = true;
      return outcome;
    });
    const leaving = new AbortController();
    replaceNextCommand("wait", key, async () => {
      leaving.abort();
      await soon(() => cancels(key).length > 0);
      throw new Error("lost on its way");
    });
    expect(await fateOf(client.wait(key, 60, leaving.signal))).toBe("left");
    await soon(() => isWithdrawn);
    expect((await client.renew(key, token)).status).toBe(200);
    expect(tokenIn(await client.wait(key))).toBe(token);
  });

  it("when its session's object is lost before that has reached its key keeps no place", async () => {
    const { key, holder, client, next } = await placed();
    const leaving = new AbortController();
    replaceNextCommand("wait", key, async () => {
      leaving.abort();
      await reset(client);
      throw new Error("lost on its way");
    });
    expect(await fateOf(client.wait(key, 60, leaving.signal))).toBe("left");
    await soon(async () => (await sessionsOn(key)).join() === [holder.name, next.name].join());
  });

  it("and enqueues again has that place, whatever comes late of the first", async () => {
    const { key, holder, client, next } = await placed();
    const { withdraw } = HttpSessionObject.prototype;
    const enqueued = Promise.withResolvers<void>();
    const leaving = new AbortController();
    // The key has answered before it is known that the client has left.
    const withdrawals = replaceNext(
      HttpSessionObject.prototype,
      "withdraw",
      key,
      async function (this: HttpSessionObject, ...args) {
        await enqueued.promise;
        return withdraw.apply(this, args);
      },
    );
    replaceNextCommand("wait", key, async (_, carryOut) => {
      const outcome = await carryOut();
      leaving.abort();
      await soon(() => callsAbout(withdrawals, key).length > 0);
      return outcome;
    });
    expect(await fateOf(client.wait(key, 0, leaving.signal))).toBe("left");
    expect(wordOf(await client.enqueue(key))).toBe("queued");
    enqueued.resolve();
    await soon(() => withdrawals.mock.settledResults.every(({ type }) => type === "fulfilled"));
    expect(await sessionsOn(key)).toEqual([holder.name, next.name, client.name]);
  });
});

/** Loses the next call to the key on its way. It is made again when the story says so, unless it may no longer be. */
function loseNextCall(key: string) {
  const { command } = RemoteKeys.prototype;
  const [lost, isDue] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  replaceNext(RemoteKeys.prototype, "command", key, async function (this: RemoteKeys, name, call, mayRepeat) {
    lost.resolve();
    await isDue.promise;
    if (!mayRepeat?.()) throw new Error("lost on its way");
    return command.call(this, name, call, mayRepeat);
  });
  return { lost: lost.promise, repeat: () => isDue.resolve() };
}

describe("two `wait`s of one session on one key", () => {
  it("are both answered if the first is lost on its way and made again after the second", async () => {
    const { key, client, behind, release } = await placed();
    const { lost, repeat } = loseNextCall(key);
    const first = client.wait(key, 60);
    await lost;
    const second = client.wait(key, 60);
    await Promise.race([second, scheduler.wait(300)]);
    repeat();
    expect(wordOf(await inTime(second))).toBe("not_enqueued");
    await release();
    const token = tokenIn(await inTime(first));
    expect((await client.release(key, token)).status).toBe(204);
    tokenIn(await inTime(behind.reply));
  });

  it("are both answered if the first is left: the second is too late for its place", async () => {
    expectLog("operation_failed", { error: "Error: lost on its way" });
    const { key, holder, client, next } = await placed();
    const { lost, repeat } = loseNextCall(key);
    const leaving = new AbortController();
    const first = fateOf(client.wait(key, 60, leaving.signal));
    await lost;
    leaving.abort();
    expect(await first).toBe("left");
    await soon(async () => !(await sessionsOn(key)).includes(client.name));
    const second = client.wait(key, 60);
    repeat();
    expect(wordOf(await inTime(second))).toBe("not_enqueued");
    expect(await sessionsOn(key)).toEqual([holder.name, next.name]);
  });

  it("are both answered when their session is deleted", async () => {
    const { key, holder, client, next } = await placed();
    const first = client.wait(key, 60);
    await soon(async () => (await keyStub(key).describe({ detail: true }))?.queue[0]?.deadline !== undefined);
    const second = client.wait(key, 60);
    expect((await client.end()).status).toBe(204);
    expect(wordOf(await inTime(first))).toBe("session_gone");
    expect(["session_gone", "not_enqueued"]).toContain(wordOf(await inTime(second)));
    expect(await sessionsOn(key)).toEqual([holder.name, next.name]);
  });
});

describe("a `wait` whose session is deleted", () => {
  it("is answered while it is on its way to its key, and leaves nothing there", async () => {
    const { key, holder, client, next } = await placed();
    const { lost, repeat } = loseNextCall(key);
    const waiting = client.wait(key, 60);
    await lost;
    const ending = client.end();
    repeat();
    expect((await ending).status).toBe(204);
    expect(wordOf(await inTime(waiting))).toBe("session_gone");
    await soon(async () => (await sessionsOn(key)).join() === [holder.name, next.name].join());
  });

  it("is answered between its call and its poll, and leaves nothing there", async () => {
    const { key, holder, client, next } = await placed();
    const { fetch } = HttpSessionObject.prototype;
    replaceNext(HttpSessionObject.prototype, "fetch", client.name, async function (this: HttpSessionObject, request) {
      expect((await client.end()).status).toBe(204);
      return fetch.call(this, request);
    });
    expect(wordOf(await inTime(client.wait(key, 60)))).toBe("session_gone");
    expect(await sessionsOn(key)).toEqual([holder.name, next.name]);
  });
});

describe("a `wait` whose session's object is lost while its client is there", () => {
  it("answers 503 and costs no place: the next `wait` goes on where it was", async () => {
    const { key, holder, client, next, behind, release } = await placed();
    const waiting = client.wait(key, 60);
    await soon(async () => (await client.polls()) === 1);
    const withdrawals = vi.spyOn(HttpSessionObject.prototype, "withdraw");
    await reset(client);
    expect([(await waiting).status, wordOf(await waiting)]).toEqual([503, "unavailable"]);
    await soon(() => withdrawals.mock.settledResults.some(({ type }) => type === "fulfilled"));
    expect(await sessionsOn(key)).toEqual([holder.name, client.name, next.name]);
    const again = client.wait(key, 60);
    await soon(async () => (await client.polls()) === 1);
    await release();
    const token = tokenIn(await inTime(again));
    expect((await client.release(key, token)).status).toBe(204);
    tokenIn(await inTime(behind.reply));
  });
});
