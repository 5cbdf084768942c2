import { evictDurableObject, runDurableObjectAlarm } from "cloudflare:test";
import { afterEach, describe, expect, it, vi } from "vitest";
import { SessionStore } from "../../../src/cloudflare/session-common/session-store.ts";
import { expectLog } from "../../support/expected-logs.ts";
import { pass, stopClock } from "../clock.ts";
import { withholdOffers } from "../offers.ts";
import { replaceCommand, replaceNextCommand } from "../spies.ts";
import { Client, fresh, keyStub, sessionStub, sessionsOn, tokenOf, until } from "../support.ts";

afterEach(() => {
  vi.restoreAllMocks();
  vi.useRealTimers();
});

const soon = (check: () => Promise<boolean>) => until(check, { timeout: 3_000, interval: 20 });

/** A client that holds the key, one that waits for it with `request`, and the waiting session. */
async function contention(key: string, request = `l\n${key}\n60\n`) {
  const [holder, waiter] = [await Client.open(), await Client.open()];
  const token = tokenOf(await holder.ask(`l\n${key}\n0\n`));
  waiter.send(request);
  await soon(async () => (await sessionsOn(key)).length === 2);
  const session = sessionStub((await sessionsOn(key))[1] ?? "");
  const release = async () => expect(await holder.ask(`r\n${key}\n${token}\n`)).toBe("ok");
  const sleep = () => evictDurableObject(session, { webSockets: "hibernate" });
  return { holder, waiter, session, release, sleep };
}

describe("a grant whose pick-up was counted but not heard", () => {
  it("is told to the client all the same, once", async () => {
    expectLog("session_unreachable", { error: "Error: Error: the answer is lost" });
    const key = fresh("key");
    const { waiter, release } = await contention(key);
    withholdOffers();
    replaceNextCommand("pickUp", key, async (_, carryOut) => {
      await carryOut();
      throw new Error("the answer is lost");
    });
    await release();
    const token = tokenOf(await waiter.line());
    expect(await waiter.ask(`n\n${key}\n${token} 5\n`)).toBe("ok 5");
    expect(waiter.unread).toEqual([]);
  });
});

describe("a session that the server ends", () => {
  it("is cleaned up to the end although its client answers the close in between", async () => {
    const keys = Array.from({ length: 45 }, () => fresh("key"));
    const client = await Client.open();
    for (const key of keys) await client.ask(`l\n${key}\n0 600\n`);
    const session = sessionStub((await sessionsOn(keys[0] ?? ""))[0] ?? "");
    client.send("ping\n_");
    await evictDurableObject(session, { webSockets: "hibernate" });
    replaceCommand("leave", async (_, carryOut) => {
      await scheduler.wait(100);
      return carryOut();
    });
    stopClock();
    pass(24_000);
    await runDurableObjectAlarm(session);
    expect(await client.line()).toBe("error");
    client.close();
    for (const key of keys) await soon(async () => (await keyStub(key).describe())?.holderCount === 0);
  });
});

describe("what stands behind a wait", () => {
  it("is not written again with every message", async () => {
    const key = fresh("key");
    const spill = vi.spyOn(SessionStore.prototype, "spill");
    const { waiter, release, sleep } = await contention(key);
    const pings = 1_000;
    const startedAt = Date.now();
    for (let n = 0; n < pings; n++) waiter.send("ping\n_\n_\n");
    expect(await waiter.ask("@sent ping\n_\n_\n")).toBe("@sent ok");
    await sleep();
    // Four times a second at most, however long the machine takes.
    expect(spill.mock.calls.length).toBeLessThanOrEqual(2 + (Date.now() - startedAt) / 250);
    await release();
    tokenOf(await waiter.line());
    await until(() => waiter.unread.length === pings, { timeout: 5_000, interval: 10 });
  });

  it("keeps a framing failure in its turn, and nothing is read after it, also after a sleep", async () => {
    const key = fresh("key");
    const { waiter, release, sleep } = await contention(key);
    waiter.send(`ping\n${"k".repeat(257)}\n_\n`);
    await sleep();
    waiter.send("@late ping\n_\n_\n");
    await release();
    tokenOf(await waiter.line());
    expect(await waiter.line()).toBe("error");
    expect(await waiter.closed()).toBe(1009);
    expect(waiter.unread).toEqual([]);
  });

  it("gives half a frame its full time from the answer on, also after a sleep", async () => {
    stopClock();
    const key = fresh("key");
    const { waiter, release, sleep, session } = await contention(key, `l\n${key}\n600\nping\n`);
    await sleep();
    pass(30_000);
    await release();
    tokenOf(await waiter.line());
    pass(20_000);
    await runDurableObjectAlarm(session);
    expect(await waiter.ask("_\n_\n")).toBe("ok");
  });
});

describe("the end of input", () => {
  it("ends the connection although an unfinished line stands behind a request that has to wait", async () => {
    const key = fresh("key");
    const [holder, client] = [await Client.open(), await Client.open()];
    await holder.ask(`l\n${key}\n0\n`);
    client.send(`l\n${key}\n60\n${"x".repeat(300)}`);
    client.sendBytes(new Uint8Array(0));
    expect(await client.closed()).toBe(1000);
    await soon(async () => (await keyStub(key).describe())?.waiters === 0);
  });

  it("gives up a place although a framing failure stands behind it", async () => {
    const key = fresh("key");
    const { waiter } = await contention(key);
    waiter.send(`ping\n${"k".repeat(257)}\n_\n`);
    waiter.sendBytes(new Uint8Array(0));
    expect(await waiter.closed()).toBe(1000);
    await soon(async () => (await keyStub(key).describe())?.waiters === 0);
  });
});
