import { runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { Credential } from "../../../src/service.ts";
import { pass, stopClock } from "../clock.ts";
import { crash, cut, resumable, resume } from "../resuming.ts";
import { type Client, fresh, keyStub, sessionStub, tokenOf, until } from "../support.ts";

const GRACE_MS = 10_000;

beforeEach(stopClock);
afterEach(() => {
  vi.useRealTimers();
});

const objectOf = ({ session }: Credential) => sessionStub(session);

const take = async (client: Client, key: string) => tokenOf(await client.ask(`@1 l\n${key}\n0 600\n`));

const isFree = (key: string) =>
  until(async () => (await keyStub(key).describe())?.holderCount === 0, { timeout: 3_000, interval: 20 });

/** What the session has stored about its absence: since when, and when it is woken for it. */
function absenceOf(credential: Credential): Promise<{ since: number | undefined; alarm: number | null }> {
  return runInDurableObject(objectOf(credential), async (_, { storage }) => ({
    since: storage.kv.get<{ detachedAt?: number }>("resumption")?.detachedAt,
    alarm: await storage.getAlarm(),
  }));
}

describe("a session whose grace is over", () => {
  it("gives up its locks when it is asked whether it lives, before its alarm has run", async () => {
    const key = fresh("key");
    const { client, credential } = await resumable();
    await take(client, key);
    await cut(client);
    pass(GRACE_MS + 1);
    expect(await objectOf(credential).isLive()).toEqual({ isLive: false });
    await isFree(key);
  });

  it("gives up its locks when its alarm runs", async () => {
    const key = fresh("key");
    const { client, credential } = await resumable();
    await take(client, key);
    await cut(client);
    pass(GRACE_MS + 1);
    expect(await runDurableObjectAlarm(objectOf(credential))).toBe(true);
    await isFree(key);
  });
});

describe("a session whose object was lost with its socket", () => {
  it("is taken up again without a write", async () => {
    const key = fresh("key");
    const { client, credential } = await resumable();
    const token = await take(client, key);
    await crash(credential);
    const writes = await runInDurableObject(objectOf(credential), (_, { storage }) => ({
      put: vi.spyOn(storage.kv, "put"),
      exec: vi.spyOn(storage.sql, "exec"),
      setAlarm: vi.spyOn(storage, "setAlarm"),
    }));
    const back = await resume(credential);
    expect(await back.ask("@s session\n_\nresume\n")).toBe(`@s ok ${credential.session}.${credential.secret} 10`);
    expect(await back.ask("@w watch\n_\ntaken\n")).toBe("@w ok");
    expect(await back.ask(`@2 n\n${key}\n${token} 600\n`)).toBe("@2 ok 600");
    for (const write of Object.values(writes)) expect(write.mock.calls).toEqual([]);
    expect(await absenceOf(credential)).toEqual({ since: undefined, alarm: null });
    back.close();
  });

  it("is kept for the grace from when it was found without, and then ends", async () => {
    const key = fresh("key");
    const { client, credential } = await resumable();
    await take(client, key);
    await crash(credential);
    const found = Date.now();
    expect(await objectOf(credential).isLive()).toEqual({ isLive: true });
    // Not before half of the grace is over does it cost a write.
    await until(async () => (await absenceOf(credential)).since !== undefined, {
      timeout: GRACE_MS,
      interval: 50,
    });
    const { since = 0, alarm } = await absenceOf(credential);
    expect(since).toBe(found);
    expect(alarm).toBe(since + GRACE_MS);
    pass(GRACE_MS);
    await runDurableObjectAlarm(objectOf(credential));
    await isFree(key);
  });

  it("that had stored its absence goes on counting where it stood", async () => {
    const { client, credential } = await resumable();
    await cut(client);
    const before = await absenceOf(credential);
    await crash(credential);
    expect(await objectOf(credential).isLive()).toEqual({ isLive: true });
    expect(await absenceOf(credential)).toEqual(before);
    pass(GRACE_MS + 1);
    expect(await objectOf(credential).isLive()).toEqual({ isLive: false });
  });
});
