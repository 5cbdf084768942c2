import { evictDurableObject, runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, describe, expect, it, vi } from "vitest";
import { directoryOfKey } from "../../../src/objects/calls/directories.ts";
import { DirectoryObject } from "../../../src/objects/directory/directory-object.ts";
import { KeyObject } from "../../../src/objects/key/key-object.ts";
import { SessionObject } from "../../../src/objects/session/session-object.ts";
import { pass, stopClock } from "../clock.ts";
import { Client, command, fresh, grantedToken, keyStub, loseRows, storedIn, tokenOf, until, visitKeys, WAIT } from "../support.ts";

afterEach(() => {
  vi.restoreAllMocks();
  vi.useRealTimers();
});
const GONE = "rows are gone";
const failing = async (work: () => Promise<unknown>) => {
  await expect(work()).rejects.toThrow();
};
async function crashBeforeListing(name: string, how: (key: ReturnType<typeof keyStub>) => Promise<unknown>) {
  vi.spyOn(DirectoryObject.prototype, "joinKey").mockImplementationOnce(async () => new Promise(() => {}));
  const acquiring = failing(async () => how(keyStub(name)));
  await vi.waitFor(() => expect(DirectoryObject.prototype.joinKey).toHaveBeenCalled());
  await failing(() => runInDurableObject(keyStub(name), (_, state) => state.abort("lost")));
  await acquiring;
  vi.restoreAllMocks();
}
const unreachable = () =>
  vi.spyOn(DirectoryObject.prototype, "listing").mockImplementation(() => {
    throw new Error("unreachable");
  });

