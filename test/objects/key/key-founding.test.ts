import { evictDurableObject, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, describe, expect, it, vi } from "vitest";
import { directoryOfKey } from "../../../src/objects/calls/directories.ts";
import { DirectoryObject } from "../../../src/objects/directory/directory-object.ts";
import { KeyObject } from "../../../src/objects/key/key-object.ts";
import { pass, stopClock } from "../clock.ts";
import { command, fresh, grantedToken, keyStub, loseRows, storedIn, visitKeys, WAIT } from "../support.ts";

afterEach(() => {
  vi.restoreAllMocks();
  vi.useRealTimers();
});

const GONE = "rows are gone";
const failing = async (work: () => Promise<unknown>) => {
  await expect(work()).rejects.toThrow();
};

/** Has the next founding go no further than the key's own record, or no further than the list. */
function cutOff(where: "before the listing" | "after the listing"): void {
  const { joinKey } = DirectoryObject.prototype;
  vi.spyOn(DirectoryObject.prototype, "joinKey").mockImplementationOnce(async function (
    this: DirectoryObject,
    ...args
  ) {
    if (where === "after the listing") await joinKey.apply(this, args);
    // As long as the key waits for this answer, it has nothing but what it has stored.
    return new Promise(() => {});
  });
}

/** The object is lost in the middle of its founding. */
async function crash(name: string): Promise<void> {
  await failing(() => runInDurableObject(keyStub(name), (_, state) => state.abort("lost")));
}

async function crashInFounding(name: string, where: Parameters<typeof cutOff>[0]): Promise<void> {
  cutOff(where);
  const acquiring = failing(async () => keyStub(name).acquire(command({ session: "first", request: "r1" })));
  await vi.waitFor(() => expect(DirectoryObject.prototype.joinKey).toHaveBeenCalled());
  await crash(name);
  await acquiring;
  vi.restoreAllMocks();
}

describe("a key that is lost between its first grant and the answer to it", () => {
  it("has granted nothing if the directory has not listed it", async () => {
    const name = fresh("key");
    await crashInFounding(name, "before the listing");
    expect(await storedIn(keyStub(name))).toEqual(["record key"]);
    expect(await keyStub(name).describe()).toBeNull();
    expect((await keyStub(name).acquire(command({ limit: 3 }))).status).toBe("granted");
    expect((await keyStub(name).describe())?.holders).toHaveLength(1);
  });

  it("has granted it if the directory has: it may have been spoken of", async () => {
    const name = fresh("key");
    await crashInFounding(name, "after the listing");
    expect((await keyStub(name).describe())?.holders.map(({ session }) => session)).toEqual(["first"]);
    expect(await keyStub(name).acquire(command())).toEqual({ status: "timeout" });
    // The same request again gets the same hold.
    const token = grantedToken(await keyStub(name).acquire(command({ session: "first", request: "r1" })));
    expect(await keyStub(name).release(token, "first")).toEqual({ status: "released" });
  });

  it("goes when its session leaves, whichever it was", async () => {
    for (const where of ["before the listing", "after the listing"] as const) {
      const name = fresh("key");
      await crashInFounding(name, where);
      await keyStub(name).leave("first", { keepsReported: false });
      expect((await keyStub(name).acquire(command())).status).toBe("granted");
    }
  });

  it("is known to have lost its rows, if it had lost them before", async () => {
    const name = fresh("key");
    const held = grantedToken(await keyStub(name).acquire(command()));
    await loseRows(name);
    vi.spyOn(console, "error").mockImplementation(() => {});
    await crashInFounding(name, "before the listing");
    await expect((async () => keyStub(name).renew(held, 5))()).rejects.toThrow(GONE);
    await expect((async () => keyStub(name).acquire(command()))()).rejects.toThrow(GONE);
    await keyStub(name).leave("first", { keepsReported: false });
    expect(await keyStub(name).giveUp()).toBe(true);
    expect((await keyStub(name).acquire(command())).status).toBe("granted");
  });

  it("answers its holder although the directory is out of reach", async () => {
    const name = fresh("key");
    const held = grantedToken(await keyStub(name).acquire(command()));
    await evictDurableObject(keyStub(name));
    vi.spyOn(DirectoryObject.prototype, "listing").mockImplementation(() => {
      throw new Error("unreachable");
    });
    expect(await keyStub(name).renew(held, 5)).toEqual({ status: "renewed", leaseSeconds: 5 });
    await failing(async () => keyStub(name).acquire(command(WAIT)));
    expect(await keyStub(name).release(held, "")).toEqual({ status: "released" });
  });
});

