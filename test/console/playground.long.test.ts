/** Whoever plays with the clients of the playground sees what the service does, and nothing else. */
import { describe, expect, it } from "vitest";
import { useStage } from "../browser/support/stage.ts";
import { waitersOf } from "../client/support.ts";
import { Playground } from "./support/playground.ts";
import { expectUsable, picture } from "./support/visitor.ts";

/** Far less than a lost connection is waited for, and than the lease. */
const AT_ONCE_MS = 5_000;
const stage = useStage();

describe("a visitor understands it by clicking", () => {
  it("finds the button that brings the story on", async () => {
    const playground = await Playground.open(stage());
    const hinted: string[] = [];
    for (const name of ["Ada", "Ben", "Cleo", "Ada", "Ben"]) {
      const button = playground.card(name).locator(".hinted");
      await button.waitFor();
      hinted.push(`${name}: ${await button.textContent()}`);
      await button.click();
    }
    expect(hinted).toEqual(["Ada: Acquire", "Ben: Acquire", "Cleo: Acquire", "Ada: Release", "Ben: Freeze"]);
    await expect.poll(() => playground.page.locator(".hinted").count()).toBe(0);
  });

  it("begins again with nothing", async () => {
    const playground = await Playground.open(stage());
    const key = await playground.key();
    await playground.acquireInTurn("Ada", "Ben");
    await playground.page.getByRole("button", { name: "Start over" }).click();
    await playground.isReady();
    expect(await playground.key()).not.toBe(key);
    expect(await playground.stepsDone()).toBe(0);
    await playground.shows("Ada", "Has nothing");
    await expect.poll(async () => (await stage().observer.query(key))?.holders).toBe(0);
  });
});

describe("the clients", () => {
  it("get the lock in the order in which they asked, each with a higher fence", async () => {
    const playground = await Playground.open(stage());
    const fences: string[] = [];
    await playground.acquireInTurn("Cleo", "Ada", "Ben");
    expect(await playground.queued(2)).toEqual(["Ada", "Ben"]);
    for (const name of ["Cleo", "Ada", "Ben"]) {
      await playground.shows(name, "Holding");
      fences.push(await playground.fenceOf(name));
      await playground.does(name, "Release");
    }
    expect(fences).toEqual([...new Set(fences)].toSorted());
    const rising = playground.page.getByRole("list", { name: "Fences, rising" });
    expect(await rising.getByRole("listitem").allTextContents()).toEqual([
      `Cleo ${fences[0]}`,
      `Ada ${fences[1]}`,
      `Ben ${fences[2]}`,
    ]);
    await playground.holders.getByText("free").waitFor();
  });

  it("hand over at once when they are closed, and can be added again, up to six", async () => {
    const playground = await Playground.open(stage());
    const { page } = playground;
    await playground.useLease("60 s");
    await playground.acquireInTurn("Ada", "Ben");
    const started = performance.now();
    await playground.does("Ada", "Close");
    await playground.shows("Ben", "Holding");
    expect(performance.now() - started).toBeLessThan(AT_ONCE_MS);
    expect(await playground.card("Ada").count()).toBe(0);
    expect(await page.evaluate(() => document.activeElement?.textContent)).toBe("Add a client");
    const add = page.getByRole("button", { name: "Add a client" });
    for (const name of ["Ada", "Dan", "Eve", "Finn"]) {
      await add.click();
      await playground.shows(name, "connected");
    }
    expect(await add.isDisabled()).toBe(true);
    await playground.acquireInTurn("Finn", "Eve");
    expect(await playground.queued(2)).toEqual(["Finn", "Eve"]);
    await expectUsable(page);
    await picture(page, "playground-six");
  });

  it("hand over at once when they are closed, though they stand still", async () => {
    const playground = await Playground.open(stage());
    await playground.useLease("60 s");
    await playground.acquireInTurn("Ada", "Ben");
    await playground.does("Ada", "Freeze");
    const started = performance.now();
    await playground.does("Ada", "Close");
    await playground.shows("Ben", "Holding");
    expect(performance.now() - started).toBeLessThan(AT_ONCE_MS);
  });

  it("take a place now and wait for it later", async () => {
    const playground = await Playground.open(stage());
    await playground.acquireInTurn("Ada");
    await playground.does("Ben", "Enqueue");
    await playground.shows("Ben", "Place taken, position 1 of 1");
    await playground.queue.getByText("has a place").waitFor();
    await playground.acquireInTurn("Cleo");
    await playground.does("Ada", "Release");
    await playground.shows("Ben", "The turn has come");
    await playground.shows("Cleo", "Waiting, position 1 of 1");
    await picture(playground.page, "playground-turn");
    await playground.does("Ben", "Wait");
    await playground.shows("Ben", "Holding");
    await playground.does("Ben", "Release");
    await playground.shows("Cleo", "Holding");
  });

  it("lose a place that has come up and that nobody waits for", async () => {
    const playground = await Playground.open(stage());
    await playground.useLease("5 s");
    await playground.does("Ben", "Enqueue");
    await playground.shows("Ben", "The turn has come");
    await playground.acquireInTurn("Cleo");
    await playground.shows("Cleo", "Holding");
    await playground.shows("Ben", "Has nothing");
    await playground.log.getByText("Ben has lost the place").waitFor();
  });

  it("leave the queue when they give up, waiting or not", async () => {
    const playground = await Playground.open(stage());
    const key = await playground.key();
    await playground.acquireInTurn("Ada", "Ben");
    await playground.does("Cleo", "Enqueue");
    await playground.shows("Cleo", "Place taken, position 2 of 2");
    await playground.does("Ben", "Give up");
    await playground.shows("Ben", "Has nothing");
    await playground.shows("Cleo", "Place taken, position 1 of 1");
    await playground.does("Cleo", "Give up");
    await waitersOf(stage().observer, key, 0);
    expect(await playground.queued(0)).toEqual([]);
    await playground.shows("Ada", "Holding");
  });

  it("share a semaphore of two slots, or of three", async () => {
    const playground = await Playground.open(stage());
    const key = await playground.key();
    await playground.page.getByLabel("Slots").selectOption("2: a semaphore");
    expect(await playground.key()).not.toBe(key);
    await playground.acquireInTurn("Ada", "Ben", "Cleo");
    expect(await playground.held(2)).toEqual(["Ada", "Ben"]);
    expect(await playground.queued(1)).toEqual(["Cleo"]);
    await playground.thing.getByText("fences are for locks").waitFor();
    await expectUsable(playground.page);
    await picture(playground.page, "playground-semaphore");
    await playground.does("Ada", "Release");
    await playground.shows("Cleo", "Holding");
    await expect.poll(async () => (await playground.held(2)).toSorted()).toEqual(["Ben", "Cleo"]);
    for (const name of ["Ben", "Cleo"]) await playground.does(name, "Release");
    await playground.page.getByLabel("Slots").selectOption("3: a semaphore");
    await playground.page.getByRole("button", { name: "Add a client" }).click();
    await playground.acquireInTurn("Ada", "Ben", "Cleo", "Dan");
    expect(await playground.held(3)).toEqual(["Ada", "Ben", "Cleo"]);
    expect(await playground.queued(1)).toEqual(["Dan"]);
    await playground.page.evaluate(() => scrollTo(0, 0));
    await picture(playground.page, "playground-three-slots");
  });
});