describe("review", () => {
  it("A: pruning an unconfirmed key must not strike the entry of lost rows", async () => {
    const name = fresh("key");
    stopClock();
    grantedToken(await keyStub(name).acquire(command({ leaseSeconds: 86_400 })));
    await loseRows(name);
    pass(1);
    vi.spyOn(console, "error").mockImplementation(() => {});
    await crashBeforeListing(name, (key) => key.acquire(command({ session: "first" })));
    const down = unreachable();
    await keyStub(name).leave("first", { keepsReported: false });
    down.mockRestore();
    pass(200_000);
    await runDurableObjectAlarm(keyStub(name));
    await expect((async () => keyStub(name).acquire(command()))()).rejects.toThrow(GONE);
  });

  it("B: tables made of an unconfirmed record must not look granted", async () => {
    const name = fresh("key");
    stopClock();
    grantedToken(await keyStub(name).acquire(command({ leaseSeconds: 86_400 })));
    await loseRows(name);
    pass(1);
    vi.spyOn(console, "error").mockImplementation(() => {});
    await crashBeforeListing(name, (key) => key.enqueue(command({ session: "first", leaseSeconds: 5 })));
    const down = unreachable();
    pass(6_000);
    await keyStub(name).describe();
    down.mockRestore();
    await expect((async () => keyStub(name).acquire(command()))()).rejects.toThrow(GONE);
  });

  it("C: an unfounded key that joins again with the same founding while it is being forgotten", async () => {
    const name = fresh("key");
    stopClock();
    const { joinKey } = DirectoryObject.prototype;
    const join = vi.spyOn(DirectoryObject.prototype, "joinKey").mockImplementationOnce(async function (
      this: DirectoryObject,
      ...args
    ) {
      await joinKey.apply(this, args);
      throw new Error("the answer is lost");
    });
    await failing(async () => keyStub(name).acquire(command()));
    join.mockRestore();
    pass(70_000);
    let token = "";
    vi.spyOn(KeyObject.prototype, "forgetRetired").mockImplementation(async function (this: KeyObject) {
      const { id } = (this as unknown as { ctx: DurableObjectState }).ctx;
      if (id.name !== name) return true;
      token = grantedToken(await this.acquire(command({ leaseSeconds: 86_400 })));
      throw new Error("the answer is lost");
    });
    await visitKeys(name);
    vi.restoreAllMocks();
    expect(token).not.toBe("");
    await loseRows(name);
    pass(1);
    vi.spyOn(console, "error").mockImplementation(() => {});
    await expect((async () => keyStub(name).acquire(command()))()).rejects.toThrow(GONE);
  });

  it("D: a late forgetRetired does not delete a key that joined again", async () => {
    const name = fresh("key");
    stopClock();
    await keyStub(name).release(grantedToken(await keyStub(name).acquire(command())), "");
    pass(70_000);
    let late: (() => Promise<boolean>) | undefined;
    vi.spyOn(KeyObject.prototype, "forgetRetired").mockImplementation(async function (this: KeyObject) {
      late = () => keyStub(name).forgetRetired() as Promise<boolean>;
      throw new Error("delivered late");
    });
    await visitKeys(name);
    vi.restoreAllMocks();
    expect(late).toBeDefined();
    await keyStub(name).release(grantedToken(await keyStub(name).acquire(command())), "");
    await evictDurableObject(keyStub(name));
    pass(61_000);
    await late?.();
    vi.spyOn(console, "error").mockImplementation(() => {});
    expect((await keyStub(name).acquire(command())).status).toBe("granted");
  });

  it("E: a key with news is not visited over and over", async () => {
    const name = fresh("key");
    stopClock();
    vi.spyOn(console, "warn").mockImplementation(() => {});
    vi.spyOn(console, "error").mockImplementation(() => {});
    vi.spyOn(SessionObject.prototype, "deliver").mockImplementation(() => {
      throw new Error("unreachable");
    });
    const token = grantedToken(await keyStub(name).acquire(command()));
    await keyStub(name).acquire(command({ waitMs: 1_000 }));
    pass(1_001);
    await keyStub(name).describe();
    await keyStub(name).release(token, "");
    pass(150_000);
    await visitKeys(name);
    const at = await runInDurableObject(directoryOfKey(env, name), (_, { storage }) => storage.getAlarm());
    expect((at ?? 0) - Date.now()).toBeGreaterThan(1_000);
  });

  it("F: a client that becomes resumable and then watches hears of a hold it had before", async () => {
    const key = fresh("key");
    const client = await Client.open();
    tokenOf(await client.ask(`l\n${key}\n0 1\n`));
    expect(await client.ask("@s session\n_\nresume\n")).toMatch(/^@s ok /);
    expect(await client.ask("@w watch\n_\nlost\n")).toBe("@w ok");
    await until(() => client.unread.length > 0, { timeout: 4_000 });
    expect(await client.line()).toMatch(/lost/);
  });

  it("F2: control: watch without resume", async () => {
    const key = fresh("key");
    const client = await Client.open();
    tokenOf(await client.ask(`l\n${key}\n0 1\n`));
    expect(await client.ask("@w watch\n_\nlost\n")).toBe("@w ok");
    await until(() => client.unread.length > 0, { timeout: 4_000 });
    expect(await client.line()).toMatch(/lost/);
  });

  void [storedIn, WAIT];
});

