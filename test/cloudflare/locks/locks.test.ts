/** What a binding's calls do when answers are lost, and when the key sleeps while they wait. */
import { createExecutionContext, evictDurableObject, waitOnExecutionContext } from "cloudflare:test";
import { env, exports } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import type {
  KeyObjectCommand,
  KeyObjectCommandOf,
  KeyObjectCommandType,
} from "../../../src/cloudflare/calls/key-calls.ts";
import type { Env } from "../../../src/cloudflare/env.ts";
import type { LocksBinding, LocksProps } from "../../../src/cloudflare/locks/binding.ts";
import { Locks } from "../../../src/cloudflare/locks/locks.ts";
import { expectLog } from "../../support/expected-logs.ts";
import { fresh, keyStub, until } from "../support.ts";

const binding = exports.Locks as unknown as LocksBinding;

/** An entrypoint whose commands are carried out, and then so many answers to those of this type are lost. */
function losing<Type extends KeyObjectCommandType>(type: Type, times: number) {
  const made: KeyObjectCommandOf<Type>[] = [];
  let left = times;
  const stub = (key: string) => ({
    fetch: (input: string, init: RequestInit) => keyStub(key).fetch(input, init),
    command: async (command: KeyObjectCommand) => {
      const answer = await keyStub(key).command(command);
      if (command.type !== type) return answer;
      made.push(command as KeyObjectCommandOf<Type>);
      left -= 1;
      if (left < 0) return answer;
      throw Object.assign(new Error("Network connection lost."), { retryable: true });
    },
  });
  const ctx = createExecutionContext() as ExecutionContext<LocksProps>;
  const locks = new Locks(ctx, { ...env, KEY: { getByName: stub } } as unknown as Env);
  return { locks, made, ended: () => waitOnExecutionContext(ctx) };
}

const holdersOf = async (key: string) => (await keyStub(key).describe())?.holderCount ?? 0;

describe("an acquire whose answer is lost", () => {
  it("is made again under the same id, and takes one slot", async () => {
    const key = fresh("key");
    const { locks, made } = losing("claim", 2);
    const acquired = await locks.acquire(key, { limit: 5 });
    expect(acquired?.token).toHaveLength(32);
    expect(new Set(made.map(({ command }) => command.request)).size).toBe(1);
    expect([made.length, await holdersOf(key)]).toEqual([3, 1]);
  });

  it("again and again is withdrawn, and its caller is told that the key cannot be reached", async () => {
    const key = fresh("key");
    const { locks, ended } = losing("claim", Number.POSITIVE_INFINITY);
    await expect(locks.acquire(key)).rejects.toThrow(
      `UnavailableError: key "${key}" cannot be reached: Error: Network`,
    );
    await ended();
    expect(await holdersOf(key)).toBe(0);
    expectLog("key_unreachable");
  });
});

describe("a release whose answer is lost", () => {
  it("answers what the first one did", async () => {
    const key = fresh("key");
    const token = (await binding.acquire(key))?.token ?? "";
    const { locks, made } = losing("release", 2);
    expect(await locks.release(key, token)).toBe(true);
    expect(made).toHaveLength(3);
    expect(await locks.release(key, token)).toBe(false);
  });

  it("again and again at the end of `request` costs its caller nothing, and frees the slot", async () => {
    const key = fresh("key");
    const { locks, ended } = losing("release", Number.POSITIVE_INFINITY);
    expect(await locks.request(key, undefined, async ({ fence }) => fence)).toHaveLength(16);
    await ended();
    expect(await holdersOf(key)).toBe(0);
    expectLog("release_failed");
  });
});

describe("a Worker that waits", () => {
  it.each(["hibernate", "close"] as const)("lets the key sleep, and keeps its place (%s)", async (webSockets) => {
    const key = fresh("key");
    const first = await binding.acquire(key, { lease: 600_000 });
    const waiting = binding.acquire(key, { timeout: 50_000 });
    await until(async () => (await keyStub(key).describe())?.waiters === 1);
    await evictDurableObject(keyStub(key), { webSockets });
    expect((await keyStub(key).describe())?.waiters).toBe(1);
    expect(await binding.release(key, first?.token ?? "")).toBe(true);
    const second = await waiting;
    expect((second?.fence ?? "") > (first?.fence ?? "")).toBe(true);
    expect(await binding.release(key, second?.token ?? "")).toBe(true);
  });
});

describe("a lock whose key's object was evicted [W13]", () => {
  it("is renewed, released and not released again", async () => {
    const key = fresh("key");
    const token = (await binding.acquire(key))?.token ?? "";
    await evictDurableObject(keyStub(key));
    expect(await binding.renew(key, token, { lease: 50_000 })).toEqual({ remaining: 50_000 });
    await evictDurableObject(keyStub(key));
    expect(await binding.release(key, token)).toBe(true);
    await evictDurableObject(keyStub(key));
    expect(await binding.release(key, token)).toBe(false);
  });
});
