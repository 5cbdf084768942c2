/** Clients that leave before they are answered, where the platform reports it at once. */
import { afterEach, describe, expect, it, vi } from "vitest";
import { WakeTimer } from "../../../src/cloudflare/alarms/wake-timer.ts";
import { HttpSessionObject } from "../../../src/cloudflare/http-session/http-session-object.ts";
import { withholdOffers } from "../offers.ts";
import { call, RestClient, type RestReply, soon, tokenIn, wordOf } from "../rest.ts";
import { callsAbout, replaceCommand, replaceNext, replaceNextCommand } from "../spies.ts";
import { fresh, keyStub, sessionsOn } from "../support.ts";

afterEach(() => {
  vi.restoreAllMocks();
});

const isFree = async (key: string) => {
  const view = await keyStub(key).describe();
  return view?.holderCount === 0 && view.waiters === 0;
};

/** What becomes of a request that its client has left. */
const fateOf = (reply: Promise<RestReply>) => reply.then(wordOf, () => "left");

/** Makes keys answer only when the story says so, after (or before) they have decided. */
function holdBack(method: "acquire" | "enqueue", when: "decided" | "undecided") {
  const [reached, mayGoOn] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  replaceCommand(method, async (_, carryOut) => {
    const outcome = when === "decided" ? await carryOut() : undefined;
    reached.resolve();
    await mayGoOn.promise;
    return outcome ?? carryOut();
  });
  return { reached: reached.promise, goOn: () => mayGoOn.resolve() };
}

/** Moments at which the lock is the client's already, and it does not know yet. */
const MOMENTS: Readonly<Record<string, (key: string, leave: () => void) => void>> = {
  "just before its session is told of the grant": (key, leave) => {
    const { deliver } = HttpSessionObject.prototype;
    replaceNext(HttpSessionObject.prototype, "deliver", key, async function (this: HttpSessionObject, notice) {
      leave();
      const { ctx } = this as unknown as { ctx: DurableObjectState };
      const isPolled = () => ctx.getWebSockets().some((socket) => socket.readyState === WebSocket.READY_STATE_OPEN);
      await soon(async () => !isPolled());
      return deliver.call(this, notice);
    });
  },
  "when its session has just got the token": (key, leave) => {
    withholdOffers();
    replaceNextCommand("pickUp", key, async (_, carryOut) => {
      const outcome = await carryOut();
      leave();
      await scheduler.wait(50);
      return outcome;
    });
  },
};

describe("a client that leaves its poll", () => {
  it("loses its place at once; its session lives, and its other places stay", async () => {
    const [client, holder, next] = [await RestClient.open(), await RestClient.open(), await RestClient.open()];
    const [left, kept] = [fresh("key"), fresh("key")];
    const [leftToken, keptToken] = [await holder.hold(left), await holder.hold(kept)];
    const leaving = new AbortController();
    const abandoned = await client.poll(left, leaving.signal);
    const waiting = await client.poll(kept);
    const behind = await next.queue(left);
    leaving.abort();
    expect(await fateOf(abandoned.reply)).toBe("left");
    await soon(async () => (await sessionsOn(left)).length === 2);
    expect(await sessionsOn(left)).toEqual([holder.name, next.name]);
    await holder.release(left, leftToken);
    await holder.release(kept, keptToken);
    tokenIn(await behind.reply);
    tokenIn(await waiting.reply);
    expect((await client.ping()).status).toBe(204);
  });

  it("loses its place at once also if it has waited for so short a time that it does not poll yet", async () => {
    const [client, holder, key] = [await RestClient.open(), await RestClient.open(), fresh("key")];
    await holder.hold(key);
    const polls = vi.spyOn(HttpSessionObject.prototype, "fetch");
    const leaving = new AbortController();
    const { reply } = await client.queue(key, leaving.signal);
    leaving.abort();
    expect(await fateOf(reply)).toBe("left");
    await soon(async () => (await sessionsOn(key)).length === 1);
    expect(callsAbout(polls, client.name)).toEqual([]);
  });

  it("as the lock is granted in its call, without a poll, leaves the lock to the next", async () => {
    const [client, holder, next] = [await RestClient.open(), await RestClient.open(), await RestClient.open()];
    const key = fresh("key");
    const token = await holder.hold(key);
    const leaving = new AbortController();
    // However busy the machine, the wait stays a short one.
    vi.spyOn(WakeTimer.prototype, "at").mockImplementation(() => {});
    const { perform } = HttpSessionObject.prototype;
    replaceNext(HttpSessionObject.prototype, "perform", client.name, async function (this: HttpSessionObject, ask) {
      const performed = await perform.call(this, ask);
      expect(performed).toMatchObject({ type: "answered", outcome: { status: "ok" } });
      leaving.abort();
      await scheduler.wait(20);
      return performed;
    });
    const { reply } = await client.queue(key, leaving.signal);
    expect((await holder.release(key, token)).status).toBe(204);
    expect(await fateOf(reply)).toBe("left");
    tokenIn(await next.acquire(key, 3));
  });

  it("loses the place it had enqueued for, and a second wait finds none", async () => {
    const [client, holder, key] = [await RestClient.open(), await RestClient.open(), fresh("key")];
    await holder.hold(key);
    expect(wordOf(await client.enqueue(key))).toBe("queued");
    const leaving = new AbortController();
    const abandoned = fateOf(client.wait(key, 60, leaving.signal));
    await soon(async () => (await keyStub(key).describe({ detail: true }))?.queue[0]?.deadline !== undefined);
    leaving.abort();
    expect(await abandoned).toBe("left");
    await soon(async () => (await sessionsOn(key)).length === 1);
    expect(wordOf(await client.wait(key))).toBe("not_enqueued");
    expect(wordOf(await client.enqueue(key))).toBe("queued");
  });

  it.each(Object.entries(MOMENTS))("%s leaves the lock to the next", async (_, leaveThen) => {
    const [client, holder, next] = [await RestClient.open(), await RestClient.open(), await RestClient.open()];
    const key = fresh("key");
    const token = await holder.hold(key);
    const leaving = new AbortController();
    const poll = await client.poll(key, leaving.signal);
    const behind = await next.queue(key);
    leaveThen(key, () => leaving.abort());
    expect((await holder.release(key, token)).status).toBe(204);
    expect(await fateOf(poll.reply)).toBe("left");
    tokenIn(await behind.reply);
    expect(await sessionsOn(key)).toEqual([next.name]);
  });
});

