import { reset } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, describe, expect, it } from "vitest";
import { type CountedLife, difference, perTime } from "../../../bench/cost/counts.ts";
import { dollarsPerMillion, requestsOf } from "../../../bench/cost/prices.ts";
import { allDirectories } from "../../../src/cloudflare/calls/directories.ts";
import { allCollectors } from "../../../src/cloudflare/metrics/collectors.ts";
import { Counting } from "./counting.ts";
import { LIVES, type Life } from "./lives.ts";

declare module "vitest" {
  interface TaskMeta {
    /** What `npm run cost` reads. */
    cost?: CountedLife;
  }
}

afterEach(reset);

/** Shards store a little at their first use ever, which is nobody's cost. */
async function useEveryShard(): Promise<void> {
  await Promise.all(allDirectories(env).map((directory) => directory.list({ prefix: "", after: "", limit: 0 })));
  await Promise.all(allCollectors(env).map((collector) => collector.read()));
}

async function count(life: Life): Promise<CountedLife> {
  const counting = await Counting.begin({ shardMs: life.shardMs ?? 0 });
  try {
    await useEveryShard();
    const { work, end } = await life.prepare(counting);
    await counting.quiet();
    const before = counting.read();
    await work();
    await counting.quiet();
    const counts = difference(counting.read(), before);
    await end?.();
    await counting.quiet();
    return { name: life.name, times: life.times, counts };
  } finally {
    counting.end();
  }
}

describe("stays within its budget:", () => {
  it.for(LIVES)("$name", async (life, { task }) => {
    const counted = await count(life);
    task.meta.cost = counted;
    const each = perTime(counted);
    const { rowsWritten, requests, heldMs, dollars = Number.POSITIVE_INFINITY } = life.budget;
    expect(each.rowsWritten).toBeLessThanOrEqual(rowsWritten);
    expect(requestsOf(each)).toBeLessThanOrEqual(requests);
    expect(each.heldMs).toBeLessThanOrEqual(heldMs);
    expect(dollarsPerMillion(each)).toBeLessThanOrEqual(dollars);
  });
});
