import type { Promises } from "./contract.ts";
import { granted, hold, queue } from "./steps.ts";

const fenceOf = (token: string) => BigInt(`0x${token.slice(0, 16)}`);

export const fencePromises: Promises = {
  "every grant of a key has a higher fence than all before": async ({ session, freshKey, expect }) => {
    const [a, key] = [await session(), freshKey()];
    let last = 0n;
    for (let round = 0; round < 50; round += 1) {
      const token = await hold(a, key);
      expect(fenceOf(token)).toBeGreaterThan(last);
      last = fenceOf(token);
      await a.release(key, token);
    }
  },

  "every slot of a semaphore has a fence of its own, rising": async ({ session, freshKey, expect }) => {
    const [a, key] = [await session(), freshKey()];
    const fences: bigint[] = [];
    for (let slot = 0; slot < 10; slot += 1) fences.push(fenceOf(await hold(a, key, { limit: 10 })));
    expect(fences).toEqual([...new Set(fences)].sort((x, y) => (x < y ? -1 : 1)));
  },

  "a hand-over raises the fence": async ({ session, freshKey, expect }) => {
    const [a, b, key] = [await session(), await session(), freshKey()];
    const before = await hold(a, key);
    const waiter = await queue(b, key);
    await a.release(key, before);
    expect(fenceOf(granted(await waiter.outcome).token)).toBeGreaterThan(fenceOf(before));
  },

  "two tokens never share their random half": async ({ session, freshKey, expect }) => {
    const a = await session();
    const salts = new Set<string>();
    for (let round = 0; round < 20; round += 1) salts.add((await hold(a, freshKey())).slice(16));
    expect(salts.size).toBe(20);
  },
};