describe("a client that leaves while its request is on its way", () => {
  it("to its session holds nothing, though the request is overtaken by its withdrawal", async () => {
    const [client, key] = [await RestClient.open(), fresh("key")];
    const withdrawal = vi.spyOn(HttpSessionObject.prototype, "withdraw");
    const { perform } = HttpSessionObject.prototype;
    const asked = Promise.withResolvers<void>();
    replaceNext(HttpSessionObject.prototype, "perform", key, async function (this: HttpSessionObject, ask) {
      asked.resolve();
      await soon(() => withdrawal.mock.settledResults[0]?.type === "fulfilled");
      const performed = await perform.call(this, ask);
      expect(performed).toMatchObject({ type: "answered", outcome: { status: "ok" } });
      return performed;
    });
    const leaving = new AbortController();
    const abandoned = fateOf(client.acquire(key, 0, leaving.signal));
    await asked.promise;
    leaving.abort();
    expect(await abandoned).toBe("left");
    await soon(() => isFree(key));
    expect(callsAbout(withdrawal, key)).toHaveLength(2);
  });

  it.each(["decided", "undecided"] as const)("holds nothing when its key, %s by then, grants it", async (when) => {
    const [client, key] = [await RestClient.open(), fresh("key")];
    const { reached, goOn } = holdBack("acquire", when);
    const leaving = new AbortController();
    const abandoned = fateOf(client.acquire(key, 0, leaving.signal));
    await reached;
    leaving.abort();
    expect(await abandoned).toBe("left");
    goOn();
    await soon(() => isFree(key));
  });

  it.each(["decided", "undecided"] as const)("does not wait when its key, %s by then, has it queue", async (when) => {
    const [client, holder, key] = [await RestClient.open(), await RestClient.open(), fresh("key")];
    await holder.hold(key);
    const { reached, goOn } = holdBack("acquire", when);
    const leaving = new AbortController();
    const abandoned = fateOf(client.acquire(key, 60, leaving.signal));
    await reached;
    leaving.abort();
    expect(await abandoned).toBe("left");
    goOn();
    await soon(async () => (await sessionsOn(key)).join() === holder.name);
  });

  it.each(["decided", "undecided"] as const)("keeps no acquired place of a key %s by then", async (when) => {
    const [client, key] = [await RestClient.open(), fresh("key")];
    const { reached, goOn } = holdBack("enqueue", when);
    const leaving = new AbortController();
    const abandoned = fateOf(client.enqueue(key, leaving.signal));
    await reached;
    leaving.abort();
    expect(await abandoned).toBe("left");
    goOn();
    await soon(() => isFree(key));
    expect(wordOf(await client.wait(key))).toBe("not_enqueued");
  });

  it("keeps no place in the queue, nor what that place becomes before it is taken back", async () => {
    const [client, holder, key] = [await RestClient.open(), await RestClient.open(), fresh("key")];
    const token = await holder.hold(key);
    const { reached, goOn } = holdBack("enqueue", "decided");
    const leaving = new AbortController();
    const abandoned = fateOf(client.enqueue(key, leaving.signal));
    await reached;
    expect((await holder.release(key, token)).status).toBe(204);
    expect(await sessionsOn(key)).toContain(client.name);
    leaving.abort();
    expect(await abandoned).toBe("left");
    goOn();
    await soon(() => isFree(key));
    expect(wordOf(await client.wait(key))).toBe("not_enqueued");
  });

  it("changes nothing if the key has not heard of it", async () => {
    const [client, held, key] = [await RestClient.open(), fresh("key"), fresh("key")];
    const token = await client.hold(held);
    const leaving = new AbortController();
    const { readable } = new IdentityTransformStream();
    const headers = { "X-Dflockd-Session": client.id };
    const abandoned = call("POST", `/v1/locks/${key}`, { headers, body: readable, signal: leaving.signal });
    leaving.abort();
    expect(await fateOf(abandoned)).toBe("left");
    expect(await keyStub(key).describe()).toBeNull();
    expect((await client.renew(held, token)).status).toBe(200);
  });
});
