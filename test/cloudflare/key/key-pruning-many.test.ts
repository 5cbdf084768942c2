/** Pruning where only a few keys may be awake. */
import { evictDurableObject, reset, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, describe, expect, it, vi } from "vitest";
import { directoryOfKey } from "../../../src/cloudflare/calls/directories.ts";
import type { DirectoryObject } from "../../../src/cloudflare/directory/directory-object.ts";
import { configOf, type Env } from "../../../src/cloudflare/env.ts";
import { KeyObject } from "../../../src/cloudflare/key/key-object.ts";
import { pass, stopClock } from "../clock.ts";
import { command, fresh, grantedToken, keyStub } from "../support.ts";

afterEach(async () => {
  vi.restoreAllMocks();
  vi.useRealTimers();
  await reset();
});

async function use(name: string): Promise<void> {
  await keyStub(name).release(grantedToken(await keyStub(name).acquire(command())), "");
}

/** Runs `work` with room for so many keys that are awake, as this object has it. */
async function withRoomFor(awakeKeys: number, stub: DurableObjectStub, work: () => Promise<unknown>): Promise<void> {
  const set = (variable: string | undefined) =>
    runInDurableObject(stub, (object) => {
      const its = (object as unknown as { env: Env & { MAX_AWAKE_KEYS?: string | undefined } }).env;
      its.MAX_AWAKE_KEYS = variable;
      // What was read before counts only as long as nobody reads another environment.
      configOf({ ...its });
    });
  await set(`${awakeKeys}`);
  try {
    await work();
  } finally {
    await set(undefined);
  }
}

describe("many keys at once", () => {
  it.each([[0], [1_000], [20]])(
    "are pruned although fewer may be awake than are visited together (%i)",
    async (awakeKeys) => {
      // Used long ago; from here on the clock runs.
      stopClock();
      pass(-150_000);
      const all: string[] = [];
      const directory = directoryOfKey(env, "x");
      while (all.length < 40) {
        const name = fresh("key");
        if (directoryOfKey(env, name).name === directory.name) all.push(name);
      }
      for (const name of all) await use(name);
      for (const name of all) await evictDurableObject(keyStub(name));
      await evictDurableObject(directory);
      const forget = vi.spyOn(KeyObject.prototype, "forgetRetired");
      await withRoomFor(awakeKeys, directory, () =>
        runInDurableObject(directory, async (object) => {
          vi.useRealTimers();
          await (object as DirectoryObject).alarm();
          // And once more.
          await (object as DirectoryObject).repair("ledger", "keys");
        }),
      );
      expect(forget.mock.calls.length).toBeGreaterThan(0);
      const left: string[] = [];
      for (const name of all) if (await directory.lists(name)) left.push(name);
      expect(left).toEqual([]);
    },
  );
});
