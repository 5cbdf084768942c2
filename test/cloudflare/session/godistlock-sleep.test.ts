import { evictDurableObject } from "cloudflare:test";
import { exports } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import { expectLog } from "../../support/expected-logs.ts";
import { Client, fresh, sessionStub, sessionsOn, until } from "../support.ts";

const open = () => {
  const headers = { Upgrade: "websocket", "Sec-WebSocket-Protocol": "godistlock.v1" };
  return Client.on(exports.default.fetch("http://holdfast/v1/godistlock", { headers }));
};

/** Puts the sessions that wait for, or hold, this lock to sleep; their sockets stay. */
async function sleepAll(lock: string, count: number): Promise<void> {
  await until(async () => (await sessionsOn(lock)).length === count);
  for (const session of await sessionsOn(lock))
    await evictDurableObject(sessionStub(session), { webSockets: "hibernate" });
}

describe("a godistlock session that sleeps", () => {
  it("still knows what it holds, and what it waits for under which nonces", async () => {
    const lock = fresh("lock");
    const [holder, waiter] = [await open(), await open()];
    const given = await holder.ask(`ON ${lock} 60000 a\n`);
    expect(given).toMatch(/^GIVE a [0-9]+$/);
    waiter.send(`ON ${lock} 60000 b\nON ${lock} 60000 c\n`);
    await sleepAll(lock, 2);
    expect(await holder.ask(`ON ${lock} 60000 d\n`)).toBe(given.replace(" a ", " d "));
    holder.send(`OFF ${lock} e\n`);
    const first = await waiter.line();
    expect(first).toMatch(/^GIVE b [0-9]+$/);
    expect(await waiter.line()).toBe(first.replace(" b ", " c "));
    expect(await holder.ask(`IS ${lock} f\n`)).toBe(first.replace("GIVE b", "LOCK f"));
  });

  it("keeps the beginning of a line", async () => {
    const lock = fresh("lock");
    const client = await open();
    expect(await client.ask(`TRY ${lock} 60000 a\n`)).toMatch(/^GIVE a/);
    client.send(`IS ${lock}`);
    await sleepAll(lock, 1);
    expect(await client.ask(" b\n")).toMatch(/^LOCK b [0-9]+$/);
  });

  it("withdraws what it waits for when it is told to after its sleep", async () => {
    const lock = fresh("lock");
    const [holder, waiter] = [await open(), await open()];
    await holder.ask(`ON ${lock} 60000 a\n`);
    waiter.send(`ON ${lock} 60000 b\n`);
    await sleepAll(lock, 2);
    expect(await waiter.ask(`OFF ${lock} c\n`)).toBe("NO b");
    holder.send(`OFF ${lock} d\n`);
    expect(await holder.ask(`IS ${lock} e\n`)).toBe("NO e");
  });
});

describe("the upgrade to godistlock", () => {
  it("asks for the subprotocol, and for an upgrade", async () => {
    const at = (path: string, headers: Record<string, string>) =>
      exports.default.fetch(`http://holdfast${path}`, { headers });
    for (const status of [426, 400, 404]) expectLog("request_failed", { status });
    const plain = await at("/v1/godistlock", {});
    expect([plain.status, plain.headers.get("Upgrade")]).toEqual([426, "websocket"]);
    expect((await at("/v1/godistlock", { Upgrade: "websocket" })).status).toBe(400);
    expect((await at("/v1/godistlock/relay", { Upgrade: "websocket" })).status).toBe(404);
  });
});