describe("review 2", () => {
  const visitOf = (name: string) =>
    runInDurableObject(directoryOfKey(env, name), (_, { storage }) =>
      storage.sql.exec<{ at: number }>("SELECT at FROM visits WHERE key = ?", name).toArray()[0]?.at,
    );

  it("E2: the visit of a key with news is planned for the future", async () => {
    const name = fresh("key");
    stopClock();
    vi.spyOn(console, "warn").mockImplementation(() => {});
    vi.spyOn(console, "error").mockImplementation(() => {});
    vi.spyOn(SessionObject.prototype, "deliver").mockImplementation(() => {
      throw new Error("unreachable");
    });
    const token = grantedToken(await keyStub(name).acquire(command()));
    await keyStub(name).acquire(command({ waitMs: 1_000 }));
    pass(1_001);
    await keyStub(name).describe();
    await keyStub(name).release(token, "");
    pass(150_000);
    await visitKeys(name);
    expect((await visitOf(name)) ?? 0).toBeGreaterThan(Date.now());
  });

  it("G: empty tables without a row: the first grant is stored", async () => {
    const name = fresh("key");
    await runInDurableObject(keyStub(name), (_, { storage }) => {
      storage.sql.exec(
        "CREATE TABLE key (id INTEGER PRIMARY KEY CHECK (id = 1), slot_limit INTEGER NOT NULL, fence TEXT NOT NULL, founded_at INTEGER NOT NULL, is_listed INTEGER NOT NULL);" +
          "CREATE TABLE slots (slot INTEGER PRIMARY KEY, token TEXT NOT NULL, session TEXT NOT NULL, request TEXT NOT NULL, lease_s INTEGER NOT NULL, expires_at INTEGER NOT NULL, since INTEGER NOT NULL, place INTEGER NOT NULL, flags INTEGER NOT NULL, sessionless TEXT);" +
          "CREATE TABLE waiters (place INTEGER PRIMARY KEY, session TEXT NOT NULL, request TEXT NOT NULL, wait_request TEXT, is_enqueued INTEGER NOT NULL, lease_s INTEGER NOT NULL, joined_at INTEGER NOT NULL, deadline INTEGER, outcome TEXT, sessionless TEXT);" +
          "CREATE TABLE lapsed (session TEXT PRIMARY KEY, at INTEGER NOT NULL) WITHOUT ROWID;",
      );
    });
    await evictDurableObject(keyStub(name));
    grantedToken(await keyStub(name).acquire(command()));
    await evictDurableObject(keyStub(name));
    expect((await keyStub(name).acquire(command())).status).toBe("timeout");
  });

  it("H: two callers found at once; one holder", async () => {
    const name = fresh("key");
    const outcomes = await Promise.all([1, 2, 3].map(async () => keyStub(name).acquire(command())));
    expect(outcomes.map(({ status }) => status).sort()).toEqual(["granted", "timeout", "timeout"]);
    await evictDurableObject(keyStub(name));
    expect((await keyStub(name).acquire(command())).status).toBe("timeout");
  });

  it("I: a waiter behind an unwatched hold is granted at the end of its lease, after a sleep", async () => {
    const name = fresh("key");
    stopClock();
    grantedToken(await keyStub(name).acquire(command({ leaseSeconds: 5 })));
    expect(await runInDurableObject(keyStub(name), (_, { storage }) => storage.getAlarm())).toBeNull();
    await evictDurableObject(keyStub(name));
    await keyStub(name).acquire(command(WAIT));
    const at = await runInDurableObject(keyStub(name), (_, { storage }) => storage.getAlarm());
    expect((at ?? 0) - Date.now()).toBeLessThanOrEqual(5_100);
    expect(at).not.toBeNull();
  });

  it("J: joined again, answer lost, crash: not granted unlisted; loss noticed", async () => {
    const name = fresh("key");
    stopClock();
    await keyStub(name).release(grantedToken(await keyStub(name).acquire(command())), "");
    pass(70_000);
    await evictDurableObject(keyStub(name));
    const { joinKey } = DirectoryObject.prototype;
    vi.spyOn(DirectoryObject.prototype, "joinKey").mockImplementationOnce(async function (this: DirectoryObject, ...args) {
      await joinKey.apply(this, args);
      throw new Error("lost");
    });
    await failing(async () => keyStub(name).acquire(command()));
    await evictDurableObject(keyStub(name));
    pass(5);
    grantedToken(await keyStub(name).acquire(command({ leaseSeconds: 1000 })));
    await loseRows(name);
    pass(1);
    vi.spyOn(console, "error").mockImplementation(() => {});
    await expect((async () => keyStub(name).acquire(command()))()).rejects.toThrow(GONE);
  });

  it("K: a failed watch call: the client still hears of the end of its lease", async () => {
    const key = fresh("key");
    vi.spyOn(console, "warn").mockImplementation(() => {});
    const client = await Client.open();
    tokenOf(await client.ask(`l\n${key}\n0 1\n`));
    vi.spyOn(KeyObject.prototype, "watch").mockImplementationOnce(() => {
      throw new Error("lost");
    });
    expect(await client.ask("@w watch\n_\nlost\n")).toBe("@w ok");
    await until(() => client.unread.length > 0, { timeout: 4_000 });
    expect(await client.line()).toMatch(/lost/);
  });
});

