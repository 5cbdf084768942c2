import { evictDurableObject, runInDurableObject } from "cloudflare:test";
import { describe, expect, it } from "vitest";
import { SessionSocket } from "../../../src/cloudflare/session/session-socket.ts";
import { SessionRows } from "../../../src/cloudflare/session-common/session-rows.ts";
import { SessionStore } from "../../../src/cloudflare/session-common/session-store.ts";
import { Client, fresh, keyStub, sessionStub, sessionsOn, tokenOf, until } from "../support.ts";

/** The keys that a session remembers: with its socket, and in storage. */
async function storedKeys(session: string): Promise<string[]> {
  return runInDurableObject(sessionStub(session), (_, state) => {
    const [socket] = state.getWebSockets();
    return [
      ...(socket ? SessionSocket.keysOf(socket) : []),
      ...new SessionStore(new SessionRows(state.storage)).keys(),
    ];
  });
}

/** Takes and releases so many keys, side by side. */
async function cycles(client: Client, prefix: string, count: number): Promise<void> {
  const keys = Array.from({ length: count }, (_, n) => `${prefix}-${n}`);
  client.send(keys.map((key, n) => `@${n} l\n${key}\n0\n`).join(""));
  const releases: string[] = [];
  for (const _ of keys) {
    const line = await client.line();
    const n = Number(/^@(\d+) /.exec(line)?.[1]);
    releases.push(`@${n} r\n${keys[n]}\n${tokenOf(line)}\n`);
  }
  client.send(releases.join(""));
  for (const _ of keys) expect(await client.line()).toMatch(/^@\d+ ok$/);
}

describe("a session that uses many keys", () => {
  it("remembers only those on which it may still have something", async () => {
    const [held, queued, prefix] = [fresh("held"), fresh("queued"), fresh("cycle")];
    const [client, other] = [await Client.open(), await Client.open()];
    await other.ask(`l\n${queued}\n0\n`);
    await client.ask(`l\n${held}\n0\n`);
    expect(await client.ask(`e\n${queued}\n\n`)).toBe("queued");
    const session = (await sessionsOn(held))[0] ?? "";
    await cycles(client, prefix, 100);
    const stored = await storedKeys(session);
    expect(stored.length).toBeLessThan(60);
    expect(stored).toEqual(expect.arrayContaining([held, queued]));
    client.close();
    await until(async () => (await keyStub(queued).describe())?.waiters === 0, { timeout: 2_000, interval: 20 });
    expect((await keyStub(held).describe())?.holders).toEqual([]);
  });

  it("never forgets a key on which it had something before it slept", async () => {
    const [key, prefix] = [fresh("held"), fresh("cycle")];
    const client = await Client.open();
    await client.ask(`sl\n${key}\n0 2\n`);
    const session = (await sessionsOn(key))[0] ?? "";
    await evictDurableObject(sessionStub(session), { webSockets: "hibernate" });
    const token = tokenOf(await client.ask(`sl\n${key}\n0 2\n`));
    await client.ask(`r\n${key}\n${token}\n`);
    await cycles(client, prefix, 70);
    expect(await storedKeys(session)).toContain(key);
    client.close();
    await until(async () => (await keyStub(key).describe())?.holders.length === 0, { timeout: 2_000 });
  });
});
