import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { WakeUp } from "../../src/objects/awake/wake-up.ts";
import type { Keys } from "../../src/objects/calls/remote-keys.ts";
import { newSessionId } from "../../src/objects/calls/session-names.ts";
import { configOf } from "../../src/objects/env.ts";
import { Departure } from "../../src/objects/session-common/departure.ts";
import { Holdings } from "../../src/objects/session-common/holdings.ts";
import { SessionStore } from "../../src/objects/session-common/session-store.ts";
import { StorageHealth } from "../../src/objects/storage-probe.ts";

const KEYS = Array.from({ length: 200 }, (_, index) => `key-${index}`);

/** A session that has used all keys, inside an object of its own, and what its departures ask of keys. */
async function story(tell: (leaving: Leaving) => Promise<void>): Promise<void> {
  await runInDurableObject(env.SESSION.getByName(newSessionId()), async (_, { storage }) => {
    const store = new SessionStore(storage);
    for (const key of KEYS) store.touch(key);
    const leaving: Leaving = {
      store,
      left: [],
      atOnce: 0,
      mostAtOnce: 0,
      unreachable: new Set(),
      depart: () => depart(),
    };
    const keys = {
      leave: async (key: string) => {
        leaving.atOnce += 1;
        leaving.mostAtOnce = Math.max(leaving.mostAtOnce, leaving.atOnce);
        await scheduler.wait(1);
        leaving.atOnce -= 1;
        if (leaving.unreachable.has(key)) throw new Error("unreachable");
        leaving.left.push(key);
      },
    } as unknown as Keys;
    const own = {
      session: "s",
      config: configOf(env),
      keys,
      store,
      holdings: new Holdings(store),
      storage: new StorageHealth(env),
    };
    const departure = new Departure({ ...own, wakeUp: new WakeUp(storage) });
    const depart = () => departure.run();
    await tell(leaving);
  });
}

interface Leaving {
  readonly store: SessionStore;
  readonly left: string[];
  atOnce: number;
  mostAtOnce: number;
  readonly unreachable: Set<string>;
  depart(): Promise<void>;
}

it("a session leaves each key once, also when its close and its alarm meet, and few at a time", async () => {
  await story(async (leaving) => {
    await Promise.all([leaving.depart(), leaving.depart()]);
    expect(leaving.left.sort()).toEqual([...KEYS].sort());
    expect(leaving.mostAtOnce).toBeLessThanOrEqual(8);
    expect(leaving.store.keys()).toEqual([]);
    expect(leaving.store.isEnding()).toBe(false);
  });
});

it("a departure that was cut off goes on where it was", async () => {
  await story(async (leaving) => {
    const leftAll = leaving.depart();
    while (leaving.left.length < 150) await scheduler.wait(1);
    // What a new life of the object would find in storage at this moment.
    expect(leaving.store.keys().length).toBeLessThanOrEqual(KEYS.length - 128);
    expect(leaving.store.isEnding()).toBe(true);
    await leftAll;
  });
});

it("a key that cannot be reached is all that is tried again", async () => {
  await story(async (leaving) => {
    leaving.unreachable.add("key-77");
    await leaving.depart();
    expect(leaving.store.keys()).toEqual(["key-77"]);
    leaving.unreachable.clear();
    await leaving.depart();
    expect(leaving.left.filter((key) => key === "key-77")).toHaveLength(1);
    expect(leaving.left).toHaveLength(KEYS.length);
    expect(leaving.store.keys()).toEqual([]);
  });
});
