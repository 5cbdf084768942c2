import { evictDurableObject, reset } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { directoryOfKey } from "../../../src/cloudflare/calls/directories.ts";
import { DirectoryObject } from "../../../src/cloudflare/directory/directory-object.ts";
import { KeyObject } from "../../../src/cloudflare/key/key-object.ts";
import { expectLog } from "../../support/expected-logs.ts";
import { pass, stopClock } from "../clock.ts";
import { callsAbout, replaceNext } from "../spies.ts";
import { command, countRows, fresh, grantedToken, keyStub, loseRows, storedIn, visitKeys } from "../support.ts";
import { loseListing } from "./crash-in-founding.ts";

beforeEach(() => {
  stopClock();
});
afterEach(async () => {
  vi.restoreAllMocks();
  vi.useRealTimers();
  // Keys pruned in the future, and requests of now would be late.
  await reset();
});

const listsIt = (name: string) => directoryOfKey(env, name).lists(name);

/** A key that was used once and may be pruned. */
async function idle() {
  const name = fresh("key");
  const token = grantedToken(await keyStub(name).acquire(command()));
  await keyStub(name).release(token, "");
  pass(130_000);
  return { name, token };
}

/** A key that the directory lists, and that does not know it and has granted nothing. */
async function unfounded() {
  const name = fresh("key");
  await loseListing(name);
  pass(130_000);
  return name;
}

/** The key loses its rows, and that is noticed. */
async function isMissed(name: string): Promise<void> {
  await loseRows(name);
  pass(1);
  await expect((async () => keyStub(name).acquire(command()))()).rejects.toThrow("rows are gone");
}

/** Something happens when the directory tells this key, of all those that are idle, to delete its rows. */
function whenForgotten(
  name: string,
  happen: (key: KeyObject, forget: () => Promise<boolean>) => Promise<boolean>,
): void {
  const { forgetRetired } = KeyObject.prototype;
  replaceNext(KeyObject.prototype, "forgetRetired", name, function (this: KeyObject, ...args) {
    return happen(this, () => forgetRetired.apply(this, args));
  });
}

const isLost = async () => {
  throw new Error("the answer is lost");
};

/** The key has deleted its rows, and its answer and the directory's memory are lost. */
async function deletedWithoutAnswer(name: string): Promise<void> {
  whenForgotten(name, async (_, forget) => {
    await forget();
    return isLost();
  });
  await visitKeys(name);
  expect(await storedIn(keyStub(name))).toEqual([]);
  await evictDurableObject(directoryOfKey(env, name));
  await evictDurableObject(keyStub(name));
}