describe("review 3", () => {
  const sleep = { webSockets: "hibernate" } as const;
  it("L: leaving under failures, with keys on the shelf, over a sleep and a loss of the session's object", async () => {
    vi.spyOn(console, "warn").mockImplementation(() => {});
    const key = fresh("key");
    const client = await Client.open();
    tokenOf(await client.ask(`l\n${key}\n0 3000\n`));
    const session = (await keyStub(key).describe())?.holders[0]?.session ?? "";
    await evictDurableObject(env.SESSION.getByName(session), sleep);
    const leave = vi.spyOn(KeyObject.prototype, "leave").mockImplementation(() => {
      throw new Error("unreachable");
    });
    client.close();
    await until(() => leave.mock.calls.length > 0, { timeout: 8_000 });
    await until(async () => {
      try {
        await evictDurableObject(env.SESSION.getByName(session));
        return true;
      } catch {
        return false;
      }
    });
    leave.mockRestore();
    await until(async () => (await keyStub(key).describe())?.holders.length === 0, { timeout: 8_000 });
  });

  it("M: cap of the attachment: long wide keys and a long backlog; all are left", async () => {
    const client = await Client.open();
    const keys = Array.from({ length: 40 }, (_, i) => `${"\u4e00".repeat(70)}${i}-${fresh("k")}`);
    for (const key of keys) tokenOf(await client.ask(`l\n${key}\n0 3000\n`));
    const session = (await keyStub(keys[0] as string).describe())?.holders[0]?.session ?? "";
    await evictDurableObject(env.SESSION.getByName(session), sleep);
    client.close();
    for (const key of keys)
      await until(async () => (await keyStub(key).describe())?.holders.length === 0, { timeout: 8_000 });
  });

  it("N: a resumable client whose lock from before ended while it was away hears of it when it is back", async () => {
    const key = fresh("key");
    const client = await Client.open();
    tokenOf(await client.ask(`l\n${key}\n0 1\n`));
    expect(await client.ask("@s session\n_\nresume\n")).toMatch(/^@s ok /);
    const at = await runInDurableObject(keyStub(key), (_, { storage }) => storage.getAlarm());
    expect(at).not.toBeNull();
  });
});

