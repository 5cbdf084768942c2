import { evictDurableObject, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { directoryOfKey } from "../../../src/cloudflare/calls/directories.ts";
import type { DirectoryObject } from "../../../src/cloudflare/directory/directory-object.ts";
import { KeyObject } from "../../../src/cloudflare/key/key-object.ts";
import { SessionObject } from "../../../src/cloudflare/session/session-object.ts";
import { expectLog } from "../../support/expected-logs.ts";
import { pass, stopClock } from "../clock.ts";
import { callsAbout } from "../spies.ts";
import { command, fresh, grantedToken, keyStub, storedIn, visitKeys } from "../support.ts";

beforeEach(stopClock);
afterEach(() => {
  vi.restoreAllMocks();
  vi.useRealTimers();
});

const alarmOf = (name: string) => runInDurableObject(directoryOfKey(env, name), (_, { storage }) => storage.getAlarm());

async function use(name: string): Promise<void> {
  await keyStub(name).release(grantedToken(await keyStub(name).acquire(command())), "");
}

describe("the directory's visits", () => {
  it("are made although its alarm was lost", async () => {
    const name = fresh("key");
    await use(name);
    await runInDurableObject(directoryOfKey(env, name), (_, { storage }) => storage.deleteAlarm());
    await evictDurableObject(directoryOfKey(env, name));
    await directoryOfKey(env, name).lists(name);
    expect(await alarmOf(name)).not.toBeNull();
    pass(130_000);
    await visitKeys(name);
    expect(await storedIn(keyStub(name))).toEqual([]);
  });

  it.each([
    ["in use are rarer and rarer, but not rarer than one an hour", [4, 1, 1]],
    ["held for long are made once an hour", [1, 1, 1]],
  ])("to a key %s", async (which, visits) => {
    const name = fresh("key");
    if (which.startsWith("held")) grantedToken(await keyStub(name).acquire(command({ leaseSeconds: 86_400 })));
    const retire = vi.spyOn(KeyObject.prototype, "retire");
    const made: number[] = [];
    for (let hour = 0; hour < visits.length; hour++) {
      for (let step = 0; step < 120; step++) {
        if (which.startsWith("in use")) await use(name);
        pass(30_000);
        await runInDurableObject(directoryOfKey(env, name), async (object, { storage }) => {
          const at = await storage.getAlarm();
          if (at !== null && at <= Date.now()) await (object as DirectoryObject).alarm();
        });
      }
      made.push(callsAbout(retire, name).length);
    }
    expect(made.map((count, hour) => count - (made[hour - 1] ?? 0))).toEqual(visits);
  });

  it("find a key whose long lease was given back early", async () => {
    const name = fresh("key");
    const token = grantedToken(await keyStub(name).acquire(command({ leaseSeconds: 86_400 })));
    pass(130_000);
    await visitKeys(name);
    await keyStub(name).release(token, "");
    pass(3_605_000);
    await visitKeys(name);
    expect(await directoryOfKey(env, name).lists(name)).toBe(false);
  });

  it("to a key that cannot deliver its news are not repeated at once", async () => {
    expectLog("session_unreachable", { error: "Error: unreachable" });
    const name = fresh("key");
    vi.spyOn(SessionObject.prototype, "deliver").mockImplementation(() => {
      throw new Error("unreachable");
    });
    const token = grantedToken(await keyStub(name).acquire(command()));
    await keyStub(name).acquire(command({ waitMs: 1_000 }));
    pass(1_001);
    await keyStub(name).describe();
    await keyStub(name).release(token, "");
    pass(130_000);
    const retire = vi.spyOn(KeyObject.prototype, "retire");
    for (let visit = 0; visit < 3; visit++) await visitKeys(name);
    expect(callsAbout(retire, name)).toHaveLength(1);
    expect(await alarmOf(name)).toBeGreaterThan(Date.now());
  });
});
