/** Under MAX_LOCKS=3 and GC_MAX_IDLE_S=0. */
import { evictDurableObject, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, describe, expect, it, vi } from "vitest";
import { allDirectories, directoryOfKey, ledgerOf } from "../../../src/cloudflare/calls/directories.ts";
import { DirectoryObject } from "../../../src/cloudflare/directory/directory-object.ts";
import { KeyObject, type KeyState } from "../../../src/cloudflare/key/key-object.ts";
import { expectLog } from "../../support/expected-logs.ts";
import { replaceNext } from "../spies.ts";
import { askKey, command, fresh, grantedToken, isListed, keyStub, until } from "../support.ts";

afterEach(() => {
  vi.restoreAllMocks();
});

const SOON = { timeout: 8_000, interval: 50 };
const LONG = command({ leaseSeconds: 600 });

async function emptyListings(): Promise<void> {
  for (const directory of allDirectories(env)) {
    await runInDurableObject(directory, (_, { storage }) => {
      storage.sql.exec("DELETE FROM keys");
    });
    // It has counted them, and so has the ledger.
    await evictDurableObject(directory);
  }
  const ledger = ledgerOf(env);
  await ledger.tally();
  await evictDurableObject(ledger);
}

const contextOf = (object: unknown) => (object as { readonly ctx: DurableObjectState }).ctx;
const tryLong = async (key: string) =>
  askKey(keyStub(key), { type: "acquire", command: { ...LONG, request: fresh("request") } });
const isGranted = async (key: string) => (await tryLong(key)).status === "granted";
const free = (key: string) => askKey(keyStub(key), { type: "leave", session: LONG.session, keepsReported: false });

/** As many held keys as the cap allows. */
async function fill(): Promise<[string, string, string]> {
  await emptyListings();
  const keys: [string, string, string] = [fresh("key"), fresh("key"), fresh("key")];
  for (const key of keys) await until(() => isGranted(key), SOON);
  return keys;
}

describe("at the cap on keys", () => {
  it("a new key is refused while all others are held, stores nothing, and has a place once one is idle", async () => {
    const keys = await fill();
    const next = fresh("key");
    expect((await tryLong(next)).status).toBe("max_locks");
    expect(await keyStub(next).describe()).toBeNull();
    await free(keys[0]);
    await until(() => isGranted(next), SOON);
    expect(await isListed(keys[0])).toBe(false);
    for (const key of [keys[1], keys[2], next]) await free(key);
  });

  it("a new key is refused in time although a key that is asked for its place does not answer", async () => {
    const keys = await fill();
    expectLog("key_unreachable", { key: keys[0], error: "Error: no answer within 5000 ms" });
    const late = Promise.withResolvers<KeyState>();
    replaceNext(KeyObject.prototype, "state", keys[0], () => late.promise);
    expect((await tryLong(fresh("key"))).status).toBe("max_locks");
    late.resolve({ status: "pending" });
    for (const key of keys) await free(key);
  });

  it("a key that gave up its place asks for another, and its fence rises", async () => {
    const keys = await fill();
    const first = (await keyStub(keys[0]).describe())?.holders[0]?.fence ?? "";
    await free(keys[0]);
    const next = fresh("key");
    await until(() => isGranted(next), SOON);
    expect((await tryLong(keys[0])).status).toBe("max_locks");
    await free(next);
    await until(() => isGranted(keys[0]), SOON);
    expect(first < ((await keyStub(keys[0]).describe())?.holders[0]?.fence ?? "")).toBe(true);
    for (const key of keys) await free(key);
  });

  it("a key that gave up its place before its object was lost asks for another all the same", async () => {
    const keys = await fill();
    await free(keys[0]);
    const next = fresh("key");
    await until(() => isGranted(next), SOON);
    await evictDurableObject(keyStub(keys[0]));
    expect((await tryLong(keys[0])).status).toBe("max_locks");
    for (const key of [keys[1], keys[2], next]) await free(key);
  });

  it("a key that is used again while the directory takes its place keeps it", async () => {
    const keys = await fill();
    await free(keys[0]);
    const next = fresh("key");
    const { state } = KeyObject.prototype;
    let again = "";
    replaceNext(KeyObject.prototype, "state", keys[0], async function (this: KeyObject, options) {
      const answer = await state.call(this, options);
      // Used again before the directory hears the answer.
      const acquired = askKey(this, { type: "acquire", command: LONG }).then(({ status }) => {
        again = status;
      });
      contextOf(this).waitUntil(acquired);
      return answer;
    });
    let outcome = "";
    // The service makes room once a second at most.
    await until(async () => {
      if (outcome !== "granted") outcome = (await tryLong(next)).status;
      return again !== "";
    }, SOON);
    expect([outcome, again].toSorted()).toEqual(["granted", "max_locks"]);
    for (const key of [...keys, next]) await free(key);
  });

  it("a client that leaves while its request waits for the directory holds nothing", async () => {
    await emptyListings();
    const key = fresh("key");
    const { admitKey } = DirectoryObject.prototype;
    const mayGoOn = Promise.withResolvers<void>();
    replaceNext(DirectoryObject.prototype, "admitKey", key, async function (this: DirectoryObject, ...args) {
      const admission = await admitKey.apply(this, args);
      await mayGoOn.promise;
      return admission;
    });
    const acquiring = askKey(keyStub(key), { type: "acquire", command: LONG });
    await until(() => isListed(key), SOON);
    const leaving = askKey(keyStub(key), { type: "leave", session: LONG.session, keepsReported: false });
    mayGoOn.resolve();
    await Promise.all([acquiring, leaving]);
    expect((await keyStub(key).describe())?.holderCount ?? 0).toBe(0);
  });

  it("a report that looks at a key while it is admitted does not take its entry", async () => {
    await emptyListings();
    const key = fresh("key");
    const { admitKey } = DirectoryObject.prototype;
    replaceNext(DirectoryObject.prototype, "admitKey", key, async function (this: DirectoryObject, ...args) {
      const admission = await admitKey.apply(this, args);
      await this.describe({ keys: [key], detail: false });
      return admission;
    });
    await until(() => isGranted(key), SOON);
    expect(await isListed(key)).toBe(true);
    await free(key);
  });

  it("an entry whose key knows nothing of it takes up no place for ever", async () => {
    await emptyListings();
    for (const ghost of [fresh("ghost"), fresh("ghost"), fresh("ghost")])
      await directoryOfKey(env, ghost).listKey({ key: ghost, fence: 1n });
    const key = fresh("key");
    await until(() => isGranted(key), SOON);
    await free(key);
  });

  it("without an answer of the directory a new key grants nothing, and one in use goes on", async () => {
    await emptyListings();
    const [known, unknown] = [fresh("key"), fresh("key")];
    await until(() => isGranted(known), SOON);
    const held = (await keyStub(known).describe())?.holders.length;
    replaceNext(DirectoryObject.prototype, "admitKey", unknown, async () => {
      throw new Error("unreachable");
    });
    await expect((async () => tryLong(unknown))()).rejects.toThrow("unreachable");
    expect(await keyStub(unknown).describe()).toBeNull();
    expect(held).toBe(1);
    expect(await askKey(keyStub(known), { type: "acquire", command: command() })).toEqual({ status: "timeout" });
    grantedToken(await tryLong(unknown));
    for (const key of [known, unknown]) await free(key);
  });
});