describe("review 4", () => {
  it("P: the directory's data is lost: a key held for the first time keeps its holder", async () => {
    const name = fresh("key");
    const held = grantedToken(await keyStub(name).acquire(command({ leaseSeconds: 3000 })));
    await evictDurableObject(keyStub(name));
    await runInDurableObject(directoryOfKey(env, name), (_, { storage }) => storage.deleteAll());
    await evictDurableObject(directoryOfKey(env, name));
    expect((await keyStub(name).acquire(command())).status).toBe("timeout");
    expect(await keyStub(name).renew(held, 50)).toEqual({ status: "renewed", leaseSeconds: 50 });
  });

  it("C2: the limit of ADR 21 ends with the directory's next visit", async () => {
    const name = fresh("key");
    stopClock();
    vi.spyOn(console, "warn").mockImplementation(() => {});
    vi.spyOn(console, "error").mockImplementation(() => {});
    await keyStub(name).release(grantedToken(await keyStub(name).acquire(command())), "");
    pass(70_000);
    const forget = vi.spyOn(KeyObject.prototype, "forgetRetired").mockImplementation(async () => {
      throw new Error("the object is lost");
    });
    await visitKeys(name);
    forget.mockRestore();
    await evictDurableObject(keyStub(name));
    pass(-50_000);
    const join = vi.spyOn(DirectoryObject.prototype, "joinKey");
    grantedToken(await keyStub(name).acquire(command({ leaseSeconds: 86_400 })));
    expect(join.mock.calls.filter(([key]) => key === name)).toHaveLength(0);
    pass(400_000);
    const retire = vi.spyOn(KeyObject.prototype, "retire");
    await visitKeys(name);
    expect(retire).toHaveBeenCalled();
    await evictDurableObject(directoryOfKey(env, name));
    await loseRows(name);
    pass(1);
    await expect((async () => keyStub(name).acquire(command()))()).rejects.toThrow(GONE);
  });

  it("Q: a sessionless hold, relay: lease end unnoticed, then a claim is granted", async () => {
    const name = fresh("key");
    stopClock();
    grantedToken(await keyStub(name).acquire(command({ leaseSeconds: 2 })));
    await evictDurableObject(keyStub(name));
    pass(2_001);
    expect((await keyStub(name).describe())?.holders).toEqual([]);
    expect((await keyStub(name).acquire(command())).status).toBe("granted");
  });

  it("R: 0.1.0 rows, listed, held with lease over, pruned by the directory; fence kept", async () => {
    const name = fresh("key");
    stopClock();
    const foundedAt = Date.now();
    const fence = "7000000000000000";
    await runInDurableObject(keyStub(name), (_, { storage }) => {
      storage.sql.exec(
        "CREATE TABLE key (id INTEGER PRIMARY KEY CHECK (id = 1), slot_limit INTEGER NOT NULL, fence TEXT NOT NULL, founded_at INTEGER NOT NULL, is_listed INTEGER NOT NULL);" +
          "CREATE TABLE slots (slot INTEGER PRIMARY KEY, token TEXT NOT NULL, session TEXT NOT NULL, request TEXT NOT NULL, lease_s INTEGER NOT NULL, expires_at INTEGER NOT NULL, since INTEGER NOT NULL, place INTEGER NOT NULL, flags INTEGER NOT NULL);" +
          "CREATE TABLE waiters (place INTEGER PRIMARY KEY, session TEXT NOT NULL, request TEXT NOT NULL, wait_request TEXT, is_enqueued INTEGER NOT NULL, lease_s INTEGER NOT NULL, joined_at INTEGER NOT NULL, deadline INTEGER, outcome TEXT);" +
          "CREATE TABLE lapsed (session TEXT PRIMARY KEY, at INTEGER NOT NULL) WITHOUT ROWID;",
      );
      storage.sql.exec("INSERT INTO key VALUES (1, 1, '0000000000000000', ?, 2)", foundedAt);
      storage.sql.exec(
        "INSERT INTO slots VALUES (0, ?, 's', 'r', 33, ?, ?, 0, 3)",
        `${fence}${"a".repeat(16)}`,
        foundedAt + 33_000,
        foundedAt,
      );
    });
    await evictDurableObject(keyStub(name));
    await directoryOfKey(env, name).joinKey(name, 0n, { foundedAt, hasGranted: false });
    expect((await keyStub(name).acquire(command())).status).toBe("timeout");
    await evictDurableObject(keyStub(name));
    for (let n = 0; n < 3; n++) {
      pass(200_000);
      await visitKeys(name);
    }
    expect(await storedIn(keyStub(name))).toEqual([]);
    expect(await directoryOfKey(env, name).lists(name)).toBe(false);
    await evictDurableObject(directoryOfKey(env, name));
    const next = grantedToken(await keyStub(name).acquire(command()));
    expect(next > fence).toBe(true);
  });
});

describe("review 5", () => {
  it("S: a long lease given back early: the key is pruned, and no longer counts against MAX_LOCKS", async () => {
    const name = fresh("key");
    stopClock();
    const token = grantedToken(await keyStub(name).acquire(command({ leaseSeconds: 86_400 })));
    pass(70_000);
    await visitKeys(name);
    await keyStub(name).release(token, "");
    for (let n = 0; n < 4; n++) {
      pass(3_600_000);
      await visitKeys(name);
    }
    expect(await directoryOfKey(env, name).lists(name)).toBe(false);
  });

  it("T: the alarm of the directory is lost with its memory: keys are pruned all the same, once it is used", async () => {
    const name = fresh("key");
    stopClock();
    await keyStub(name).release(grantedToken(await keyStub(name).acquire(command())), "");
    await runInDurableObject(directoryOfKey(env, name), (_, { storage }) => storage.deleteAlarm());
    await evictDurableObject(directoryOfKey(env, name));
    await directoryOfKey(env, name).lists(name);
    expect(await runInDurableObject(directoryOfKey(env, name), (_, { storage }) => storage.getAlarm())).not.toBeNull();
  });
});

describe("review 6", () => {
  it("U: a leaveKey of an earlier life, delivered late, does not end the first hold of the next life", async () => {
    const name = fresh("key");
    const founding = { foundedAt: Date.now() - 100_000, hasGranted: true };
    grantedToken(await keyStub(name).acquire(command({ leaseSeconds: 3000 })));
    await directoryOfKey(env, name).leaveKey(name, 0n, founding);
    await evictDurableObject(keyStub(name));
    expect((await keyStub(name).acquire(command())).status).toBe("timeout");
  });
});
