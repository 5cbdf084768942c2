import { afterEach, beforeEach, describe, expect, it, type MockInstance, vi } from "vitest";
import { SessionObject } from "../../../src/cloudflare/session/session-object.ts";
import { crash, cut, plain, resumable, resume, storedIn } from "../resuming.ts";
import { askKey, Client, fresh, keyStub, sessionStub, sessionsOn, tokenOf, until } from "../support.ts";

const WATCH = "@w watch\n_\nlost\n";
const PING = "@p ping\n_\n_\n";

let lose: MockInstance<SessionObject["lose"]>;
beforeEach(() => {
  lose = vi.spyOn(SessionObject.prototype, "lose");
});
afterEach(() => {
  vi.restoreAllMocks();
});

/** Resolves once a session has been told that it lost the key. */
const told = (key: string) =>
  until(
    () => lose.mock.calls.some(([loss], n) => loss.key === key && lose.mock.settledResults[n]?.type === "fulfilled"),
    { timeout: 3_000, interval: 5 },
  );

async function take(client: Client, key: string, tag: string): Promise<string> {
  return tokenOf(await client.ask(`@${tag} l\n${key}\n0 60\n`));
}

async function steal(key: string, token: string): Promise<void> {
  expect(await askKey(keyStub(key), { type: "steal", fence: token.slice(0, 16) })).toMatchObject({ status: "stolen" });
}

describe("a loss while its client has no socket", () => {
  it.each([["stays"], ["is lost with its memory"]])("is told with its reason if the object %s", async (fate) => {
    const [first, second] = [fresh("key"), fresh("key")];
    const { client, credential } = await resumable();
    await client.ask(WATCH);
    const [stolen, released] = [await take(client, first, "1"), await take(client, second, "2")];
    await cut(client);
    await steal(first, stolen);
    await told(first);
    expect(await (await Client.open()).ask(`r\n${second}\n${released}\n`)).toBe("ok");
    await told(second);
    if (fate !== "stays") await crash(credential);
    const back = await resume(credential);
    back.send(`${WATCH}${PING}`);
    const lines = [await back.line(), await back.line(), await back.line(), await back.line()];
    expect(lines).toEqual([
      "@w ok",
      `! lost ${first} ${stolen} stolen`,
      `! lost ${second} ${released} released`,
      "@p ok",
    ]);
    back.close();
  });

  it("is told when the client begins to watch, not before", async () => {
    const key = fresh("key");
    const { client, credential } = await resumable();
    const token = await take(client, key, "1");
    await cut(client);
    const back = await resume(credential);
    expect(await back.ask(PING)).toBe("@p ok");
    await steal(key, token);
    await told(key);
    expect(await back.ask(PING)).toBe("@p ok");
    expect(await back.ask(WATCH)).toBe("@w ok");
    expect(await back.line()).toBe(`! lost ${key} ${token} stolen`);
    back.close();
  });
});

it("a loss that was told on a dead socket is told again on the next, and once on each", async () => {
  const [first, second] = [fresh("key"), fresh("key")];
  const { client, credential } = await resumable();
  await client.ask(WATCH);
  const [early, late] = [await take(client, first, "1"), await take(client, second, "2")];
  await steal(first, early);
  expect(await client.line()).toBe(`! lost ${first} ${early} stolen`);
  // The old client says nothing to the server's question, as if nothing reached it any more.
  const back = await resume(credential);
  expect(await client.closed()).toBe(4411);
  expect(await back.ask(WATCH)).toBe("@w ok");
  expect(await back.line()).toBe(`! lost ${first} ${early} stolen`);
  await steal(second, late);
  expect(await back.line()).toBe(`! lost ${second} ${late} stolen`);
  back.send(`${WATCH}${PING}`);
  expect([await back.line(), await back.line()]).toEqual(["@w ok", "@p ok"]);
  back.close();
});

describe("what is remembered of losses", () => {
  it("is nothing in a session that nobody can take up", async () => {
    const key = fresh("key");
    const client = await plain();
    await client.ask(WATCH);
    const token = await take(client, key, "1");
    const [session = ""] = await sessionsOn(key);
    await steal(key, token);
    expect(await client.line()).toBe(`! lost ${key} ${token} stolen`);
    expect(await storedIn(session)).toEqual([]);
    client.close();
  });

  it("is nothing in a session that has ended", async () => {
    const { client, credential } = await resumable();
    expect(await storedIn(credential.session)).toEqual(["resumption"]);
    client.close();
    await until(async () => (await storedIn(credential.session)).length === 0, { timeout: 3_000, interval: 20 });
    await sessionStub(credential.session).lose({ key: "key", token: "late", reason: "expired" });
    expect(await storedIn(credential.session)).toEqual([]);
  });
});
