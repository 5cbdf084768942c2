/** Several keys in one request of a Worker, of which one is lost. */
import { createExecutionContext, waitOnExecutionContext } from "cloudflare:test";
import { env, exports } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import type { KeyObjectCommand } from "../../../src/cloudflare/calls/key-calls.ts";
import type { Env } from "../../../src/cloudflare/env.ts";
import type { OwnLocks } from "../../../src/cloudflare/lock-key/api.ts";
import { BoundLocks } from "../../../src/cloudflare/lock-key/bound-locks.ts";
import { locks } from "../../../src/cloudflare/lock-key/index.ts";
import type { LocksBinding, LocksProps } from "../../../src/cloudflare/locks/binding.ts";
import { Locks } from "../../../src/cloudflare/locks/locks.ts";
import { expectLog } from "../../support/expected-logs.ts";
import { askKey, fresh, keyStub, until } from "../support.ts";

const WAYS: readonly (readonly [way: string, own: OwnLocks])[] = [
  ["locks() with a service binding", new BoundLocks(exports.Locks as unknown as LocksBinding)],
  ["locks() with LockKey", locks(env.KEY)],
];

/** It is renewed after a third of it, which is when a loss is noticed. */
const LEASE = 6_000;
const seen = async (key: string) => {
  const { holderCount, waiters } = (await keyStub(key).describe()) ?? {};
  return [holderCount, waiters];
};

async function steal(key: string): Promise<void> {
  const fence = (await keyStub(key).describe({ detail: true }))?.holders[0]?.fence ?? "";
  expect(await askKey(keyStub(key), { type: "steal", fence })).toMatchObject({ status: "stolen" });
}

describe.each(WAYS)("over %s, one of several that is taken away", (_, own) => {
  it("while the next one is waited for ends the wait: all are given back, and the callback does not run", async () => {
    const [a, b, c] = [fresh("a"), fresh("b"), fresh("c")];
    const held = await own.acquire(c, { lease: 600_000 });
    const asked = own.request([c, b, a], { timeout: 60_000, lease: LEASE }, () => expect.fail("ran without all locks"));
    const outcome = asked.then(String, String);
    await until(async () => (await keyStub(c).describe())?.waiters === 1);
    await steal(a);
    expect(await outcome).toContain(`LockLostError: the lock on key "${a}" was lost before its callback ended`);
    await until(async () => (await keyStub(c).describe())?.waiters === 0);
    expect([await seen(a), await seen(b), await seen(c)]).toEqual([
      [0, 0],
      [0, 0],
      [1, 0],
    ]);
    expect(await held?.release()).toBe(true);
    expect(await seen(c)).toEqual([0, 0]);
  });

  it("while the callback runs aborts its signal, and the others are still held [M14]", async () => {
    const [a, b] = [fresh("a"), fresh("b")];
    const asked = own.request([b, a], { lease: LEASE }, async (both, signal) => {
      expect(both.map(({ key }) => key)).toEqual([b, a]);
      expect(signal.aborted).toBe(false);
      await steal(a);
      await until(() => signal.aborted, { timeout: 20_000 });
      expect(signal.reason.message).toBe(`LockLostError: the lock on key "${a}" was lost before its callback ended`);
      expect(await Promise.all(both.map((lock) => lock.isHeld()))).toEqual([true, false]);
    });
    await expect(asked).rejects.toThrow(`LockLostError: the lock on key "${a}" was lost before its callback ended`);
    expect([await seen(a), await seen(b)]).toEqual([
      [0, 0],
      [0, 0],
    ]);
  });
});

it("a lease that ends without a renewal counts as a loss, for as long as the key cannot be reached", async () => {
  expectLog("renewal_failed");
  const [a, b] = [fresh("a"), fresh("b")];
  const stub = (key: string) => ({
    fetch: (input: string, init: RequestInit) => keyStub(key).fetch(input, init),
    command: async (command: KeyObjectCommand) => {
      if (command.type === "renew" && key === a) throw new Error("out of reach");
      return keyStub(key).command(command);
    },
  });
  const ctx = createExecutionContext() as ExecutionContext<LocksProps>;
  const entrypoint = new Locks(ctx, { ...env, KEY: { getByName: stub } } as unknown as Env);
  const asked = entrypoint.request([a, b], { lease: 1_500 }, async (both, lost) => {
    const message = await lost();
    return [message, both.map((lock) => lock.isHeld())];
  });
  await expect(asked).rejects.toThrow(`LockLostError: the lock on key "${a}" was lost before its callback ended`);
  await waitOnExecutionContext(ctx);
  expect([await seen(a), await seen(b)]).toEqual([
    [0, 0],
    [0, 0],
  ]);
});

it("a callback that ends well is told that nothing was lost", async () => {
  const binding = exports.Locks as unknown as LocksBinding;
  let told: Promise<string | null> | undefined;
  await binding.request([fresh("a"), fresh("b")], undefined, async (_, lost) => {
    told = lost();
  });
  expect(await told).toBe(null);
});
