import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, expect, it, vi } from "vitest";
import { callAwake, isResting } from "../../../src/cloudflare/awake/resting.ts";
import { sessionObject } from "../../../src/cloudflare/calls/session-names.ts";
import { KeyObject } from "../../../src/cloudflare/key/key-object.ts";
import type { SessionObject } from "../../../src/cloudflare/session/session-object.ts";
import type { Credential } from "../../../src/service.ts";
import { cut, resumable, resume } from "../resuming.ts";
import { callsAbout } from "../spies.ts";
import { Client, fresh, keyStub, tokenOf, until } from "../support.ts";

afterEach(() => {
  vi.restoreAllMocks();
});

const objectOf = ({ session }: Credential) => env.SESSION.getByName(session);

/** Has the session's object, in this life, behave as on a self-hosted server. Resolves with the life's object. */
function hostOneself(credential: Credential): Promise<SessionObject> {
  return runInDurableObject(objectOf(credential), (instance) => {
    Object.assign(instance, { env: { ...env, SELF_HOSTED: "true" } });
    return instance;
  });
}

/** Whether the object has ended since. */
async function hasRested(credential: Credential, before: SessionObject): Promise<boolean> {
  return callAwake(() => runInDurableObject(objectOf(credential), (instance) => instance !== before));
}

const rested = (credential: Credential, before: SessionObject) =>
  until(() => hasRested(credential, before), { timeout: 3_000, interval: 20 });

it("a session that has lost its socket rests, keeps what it has, and is taken up again", async () => {
  const key = fresh("key");
  const { client, credential } = await resumable();
  const token = tokenOf(await client.ask(`@1 l\n${key}\n0 600\n`));
  const before = await hostOneself(credential);
  await cut(client);
  await rested(credential, before);
  expect(await objectOf(credential).isLive()).toBe(true);
  const alarm = await runInDurableObject(objectOf(credential), (_, { storage }) => storage.getAlarm());
  expect(alarm).toBeGreaterThan(Date.now() + 5_000);
  const back = await resume(credential);
  expect(await back.ask(`@2 n\n${key}\n${token} 600\n`)).toBe("@2 ok 600");
  back.close();
});

it("a client that is back at whatever moment finds its session", async () => {
  const key = fresh("key");
  const { client, credential } = await resumable();
  const token = tokenOf(await client.ask(`@1 l\n${key}\n0 600\n`));
  let current = client;
  for (let round = 0; round < 25; round += 1) {
    await hostOneself(credential);
    await cut(current);
    await scheduler.wait(round);
    current = await resume(credential);
    expect(await current.ask(`@2 n\n${key}\n${token} 600\n`)).toBe("@2 ok 600");
  }
  current.close();
});

it("a session does not rest while a request of it is on its way, which is then there for who sends it again", async () => {
  const key = fresh("key");
  const { client, credential } = await resumable();
  const before = await hostOneself(credential);
  const gate = Promise.withResolvers<void>();
  const acquire = KeyObject.prototype.acquire;
  const acquiring = vi.spyOn(KeyObject.prototype, "acquire").mockImplementation(async function (
    this: KeyObject,
    ...args
  ) {
    await gate.promise;
    return acquire.apply(this, args);
  });
  client.send(`@1 l\n${key}\n0 600\n`);
  await until(() => callsAbout(acquiring, key).length === 1);
  await cut(client);
  await scheduler.wait(100);
  expect(await hasRested(credential, before)).toBe(false);
  gate.resolve();
  await rested(credential, before);
  expect((await keyStub(key).describe())?.holderCount).toBe(1);
  const back = await resume(credential);
  tokenOf(await back.ask(`@1 l\n${key}\n0 600\n`));
  back.close();
});

it("a grant for a resting session waits for its client", async () => {
  const key = fresh("key");
  const holder = await Client.open();
  const token = tokenOf(await holder.ask(`l\n${key}\n0 600\n`));
  const { client, credential } = await resumable();
  client.send(`@1 l\n${key}\n60 600\n`);
  await until(async () => (await keyStub(key).describe())?.waiters === 1);
  const before = await hostOneself(credential);
  await cut(client);
  await rested(credential, before);
  expect(await holder.ask(`r\n${key}\n${token}\n`)).toBe("ok");
  const back = await resume(credential);
  expect(tokenOf(await back.ask(`@1 l\n${key}\n60 600\n`)) > token).toBe(true);
  for (const each of [back, holder]) each.close();
});

it("a loss that is told while the session goes to rest, at whatever moment, reaches the client", async () => {
  for (let round = 0; round < 12; round += 1) {
    const key = fresh("key");
    const { client, credential } = await resumable();
    await client.ask("@w watch\n_\nlost\n");
    const token = tokenOf(await client.ask(`@1 l\n${key}\n0 600\n`));
    const before = await hostOneself(credential);
    await cut(client);
    await scheduler.wait(round * 2);
    await sessionObject(env, credential.session).lose({ key, token, reason: "stolen" });
    await rested(credential, before);
    const back = await resume(credential);
    back.send("@w watch\n_\nlost\n");
    expect([await back.line(), await back.line()]).toContain(`! lost ${key} ${token} stolen`);
    back.close();
  }
});

it("a session that nobody has had rests, and its name stays free", async () => {
  const credential = { session: "0123456789abcdef0123456789abcdef", secret: "0".repeat(32) };
  const before = await hostOneself(credential);
  expect(await objectOf(credential).isLive()).toBe(false);
  await rested(credential, before);
});

it("only a call that met a resting object is made again", async () => {
  const resting = new Error("the object is resting");
  expect(isResting(resting)).toBe(true);
  const call = vi.fn<() => Promise<string>>().mockRejectedValueOnce(resting).mockResolvedValueOnce("done");
  expect(await callAwake(call)).toBe("done");
  const failing = vi.fn<() => Promise<string>>().mockRejectedValue(new Error("storage is broken"));
  await expect(callAwake(failing)).rejects.toThrow("storage is broken");
  expect(failing).toHaveBeenCalledTimes(1);
});
