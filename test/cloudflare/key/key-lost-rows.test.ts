import { evictDurableObject, runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, describe, expect, it, vi } from "vitest";
import { directoryOfKey } from "../../../src/cloudflare/calls/directories.ts";
import { DirectoryObject } from "../../../src/cloudflare/directory/directory-object.ts";
import { CloudflareService } from "../../../src/cloudflare/service/cloudflare-service.ts";
import { app } from "../../../src/http/app.ts";
import { expectLog } from "../../support/expected-logs.ts";
import { pass, stopClock } from "../clock.ts";
import { callsAbout, replaceNext } from "../spies.ts";
import {
  Client,
  command,
  fresh,
  grantedToken,
  keyStub,
  loseRows,
  rowsWritten,
  storedIn,
  visitKeys,
} from "../support.ts";
import { crashInFounding, loseListing } from "./crash-in-founding.ts";

afterEach(() => {
  vi.restoreAllMocks();
  vi.useRealTimers();
});

const GONE = "rows are gone";

async function withoutDirectory(name: string, work: () => Promise<unknown>): Promise<void> {
  const { joinKey } = DirectoryObject.prototype;
  const spy = vi.spyOn(DirectoryObject.prototype, "joinKey").mockImplementation(function (
    this: DirectoryObject,
    ...args
  ) {
    if (args[0] === name) throw new Error("unreachable");
    return joinKey.apply(this, args);
  });
  await work();
  spy.mockRestore();
}

async function lostWhileHeld(): Promise<string> {
  const name = fresh("key");
  stopClock();
  grantedToken(await keyStub(name).acquire(command({ leaseSeconds: 86_400 })));
  await loseRows(name);
  pass(1);
  return name;
}

describe("a key that has lost its rows", () => {
  it("grants nothing, and says which key, also after it was asked and evicted", async () => {
    const name = fresh("key");
    const stub = keyStub(name);
    grantedToken(await stub.acquire(command()));
    await loseRows(name);
    for (let life = 0; life < 3; life++) {
      await expect((async () => stub.acquire(command()))()).rejects.toThrow(GONE);
      await expect((async () => stub.enqueue(command({ limit: 2 })))()).rejects.toThrow(GONE);
      await evictDurableObject(stub);
    }
    expectLog("key_unreadable", { key: name });
  });

  it("does not tell its holder that nothing is held, nor anybody that it does not exist", async () => {
    const name = fresh("key");
    const held = grantedToken(await keyStub(name).acquire(command()));
    await loseRows(name);
    const stub = keyStub(name);
    await expect((async () => stub.renew(held, 5))()).rejects.toThrow(GONE);
    await expect((async () => stub.release(held, ""))()).rejects.toThrow(GONE);
    await expect((async () => stub.steal(held.slice(0, 16)))()).rejects.toThrow(GONE);
    await expect((async () => stub.describe())()).rejects.toThrow(GONE);
    await stub.leave("nobody", { keepsReported: false });
  });

  it("answers `error` to a client, and its other keys go on", async () => {
    expectLog("operation_failed", { error: "Error: the key is listed, but its stored rows are gone" });
    const [lost, well] = [fresh("key"), fresh("key")];
    const client = await Client.open();
    for (const key of [lost, well]) await client.ask(`l\n${key}\n0\n`);
    await loseRows(lost);
    const other = await Client.open();
    expect(await other.ask(`l\n${lost}\n0\n`)).toBe("error");
    expect(await other.ask(`l\n${well}\n0\n`)).toBe("timeout");
    expect(await other.ask(`l\n${fresh("key")}\n0\n`)).toMatch(/^ok /);
  });

  it("can be locked again once an administrator gives it up, and no other key can be given up", async () => {
    const [lost, well] = [fresh("key"), fresh("key")];
    const held = grantedToken(await keyStub(lost).acquire(command()));
    await keyStub(well).acquire(command());
    await loseRows(lost);
    vi.spyOn(console, "error").mockImplementation(() => {});
    vi.spyOn(console, "warn").mockImplementation(() => {});
    const administered = new CloudflareService({ ...env, ADMIN_TOKEN: "let-me-in" } as typeof env, () => {});
    const statusOf = async (method: string, path: string, token = "let-me-in") => {
      const headers = { Authorization: `Bearer ${token}` };
      const request = new Request(`http://holdfast${path}`, { method, headers });
      return (await app.fetch(request, { service: administered, address: undefined })).status;
    };
    expect(await statusOf("GET", `/v1/keys/${lost}`)).toBe(503);
    expect(await statusOf("DELETE", `/v1/admin/keys/${lost}`, "guessed")).toBe(403);
    for (const key of [well, fresh("key")]) expect(await statusOf("DELETE", `/v1/admin/keys/${key}`)).toBe(404);
    expect(await statusOf("DELETE", `/v1/admin/keys/${lost}`)).toBe(204);
    expect(grantedToken(await keyStub(lost).acquire(command())) > held).toBe(true);
    expect(await statusOf("DELETE", `/v1/admin/keys/${lost}`)).toBe(404);
    expect((await keyStub(well).acquire(command())).status).toBe("timeout");
  });

  it("is still known to have lost them after what its object has noted meanwhile was forgotten", async () => {
    const name = fresh("key");
    grantedToken(await keyStub(name).acquire(command()));
    await loseRows(name);
    await expect((async () => keyStub(name).acquire(command()))()).rejects.toThrow(GONE);
    stopClock();
    pass(100_000);
    await runDurableObjectAlarm(keyStub(name));
    expect(await storedIn(keyStub(name))).toEqual([]);
    await expect((async () => keyStub(name).acquire(command()))()).rejects.toThrow(GONE);
  });

  it("is known to have, whatever became of a first grant that was never spoken of", async () => {
    const name = fresh("key");
    const held = grantedToken(await keyStub(name).acquire(command()));
    await loseRows(name);
    await crashInFounding(name, "before the listing");
    await expect((async () => keyStub(name).renew(held, 5))()).rejects.toThrow(GONE);
    await expect((async () => keyStub(name).acquire(command()))()).rejects.toThrow(GONE);
    await keyStub(name).leave("first", { keepsReported: false });
    expect(await keyStub(name).giveUp()).toBe(true);
    expect((await keyStub(name).acquire(command())).status).toBe("granted");
  });

  it("is known to have, also if that grant was given back while the directory was out of reach", async () => {
    const name = await lostWhileHeld();
    await crashInFounding(name, "before the listing");
    await withoutDirectory(name, () => keyStub(name).leave("first", { keepsReported: false }));
    pass(200_000);
    await runDurableObjectAlarm(keyStub(name));
    await expect((async () => keyStub(name).acquire(command()))()).rejects.toThrow(GONE);
  });

  it("is known to have, also if the lease of that grant ended while the directory was out of reach", async () => {
    const name = await lostWhileHeld();
    await crashInFounding(name, "before the listing", "enqueue", { leaseSeconds: 5 });
    pass(6_000);
    await withoutDirectory(name, () => keyStub(name).cancel("unknown"));
    // It needs tables now.
    expect(await storedIn(keyStub(name))).toContain("lapsed");
    await evictDurableObject(keyStub(name));
    await expect((async () => keyStub(name).acquire(command()))()).rejects.toThrow(GONE);
  });
});

