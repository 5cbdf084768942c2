/** Under MAX_LOCKS=3 and GC_MAX_IDLE_S=0. */
import { runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, describe, expect, it, vi } from "vitest";
import { allDirectories } from "../../../src/objects/directories.ts";
import { KeyObject } from "../../../src/objects/key.ts";
import { command, fresh, keyStub } from "../support.ts";

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
    await ageListings();
    await keyStub(first.key).release(first.outcome.token, "");
    const { exists } = KeyObject.prototype;
    let isPruning = false;
    vi.spyOn(KeyObject.prototype, "exists").mockImplementation(function (this: KeyObject) {
      if (nameOf(this) === first.key && !isPruning) {
        isPruning = true;
        void this.alarm();
      }
      return exists.call(this);
    });
    const next = fresh("key");
    await vi.waitUntil(async () => (await keyStub(next).acquire(command())).status === "granted", {
      timeout: 8_000,
      interval: 50,
    });
    for (const { key } of held.slice(1)) await keyStub(key).leave("", { keepsReported: false });
  });

  it("a key that was listed but never founded does not take up a place for ever", async () => {
    for (const directory of allDirectories(env)) {
      await runInDurableObject(directory, (_, { storage }) => {
        storage.sql.exec("DELETE FROM keys");
      });
    }
    const [ghost] = allDirectories(env);
    for (let n = 0; n < 3; n++) await ghost?.joinKey(fresh("ghost"), 0n);
    await ageListings();
    const key = fresh("key");
    await vi.waitUntil(async () => (await keyStub(key).acquire(command())).status === "granted", {
      timeout: 8_000,
      interval: 100,
    });
    await runDurableObjectAlarm(keyStub(key));
  });
});
