/** Pages of a web site share a lock, and leave as pages do. */
import type { Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { freshKey, waitersOf } from "../client/support.ts";
import { HOSTS } from "../support/hosts.ts";
import type { TestServer } from "../support/server.ts";
import { cutOff } from "./support/cut-off.ts";
import { useStage } from "./support/stage.ts";

const stage = useStage();

/** Makes the page hold the key. Resolves with the fence. */
function hold(page: Page, key: string): Promise<string> {
  return page.evaluate(async (key) => {
    globalThis.lock = await locks.acquire(key);
    return lock.fence;
  }, key);
}

/** Makes the page wait for the key, and resolves once it stands in the queue. What comes of it resolves with the fence. */
async function queue(page: Page, key: string): Promise<{ readonly granted: Promise<string> }> {
  const granted = page.evaluate(async (key) => (await locks.acquire(key)).fence, key);
  await waitersOf(stage().observer, key, 1);
  return { granted };
}

describe.each(HOSTS)("with the service on $name", (host) => {
  let server: TestServer;
  beforeAll(async () => {
    server = await host.start();
  });
  afterAll(() => server.stop());
  const open = (label: string) => stage().open(label, { port: server.httpPort });

  it("two pages that want one lock get it in turn, and the fences rise", async () => {
    const key = freshKey("page");
    const pages = [await open("one"), await open("two")];
    const fences = await Promise.all(
      pages.map((page, number) =>
        page.evaluate(
          async ({ key, number }) => {
            const note = (word: string) => fetch("/notes", { method: "POST", body: `${word} ${number}` });
            const fences: string[] = [];
            for (let round = 0; round < 10; round += 1) {
              await locks.request(key, async (lock) => {
                await note("in");
                fences.push(lock.fence);
                await note("out");
              });
            }
            return fences;
          },
          { key, number },
        ),
      ),
    );
    const notes = stage().site.notes;
    expect(notes).toHaveLength(40);
    const order = notes.filter((note) => note.startsWith("in")).map((note) => Number(note.slice(3)));
    expect(notes).toEqual(order.flatMap((number) => [`in ${number}`, `out ${number}`]));
    expect(new Set(order).size).toBe(2);
    const granted = order.map((number) => fences[number]?.shift());
    expect(granted).toEqual([...new Set(granted)].sort());
  });
});

describe("a page that leaves hands its lock over at once, without lease or grace", () => {
  const leave = {
    "when its tab is closed": (page: Page) => page.close(),
    "when it goes to another page": (page: Page) => page.goto(stage().site.elsewhere),
    "when it is loaded again": (page: Page) => page.reload(),
    "when it crashes": async (page: Page) => {
      const control = await page.context().newCDPSession(page);
      // Nobody is left to answer.
      control.send("Page.crash").catch(() => {});
      await page.waitForEvent("crash");
    },
  };
  it.each(Object.entries(leave))("%s", async (_how, go) => {
    const key = freshKey("page");
    const [first, second] = [await stage().open("first"), await stage().open("second")];
    const fence = await hold(first, key);
    const next = await queue(second, key);
    await using witness = await cutOff(stage());
    await go(first);
    expect((await next.granted) > fence).toBe(true);
    expect(await witness.isKept()).toBe(true);
  });

  it("and its place in a queue", async () => {
    const key = freshKey("page");
    await using _held = await stage().observer.acquire(key);
    const page = await stage().open("waiter");
    void page.evaluate((key) => locks.acquire(key), key).catch(() => {});
    await waitersOf(stage().observer, key, 1);
    await using witness = await cutOff(stage());
    await page.close();
    await waitersOf(stage().observer, key, 0);
    expect(await witness.isKept()).toBe(true);
  });
});

describe("in a page", () => {
  it("`await using` gives a lock back at the end of its block, and close ends the client with all it has", async () => {
    const key = freshKey("page");
    const page = await stage().open("user");
    // As text: what transforms the tests would transform this as well.
    const isHeld = await page.evaluate(`(async () => {
      {
        await using lock = await locks.acquire(${JSON.stringify(key)});
        if (!lock.isHeld) return "not held";
      }
      await using again = await locks.tryAcquire(${JSON.stringify(key)});
      return again?.isHeld;
    })()`);
    expect(isHeld).toBe(true);
    const next = stage().observer.acquire(key, { timeout: 5_000 });
    await (await next).release();
    expect(
      await page.evaluate(async (key) => {
        const lock = await locks.acquire(key);
        await locks.close();
        return (await lock.lost).reason;
      }, key),
    ).toBe("disconnected");
    await using _taken = await stage().observer.acquire(key, { timeout: 2_000 });
  });

  it("an abort ends a wait with its reason, and leaves no place in the queue", async () => {
    const key = freshKey("page");
    await using _held = await stage().observer.acquire(key);
    const page = await stage().open("impatient");
    await page.evaluate((key) => {
      const stop = new AbortController();
      globalThis.told = [];
      locks.acquire(key, { signal: stop.signal }).catch((reason) => told.push(reason.name));
      addEventListener("click", () => stop.abort(), { once: true });
      locks.acquire(key, { signal: AbortSignal.timeout(300) }).catch((reason) => told.push(reason.name));
    }, key);
    await waitersOf(stage().observer, key, 2);
    await waitersOf(stage().observer, key, 1);
    await page.mouse.click(10, 10);
    await waitersOf(stage().observer, key, 0);
    expect(await page.evaluate(() => told)).toEqual(["TimeoutError", "AbortError"]);
  });
});
