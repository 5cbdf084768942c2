/** The client library inside workerd, over a service binding: sockets that end as a deploy ends them. */
import { evictDurableObject, runInDurableObject } from "cloudflare:test";
import { exports } from "cloudflare:workers";
import { afterEach, describe, expect, it } from "vitest";
import { connect, type Locks } from "../../../src/client/index.ts";
import { fresh, keyStub, sessionStub, sessionsOn, until } from "../support.ts";

const open: Locks[] = [];
function client(label: string): Locks {
  const locks = connect(exports.default, { label });
  open.push(locks);
  return locks;
}
afterEach(async () => {
  await Promise.all(open.splice(0).map((locks) => locks.close()));
});

/** A binding to a service that answers no upgrade. */
function unable(answer: () => Promise<Response>): Locks {
  const locks = connect({ fetch: answer });
  open.push(locks);
  return locks;
}

describe("a client in workerd", () => {
  it("asks for its upgrade as on any connection: with a label, and the token first", async () => {
    const asked: string[] = [];
    const fetch = (url: string, init: RequestInit) => {
      asked.push(url);
      return exports.default.fetch(url, init);
    };
    const [key, locks] = [fresh("key"), connect({ fetch }, { label: "a label" })];
    open.push(locks);
    await locks.acquire(key);
    expect(asked).toEqual(["http://holdfast/v1/ws?label=a+label"]);
    expect((await locks.query(key))?.held_by).toMatchObject([{ label: "a label" }]);
  });

  it.each([
    ["a Worker that opens no socket", async () => new Response(null, { status: 404 }), "no upgrade, but 404"],
    ["a Worker that cannot be reached", async () => Promise.reject(new Error("no such service")), "no such service"],
  ])("says why it cannot connect to %s", async (_, answer, why) => {
    const locks = unable(answer);
    const error = await locks.ready({ timeout: 1_000 }).catch((reason: unknown) => reason);
    expect(String(error)).toContain(why);
  });

  it("holds, waits, and hands over", async () => {
    const [key, first, second] = [fresh("key"), client("first"), client("second")];
    const lock = await first.acquire(key);
    const waiting = second.acquire(key);
    await until(async () => (await first.query(key))?.waiters === 1, { timeout: 5_000 });
    expect(await lock.release()).toBe(true);
    expect((await waiting).fence > lock.fence).toBe(true);
  });

  it("keeps its lock and its place through the eviction of every object", async () => {
    const [key, first, second] = [fresh("key"), client("first"), client("second")];
    const lock = await first.acquire(key);
    const waiting = second.acquire(key);
    await until(async () => (await first.query(key))?.waiters === 1, { timeout: 5_000 });
    for (const session of await sessionsOn(key))
      await evictDurableObject(sessionStub(session), { webSockets: "hibernate" });
    await evictDurableObject(keyStub(key));
    expect(await lock.release()).toBe(true);
    expect((await waiting).isHeld).toBe(true);
  });

  it("keeps its lock and its place through a deploy, which ends every object with its sockets", async () => {
    const [key, first, second] = [fresh("key"), client("first"), client("second")];
    const lock = await first.acquire(key);
    const waiting = second.acquire(key);
    await until(async () => (await first.query(key))?.waiters === 1, { timeout: 5_000 });
    const sessions = await sessionsOn(key);
    for (const stub of [...sessions.map((session) => sessionStub(session)), keyStub(key)])
      await runInDurableObject(stub as DurableObjectStub, (_, state) => state.abort("deploy")).catch(() => {});
    for (const locks of [first, second]) for await (const status of locks.statuses()) if (status === "resumed") break;
    expect(lock.isHeld).toBe(true);
    expect(await sessionsOn(key)).toEqual(sessions);
    expect(await lock.release()).toBe(true);
    expect((await waiting).isHeld).toBe(true);
  });
});
