import { evictDurableObject, runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { directoryOfKey } from "../../../src/cloudflare/calls/directories.ts";
import { pass, stopClock } from "../clock.ts";
import { BEING_FORGOTTEN, BEING_LISTED, storeTables } from "../earlier-version.ts";
import { command, fresh, grantedToken, keyStub, storedIn, visitKeys } from "../support.ts";

beforeEach(stopClock);
afterEach(() => {
  vi.useRealTimers();
});

const TOKEN = `7000000000000000${"a".repeat(16)}`;

describe("a key that version 0.1.0 has stored", () => {
  it("keeps its holder, is pruned by the directory once it is idle, and its fence still rises", async () => {
    const name = fresh("key");
    const foundedAt = Date.now();
    const expiresAt = foundedAt + 33_000;
    await storeTables(name, { isListed: BEING_LISTED, foundedAt, token: TOKEN, expiresAt, isHeld: true });
    await directoryOfKey(env, name).joinKey(name, { foundedAt, hasGranted: false });
    expect((await keyStub(name).acquire(command())).status).toBe("timeout");
    await evictDurableObject(keyStub(name));
    pass(130_000);
    await visitKeys(name);
    expect(await storedIn(keyStub(name))).toEqual([]);
    expect(await directoryOfKey(env, name).lists(name)).toBe(false);
    await evictDurableObject(directoryOfKey(env, name));
    expect(grantedToken(await keyStub(name).acquire(command())) > TOKEN).toBe(true);
  });

  it("and was about to prune is listed again, used or pruned, and its fence still rises", async () => {
    for (const isUsed of [true, false]) {
      const name = fresh("key");
      const foundedAt = Date.now();
      const stored = { isListed: BEING_FORGOTTEN, foundedAt, token: TOKEN, expiresAt: foundedAt, isHeld: false };
      await storeTables(name, stored);
      if (!isUsed) {
        await keyStub(name).describe();
        pass(100_000);
        await runDurableObjectAlarm(keyStub(name));
        expect(await directoryOfKey(env, name).lists(name)).toBe(true);
        pass(270_000);
        await visitKeys(name);
        expect(await storedIn(keyStub(name))).toEqual([]);
      }
      expect(grantedToken(await keyStub(name).acquire(command())) > TOKEN).toBe(true);
      expect(await directoryOfKey(env, name).lists(name)).toBe(true);
    }
  });

  it("with tables and nothing in them is founded like a new one", async () => {
    const name = fresh("key");
    await storeTables(name);
    grantedToken(await keyStub(name).acquire(command()));
    await evictDurableObject(keyStub(name));
    expect((await keyStub(name).acquire(command())).status).toBe("timeout");
  });

  it("tells its holder of the end of a lease as before: nothing stored says that nobody needs to hear of it", async () => {
    const name = fresh("key");
    const foundedAt = Date.now();
    const expiresAt = foundedAt + 33_000;
    await storeTables(name, { isListed: BEING_LISTED, foundedAt, token: TOKEN, expiresAt, isHeld: true });
    expect((await keyStub(name).renew(TOKEN, 50)).status).toBe("renewed");
    const alarm = await runInDurableObject(keyStub(name), (_, { storage }) => storage.getAlarm());
    expect(alarm).toBe(foundedAt + 50_000);
  });
});