describe("a first grant", () => {
  it("has a higher fence than all of the key's earlier lives, with the clock set back", async () => {
    const name = fresh("key");
    stopClock();
    pass(3_600_000);
    const first = grantedToken(await keyStub(name).acquire(command()));
    await keyStub(name).release(first, "");
    pass(70_000);
    await visitKeys(name);
    expect(await storedIn(keyStub(name))).toEqual([]);
    pass(-3_670_000);
    const second = grantedToken(await keyStub(name).acquire(command()));
    expect(first < second).toBe(true);
    await evictDurableObject(keyStub(name));
    await keyStub(name).release(second, "");
    expect(second < grantedToken(await keyStub(name).acquire(command()))).toBe(true);
  });

  it("has its whole lease, however long the directory takes to list the key", async () => {
    const name = fresh("key");
    stopClock();
    const { joinKey } = DirectoryObject.prototype;
    vi.spyOn(DirectoryObject.prototype, "joinKey").mockImplementation(function (this: DirectoryObject, ...args) {
      if (args[0] === name) pass(5_000);
      return joinKey.apply(this, args);
    });
    const token = grantedToken(await keyStub(name).acquire(command({ leaseSeconds: 2 })));
    expect((await keyStub(name).describe())?.holders[0]?.expiresAt).toBe(Date.now() + 2_000);
    await evictDurableObject(keyStub(name));
    expect(await keyStub(name).renew(token, 3)).toEqual({ status: "renewed", leaseSeconds: 3 });
  });

  it("of a key that has slept since is not asked about again once it has been released", async () => {
    const name = fresh("key");
    const held = grantedToken(await keyStub(name).acquire(command()));
    await keyStub(name).release(held, "");
    await evictDurableObject(keyStub(name));
    const asked = [vi.spyOn(DirectoryObject.prototype, "listing"), vi.spyOn(DirectoryObject.prototype, "joinKey")];
    expect((await keyStub(name).acquire(command())).status).toBe("granted");
    for (const { mock } of asked) expect(mock.calls.filter(([key]) => key === name)).toEqual([]);
  });
});

describe("a key that is being pruned", () => {
  const idle = async () => {
    const name = fresh("key");
    stopClock();
    const token = grantedToken(await keyStub(name).acquire(command()));
    await keyStub(name).release(token, "");
    pass(70_000);
    return { name, token };
  };
  const listsIt = (name: string) => directoryOfKey(env, name).lists(name);

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
    await loseRows(name);
    pass(1);
    vi.spyOn(console, "error").mockImplementation(() => {});
    await expect((async () => keyStub(name).acquire(command()))()).rejects.toThrow(GONE);
  });

  it("and loses its memory after it has agreed asks the directory before it grants anything", async () => {
    const { name, token } = await idle();
    whenForgotten(name, async () => {
      throw new Error("the object is lost");
    });
    await visitKeys(name);
    await evictDurableObject(keyStub(name));
    const join = vi.spyOn(DirectoryObject.prototype, "joinKey");
    const next = grantedToken(await keyStub(name).acquire(command()));
    expect(join.mock.calls.filter(([key]) => key === name)).toHaveLength(1);
    expect(token < next).toBe(true);
    await loseRows(name);
    pass(1);
    vi.spyOn(console, "error").mockImplementation(() => {});
    await expect((async () => keyStub(name).acquire(command()))()).rejects.toThrow(GONE);
  });

  it("and has deleted its rows when the directory is lost may be founded again at once", async () => {
    const { name, token } = await idle();
    await deletedWithoutAnswer(name);
    expect(await listsIt(name)).toBe(true);
    expect(await keyStub(name).describe()).toBeNull();
    const next = grantedToken(await keyStub(name).acquire(command()));
    expect(token < next).toBe(true);
    await loseRows(name);
    pass(1);
    vi.spyOn(console, "error").mockImplementation(() => {});
    await expect((async () => keyStub(name).acquire(command()))()).rejects.toThrow(GONE);
  });

  it("and has deleted its rows when the directory is lost is forgotten at the next visit", async () => {
    const { name } = await idle();
    await deletedWithoutAnswer(name);
    pass(120_000);
    await visitKeys(name);
    expect(await listsIt(name)).toBe(false);
    expect(await storedIn(keyStub(name))).toEqual([]);
  });

  /** Something happens when the directory tells this key, of all those that are idle, to delete its rows. */
  function whenForgotten(
    name: string,
    happen: (key: KeyObject, forget: () => Promise<boolean>) => Promise<boolean>,
  ): void {
    const { forgetRetired } = KeyObject.prototype;
    vi.spyOn(KeyObject.prototype, "forgetRetired").mockImplementation(async function (this: KeyObject) {
      const { id } = (this as unknown as { ctx: DurableObjectState }).ctx;
      const forget = () => forgetRetired.call(this);
      return id.name === name ? happen(this, forget) : forget();
    });
  }

  /** The key has deleted its rows, and its answer and the directory's memory are lost. */
  async function deletedWithoutAnswer(name: string): Promise<void> {
    whenForgotten(name, async (_, forget) => {
      await forget();
      throw new Error("the answer is lost");
    });
    await visitKeys(name);
    vi.restoreAllMocks();
    expect(await storedIn(keyStub(name))).toEqual([]);
    await evictDurableObject(directoryOfKey(env, name));
    await evictDurableObject(keyStub(name));
  }
});
