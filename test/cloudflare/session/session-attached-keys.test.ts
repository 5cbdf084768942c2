import { evictDurableObject, runInDurableObject } from "cloudflare:test";
import { afterEach, describe, expect, it, vi } from "vitest";
import { SessionSocket } from "../../../src/cloudflare/session/session-socket.ts";
import { SessionRows } from "../../../src/cloudflare/session-common/session-rows.ts";
import { SessionStore } from "../../../src/cloudflare/session-common/session-store.ts";
import { expectLog } from "../../support/expected-logs.ts";
import { replaceCommand } from "../spies.ts";
import { Client, fresh, keyStub, sessionStub, sessionsOn, storedIn, tokenOf, until } from "../support.ts";

afterEach(() => {
  vi.restoreAllMocks();
});

/** Where a session keeps its keys. */
async function keysOf(session: string): Promise<{ attached: number; stored: number }> {
  return runInDurableObject(sessionStub(session), (_, state) => {
    const [socket] = state.getWebSockets();
    const attached = socket ? SessionSocket.keysOf(socket).length : 0;
    return { attached, stored: new SessionStore(new SessionRows(state.storage)).keys().length };
  });
}

const isFree = (key: string) => until(async () => (await keyStub(key).describe())?.holders.length === 0);

async function holder(key = fresh("key")) {
  const client = await Client.open();
  const token = tokenOf(await client.ask(`l\n${key}\n0\n`));
  const session = (await sessionsOn(key))[0] ?? "";
  return { client, key, token, session, object: sessionStub(session) };
}

describe("the keys of a session that ends with its socket", () => {
  it("lie with the socket, and nothing is stored", async () => {
    const { client, key, token, session } = await holder();
    expect(await keysOf(session)).toEqual({ attached: 1, stored: 0 });
    await client.ask(`r\n${key}\n${token}\n`);
    expect(await storedIn(sessionStub(session))).toEqual([]);
    client.close();
  });

  it("are left when the client goes after the object has slept, also if its going wakes the object", async () => {
    for (const isWokenByClose of [true, false]) {
      const { client, key, session } = await holder();
      await evictDurableObject(sessionStub(session), { webSockets: "hibernate" });
      if (!isWokenByClose) expect(await client.ask(`r\n${fresh("key")}\n${"0".repeat(32)}\n`)).toBe("error");
      client.close();
      await isFree(key);
      await until(async () => (await storedIn(sessionStub(session))).length === 0);
    }
  });

  it("are stored when they do not fit, and all of them are left", async () => {
    const { client, session } = await holder();
    const keys = Array.from({ length: 30 }, () => `${fresh("key")}-${"x".repeat(200)}`);
    for (const key of keys) tokenOf(await client.ask(`l\n${key}\n0\n`));
    const { attached, stored } = await keysOf(session);
    expect(attached).toBeGreaterThan(5);
    expect(stored).toBeGreaterThan(5);
    expect(attached + stored).toBe(31);
    client.close();
    for (const key of keys) await isFree(key);
  });

  it("are left although they could not be reached at first, and the object was lost meanwhile", async () => {
    expectLog("key_unreachable", { error: "Error: unreachable" });
    const { client, key, session } = await holder();
    const object = sessionStub(session);
    await evictDurableObject(object, { webSockets: "hibernate" });
    let attempts = 0;
    replaceCommand("leave", (left, carryOut) => {
      if (left.session !== session) return carryOut();
      attempts += 1;
      throw new Error("unreachable");
    });
    client.close();
    await until(() => attempts > 0, { timeout: 8_000 });
    const hasGone = () => evictDurableObject(object).then(...([() => true, () => false] as const));
    await until(hasGone);
    vi.restoreAllMocks();
    await until(async () => (await keyStub(key).describe())?.holders.length === 0, { timeout: 8_000 });
  });

  it("are left when they are long and not in ASCII, after a sleep", async () => {
    const { client, session } = await holder();
    const keys = Array.from({ length: 40 }, () => `${"\u4e00".repeat(70)}-${fresh("key")}`);
    for (const key of keys) tokenOf(await client.ask(`l\n${key}\n0 3000\n`));
    await evictDurableObject(sessionStub(session), { webSockets: "hibernate" });
    client.close();
    for (const key of keys) await isFree(key);
  });

  it("are stored when the client becomes able to resume, and from then on", async () => {
    const { client, session } = await holder();
    expect(await client.ask("@s session\n_\nresume\n")).toMatch(/^@s ok /);
    expect(await keysOf(session)).toEqual({ attached: 0, stored: 1 });
    tokenOf(await client.ask(`l\n${fresh("key")}\n0\n`));
    expect(await keysOf(session)).toEqual({ attached: 0, stored: 2 });
    client.close();
  });
});

describe("locks are released when their client goes", () => {
  it("also if its saved state is of another version", async () => {
    const { key, client, object } = await holder();
    await runInDurableObject(object, (_, state) => {
      const [socket] = state.getWebSockets();
      const attachment = socket?.deserializeAttachment();
      socket?.serializeAttachment({ ...attachment, state: { ...attachment.state, version: 999 } });
    });
    await evictDurableObject(object, { webSockets: "hibernate" });
    client.send("ping\n_\n_\n");
    await client.closed();
    await isFree(key);
  });

  it("also after several sleeps with new keys in between, more than fit", async () => {
    const { key, client, object } = await holder();
    const keys = [key];
    for (let sleep = 0; sleep < 2; sleep += 1) {
      for (let n = 0; n < 24; n += 1) {
        const next = `${fresh("key")}-${"é".repeat(100)}`;
        tokenOf(await client.ask(`l\n${next}\n0 3600\n`));
        keys.push(next);
      }
      await evictDurableObject(object, { webSockets: "hibernate" });
    }
    client.close();
    for (const each of keys) await isFree(each);
  });

  it("also if it became able to resume after a sleep, and slept again", async () => {
    const { key, client, object } = await holder();
    await evictDurableObject(object, { webSockets: "hibernate" });
    expect(await client.ask("@s session\n_\nresume\n")).toMatch(/^@s ok /);
    await evictDurableObject(object, { webSockets: "hibernate" });
    client.close();
    await isFree(key);
  });

  it("also those of a message that is being carried out", async () => {
    const { key, client } = await holder();
    const keys = Array.from({ length: 60 }, () => `${fresh("key")}-${"x".repeat(100)}`);
    client.send(keys.map((each, n) => `@${n} l\n${each}\n0 3600\n`).join(""));
    await client.line();
    client.close();
    for (const each of [key, ...keys]) await isFree(each);
  });
});
