/** The client in a worker of a page. */
import type { Page } from "playwright-core";
import { describe, expect, it } from "vitest";
import { freshKey, waitersOf } from "../client/support.ts";
import { poll, sleep } from "../support/poll.ts";
import { hide, lifecycleOf } from "./support/lifecycle.ts";
import { useStage } from "./support/stage.ts";

const stage = useStage();

declare global {
  /** The worker of the page. */
  var worker: Worker | SharedWorker;
}

interface Employment {
  readonly lease?: number;
  readonly kind?: "Worker" | "SharedWorker";
}

/** Lets the page have a worker that holds the key. Resolves with the fence once it writes under it. */
async function employ(page: Page, key: string, { lease = 30_000, kind = "Worker" }: Employment = {}): Promise<string> {
  const asked = new URLSearchParams({ service: stage().service, key, lease: String(lease) });
  await page.evaluate(
    ({ kind, address }) => {
      globalThis.worker = new globalThis[kind](address, { type: "module" });
    },
    { kind, address: `/lock-worker.js?${asked}` },
  );
  const fence = await poll("the worker to hold the key", 5_000, async () => {
    const report = await stage().observer.query(key);
    return report?.held_by.find(({ label }) => label === "worker")?.fence;
  });
  await writes(fence, 1);
  return fence;
}

/** Resolves once the worker has written so often under its fence, ten times a second. */
async function writes(fence: string, count: number): Promise<void> {
  await poll(`${count} writes`, 20_000, async () => stage().writesOf(fence) >= count || undefined);
}

/** Waits for the key, and resolves once in the queue. The grant resolves with the lock and how long it took from here. */
async function queue(key: string) {
  const granted = stage().observer.acquire(key, { timeout: 30_000 });
  await waitersOf(stage().observer, key, 1);
  const started = performance.now();
  return { granted: granted.then((lock) => ({ lock, ms: performance.now() - started })) };
}

describe("a worker keeps its lock beyond its lease", () => {
  async function keeps(page: Page): Promise<void> {
    const key = freshKey("worker");
    const fence = await employ(page, key, { lease: 1_000 });
    const next = await queue(key);
    // Three seconds.
    await writes(fence, 30);
    expect(await stage().observer.query(key)).toMatchObject({ held_by: [{ fence, label: "worker" }], waiters: 1 });
    expect(stage().site.notes.filter((note) => note !== fence)).toEqual([]);
    await page.close();
    await (await next.granted).lock.release();
  }

  it("while its page is seen", async () => {
    await keeps(await stage().open("employer"));
  });

  it("while its page is hidden, and would itself be too slow for the lease", async () => {
    const page = await stage().open("employer", { isOrdinary: true });
    // A page that freezes while it connects breaks the connection off, and says so.
    await page.evaluate(() => locks.ready());
    await hide(page);
    await keeps(page);
  });
});

describe("a worker that is gone hands its lock over at once, without lease or grace", () => {
  const end = {
    "when its page terminates it": (page: Page) => page.evaluate(() => (worker as Worker).terminate()),
    "when its tab is closed": (page: Page) => page.close(),
    "when its page goes elsewhere": (page: Page) => page.goto(stage().site.elsewhere),
    "when its page crashes": async (page: Page) => {
      const control = await page.context().newCDPSession(page);
      // Nobody is left to answer.
      control.send("Page.crash").catch(() => {});
      await page.waitForEvent("crash");
    },
  };
  it.each(Object.entries(end))("%s", async (_how, go) => {
    const key = freshKey("worker");
    const page = await stage().open("employer");
    const fence = await employ(page, key);
    const next = await queue(key);
    await go(page);
    const { lock, ms } = await next.granted;
    expect(ms).toBeLessThan(2_000);
    expect(lock.fence > fence).toBe(true);
    await lock.release();
  });
});

it("a worker stands still with its frozen page, loses the lock with its lease, and does not write when it thaws", async () => {
  const key = freshKey("worker");
  const page = await stage().open("employer", { isOrdinary: true });
  const become = await lifecycleOf(page);
  const fence = await employ(page, key, { lease: 1_000 });
  await become("frozen");
  await using taken = await stage().observer.acquire(key, { timeout: 10_000 });
  expect(taken.fence > fence).toBe(true);
  const written = stage().writesOf(fence);
  await become("active");
  await poll(
    "the worker to be told",
    5_000,
    async () => stage().site.notes.some((note) => /^lost: (expired|disconnected)$/.test(note)) || undefined,
  );
  await sleep(0.5);
  expect(stage().writesOf(fence)).toBe(written);
});

it("a worker whose page was frozen for a moment does not believe in its lock once somebody else has it", async () => {
  const key = freshKey("worker");
  const page = await stage().open("employer", { isOrdinary: true });
  const become = await lifecycleOf(page);
  await employ(page, key);
  const next = await queue(key);
  await become("frozen");
  // Shorter than lease and grace: nothing tells the worker but its connection.
  await sleep(2);
  await become("active");
  const { lock } = await next.granted;
  const grantedAt = Date.now();
  const told = await poll("the worker to be told", 5_000, async () =>
    stage().site.notes.find((note) => note.startsWith("believed until ")),
  );
  expect(Number(told.split(" ").at(-1))).toBeLessThanOrEqual(grantedAt);
  await lock.release();
});

it("a shared worker holds its lock for as long as one of its pages is there, and then hands it over at once", async () => {
  const key = freshKey("worker");
  // Only tabs of one browser session share a worker.
  const first = await stage().open("first", { isOrdinary: true });
  const second = await stage().open("second", { isOrdinary: true });
  const fence = await employ(first, key, { kind: "SharedWorker" });
  expect(await employ(second, key, { kind: "SharedWorker" })).toBe(fence);
  const next = await queue(key);
  await first.close();
  await writes(fence, stage().writesOf(fence) + 10);
  expect(await stage().observer.query(key)).toMatchObject({ held_by: [{ fence }], waiters: 1 });
  const started = performance.now();
  await second.close();
  const { lock } = await next.granted;
  expect(performance.now() - started).toBeLessThan(2_000);
  expect(lock.fence > fence).toBe(true);
  await lock.release();
});
