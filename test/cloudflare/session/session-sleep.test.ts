import { evictDurableObject, runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { afterEach, describe, expect, it, vi } from "vitest";
import { pass, stopClock } from "../clock.ts";
import { Client, fresh, keyStub, liveSessions, sessionStub, sessionsOn, storedIn, tokenOf, until } from "../support.ts";

/** Puts the session that waits for, or holds, this key to sleep; its socket stays. */
async function sleepSessionOn(key: string, index = 0): Promise<void> {
  const session = (await sessionsOn(key))[index] ?? "";
  await evictDurableObject(sessionStub(session), { webSockets: "hibernate" });
}

afterEach(() => {
  vi.useRealTimers();
});

describe("a session that sleeps", () => {
  it("answers a waiting request when its turn comes", async () => {
    const key = fresh("key");
    const [holder, waiter] = [await Client.open(), await Client.open()];
    const token = tokenOf(await holder.ask(`l\n${key}\n0\n`));
    waiter.send(`l\n${key}\n20\n`);
    await until(async () => (await sessionsOn(key)).length === 2, { timeout: 2_000, interval: 10 });
    await sleepSessionOn(key, 1);
    await sleepSessionOn(key, 0);
    expect(await holder.ask(`r\n${key}\n${token}\n`)).toBe("ok");
    expect(tokenOf(await waiter.line()) > token).toBe(true);
  });

  it("answers a time-out on time", async () => {
    const key = fresh("key");
    const [holder, waiter] = [await Client.open(), await Client.open()];
    await holder.ask(`l\n${key}\n0\n`);
    stopClock();
    waiter.send(`l\n${key}\n20\n`);
    await until(async () => (await sessionsOn(key)).length === 2);
    await sleepSessionOn(key, 1);
    await runInDurableObject(keyStub(key), async (_, { storage }) => {
      expect(await storage.getAlarm()).toBe(Date.now() + 20_000);
    });
    pass(20_000);
    await runDurableObjectAlarm(keyStub(key));
    expect(await waiter.line()).toBe("timeout");
  });

  it("completes a frame of which it had received half", async () => {
    const [key, other] = [fresh("key"), fresh("key")];
    const client = await Client.open();
    await client.ask(`l\n${key}\n0\n`);
    client.send(`l\n${other}`);
    client.send("\n1");
    await sleepSessionOn(key);
    client.send("0 4");
    await sleepSessionOn(key);
    expect(await client.ask("5\n")).toMatch(/^ok [0-9a-f]{32} 45$/);
  });

  it("cuts off a client that has sent half a frame and no more, in time", async () => {
    const key = fresh("key");
    const client = await Client.open();
    await client.ask(`l\n${key}\n0 600\n`);
    const session = sessionStub((await sessionsOn(key))[0] ?? "");
    stopClock();
    client.send("l\n");
    await until(() => runInDurableObject(session, (_, { storage }) => storage.getAlarm()));
    await evictDurableObject(session, { webSockets: "hibernate" });
    pass(23_000);
    expect(await runDurableObjectAlarm(session)).toBe(true);
    await client.closed();
  });

  it("keeps the order of what stands behind a blocked request", async () => {
    const key = fresh("key");
    const [holder, waiter] = [await Client.open(), await Client.open()];
    const token = tokenOf(await holder.ask(`l\n${key}\n0\n`));
    waiter.send(`l\n${key}\n20\nping\n_\n_\nr\n${key}\nnope\n`);
    await until(async () => (await sessionsOn(key)).length === 2, { timeout: 2_000, interval: 10 });
    await sleepSessionOn(key, 1);
    await holder.ask(`r\n${key}\n${token}\n`);
    tokenOf(await waiter.line());
    expect([await waiter.line(), await waiter.line()]).toEqual(["ok", "error"]);
  });

  it("keeps more than fits its socket", async () => {
    const key = fresh("key");
    const [holder, waiter] = [await Client.open(), await Client.open()];
    const token = tokenOf(await holder.ask(`l\n${key}\n0\n`));
    const pings = 6_000;
    waiter.send(`l\n${key}\n20\n${"ping\n_\n_\n".repeat(pings)}`);
    await until(async () => (await sessionsOn(key)).length === 2, { timeout: 2_000, interval: 10 });
    await sleepSessionOn(key, 1);
    await holder.ask(`r\n${key}\n${token}\n`);
    tokenOf(await waiter.line());
    await until(() => waiter.unread.length === pings, { timeout: 5_000, interval: 10 });
    expect(new Set(waiter.unread)).toEqual(new Set(["ok\n"]));
  });

  it("answers fifty tagged requests once each, under their tags", async () => {
    const keys = Array.from({ length: 50 }, () => fresh("key"));
    const [holder, waiter] = [await Client.open(), await Client.open()];
    const tokens: string[] = [];
    for (const key of keys) tokens.push(tokenOf(await holder.ask(`l\n${key}\n0\n`)));
    waiter.send(keys.map((key, tag) => `@t${tag} l\n${key}\n30\n`).join(""));
    const last = keys.at(-1) ?? "";
    await until(async () => (await sessionsOn(last)).length === 2, { timeout: 5_000, interval: 10 });
    await sleepSessionOn(last, 1);
    expect(await waiter.ask("@t7 ping\n_\n_\n")).toBe("@t7 error");
    for (const [n, key] of keys.entries()) await holder.ask(`r\n${key}\n${tokens[n]}\n`);
    await until(() => waiter.unread.length === 50, { timeout: 5_000, interval: 10 });
    const tags = waiter.unread.map((line) => /^@(t\d+) ok [0-9a-f]{32} 33\n$/.exec(line)?.[1]);
    expect(new Set(tags)).toEqual(new Set(keys.map((_, tag) => `t${tag}`)));
  });

  it("still pushes losses to a client that watches", async () => {
    const key = fresh("key");
    const [watcher, other] = [await Client.open(), await Client.open()];
    expect(await watcher.ask("watch\n_\nlost\n")).toBe("ok");
    const token = tokenOf(await watcher.ask(`l\n${key}\n0\n`));
    await sleepSessionOn(key);
    expect(await other.ask(`r\n${key}\n${token}\n`)).toBe("ok");
    expect(await watcher.line()).toBe(`! lost ${key} ${token} released`);
  });

  it("releases everything when its client leaves during the sleep", async () => {
    const keys = [fresh("key"), fresh("key"), fresh("key")];
    const [client, other] = [await Client.open(), await Client.open()];
    for (const key of keys) await client.ask(`sl\n${key}\n0 1\n`);
    await sleepSessionOn(keys[0] ?? "");
    client.close();
    for (const key of keys) {
      await until(async () => (await other.ask(`l\n${key}\n0\n`)).startsWith("ok"), {
        interval: 20,
      });
    }
  });

  it("is counted no longer when its client leaves during the sleep", async () => {
    const key = fresh("key");
    const before = await liveSessions();
    const client = await Client.open();
    await client.ask(`l\n${key}\n0\n`);
    expect(await liveSessions()).toBe(before + 1);
    await sleepSessionOn(key);
    client.close();
    await until(async () => (await liveSessions()) === before, { timeout: 2_000, interval: 20 });
  });

  it("is not woken by the keep-alive frame", async () => {
    const key = fresh("key");
    const client = await Client.open();
    await client.ask(`l\n${key}\n0\n`);
    await sleepSessionOn(key);
    expect(await client.ask("@keepalive ping\n_\n_\n")).toBe("@keepalive ok");
    const session = sessionStub((await sessionsOn(key))[0] ?? "");
    await expect((async () => evictDurableObject(session))()).rejects.toThrow("not currently running");
  });

  it("costs nothing in storage, however many keys it uses one after another", async () => {
    const key = fresh("key");
    const client = await Client.open();
    const token = tokenOf(await client.ask(`l\n${key}\n0\n`));
    const session = sessionStub((await sessionsOn(key))[0] ?? "");
    await client.ask(`r\n${key}\n${token}\n`);
    for (let count = 0; count < 70; count++) {
      const next = fresh("key");
      await client.ask(`r\n${next}\n${tokenOf(await client.ask(`l\n${next}\n0\n`))}\n`);
    }
    expect(await storedIn(session)).toEqual([]);
  });
});
