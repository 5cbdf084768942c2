import { evictDurableObject, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, describe, expect, it, vi } from "vitest";
import { directoryOfKey } from "../../../src/cloudflare/calls/directories.ts";
import { DirectoryObject } from "../../../src/cloudflare/directory/directory-object.ts";
import { expectLog } from "../../support/expected-logs.ts";
import { pass, stopClock } from "../clock.ts";
import { callsAbout, replaceNext } from "../spies.ts";
import {
  askKey,
  command,
  countRows,
  fresh,
  grantedToken,
  isListed,
  keyStub,
  listed,
  never,
  storedIn,
  until,
  WAIT,
} from "../support.ts";

afterEach(() => {
  vi.restoreAllMocks();
  vi.useRealTimers();
});

describe("a new key", () => {
  it("is granted, renewed and released while the directory does not answer", async () => {
    const name = fresh("key");
    replaceNext(DirectoryObject.prototype, "listKey", name, () => never());
    const token = grantedToken(await askKey(keyStub(name), { type: "acquire", command: command() }));
    expect(await askKey(keyStub(name), { type: "acquire", command: command() })).toEqual({ status: "timeout" });
    expect(await askKey(keyStub(name), { type: "renew", token, leaseSeconds: 5 })).toEqual({
      status: "renewed",
      leaseSeconds: 5,
    });
    expect(await askKey(keyStub(name), { type: "release", token, session: "" })).toEqual({ status: "released" });
    expect(await isListed(name)).toBe(false);
  });

  it("is listed after its first grant, by one call", async () => {
    const name = fresh("key");
    const list = vi.spyOn(DirectoryObject.prototype, "listKey");
    const token = grantedToken(await askKey(keyStub(name), { type: "acquire", command: command() }));
    await listed(name);
    await askKey(keyStub(name), { type: "release", token, session: "" });
    grantedToken(await askKey(keyStub(name), { type: "acquire", command: command(WAIT) }));
    expect(callsAbout(list, name)).toHaveLength(1);
  });

  it("that nothing was granted on is neither stored nor listed", async () => {
    const name = fresh("key");
    expect(
      await askKey(keyStub(name), { type: "wait", command: { session: "s", request: "r", waitMs: 0, mayWait: true } }),
    ).toEqual({
      status: "not_enqueued",
    });
    await keyStub(name).describe();
    expect(await storedIn(keyStub(name))).toEqual([]);
    expect(await isListed(name)).toBe(false);
  });

  it("remembers that it is listed without a row of its own", async () => {
    const name = fresh("key");
    const token = grantedToken(await askKey(keyStub(name), { type: "acquire", command: command() }));
    await listed(name);
    const rows = await countRows(keyStub(name));
    await askKey(keyStub(name), { type: "release", token, session: "" });
    expect(rows()).toBe(1);
    await evictDurableObject(keyStub(name));
    const list = vi.spyOn(DirectoryObject.prototype, "listKey");
    grantedToken(await askKey(keyStub(name), { type: "acquire", command: command() }));
    expect(callsAbout(list, name)).toEqual([]);
  });
});

describe("a listing that was lost is made good", () => {
  it("by the next command, when the call failed", async () => {
    expectLog("directory_unreachable", { error: "Error: unreachable" });
    stopClock();
    const name = fresh("key");
    replaceNext(DirectoryObject.prototype, "listKey", name, async () => {
      throw new Error("unreachable");
    });
    const token = grantedToken(
      await askKey(keyStub(name), { type: "acquire", command: command({ leaseSeconds: 600 }) }),
    );
    await until(async () => {
      const alarm = await runInDurableObject(keyStub(name), (_, { storage }) => storage.getAlarm());
      return alarm !== null && alarm <= Date.now() + 60_000;
    });
    pass(60_001);
    await askKey(keyStub(name), { type: "renew", token, leaseSeconds: 600 });
    await listed(name);
  });

  it("when the object was lost before the directory heard of the key", async () => {
    const name = fresh("key");
    replaceNext(DirectoryObject.prototype, "listKey", name, async () => {});
    const token = grantedToken(await askKey(keyStub(name), { type: "acquire", command: command() }));
    expect(await isListed(name)).toBe(false);
    await evictDurableObject(keyStub(name));
    await askKey(keyStub(name), { type: "renew", token, leaseSeconds: 60 });
    await listed(name);
  });
});

describe("the directory", () => {
  it("ignores what is older than what it knows of a key", async () => {
    const name = fresh("key");
    const directory = directoryOfKey(env, name);
    await directory.listKey({ key: name, fence: 5n });
    await directory.unlistKey({ key: name, fence: 4n });
    expect(await isListed(name)).toBe(true);
    await directory.listKey({ key: name, fence: 3n });
    await directory.unlistKey({ key: name, fence: 4n });
    expect(await isListed(name)).toBe(true);
    await directory.unlistKey({ key: name, fence: 5n });
    expect(await isListed(name)).toBe(false);
  });

  it("hears twice of a key and writes it once", async () => {
    const name = fresh("key");
    const directory = directoryOfKey(env, name);
    await directory.listKey({ key: name, fence: 5n });
    const rows = await countRows(directory);
    await directory.listKey({ key: name, fence: 5n });
    await directory.listKey({ key: name, fence: 4n });
    expect(rows()).toBe(0);
  });

  it("drops the entry of a key that is idle, or knows nothing of it, when a report looks", async () => {
    stopClock();
    const [ghost, idle] = [fresh("key"), fresh("key")];
    await directoryOfKey(env, ghost).listKey({ key: ghost, fence: 1n });
    const token = grantedToken(await askKey(keyStub(idle), { type: "acquire", command: command() }));
    await listed(idle);
    await askKey(keyStub(idle), { type: "release", token, session: "" });
    pass(120_000);
    for (const name of [ghost, idle])
      expect(await directoryOfKey(env, name).describe({ keys: [name], detail: false })).toEqual({
        keys: [],
        unreachable: [],
      });
    expect(await isListed(ghost)).toBe(false);
    expect(await isListed(idle)).toBe(false);
    await evictDurableObject(keyStub(idle));
    grantedToken(await askKey(keyStub(idle), { type: "acquire", command: command() }));
    await listed(idle);
  });
});

describe("a key whose entry a report has taken away", () => {
  it("knows that for good, also if its clock is set back and its memory is lost", async () => {
    stopClock();
    const name = fresh("key");
    const first = grantedToken(await askKey(keyStub(name), { type: "acquire", command: command() }));
    await listed(name);
    await askKey(keyStub(name), { type: "release", token: first, session: "" });
    // Woken so late, it does not trust its rows, which say that it is listed.
    pass(40 * 60_000);
    await evictDurableObject(keyStub(name));
    const looks = () => directoryOfKey(env, name).describe({ keys: [name], detail: false });
    const rows = await countRows(keyStub(name));
    await looks();
    expect(await isListed(name)).toBe(false);
    expect(rows()).toBe(1);
    // It was used not so long ago, by this clock.
    pass(-15 * 60_000);
    await evictDurableObject(keyStub(name));
    grantedToken(await askKey(keyStub(name), { type: "acquire", command: command() }));
    await listed(name);
  });
});
