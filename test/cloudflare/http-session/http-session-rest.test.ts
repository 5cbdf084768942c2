import { env } from "cloudflare:workers";
import { afterEach, describe, expect, it, vi } from "vitest";
import { noteIdle, noteNotIdle, roomToIdle } from "../../../src/cloudflare/awake/awake-sessions.ts";
import { isResting, RESTING } from "../../../src/cloudflare/awake/resting.ts";
import type { Env } from "../../../src/cloudflare/env.ts";
import { HttpSessionObject } from "../../../src/cloudflare/http-session/http-session-object.ts";
import { KeyObject } from "../../../src/cloudflare/key/key-object.ts";
import { RestClient, soon, tokenIn, wordOf } from "../rest.ts";
import { callsAbout } from "../spies.ts";
import { fresh, until } from "../support.ts";

afterEach(() => {
  vi.restoreAllMocks();
});

/** Asks a session to rest; whether it did. */
const rest = (client: RestClient) => client.object.rest().then(() => false, isResting);
const rested = (client: RestClient) => soon(() => rest(client));

describe("an HTTP session that is put to rest", () => {
  it("keeps its locks and places, and ends when it is told to", async () => {
    const [key, other] = [fresh("key"), fresh("key")];
    const [holder, client] = [await RestClient.open(), await RestClient.open()];
    const token = await client.hold(key);
    const first = await holder.hold(other);
    expect(wordOf(await client.enqueue(other))).toBe("queued");
    await rested(client);
    expect((await client.ping()).status).toBe(204);
    await rested(client);
    expect((await client.renew(key, token)).status).toBe(200);
    await rested(client);
    expect((await holder.release(other, first)).status).toBe(204);
    tokenIn(await client.wait(other, 5));
    await rested(client);
    expect((await client.end()).status).toBe(204);
    tokenIn(await holder.acquire(key));
    expect(wordOf(await client.ping())).toBe("session_gone");
  });

  it("all the time answers as if it were not", async () => {
    const key = fresh("key");
    const client = await RestClient.open();
    let isOver = false;
    let rests = 0;
    const disturb = (async () => {
      while (!isOver) if (await rest(client)) rests += 1;
    })();
    for (let round = 0; round < 30; round += 1) {
      const token = tokenIn(await client.acquire(key, 10));
      expect((await client.renew(key, token)).status).toBe(200);
      await scheduler.wait(round);
      expect((await client.release(key, token)).status).toBe(204);
    }
    isOver = true;
    await disturb;
    expect(rests).toBeGreaterThan(3);
    await client.end();
  });
});

describe("an HTTP session is not put to rest", () => {
  it("while its client waits, which gets its grant", async () => {
    const key = fresh("key");
    const [holder, client] = [await RestClient.open(), await RestClient.open()];
    const token = await holder.hold(key);
    const { reply } = await client.queue(key);
    expect(await rest(client)).toBe(false);
    await holder.release(key, token);
    tokenIn(await reply);
    await rested(client);
  });

  it("while a request of it is on its way", async () => {
    const key = fresh("key");
    const client = await RestClient.open();
    const gate = Promise.withResolvers<void>();
    const acquire = KeyObject.prototype.acquire;
    const acquiring = vi.spyOn(KeyObject.prototype, "acquire").mockImplementation(async function (
      this: KeyObject,
      ...args
    ) {
      await gate.promise;
      return acquire.apply(this, args);
    });
    const grant = client.acquire(key);
    await until(() => callsAbout(acquiring, key).length === 1);
    expect(await rest(client)).toBe(false);
    gate.resolve();
    tokenIn(await grant);
    await rested(client);
  });
});

describe("where two HTTP sessions may be idle", () => {
  const limited = { ...env, MAX_AWAKE_SESSIONS: "2" } as unknown as Env;
  const nameOf = (session: HttpSessionObject) => (session as unknown as { ctx: DurableObjectState }).ctx.id.name ?? "";

  /** Scripts what sessions do that are asked to rest; returns the names of those that were. */
  function script(rest: (name: string) => void): string[] {
    const asked: string[] = [];
    vi.spyOn(HttpSessionObject.prototype, "rest").mockImplementation(async function (this: HttpSessionObject) {
      asked.push(nameOf(this));
      rest(nameOf(this));
    });
    return asked;
  }

  const names = ["http:one", "http:two", "http:three"];
  afterEach(() => {
    for (const name of names) noteNotIdle(name);
  });

  it("the one that has been idle for the longest time makes room for another", async () => {
    const asked = script(() => {
      throw new Error(RESTING);
    });
    for (const name of names) {
      expect(await roomToIdle(limited)).toBe(true);
      noteIdle(limited, name);
    }
    expect(asked).toEqual(["http:one"]);
    noteIdle(limited, "http:two");
    expect(await roomToIdle(limited)).toBe(true);
    expect(asked).toEqual(["http:one", "http:three"]);
  });

  it("there is no room for another if none of them comes to rest", async () => {
    const asked = script((name) => noteIdle(limited, name));
    for (const name of names.slice(0, 2)) noteIdle(limited, name);
    expect(await roomToIdle(limited)).toBe(false);
    expect(new Set(asked)).toEqual(new Set(names.slice(0, 2)));
    noteNotIdle("http:one");
    expect(await roomToIdle(limited)).toBe(true);
  });
});
