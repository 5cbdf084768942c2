/** Under MAX_LOCKS=3 and GC_MAX_IDLE_S=0. */
import { evictDurableObject, runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, describe, expect, it, vi } from "vitest";
import { allDirectories, directoryOfKey } from "../../../src/cloudflare/calls/directories.ts";
import { DirectoryObject } from "../../../src/cloudflare/directory/directory-object.ts";
import { KeyObject } from "../../../src/cloudflare/key/key-object.ts";
import { KeyStore } from "../../../src/cloudflare/key/rows.ts";
import { callsAbout } from "../spies.ts";
import { command, fresh, IN_TIME, keyStub, loseRows, until } from "../support.ts";

afterEach(async () => {
  vi.restoreAllMocks();
});

const nameOf = (object: unknown) => (object as { ctx: DurableObjectState }).ctx.id.name;

/** Makes all listed keys look as if they had been listed long ago. */
async function ageListings(): Promise<void> {
  for (const directory of allDirectories(env)) {
    await runInDurableObject(directory, (_, { storage }) => {
      storage.sql.exec("UPDATE keys SET listed_at = 0");
    });
  }
}

async function emptyListings(): Promise<void> {
  for (const directory of allDirectories(env)) {
    await runInDurableObject(directory, (_, { storage }) => {
      storage.sql.exec("DELETE FROM keys");
    });
    // It has counted them.
    await evictDurableObject(directory);
  }
}

describe("at the cap on keys", () => {
  it("a key that is pruned while the directory counts holds nobody up", async () => {
    const held = await Promise.all(
      [0, 1, 2].map(async () => {
        const key = fresh("key");
        const outcome = await keyStub(key).acquire(command({ leaseSeconds: 600 }));
        return { key, outcome };
      }),
    );
    expect(held.map(({ outcome }) => outcome.status)).toEqual(["granted", "granted", "granted"]);
    const [first] = held;
    if (first?.outcome.status !== "granted") throw new Error("not granted");
    await keyStub(first.key).release(first.outcome.token, "");
    const { retire } = KeyObject.prototype;
    let isPruning = false;
    vi.spyOn(KeyObject.prototype, "retire").mockImplementation(function (this: KeyObject, ...args) {
      if (nameOf(this) === first.key && !isPruning) {
        isPruning = true;
        void runDurableObjectAlarm(directoryOfKey(env, first.key));
      }
      return retire.apply(this, args);
    });
    const next = fresh("key");
    await until(async () => (await keyStub(next).acquire(command())).status === "granted", {
      timeout: 8_000,
      interval: 50,
    });
    for (const { key } of held.slice(1)) await keyStub(key).leave("", { keepsReported: false });
  });

  it("a key whose founding was cut off does not take up a place for ever", async () => {
    await emptyListings();
    for (const foundedAt of [1, 2, 3]) {
      const ghost = fresh("ghost");
      // As a crash leaves it between the listing and the first grant.
      await runInDurableObject(keyStub(ghost), (_, { storage }) => {
        new KeyStore(storage).begin({ limit: 1, fence: 0n, foundedAt });
      });
      await evictDurableObject(keyStub(ghost));
      await directoryOfKey(env, ghost).joinKey(ghost, { foundedAt, hasGranted: false }, IN_TIME);
    }
    const key = fresh("key");
    await until(async () => (await keyStub(key).acquire(command())).status === "granted", {
      timeout: 8_000,
      interval: 100,
    });
    await runDurableObjectAlarm(keyStub(key));
  });

  it("a key that has lost its rows keeps its place: somebody may hold it", async () => {
    const [lost, ...others] = [fresh("lost"), fresh("key"), fresh("key")];
    await emptyListings();
    for (const key of [lost, ...others]) {
      await until(async () => (await keyStub(key).acquire(command({ leaseSeconds: 600 }))).status === "granted", {
        timeout: 8_000,
        interval: 100,
      });
    }
    await loseRows(lost);
    await ageListings();
    expect((await keyStub(fresh("key")).acquire(command())).status).toBe("max_locks");
    await expect((async () => keyStub(lost).acquire(command()))()).rejects.toThrow("rows are gone");
    for (const key of others) await keyStub(key).leave("", { keepsReported: false });
  });

  it("a refused key whose request to be listed comes again, when there is room, is not listed by it", async () => {
    await emptyListings();
    const held = command({ leaseSeconds: 600 });
    const isGranted = async (key: string) => (await keyStub(key).acquire(held)).status === "granted";
    const others = [fresh("key"), fresh("key"), fresh("key")];
    for (const key of others) await until(() => isGranted(key), { timeout: 8_000, interval: 100 });
    const refused = fresh("key");
    const join = vi.spyOn(DirectoryObject.prototype, "joinKey");
    expect((await keyStub(refused).acquire(command())).status).toBe("max_locks");
    const [again] = callsAbout(join, refused);
    for (const key of others) await keyStub(key).leave(held.session, { keepsReported: false });
    await until(() => isGranted(others[0] ?? ""), { timeout: 8_000, interval: 100 });
    if (!again) throw new Error("not asked");
    // "full" until others have been pruned.
    const repeat = async () => (await directoryOfKey(env, refused).joinKey(...again)).status;
    expect(await until(async () => [await repeat()].find((status) => status !== "full"))).toBe("late");
    expect(await directoryOfKey(env, refused).lists(refused)).toBe(false);
    await until(() => isGranted(refused), { timeout: 8_000, interval: 100 });
    for (const key of [others[0] ?? "", refused]) await keyStub(key).leave(held.session, { keepsReported: false });
  });
});
