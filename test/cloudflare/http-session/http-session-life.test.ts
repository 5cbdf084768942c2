/** How long an HTTP session lives without being deleted. The idle time is 20 s: silence of 40 s ends a session. */

import { runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { HttpSessionObject } from "../../../src/cloudflare/http-session/http-session-object.ts";
import { httpSessionName, newSessionId } from "../../../src/core/session-names.ts";
import { errorBody } from "../../../src/http/reply/errors.ts";
import { pass, stopClock } from "../clock.ts";
import { call, NOTHING_STORED, RestClient, soon, storedBy, tokenIn, wordOf } from "../rest.ts";
import { replaceCommand } from "../spies.ts";
import { askKey, fresh, keyStub, liveSessions, sessionsOn } from "../support.ts";

beforeEach(stopClock);
afterEach(() => {
  vi.restoreAllMocks();
  vi.useRealTimers();
});

const GONE = { status: 410, body: errorBody("session_gone") };

/** So many seconds pass. */
const passes = (seconds: number) => pass(seconds * 1000);

const isReapedNow = async (client: RestClient) => {
  await runDurableObjectAlarm(client.object);
  return !(await client.object.isLive()).isLive;
};

/** Call this before a poll ends; what it returns resolves once the session has handled the end. */
function watchPollEnd(): () => Promise<unknown> {
  const closing = vi.spyOn(HttpSessionObject.prototype, "webSocketClose");
  return () => soon(() => closing.mock.settledResults[0]?.type === "fulfilled");
}

/** Locks taken here outlast every silence. */
const holdLong = async (client: RestClient, key: string) => tokenIn(await client.post(key, { lease_ttl_s: 3_600 }));

describe("a silent session", () => {
  it("is ended by its alarm: its locks go to whoever waits, and nothing of it is left", async () => {
    const before = await liveSessions();
    const [silent, other] = [await RestClient.open(), await RestClient.open()];
    const [held, idle] = [fresh("key"), fresh("key")];
    await holdLong(silent, held);
    await holdLong(silent, idle);
    const poll = await other.queue(held);
    passes(40.001);
    expect(await isReapedNow(silent)).toBe(true);
    tokenIn(await poll.reply);
    expect(await sessionsOn(idle)).toEqual([]);
    expect(await silent.ping()).toEqual(GONE);
    expect(await storedBy(silent.object)).toEqual(NOTHING_STORED);
    expect(await liveSessions()).toBe(before + 1);
  });

  it("is not ended before its time, however often its alarm fires", async () => {
    const [client, key] = [await RestClient.open(), fresh("key")];
    const token = await holdLong(client, key);
    for (const seconds of [0, 10, 29]) {
      passes(seconds);
      expect(await isReapedNow(client)).toBe(false);
    }
    expect((await client.renew(key, token)).status).toBe(200);
  });

  it("is found dead by whoever uses it before its alarm does, and then has released everything", async () => {
    const [client, key] = [await RestClient.open(), fresh("key")];
    await holdLong(client, key);
    passes(40.001);
    expect(await client.ping()).toEqual(GONE);
    expect(await sessionsOn(key)).toEqual([]);
    expect(await storedBy(client.object)).toEqual(NOTHING_STORED);
  });

  it("is looked for again at most 31 s after its end, however long the idle time is", async () => {
    const session = env.HTTP_SESSION.getByName(httpSessionName(newSessionId()));
    await runInDurableObject(session, async (_, state) => {
      const patient = new HttpSessionObject(state, { ...env, HTTP_SESSION_IDLE_S: "3600" } as typeof env);
      expect(await patient.open({ address: "192.0.2.1" })).toEqual({ status: "admitted" });
      passes(10);
      expect(await patient.touch()).toEqual({ isThere: true });
      const seenAt = Date.now();
      passes(7_200 - 9);
      await patient.alarm();
      expect(await patient.isLive()).toEqual({ isLive: true });
      expect(await state.storage.getAlarm()).toBeLessThanOrEqual(seenAt + 7_200_000 + 31_000);
      passes(10);
      await patient.alarm();
      expect(await patient.isLive()).toEqual({ isLive: false });
    });
  });
});

describe("a ping at the moment of the end", () => {
  it.each([
    ["a moment before", 39.999, 204],
    ["a moment after", 40.001, 410],
  ])("%s finds the session alive and keeps it so, or gone with everything released", async (_, seconds, status) => {
    for (const order of ["ping first", "alarm first"]) {
      const [client, key] = [await RestClient.open(), fresh("key")];
      await holdLong(client, key);
      passes(seconds);
      const reaping = order === "alarm first" && runDurableObjectAlarm(client.object);
      expect((await client.ping()).status).toBe(status);
      await (reaping || runDurableObjectAlarm(client.object));
      expect(await sessionsOn(key)).toEqual(status === 204 ? [client.name] : []);
      expect((await client.ping()).status).toBe(status);
    }
  });
});

/** A request whose body comes when the story says so. */
function slowRequest(client: RestClient, key: string) {
  const { readable, writable } = new IdentityTransformStream();
  const reply = call("POST", `/v1/locks/${key}`, { headers: { "X-Dflockd-Session": client.id }, body: readable });
  const finish = async () => {
    const writer = writable.getWriter();
    await writer.write(new TextEncoder().encode("{}"));
    await writer.close();
    return reply;
  };
  return { finish };
}

describe("a request with a slow body", () => {
  it("counts when its session is looked up: nobody ends that between the look and the use", async () => {
    const [client, key] = [await RestClient.open(), fresh("key")];
    const touch = vi.spyOn(HttpSessionObject.prototype, "touch");
    passes(39.999);
    const { finish } = slowRequest(client, key);
    await soon(() => touch.mock.settledResults[0]?.type === "fulfilled");
    passes(39);
    expect(await isReapedNow(client)).toBe(false);
    tokenIn(await finish());
  });

  it("keeps its session alive no longer than any other", async () => {
    const [client, held, key] = [await RestClient.open(), fresh("key"), fresh("key")];
    await holdLong(client, held);
    const touch = vi.spyOn(HttpSessionObject.prototype, "touch");
    const { finish } = slowRequest(client, key);
    await soon(() => touch.mock.settledResults[0]?.type === "fulfilled");
    passes(40.001);
    expect(await isReapedNow(client)).toBe(true);
    expect(await sessionsOn(held)).toEqual([]);
    expect(await finish()).toEqual(GONE);
    expect(await keyStub(key).describe()).toBeNull();
  });
});

describe("a request in flight", () => {
  it("is finished before its session can be silent, however slow its key is", async () => {
    const [client, key] = [await RestClient.open(), fresh("key")];
    const [reached, mayGoOn] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    replaceCommand("acquire", async (_, carryOut) => {
      reached.resolve();
      await mayGoOn.promise;
      return carryOut();
    });
    const acquiring = client.acquire(key);
    await reached.promise;
    passes(3_600);
    expect(await isReapedNow(client)).toBe(false);
    mayGoOn.resolve();
    tokenIn(await acquiring);
    passes(39);
    expect(await isReapedNow(client)).toBe(false);
    expect((await client.ping()).status).toBe(204);
  });
});

describe("a session that polls", () => {
  it("does not age meanwhile, nor has it when the poll is over; from then on it does", async () => {
    const [client, holder, key] = [await RestClient.open(), await RestClient.open(), fresh("key")];
    await holdLong(holder, key);
    const poll = await client.poll(key);
    passes(30);
    expect(await isReapedNow(client)).toBe(false);
    passes(29.9);
    expect(await isReapedNow(client)).toBe(false);
    const pollHasEnded = watchPollEnd();
    await askKey(keyStub(key), { type: "leave", session: holder.name, keepsReported: false });
    tokenIn(await poll.reply);
    await pollHasEnded();
    passes(39);
    expect(await isReapedNow(client)).toBe(false);
    passes(1.1);
    expect(await isReapedNow(client)).toBe(true);
  });

  it("ages again when its client has left the poll", async () => {
    const [client, holder, key] = [await RestClient.open(), await RestClient.open(), fresh("key")];
    await holdLong(holder, key);
    const leaving = new AbortController();
    await client.poll(key, leaving.signal);
    const pollHasEnded = watchPollEnd();
    leaving.abort();
    await pollHasEnded();
    await soon(async () => (await sessionsOn(key)).length === 1);
    passes(39);
    expect(await isReapedNow(client)).toBe(false);
    passes(1.1);
    expect(await isReapedNow(client)).toBe(true);
  });
});

describe("an idle session that others wait behind", () => {
  it("holds nobody up: its place in a queue goes with it", async () => {
    const [silent, holder, next] = [await RestClient.open(), await RestClient.open(), await RestClient.open()];
    const key = fresh("key");
    const token = await holdLong(holder, key);
    expect(wordOf(await silent.enqueue(key))).toBe("queued");
    passes(30);
    await holder.ping();
    const poll = await next.queue(key);
    passes(10.1);
    expect(await isReapedNow(silent)).toBe(true);
    expect((await holder.release(key, token)).status).toBe(204);
    tokenIn(await poll.reply);
  });
});
