/** The client library inside workerd, against the objects themselves: sockets that end as a deploy ends them. */
import { evictDurableObject, runInDurableObject } from "cloudflare:test";
import { exports } from "cloudflare:workers";
import { afterEach, describe, expect, it } from "vitest";
import { connect, type Locks } from "../../../src/client/index.ts";
import { fresh, keyStub, sessionStub, sessionsOn, until } from "../support.ts";

type Listener = (event: Event) => void;

/** A WebSocket to the service under test, without a network in between. */
class InnerSocket {
  readonly #target = new EventTarget();
  readonly #socket: Promise<WebSocket>;

  constructor(url: string, protocols: string[]) {
    this.#socket = this.#open(url, protocols);
    this.#socket.catch(() => this.#target.dispatchEvent(new CloseEvent("close", { code: 1006 })));
  }

  addEventListener(type: string, listener: (event: never) => void): void {
    this.#target.addEventListener(type, listener as Listener);
  }

  send(text: string): void {
    void this.#socket.then((socket) => socket.send(text)).catch(() => {});
  }

  close(code?: number): void {
    void this.#socket.then((socket) => socket.close(code)).catch(() => {});
  }

  async #open(url: string, protocols: string[]): Promise<WebSocket> {
    const headers = { Upgrade: "websocket", "Sec-WebSocket-Protocol": protocols.join(", ") };
    const { webSocket: socket } = await exports.default.fetch(url.replace(/^ws/, "http"), { headers });
    if (!socket) throw new Error("no upgrade");
    socket.addEventListener("message", ({ data }) => this.#target.dispatchEvent(new MessageEvent("message", { data })));
    socket.addEventListener("close", ({ code }) => this.#target.dispatchEvent(new CloseEvent("close", { code })));
    socket.addEventListener("error", () => this.#target.dispatchEvent(new Event("error")));
    socket.accept();
    queueMicrotask(() => this.#target.dispatchEvent(new Event("open")));
    return socket;
  }
}

const open: Locks[] = [];
function client(label: string): Locks {
  const locks = connect("ws://holdfast", { label, WebSocket: InnerSocket });
  open.push(locks);
  return locks;
}
afterEach(async () => {
  await Promise.all(open.splice(0).map((locks) => locks.close()));
});

describe("a client in workerd", () => {
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