describe("a client that stands still", () => {
  /**
   * Longer than the grace, which is not what decides. The grace is the default of 10 s: with a shorter one, a client gives
   * up what it asked for when the machine stalls for as long.
   */
  const LEASE = "15 s";

  it("keeps the lock if it goes on before the lease ends", async () => {
    const playground = await Playground.open(stage());
    await playground.useLease(LEASE);
    await playground.acquireInTurn("Ada", "Ben");
    const fence = await playground.fenceOf("Ada");
    await playground.does("Ada", "Freeze");
    await playground
      .card("Ada")
      .getByText(/^lease [1-4] of 15 s$/)
      .waitFor();
    await playground.does("Ada", "Thaw");
    await playground
      .card("Ada")
      .getByText(/^lease 1[45] of 15 s$/)
      .waitFor();
    await playground.shows("Ada", "The client renews the lease by itself.");
    await playground.shows("Ben", "Waiting, position 1 of 1");
    expect(await playground.fenceOf("Ada")).toBe(fence);
  });

  it("can do nothing, not even write", async () => {
    const playground = await Playground.open(stage());
    await playground.acquireInTurn("Ada");
    await playground.does("Ada", "Freeze");
    for (const action of ["Acquire", "Release", "Write", "Enqueue", "Wait", "Give up"])
      expect(await playground.button("Ada", action).isDisabled()).toBe(true);
    await playground.button("Ada", "Write").click({ force: true });
    await playground.thing.getByText("Nobody has written yet.").waitFor();
  });

  it("sleeps through its turn, and is told so", async () => {
    const playground = await Playground.open(stage());
    await playground.useLease(LEASE);
    await playground.acquireInTurn("Ada", "Ben", "Cleo");
    await playground.does("Ben", "Freeze");
    await playground.does("Ada", "Release");
    await playground.shows("Ben", "Being frozen, the client does not know.");
    await playground.shows("Cleo", "Holding");
    await playground.does("Ben", "Thaw");
    await playground.shows("Ben", "Lost: expired");
    expect(await playground.button("Ben", "Write").isDisabled()).toBe(true);
    await playground.acquireInTurn("Ben");
    await playground.shows("Ben", "Waiting, position 1 of 1");
  });
});
