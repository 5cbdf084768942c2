import { abortAllDurableObjects, runInDurableObject } from "cloudflare:test";
import { afterEach, describe, expect, it, vi } from "vitest";
import { ownerIdOf } from "../../../src/core/session-names.ts";
import { expectLog } from "../../support/expected-logs.ts";
import { replaceCommand, replaceNextCommand } from "../spies.ts";
import {
  askKey,
  Client,
  command,
  fresh,
  keyStub,
  newSession,
  sessionStub,
  sessionsOn,
  storedIn,
  tokenOf,
  until,
} from "../support.ts";

afterEach(() => {
  vi.restoreAllMocks();
});

const soon = (check: () => Promise<boolean>) => until(check, { timeout: 2_000, interval: 20 });

describe("a client that leaves", () => {
  it("leaves nothing behind, in keys, in its session or in the directory", async () => {
    const key = fresh("key");
    const client = await Client.open();
    await client.ask(`l\n${key}\n0\n`);
    await client.ask(`e\n${key}\n\n`);
    const session = (await sessionsOn(key))[0] ?? "";
    client.close();
    await soon(async () => (await keyStub(key).describe())?.holders.length === 0);
    expect((await keyStub(key).describe())?.waiters).toBe(0);
    await soon(async () => (await storedIn(sessionStub(session))).length === 0);
    expect(await sessionStub(session).isLive()).toEqual({ isLive: false });
  });

  it("is cleaned up everywhere although one key cannot be reached, and there later", async () => {
    expectLog("key_unreachable", { error: "Error: unreachable" });
    const keys = Array.from({ length: 20 }, () => fresh("key"));
    const unreachable = keys[7] ?? "";
    const client = await Client.open();
    for (const key of keys) await client.ask(`l\n${key}\n0\n`);
    let refusals = 0;
    replaceCommand("leave", function (_, carryOut) {
      const { id } = (this as unknown as { ctx: DurableObjectState }).ctx;
      if (id.name === unreachable && refusals++ === 0) throw new Error("unreachable");
      return carryOut();
    });
    client.close();
    for (const key of keys) await soon(async () => (await keyStub(key).describe())?.holders.length === 0);
    expect(refusals).toBeGreaterThan(1);
  });

  it("takes no newer holder with it when its cleanup comes late or twice", async () => {
    const key = fresh("key");
    const [client, other] = [await Client.open(), await Client.open()];
    const token = tokenOf(await client.ask(`l\n${key}\n0\n`));
    const session = (await sessionsOn(key))[0] ?? "";
    await client.ask(`r\n${key}\n${token}\n`);
    const held = tokenOf(await other.ask(`l\n${key}\n0\n`));
    client.close();
    await askKey(keyStub(key), { type: "leave", session, keepsReported: false });
    await askKey(keyStub(key), { type: "leave", session, keepsReported: false });
    expect(await other.ask(`n\n${key}\n${held} 5\n`)).toBe("ok 5");
  });

  it("is told apart from another session with the same owner number", async () => {
    const key = fresh("key");
    const [one, two] = [`${"0".repeat(63)}7`, `${"0".repeat(50)}7${"0".repeat(13)}`];
    expect(ownerIdOf(one)).toBe(ownerIdOf(two));
    await askKey(keyStub(key), { type: "acquire", command: command({ limit: 2, session: one }) });
    await askKey(keyStub(key), { type: "acquire", command: command({ limit: 2, session: two }) });
    await askKey(keyStub(key), { type: "leave", session: one, keepsReported: false });
    expect((await keyStub(key).describe())?.holders.map(({ session }) => session)).toEqual([two]);
  });
});

describe("a session lost by a fault of the service", () => {
  it("keeps its holds, loses its places, and is gone for whoever asks", async () => {
    const [held, wanted] = [fresh("key"), fresh("key")];
    const [victim, holder] = [await Client.open(), await Client.open()];
    const token = tokenOf(await victim.ask(`l\n${held}\n0\n`));
    const other = tokenOf(await holder.ask(`l\n${wanted}\n0\n`));
    victim.send(`l\n${wanted}\n60\n`);
    await soon(async () => (await sessionsOn(wanted)).length === 2);
    const session = (await sessionsOn(held))[0] ?? "";
    await abortAllDurableObjects();

    const [next, renewer] = [await Client.open(), await Client.open()];
    next.send(`l\n${wanted}\n60\n`);
    await soon(async () => (await keyStub(wanted).describe())?.waiters === 2);
    expect(await renewer.ask(`r\n${wanted}\n${other}\n`)).toBe("ok");
    tokenOf(await next.line());
    expect(await renewer.ask(`l\n${held}\n0\n`)).toBe("timeout");
    expect(await renewer.ask(`n\n${held}\n${token} 40\n`)).toBe("ok 40");
    expect(await renewer.ask(`r\n${held}\n${token}\n`)).toBe("ok");
    expect(await sessionStub(session).isLive()).toEqual({ isLive: false });
  });

  it("is not counted as connected any more", async () => {
    const count = async (client: Client) =>
      (JSON.parse((await client.ask("stats\n_\n_\n")).slice(3)) as { connections: number }).connections;
    const before = await Client.open();
    expect(await count(before)).toBeGreaterThanOrEqual(1);
    await abortAllDurableObjects();
    const after = await Client.open();
    expect(await count(after)).toBe(1);
  });

  it("stores nothing when a key calls on it", async () => {
    const stub = sessionStub(newSession());
    expect(await stub.deliver({ key: "k", request: "r", kind: "granted" })).toEqual({ answer: "gone" });
    await stub.lose({ key: "k", token: "t", reason: "expired" });
    expect(await storedIn(stub)).toEqual([]);
  });
});

describe("a request whose outcome is unknown", () => {
  it("answers `error` and leaves no holder behind", async () => {
    expectLog("operation_failed", { error: "Error: the answer is lost" });
    const key = fresh("key");
    const client = await Client.open();
    replaceNextCommand("acquire", key, async (_, carryOut) => {
      await carryOut();
      throw new Error("the answer is lost");
    });
    expect(await client.ask(`l\n${key}\n0\n`)).toBe("error");
    await soon(async () => (await keyStub(key).describe())?.holders.length === 0);
    tokenOf(await client.ask(`l\n${key}\n0\n`));
  });

  it("does not harm the other requests of its connection", async () => {
    expectLog("operation_failed", { error: "Error: unreachable" });
    const [bad, good] = [fresh("key"), fresh("key")];
    const client = await Client.open();
    replaceNextCommand("acquire", bad, () => Promise.reject(new Error("unreachable")));
    expect(await client.ask(`l\n${bad}\n0\n`)).toBe("error");
    tokenOf(await client.ask(`l\n${good}\n0\n`));
    tokenOf(await client.ask(`l\n${bad}\n0\n`));
  });
});

describe("a grant that crosses the end of its client", () => {
  it("goes to the next in line", async () => {
    const key = fresh("key");
    const [holder, quitter, next] = [await Client.open(), await Client.open(), await Client.open()];
    const token = tokenOf(await holder.ask(`l\n${key}\n0\n`));
    quitter.send(`l\n${key}\n60\n`);
    await soon(async () => (await sessionsOn(key)).length === 2);
    next.send(`l\n${key}\n60\n`);
    await soon(async () => (await sessionsOn(key)).length === 3);
    quitter.close();
    await holder.ask(`r\n${key}\n${token}\n`);
    tokenOf(await next.line());
    await runInDurableObject(keyStub(key), async (object) => {
      expect((await object.describe())?.holders).toHaveLength(1);
    });
  });
});