describe("a founding that was cut off", () => {
  it("after the listing is taken up again, with whatever limit is asked for", async () => {
    const name = fresh("key");
    await loseListing(name);
    await evictDurableObject(keyStub(name));
    expect(await keyStub(name).describe()).toBeNull();
    expect((await keyStub(name).acquire(command({ limit: 3 }))).status).toBe("granted");
  });

  it("leaves nothing behind if nobody comes back", async () => {
    const name = fresh("key");
    stopClock();
    replaceNext(DirectoryObject.prototype, "joinKey", name, async () => {
      throw new Error("unreachable");
    });
    await expect((async () => keyStub(name).acquire(command()))()).rejects.toThrow("unreachable");
    pass(100_000);
    await runDurableObjectAlarm(keyStub(name));
    pass(270_000);
    await visitKeys(name);
    expect(await storedIn(keyStub(name))).toEqual([]);
    expect(await directoryOfKey(env, name).lists(name)).toBe(false);
  });
});

describe("a founding", () => {
  it("stores one row with its first grant: that it can be missed costs none", async () => {
    await runInDurableObject(keyStub(fresh("key")), async (key, state) => {
      expect(await rowsWritten(state, () => key.acquire(command()))).toBe(1);
    });
  });

  it("of a key stored by an earlier version is not asked for again", async () => {
    const name = fresh("key");
    const stub = keyStub(name);
    const held = grantedToken(await stub.acquire(command({ limit: 2 })));
    const other = grantedToken(await stub.acquire(command({ limit: 2 })));
    await runInDurableObject(stub, (_, { storage }) => {
      storage.sql.exec("UPDATE key SET is_listed = 1, founded_at = founded_at + 3");
    });
    await evictDurableObject(stub);
    const join = vi.spyOn(DirectoryObject.prototype, "joinKey");
    expect(await stub.acquire(command({ limit: 2 }))).toEqual({ status: "timeout" });
    for (const token of [held, other]) expect(await stub.release(token, "")).toEqual({ status: "released" });
    expect((await stub.acquire(command({ limit: 2 }))).status).toBe("granted");
    expect(callsAbout(join, name)).toEqual([]);
  });
});
