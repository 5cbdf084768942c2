/** Long polls: objects that sleep or die meanwhile, and notices that are lost, doubled, early or late. */
import { evictDurableObject, runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { afterEach, describe, expect, it, vi } from "vitest";
import { POLL_HEADER } from "../../../src/cloudflare/http-session/asks.ts";
import { HttpSessionObject } from "../../../src/cloudflare/http-session/http-session-object.ts";
import { expectLog } from "../../support/expected-logs.ts";
import { pass, stopClock } from "../clock.ts";
import { withholdOffers } from "../offers.ts";
import { RestClient, type RestReply, soon, tokenIn, wordOf } from "../rest.ts";
import { callsAbout, replaceCommand, replaceNext, replaceNextCommand } from "../spies.ts";
import { askKey, Client, fresh, keyStub, sessionsOn, tokenOf } from "../support.ts";

afterEach(() => {
  vi.restoreAllMocks();
  vi.useRealTimers();
});

/** A session that holds the key, one that polls for it, and the poll. */
async function contention() {
  const key = fresh("key");
  const [holder, waiter] = [await RestClient.open(), await RestClient.open()];
  const token = await holder.hold(key);
  const { reply } = await waiter.poll(key);
  const [request = ""] = await requestsOn(key);
  const release = async () => expect((await holder.release(key, token)).status).toBe(204);
  return { key, holder, waiter, reply, request, release };
}

/** The requests that wait for the key, in order. */
function requestsOn(key: string): Promise<string[]> {
  return runInDurableObject(keyStub(key), (_, { storage }) =>
    storage.sql
      .exec<{ request: string }>("SELECT coalesce(wait_request, request) AS request FROM waiters ORDER BY place")
      .toArray()
      .map(({ request }) => request),
  );
}

const holderOf = async (key: string) => (await keyStub(key).describe())?.holders[0]?.session;
const sleep = (client: RestClient) => evictDurableObject(client.object, { webSockets: "hibernate" });
/** Drops the session's object with its sockets, as a fault of the platform does. */
const reset = (client: RestClient) => runInDurableObject(client.object, (_, state) => state.abort()).catch(() => {});

/** Calls of keys that fail, first before and then after they have done their work. */
function failPickUps(key: string, { unheard = 0, unanswered = 0 }): void {
  withholdOffers();
  let calls = 0;
  replaceCommand("pickUp", async function (_, carryOut) {
    if ((this as unknown as { ctx: DurableObjectState }).ctx.id.name !== key) return carryOut();
    calls += 1;
    if (calls <= unheard) throw new Error("unreachable");
    const outcome = await carryOut();
    if (calls <= unheard + unanswered) throw new Error("the answer is lost");
    return outcome;
  });
}

describe("a poll whose session's object sleeps", () => {
  it("is granted when its turn comes", async () => {
    const { waiter, reply, release, key } = await contention();
    await sleep(waiter);
    await release();
    tokenIn(await reply);
    expect(await holderOf(key)).toBe(waiter.name);
  });

  it("times out at its time", async () => {
    const [key, holder, waiter] = [fresh("key"), await RestClient.open(), await RestClient.open()];
    await holder.hold(key);
    stopClock();
    const reply = waiter.acquire(key, 20);
    await soon(async () => (await waiter.polls()) === 1);
    await sleep(waiter);
    await runInDurableObject(keyStub(key), async (_, { storage }) => {
      expect(await storage.getAlarm()).toBe(Date.now() + 20_000);
    });
    pass(20_000);
    await runDurableObjectAlarm(keyStub(key));
    expect(wordOf(await reply)).toBe("timeout");
  });

  it("loses its place when its client leaves meanwhile", async () => {
    const [key, holder, waiter] = [fresh("key"), await RestClient.open(), await RestClient.open()];
    await holder.hold(key);
    const leaving = new AbortController();
    await waiter.poll(key, leaving.signal);
    await sleep(waiter);
    leaving.abort();
    await soon(async () => (await sessionsOn(key)).length === 1);
  });

  it("is answered 410 when its session is deleted", async () => {
    const { waiter, reply } = await contention();
    await sleep(waiter);
    expect((await waiter.end()).status).toBe(204);
    expect(wordOf(await reply)).toBe("session_gone");
  });
});

describe("a place that was enqueued for", () => {
  it("outlives the sleep of its session and its key, before and after its turn comes", async () => {
    for (const turn of ["has come", "is to come"]) {
      const [key, holder, waiter] = [fresh("key"), await RestClient.open(), await RestClient.open()];
      const token = await holder.hold(key);
      expect(wordOf(await waiter.enqueue(key))).toBe("queued");
      if (turn === "has come") await holder.release(key, token);
      await sleep(waiter);
      await evictDurableObject(keyStub(key));
      if (turn === "is to come") await holder.release(key, token);
      tokenIn(await waiter.wait(key));
    }
  });
});

describe("a poll whose session's object is lost", () => {
  it("is answered 503 and gives up its place, so that nothing is granted to nobody", async () => {
    const { key, holder, waiter, reply, release } = await contention();
    const next = await RestClient.open();
    const behind = await next.queue(key);
    await reset(waiter);
    expect([(await reply).status, wordOf(await reply)]).toEqual([503, "unavailable"]);
    await soon(async () => (await sessionsOn(key)).length === 2);
    expect(await sessionsOn(key)).toEqual([holder.name, next.name]);
    await release();
    tokenIn(await behind.reply);
    expect((await waiter.ping()).status).toBe(204);
  });

  it("gives back the lock if the object was lost when it was offered", async () => {
    expectLog("session_unreachable", { error: "Error: Application called abort() to reset Durable Object." });
    const { key, waiter, reply, release } = await contention();
    replaceNext(HttpSessionObject.prototype, "deliver", key, async () => {
      await reset(waiter);
      throw new Error("lost");
    });
    await release();
    expect([(await reply).status, wordOf(await reply)]).toEqual([503, "unavailable"]);
    await soon(async () => (await keyStub(key).describe())?.holderCount === 0);
    await waiter.hold(key);
  });

  it("gives back the lock if the object was lost between picking it up and saying so", async () => {
    expectLog("session_unreachable", { error: "Error: Application called abort() to reset Durable Object." });
    const { key, waiter, reply, release } = await contention();
    withholdOffers();
    replaceNextCommand("pickUp", key, async (_, carryOut) => {
      const outcome = await carryOut();
      await reset(waiter);
      return outcome;
    });
    await release();
    expect([(await reply).status, wordOf(await reply)]).toEqual([503, "unavailable"]);
    await soon(async () => (await keyStub(key).describe())?.holderCount === 0);
    await waiter.hold(key);
  });
});

describe("a session whose object is lost while a request is on its way", () => {
  it("answers 503, and what the key grants is taken back", async () => {
    expectLog("session_unreachable", { error: "Error: Application called abort() to reset Durable Object." });
    const [key, client] = [fresh("key"), await RestClient.open()];
    replaceNextCommand("acquire", key, async (_, carryOut) => {
      const outcome = await carryOut();
      await reset(client);
      return outcome;
    });
    expect(wordOf(await client.acquire(key))).toBe("unavailable");
    await soon(async () => (await keyStub(key).describe())?.holderCount === 0);
    await client.hold(key);
  });
});

describe("a wait that was cut off with the whole service", () => {
  it("can be made again, and gets the place it had", async () => {
    const [key, holder, waiter] = [fresh("key"), await RestClient.open(), await RestClient.open()];
    const token = await holder.hold(key);
    await waiter.enqueue(key);
    // What a session has put to a key before it was lost, and its Worker with it.
    await askKey(keyStub(key), {
      type: "wait",
      command: { session: waiter.name, request: "forgotten", waitMs: 60_000, mayWait: true },
    });
    const behind = await (await RestClient.open()).queue(key);
    const waiting = waiter.wait(key, 60);
    await soon(async () => !(await requestsOn(key)).includes("forgotten"));
    await holder.release(key, token);
    const granted = tokenIn(await waiting);
    expect((await waiter.release(key, granted)).status).toBe(204);
    tokenIn(await behind.reply);
  });

  it("keeps its place also when its time runs out before it is made again", async () => {
    const [key, holder, waiter] = [fresh("key"), await RestClient.open(), await RestClient.open()];
    const token = await holder.hold(key);
    await waiter.enqueue(key);
    const deliver = vi.spyOn(HttpSessionObject.prototype, "deliver");
    await askKey(keyStub(key), {
      type: "wait",
      command: { session: waiter.name, request: "forgotten", waitMs: 200, mayWait: true },
    });
    const behind = await (await RestClient.open()).queue(key);
    await soon(() => callsAbout(deliver, key).some(([{ kind }]) => kind === "timeout"));
    await soon(async () => (await sessionsOn(key))[1] === waiter.name);
    const waiting = waiter.wait(key, 60);
    await soon(async () => !(await requestsOn(key)).includes("forgotten"));
    await holder.release(key, token);
    const granted = tokenIn(await waiting);
    expect((await waiter.release(key, granted)).status).toBe(204);
    tokenIn(await behind.reply);
  });

  it("is as if it had not been made: what comes up meanwhile is held, and passes on when its lease ends", async () => {
    const [key, holder, waiter] = [fresh("key"), await RestClient.open(), await RestClient.open()];
    const token = await holder.hold(key);
    stopClock();
    await askKey(keyStub(key), {
      type: "enqueue",
      command: { session: waiter.name, request: "place", limit: 1, leaseSeconds: 20 },
    });
    await askKey(keyStub(key), {
      type: "wait",
      command: { session: waiter.name, request: "forgotten", waitMs: 60_000, mayWait: true },
    });
    const behind = await (await RestClient.open()).queue(key);
    await holder.release(key, token);
    await soon(async () => (await keyStub(key).describe())?.holders[0]?.session === waiter.name);
    const granted = tokenIn(await waiter.wait(key));
    pass(20_000);
    await runDurableObjectAlarm(keyStub(key));
    tokenIn(await behind.reply);
    expect((await waiter.release(key, granted)).status).toBe(404);
  });
});

describe("a key that is lost in the middle of an acquire", () => {
  it.each(["before", "after"])("%s it has decided, leaves no holder that nobody knows of", async (moment) => {
    expectLog("operation_failed", { error: "Error: lost" });
    const [key, client] = [fresh("key"), await RestClient.open()];
    await client.release(key, await client.hold(key));
    replaceNextCommand("acquire", key, async function (_, carryOut) {
      const { ctx } = this as unknown as { ctx: DurableObjectState };
      if (moment === "after") {
        await carryOut();
        await ctx.storage.sync();
      }
      ctx.abort("lost");
      throw new Error("lost");
    });
    const reply = await client.acquire(key);
    if (reply.status === 200) expect((await client.renew(key, tokenIn(reply))).status).toBe(200);
    else {
      expect([reply.status, wordOf(reply)]).toEqual([503, "unavailable"]);
      await soon(async () => (await keyStub(key).describe())?.holderCount === 0);
    }
  });
});

describe("a notice", () => {
  it("that overtakes the answer to its request is waited for, and the grant used", async () => {
    const [key, holder, waiter] = [fresh("key"), await RestClient.open(), await RestClient.open()];
    const token = await holder.hold(key);
    const deliver = vi.spyOn(HttpSessionObject.prototype, "deliver");
    replaceCommand("acquire", async ({ command }, carryOut) => {
      const outcome = await carryOut();
      if (!command.mayWait || command.session !== waiter.name) return outcome;
      await holder.release(key, token);
      await soon(() => callsAbout(deliver, key).length > 0);
      await scheduler.wait(50);
      return outcome;
    });
    tokenIn(await waiter.acquire(key, 60));
    expect(await holderOf(key)).toBe(waiter.name);
    expect(callsAbout(deliver, key)).toHaveLength(1);
  });

  it("that comes twice at once is answered once, with one token", async () => {
    const { key, waiter, reply, request, release } = await contention();
    const { deliver } = HttpSessionObject.prototype;
    const answers: string[] = [];
    vi.spyOn(HttpSessionObject.prototype, "deliver").mockImplementation(async function (
      this: HttpSessionObject,
      notice,
    ) {
      if (notice.key !== key) return deliver.call(this, notice);
      const both = await Promise.all([deliver.call(this, notice), deliver.call(this, notice)]);
      answers.push(...both.map(({ answer }) => answer));
      return both[0];
    });
    await release();
    const token = tokenIn(await reply);
    expect(answers).toEqual(["taken", "taken"]);
    expect((await waiter.renew(key, token)).status).toBe(200);
    // And once more after the client has given the lock back, and another one has it.
    await waiter.release(key, token);
    const other = await RestClient.open();
    const held = await other.hold(key);
    vi.restoreAllMocks();
    expect(await waiter.object.deliver({ key, request, kind: "granted" })).toEqual({ answer: "gone" });
    expect((await other.renew(key, held)).status).toBe(200);
  });

  it("whose answer is lost gets the same answer again, and the lock stays", async () => {
    expectLog("session_unreachable", { error: "Error: the answer is lost" });
    const { key, waiter, reply, release } = await contention();
    const { deliver } = HttpSessionObject.prototype;
    const notices = replaceNext(
      HttpSessionObject.prototype,
      "deliver",
      key,
      async function (this: HttpSessionObject, notice) {
        await deliver.call(this, notice);
        throw new Error("the answer is lost");
      },
    );
    await release();
    const token = tokenIn(await reply);
    await soon(() => callsAbout(notices, key).length === 2);
    const second = notices.mock.calls.findLastIndex(([notice]) => notice.key === key);
    expect(await notices.mock.results[second]?.value).toEqual({ answer: "taken" });
    expect((await waiter.renew(key, token)).status).toBe(200);
  });

  it("for a request that is over finds nobody, and takes nothing from the one that waits now", async () => {
    const [key, holder, waiter] = [fresh("key"), await RestClient.open(), await RestClient.open()];
    const token = await holder.hold(key);
    stopClock();
    const first = waiter.acquire(key, 20);
    await soon(async () => (await sessionsOn(key)).length === 2);
    const [request = ""] = await requestsOn(key);
    pass(20_000);
    await runDurableObjectAlarm(keyStub(key));
    expect(wordOf(await first)).toBe("timeout");
    const second = await waiter.queue(key);
    for (const kind of ["granted", "timeout", "lease_expired"] as const) {
      expect(await waiter.object.deliver({ key, request, kind })).toEqual({ answer: "gone" });
    }
    expect(await isOpen(second.reply)).toBe(true);
    await holder.release(key, token);
    tokenIn(await second.reply);
  });

  it("of a promotion that nobody waits for is noted, and kept for the wait to come", async () => {
    const [key, holder, waiter] = [fresh("key"), await RestClient.open(), await RestClient.open()];
    const token = await holder.hold(key);
    await waiter.enqueue(key);
    const deliver = vi.spyOn(HttpSessionObject.prototype, "deliver");
    await holder.release(key, token);
    await soon(() => callsAbout(deliver, key).length === 1);
    const call = deliver.mock.calls.findIndex(([notice]) => notice.key === key);
    expect(await deliver.mock.results[call]?.value).toEqual({ answer: "noted" });
    tokenIn(await waiter.wait(key));
  });
});

async function isOpen(reply: Promise<RestReply>): Promise<boolean> {
  return (await Promise.race([reply, scheduler.wait(100)])) === undefined;
}

describe("a grant whose pick-up fails", () => {
  it("is told to the client all the same, once, if the key had counted it", async () => {
    expectLog("session_unreachable", { error: "Error: Error: the answer is lost" });
    const { key, waiter, reply, release } = await contention();
    failPickUps(key, { unanswered: 1 });
    await release();
    const token = tokenIn(await reply);
    expect((await waiter.renew(key, token)).status).toBe(200);
  });

  it("is the client's for good once a later attempt has brought it, over HTTP", async () => {
    expectLog("session_unreachable", { error: "Error: Error: unreachable" });
    const { key, waiter, reply, release } = await contention();
    // One by the notice, two by the session itself; the next one is by the notice that the key repeats.
    failPickUps(key, { unheard: 3 });
    await release();
    const token = tokenIn(await reply);
    // The session's own attempts go on for a moment.
    await scheduler.wait(1_000);
    expect((await waiter.renew(key, token)).status).toBe(200);
  });

  it("is the client's for good once a later attempt has brought it, over a WebSocket", async () => {
    expectLog("session_unreachable", { error: "Error: Error: unreachable" });
    const key = fresh("key");
    const [holder, waiter] = [await Client.open(), await Client.open()];
    const held = tokenOf(await holder.ask(`l\n${key}\n0\n`));
    waiter.send(`l\n${key}\n60\n`);
    await soon(async () => (await sessionsOn(key)).length === 2);
    failPickUps(key, { unheard: 3 });
    expect(await holder.ask(`r\n${key}\n${held}\n`)).toBe("ok");
    const token = tokenOf(await waiter.line());
    await scheduler.wait(1_000);
    expect(await waiter.ask(`n\n${key}\n${token} 5\n`)).toBe("ok 5");
    expect(waiter.unread).toEqual([]);
  });
});

/** A Worker that has put a request to a session and does what the story says. */
async function pollByHand(client: RestClient, key: string) {
  const request = { type: "acquire", key, limit: 1, waitSeconds: 60, leaseSeconds: undefined } as const;
  const id = fresh("ask");
  expect(await client.object.perform({ id, request, label: undefined })).toEqual({ type: "waits" });
  const headers = { Upgrade: "websocket", [POLL_HEADER]: id };
  const { webSocket: socket } = await client.object.fetch("http://session/", { headers });
  if (!socket) throw new Error("no poll");
  const heard: { type: string; outcome?: { status: string } }[] = [];
  socket.addEventListener("message", ({ data }) => heard.push(JSON.parse(String(data))));
  socket.accept();
  return { socket, heard, id };
}

describe("a Worker that holds a poll", () => {
  it("and goes away with an answer that it may not have delivered loses the lock to the next in line", async () => {
    const [holder, waiter, next] = [await RestClient.open(), await RestClient.open(), await RestClient.open()];
    const key = fresh("key");
    const token = await holder.hold(key);
    const { socket, heard } = await pollByHand(waiter, key);
    const behind = await next.queue(key);
    await holder.release(key, token);
    await soon(() => heard.length === 1);
    expect(heard[0]?.outcome?.status).toBe("ok");
    socket.close(1011);
    tokenIn(await behind.reply);
  });
});

describe("a request that is put to its session twice at once", () => {
  it("is carried out once, and both are answered", async () => {
    const [client, key] = [await RestClient.open(), fresh("key")];
    const request = { type: "acquire", key, limit: 1, waitSeconds: 0, leaseSeconds: undefined } as const;
    const ask = { id: fresh("ask"), request, label: undefined };
    const [one, other] = await Promise.all([client.object.perform(ask), client.object.perform(ask)]);
    expect(one).toMatchObject({ type: "answered", outcome: { status: "ok" } });
    expect(other).toEqual(one);
  });

  it("and polled for twice is answered with one grant to one of both", async () => {
    const [holder, waiter, key] = [await RestClient.open(), await RestClient.open(), fresh("key")];
    const token = await holder.hold(key);
    const { socket, heard, id } = await pollByHand(waiter, key);
    const again = await waiter.object.fetch("http://session/", { headers: { [POLL_HEADER]: id } });
    expect(await again.json()).toEqual({ type: "lost" });
    await holder.release(key, token);
    await soon(() => heard.length === 1);
    expect(heard[0]?.outcome?.status).toBe("ok");
    socket.close(1000);
    expect(await holderOf(key)).toBe(waiter.name);
  });
});

describe("a session whose object is lost between the call of a request and its poll", () => {
  it("answers 503, and the request leaves its queue", async () => {
    expectLog("session_unreachable", { error: "Error: Application called abort() to reset Durable Object." });
    const [holder, waiter, key] = [await RestClient.open(), await RestClient.open(), fresh("key")];
    await holder.hold(key);
    replaceNext(HttpSessionObject.prototype, "fetch", waiter.name, async function (this: HttpSessionObject, request) {
      await reset(waiter);
      return waiter.object.fetch(request);
    });
    const { reply } = await waiter.queue(key);
    expect([(await reply).status, wordOf(await reply)]).toEqual([503, "unavailable"]);
    await soon(async () => (await sessionsOn(key)).length === 1);
    expect(await sessionsOn(key)).toEqual([holder.name]);
  });
});

describe("requests of one session on one key", () => {
  it("reach it in the order in which they came, also those that have to store something first", async () => {
    const client = await RestClient.open();
    const ask = (key: string, type: "enqueue" | "wait") => ({
      id: fresh("ask"),
      label: undefined,
      request:
        type === "enqueue"
          ? ({ type, key, limit: 1, leaseSeconds: undefined } as const)
          : ({ type, key, waitSeconds: 0 } as const),
    });
    for (let round = 0; round < 20; round++) {
      const key = fresh("key");
      const [enqueued, waited] = await Promise.all([
        client.object.perform(ask(key, "enqueue")),
        client.object.perform(ask(key, "wait")),
      ]);
      expect(enqueued).toMatchObject({ type: "answered", outcome: { status: "acquired" } });
      expect(waited).toMatchObject({ type: "answered", outcome: { status: "ok" } });
    }
  });

  it("are granted in that order", async () => {
    const [client, key] = [await RestClient.open(), fresh("key")];
    const told = await Promise.all(
      Array.from({ length: 30 }, () =>
        client.object.perform({
          id: fresh("ask"),
          label: undefined,
          request: { type: "acquire", key, limit: 30, waitSeconds: 0, leaseSeconds: undefined },
        }),
      ),
    );
    const tokens = told.map((each) => (each.type === "answered" ? each.outcome.token : undefined));
    expect(tokens.every((token) => typeof token === "string")).toBe(true);
    expect(tokens).toEqual(tokens.toSorted());
  });
});
