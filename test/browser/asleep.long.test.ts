/** Pages that browsers put to sleep, and networks that go away. */
import type { Page } from "playwright-core";
import { describe, expect, it } from "vitest";
import { freshKey, waitersOf } from "../client/support.ts";
import { startCutProxy } from "../support/cut-proxy.ts";
import { poll, sleep } from "../support/poll.ts";
import { hide, lifecycleOf } from "./support/lifecycle.ts";
import { useStage } from "./support/stage.ts";

const stage = useStage();

/** Lets the page hold a key, and write what the lock protects ten times a second for as long as nobody tells it to stop. */
function holdAndWrite(page: Page, key: string, lease: number): Promise<string> {
  return page.evaluate(
    async ({ key, lease }) => {
      globalThis.lock = await locks.acquire(key, { lease });
      globalThis.told = [];
      lock.lost.then(({ reason }) => told.push(reason));
      const writing = setInterval(() => fetch("/notes", { method: "POST", body: lock.fence }), 100);
      lock.signal.addEventListener("abort", () => clearInterval(writing));
      return lock.fence;
    },
    { key, lease },
  );
}

const writesOf = (fence: string) => stage().writesOf(fence);

const believes = (page: Page) => page.evaluate(() => ({ isHeld: lock.isHeld, told: [...told] }));

describe("a frozen page", () => {
  it("whose lease runs out loses the lock, and is told when it thaws, before it writes again", async () => {
    const key = freshKey("asleep");
    const page = await stage().open("sleeper", { isOrdinary: true });
    const become = await lifecycleOf(page);
    const fence = await holdAndWrite(page, key, 1_000);
    await poll("the page to write", 5_000, async () => writesOf(fence) > 2 || undefined);
    await become("frozen");
    const started = performance.now();
    await using taken = await stage().observer.acquire(key, { timeout: 10_000 });
    expect(performance.now() - started).toBeLessThan(3_000);
    expect(taken.fence > fence).toBe(true);
    const written = writesOf(fence);
    await sleep(1);
    await become("active");
    expect(await believes(page)).toEqual({ isHeld: false, told: ["disconnected"] });
    await sleep(1.5);
    expect(writesOf(fence)).toBe(written);
    expect(await stage().observer.query(key)).toMatchObject({ held_by: [{ fence: taken.fence }], waiters: 0 });
  });

  it("whose lease does not run out keeps the lock", async () => {
    const key = freshKey("asleep");
    const page = await stage().open("sleeper", { isOrdinary: true });
    const become = await lifecycleOf(page);
    const fence = await holdAndWrite(page, key, 10_000);
    await become("frozen");
    await sleep(3);
    await become("active");
    expect(await believes(page)).toEqual({ isHeld: true, told: [] });
    expect(await stage().observer.query(key)).toMatchObject({ held_by: [{ fence }] });
    expect(await page.evaluate(() => lock.release())).toBe(true);
  });
});

describe("a hidden page", () => {
  /** Holds the key in a page, hides the page, and resolves with it once its timers run once a second only. */
  async function holdHidden(key: string, lease: number): Promise<{ page: Page; fence: string }> {
    const page = await stage().open("hidden", { isOrdinary: true });
    await page.evaluate(() => locks.query("anything"));
    await hide(page);
    const pauses = await page.evaluate(async () => {
      const moments: number[] = [];
      for (let tick = 0; tick < 4; tick += 1) {
        await new Promise((resolve) => setTimeout(resolve, 100));
        moments.push(performance.now());
      }
      return moments.slice(2).map((moment, index) => moment - (moments[index + 1] ?? 0));
    });
    expect(Math.min(...pauses)).toBeGreaterThan(900);
    return { page, fence: await holdAndWrite(page, key, lease) };
  }

  it("keeps its lock beyond its lease, though its timers run rarely", async () => {
    const key = freshKey("asleep");
    const { page, fence } = await holdHidden(key, 3_000);
    const stop = new AbortController();
    const next = stage().observer.acquire(key, { signal: stop.signal });
    next.catch(() => {});
    await sleep(7);
    expect(await believes(page)).toEqual({ isHeld: true, told: [] });
    expect(await stage().observer.query(key)).toMatchObject({ held_by: [{ fence, label: "hidden" }], waiters: 1 });
    stop.abort();
  });

  it("whose timers run too rarely for its lease loses the lock, and is told", async () => {
    const key = freshKey("asleep");
    const { page, fence } = await holdHidden(key, 1_000);
    await using taken = await stage().observer.acquire(key, { timeout: 10_000 });
    // At no time two believe that they hold it.
    expect((await believes(page)).isHeld).toBe(false);
    expect(taken.fence > fence).toBe(true);
    await poll("the page to be told", 3_000, async () => (await believes(page)).told.length > 0 || undefined);
    expect((await believes(page)).told).toEqual(["expired"]);
    expect(await stage().observer.query(key)).toMatchObject({ held_by: [{ fence: taken.fence }], waiters: 0 });
  });
});