describe("a key that is being pruned", () => {
  it("and used meanwhile stays, is listed, and is missed if it loses its rows", async () => {
    const { name, token } = await idle();
    let next = "";
    whenForgotten(name, async (key, forget) => {
      next = grantedToken(await key.acquire(command()));
      return forget();
    });
    await visitKeys(name);
    expect(token < next).toBe(true);
    expect(await keyStub(name).renew(next, 60)).toEqual({ status: "renewed", leaseSeconds: 60 });
    expect(await listsIt(name)).toBe(true);
    await isMissed(name);
  });

  it("and loses its memory after it has agreed asks the directory before it grants anything", async () => {
    expectLog("key_unreachable", { error: "Error: the answer is lost" });
    const { name, token } = await idle();
    whenForgotten(name, isLost);
    await visitKeys(name);
    await evictDurableObject(keyStub(name));
    const join = vi.spyOn(DirectoryObject.prototype, "joinKey");
    const next = grantedToken(await keyStub(name).acquire(command()));
    expect(callsAbout(join, name)).toHaveLength(1);
    expect(token < next).toBe(true);
    await isMissed(name);
  });

  it("and has deleted its rows when the directory is lost may be founded again at once", async () => {
    expectLog("key_unreachable", { error: "Error: the answer is lost" });
    const { name, token } = await idle();
    await deletedWithoutAnswer(name);
    expect(await listsIt(name)).toBe(true);
    expect(await keyStub(name).describe()).toBeNull();
    const next = grantedToken(await keyStub(name).acquire(command()));
    expect(token < next).toBe(true);
    await isMissed(name);
  });

  it("and has deleted its rows when the directory is lost is forgotten at the next visit", async () => {
    expectLog("key_unreachable", { error: "Error: the answer is lost" });
    const { name } = await idle();
    await deletedWithoutAnswer(name);
    pass(240_000);
    await visitKeys(name);
    expect(await listsIt(name)).toBe(false);
    expect(await storedIn(keyStub(name))).toEqual([]);
  });

  it("and is founded again before the directory hears that it is gone stays listed", async () => {
    const { name, token } = await idle();
    let next = "";
    whenForgotten(name, async (key, forget) => {
      const isForgotten = await forget();
      next = grantedToken(await key.acquire(command()));
      return isForgotten;
    });
    await visitKeys(name);
    expect(token < next).toBe(true);
    expect(await listsIt(name)).toBe(true);
    await isMissed(name);
  });

  it("and joins again before the directory hears that it may be forgotten stays", async () => {
    const name = await unfounded();
    const { retire } = KeyObject.prototype;
    replaceNext(KeyObject.prototype, "retire", name, function (this: KeyObject, ...args) {
      const answer = retire.apply(this, args);
      // The answer takes longer than all of this.
      return (async () => {
        grantedToken(await this.acquire(command({ leaseSeconds: 86_400 })));
        return answer;
      })() as never;
    });
    await visitKeys(name);
    expect(await listsIt(name)).toBe(true);
    await isMissed(name);
  });

  it("and joins again although it has granted nothing is missed from then on", async () => {
    expectLog("key_unreachable", { error: "Error: the answer is lost" });
    const name = await unfounded();
    whenForgotten(name, async (key) => {
      grantedToken(await key.acquire(command({ leaseSeconds: 86_400 })));
      return isLost();
    });
    await visitKeys(name);
    await evictDurableObject(directoryOfKey(env, name));
    await isMissed(name);
  });

  it("and is told to delete its rows too late, when it has been used again, keeps them", async () => {
    expectLog("key_unreachable", { error: "Error: the answer is lost" });
    const { name } = await idle();
    let late: string | undefined;
    replaceNext(KeyObject.prototype, "forgetRetired", name, async (question) => {
      late = question;
      return isLost();
    });
    await visitKeys(name);
    expect(late).toBeDefined();
    await keyStub(name).release(grantedToken(await keyStub(name).acquire(command())), "");
    for (const isAwake of [true, false]) {
      if (!isAwake) await evictDurableObject(keyStub(name));
      pass(61_000);
      expect(await keyStub(name).forgetRetired(late ?? "")).toBe(false);
    }
    expect((await keyStub(name).acquire(command())).status).toBe("granted");
  });

  it("and joins again, and does not hear that it did, joins once more after a crash and is missed", async () => {
    const { name } = await idle();
    await evictDurableObject(keyStub(name));
    await loseListing(name);
    await evictDurableObject(keyStub(name));
    pass(5);
    grantedToken(await keyStub(name).acquire(command({ leaseSeconds: 1_000 })));
    await isMissed(name);
  });

  it("and forgets that it agreed, with the clock set back, is missed after the directory's next visit", async () => {
    expectLog("key_unreachable", { error: "Error: the answer is lost" });
    const { name } = await idle();
    whenForgotten(name, isLost);
    await visitKeys(name);
    await evictDurableObject(keyStub(name));
    pass(-110_000);
    const join = vi.spyOn(DirectoryObject.prototype, "joinKey");
    grantedToken(await keyStub(name).acquire(command({ leaseSeconds: 86_400 })));
    // This is the limit: it believes that it is listed, and the directory believes that it is being forgotten.
    expect(callsAbout(join, name)).toEqual([]);
    pass(400_000);
    const retire = vi.spyOn(KeyObject.prototype, "retire");
    await visitKeys(name);
    expect(callsAbout(retire, name)).toHaveLength(1);
    await evictDurableObject(directoryOfKey(env, name));
    await isMissed(name);
  });

  it("joins again without a row if it has slept for half of the time after which it may be pruned", async () => {
    const { name, token } = await idle();
    await evictDurableObject(keyStub(name));
    const counts = await Promise.all([keyStub(name), directoryOfKey(env, name)].map(countRows));
    expect(token < grantedToken(await keyStub(name).acquire(command()))).toBe(true);
    expect(counts.map((count) => count())).toEqual([1, 0]);
  });
});
