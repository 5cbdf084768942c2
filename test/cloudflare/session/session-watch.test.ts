import { runInDurableObject } from "cloudflare:test";
import { afterEach, describe, expect, it, vi } from "vitest";
import { SessionObject } from "../../../src/cloudflare/session/session-object.ts";
import { callsAbout, replaceCommand, replaceNextCommand } from "../spies.ts";
import { askKey, Client, fresh, keyStub, sessionStub, sessionsOn, tokenOf, until } from "../support.ts";

afterEach(() => {
  vi.restoreAllMocks();
});

const WATCH = "@w watch\n_\nlost\n";
const RESUME = "@s session\n_\nresume\n";

async function holder() {
  const key = fresh("key");
  const client = await Client.open();
  const token = tokenOf(await client.ask(`l\n${key}\n0 1\n`));
  return { key, client, token };
}

describe("a client that watches its leases hears at once of the end of one it had before", () => {
  it("if nobody else wants the key", async () => {
    const { key, client, token } = await holder();
    expect(await client.ask(WATCH)).toBe("@w ok");
    expect(await client.line()).toBe(`! lost ${key} ${token} expired`);
  });

  it("if it has become able to resume in between", async () => {
    const { key, client, token } = await holder();
    expect(await client.ask(RESUME)).toMatch(/^@s ok /);
    expect(await client.ask(WATCH)).toBe("@w ok");
    expect(await client.line()).toBe(`! lost ${key} ${token} expired`);
  });

  it("if the key could not be told at first", async () => {
    const { key, client, token } = await holder();
    replaceNextCommand("watch", key, () => {
      throw new Error("lost");
    });
    expect(await client.ask(WATCH)).toBe("@w ok");
    expect(await client.line()).toBe(`! lost ${key} ${token} expired`);
  });
});

it("a client that watches what others take from it wakes no key for the end of its leases", async () => {
  const [key, stolen] = [fresh("key"), fresh("stolen")];
  const client = await Client.open();
  expect(await client.ask("@w watch\n_\ntaken\n")).toBe("@w ok");
  expect(await client.ask(RESUME)).toMatch(/^@s ok /);
  const wakesAt = () => runInDurableObject(keyStub(key), (_, { storage }) => storage.getAlarm());
  tokenOf(await client.ask(`l\n${key}\n0 1\n`));
  expect(await wakesAt()).toBeGreaterThan(Date.now() + 600_000);
  const token = tokenOf(await client.ask(`l\n${stolen}\n0 60\n`));
  await askKey(keyStub(stolen), { type: "steal", fence: token.slice(0, 16) });
  expect(await client.line()).toBe(`! lost ${stolen} ${token} stolen`);
  // Another client notices the end of the lease. The session hears of it; its client, which has counted it, does not.
  const lose = vi.spyOn(SessionObject.prototype, "lose");
  const other = await Client.open();
  tokenOf(await other.ask(`l\n${key}\n5\n`));
  await until(() => callsAbout(lose, key).length > 0);
  expect(await client.ask("@p ping\n_\n_\n")).toBe("@p ok");
  client.close();
  other.close();
});

it("a client that has resumed hears of a loss, although its session was lost before its keys were told", async () => {
  const key = fresh("key");
  const client = await Client.open();
  const token = tokenOf(await client.ask(`l\n${key}\n0 60\n`));
  const session = (await sessionsOn(key))[0] ?? "";
  const watches = replaceNextCommand("watch", key, () => {
    throw new Error("unreachable");
  });
  const credential = (await client.ask(RESUME)).split(" ")[2];
  expect(await client.ask(WATCH)).toBe("@w ok");
  await until(() => watches(key).length > 0);
  // A deploy: the object and its socket are lost.
  await runInDurableObject(sessionStub(session), (_, state) => state.abort("deploy")).catch(() => {});
  const again = await Client.open({ "Sec-WebSocket-Protocol": `dflockd.v2, holdfast.resume.${credential}` });
  expect(await again.ask(WATCH)).toBe("@w ok");
  expect(await again.ask(`n\n${key}\n${token} 1\n`)).toMatch(/^ok/);
  expect(await again.line()).toBe(`! lost ${key} ${token} expired`);
});

/** The same, under a longer lease. */
async function heldFor(lease: number) {
  const key = fresh("key");
  const client = await Client.open();
  const token = tokenOf(await client.ask(`l\n${key}\n0 ${lease}\n`));
  const session = (await sessionsOn(key))[0] ?? "";
  return { key, client, token, session, object: sessionStub(session) };
}

describe("telling keys that their leases are watched", () => {
  it("is made up for when the client is back and watches, if the object was lost before", async () => {
    const { key, client, token, object } = await heldFor(2);
    const watches = replaceNextCommand("watch", key, () => {
      throw new Error("unreachable");
    });
    const credential = (await client.ask(RESUME)).split(" ")[2];
    expect(await client.ask(WATCH)).toBe("@w ok");
    await until(() => watches(key).length > 0);
    // A deploy: the object and its socket are lost.
    await runInDurableObject(object, (_, state) => state.abort("deploy")).catch(() => {});
    const again = await Client.open({ "Sec-WebSocket-Protocol": `dflockd.v2, holdfast.resume.${credential}` });
    expect(await again.ask(WATCH)).toBe("@w ok");
    expect(await again.line()).toBe(`! lost ${key} ${token} expired`);
  });

  it("holds up no renewal", async () => {
    const { client, key, token } = await heldFor(60);
    const others = Array.from({ length: 20 }, () => fresh("other"));
    for (const other of others) tokenOf(await client.ask(`l\n${other}\n0 60\n`));
    let isReleased = false;
    replaceCommand("watch", async (_, carryOut) => {
      // Some keys take their time.
      while (!isReleased) await scheduler.wait(20);
      return carryOut();
    });
    try {
      expect(await client.ask(WATCH)).toBe("@w ok");
      client.send(`@n n\n${key}\n${token} 60\n`);
      await until(() => client.unread.length > 0, { timeout: 5_000 });
      expect(await client.line()).toMatch(/^@n ok/);
    } finally {
      isReleased = true;
    }
  });
});