it("a page that its browser keeps after it was left has given its lock up, and starts again when it is come back to", async () => {
  const key = freshKey("asleep");
  const page = await stage().open("left", { isOrdinary: true });
  const become = await lifecycleOf(page);
  const fence = await holdAndWrite(page, key, 30_000);
  const next = stage().observer.acquire(key, { timeout: 10_000 });
  await waitersOf(stage().observer, key, 1);
  // What a browser does to such a page. This one, without a window, keeps none.
  await page.evaluate(() => {
    dispatchEvent(new PageTransitionEvent("pagehide", { persisted: true }));
  });
  await become("frozen");
  const started = performance.now();
  const taken = await next;
  expect(performance.now() - started).toBeLessThan(2_000);
  const written = writesOf(fence);
  await become("active");
  await page.evaluate(() => {
    dispatchEvent(new PageTransitionEvent("pageshow", { persisted: true }));
  });
  expect(await believes(page)).toEqual({ isHeld: false, told: ["disconnected"] });
  await sleep(0.5);
  expect(writesOf(fence)).toBe(written);
  await taken.release();
  expect(await page.evaluate((key) => locks.request(key, ({ fence }) => fence), key)).not.toBe(fence);
});

describe("a network that goes away and comes back", () => {
  it("costs a page neither its lock nor its place in a queue, as a third party sees it", async () => {
    const [key, other] = [freshKey("asleep"), freshKey("asleep")];
    const { observer } = stage();
    await using proxy = await startCutProxy(() => stage().server.httpPort);
    const page = await stage().open("traveller", { port: proxy.port });
    const held = await observer.acquire(other);
    const fence = await page.evaluate(
      async ({ key, other }) => {
        globalThis.told = [];
        void (async () => {
          for await (const status of locks.statuses()) told.push(status);
        })();
        globalThis.lock = await locks.acquire(key);
        globalThis.waiting = locks.acquire(other);
        return lock.fence;
      },
      { key, other },
    );
    await waitersOf(observer, other, 1);
    const behind = observer.acquire(other);
    await waitersOf(observer, other, 2);

    await page.context().setOffline(true);
    proxy.close();
    await poll(
      "the page to notice",
      5_000,
      async () => (await page.evaluate(() => told.includes("reconnecting"))) || undefined,
    );
    expect(await page.evaluate(() => navigator.onLine)).toBe(false);
    await sleep(2);
    expect(await observer.tryAcquire(key)).toBe(null);
    proxy.heal();
    await page.context().setOffline(false);
    await poll(
      "the session to be back",
      5_000,
      async () => (await page.evaluate(() => told.includes("resumed"))) || undefined,
    );

    expect(await page.evaluate(() => ({ isHeld: lock.isHeld, told }))).toEqual({
      isHeld: true,
      told: ["connected", "reconnecting", "resumed"],
    });
    expect(await observer.query(key)).toMatchObject({ held_by: [{ fence, label: "traveller" }] });
    expect(await observer.query(other)).toMatchObject({ queue: [{ label: "traveller" }, { label: "observer" }] });
    await held.release();
    expect(await page.evaluate(async () => (await waiting).release())).toBe(true);
    expect(await (await behind).release()).toBe(true);
    expect(await page.evaluate(() => lock.release())).toBe(true);
    // The browser itself reports every socket that does not come about.
    stage().forgive(/^traveller: WebSocket connection to '\S+' failed/);
  });
});
