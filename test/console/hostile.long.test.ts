/** Names are chosen by others: whatever they contain, the console shows it as text and leads to the right key. */
import type { Locator, Page } from "playwright-core";
import { describe, expect, it } from "vitest";
import { useStage } from "../browser/support/stage.ts";
import { connectTo, waitersOf } from "../client/support.ts";
import { Playground } from "./support/playground.ts";
import { expectUsable, picture, visit } from "./support/visitor.ts";

const stage = useStage();

/** What follows is written from right to left, until somebody stops it. */
const TURNED = "\u202e";
const MARKUP = "<img/src=x/onerror=alert(1)>";

const KEYS = {
  markup: MARKUP,
  "an override of the direction": `build${TURNED}gpj.exe`,
  "letters from right to left": "בנייה/ראשית",
  "an encoded slash": "a%2Fb",
  "a slash": "a/b",
  "an end of an encoding": "100%",
  "what ends a path": "#?&",
  "quotes and brackets": `"']\\[`,
  emoji: "🔒👩‍🚀",
  "all 256 bytes": "k".repeat(256),
  "a name that objects have": "__proto__",
} as const;

/** Labels may have blanks, but no more than 64 characters. */
const LABEL = `<b>${MARKUP}</b> &amp; "'`;

/** Where, from left to right, the letters of an element's own text stand that contains these words. */
function placesOf(element: Locator, words: string): Promise<number[]> {
  return element.evaluate((element, words) => {
    const walker = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
      const { currentNode } = walker;
      const start = currentNode.textContent?.indexOf(words) ?? -1;
      if (start === -1) continue;
      return Array.from(words, (_, at) => {
        const range = document.createRange();
        range.setStart(currentNode, start + at);
        range.setEnd(currentNode, start + at + 1);
        return range.getBoundingClientRect().left;
      });
    }
    throw new Error(`no such words: ${words}`);
  }, words);
}

/** The words read from left to right, though what stands before them does not. */
async function expectUnturned(element: Locator, words: string): Promise<void> {
  const places = await placesOf(element, words);
  expect(places).toEqual(places.toSorted((a, b) => a - b));
}

/** Nothing of what others have named became part of the page. */
async function expectPlainText(page: Page): Promise<void> {
  expect(await page.locator("img, main b > *").count()).toBe(0);
  await expectUsable(page);
}

describe("a key that is called as nobody expects", () => {
  it.each(Object.entries(KEYS))("is text in the list, and leads to its own page: %s", async (_what, key) => {
    const { httpPort } = stage().server;
    await using holder = connectTo(httpPort, { label: LABEL });
    await using waiter = connectTo(httpPort, { label: `${LABEL} too` });
    await using _held = await holder.acquire(key, { lease: 60_000 });
    waiter.acquire(key).catch(() => {});
    await waitersOf(stage().observer, key, 1);
    const page = await visit(stage());
    const link = page.getByRole("link", { name: key, exact: true });
    await link.waitFor();
    const row = page.getByRole("list", { name: "Keys" }).getByRole("listitem").filter({ has: link });
    expect(await link.textContent()).toBe(key);
    expect(await row.locator(".name").allTextContents()).toEqual([LABEL, `${LABEL} too`]);
    await expectPlainText(page);
    await link.click();
    await page.getByRole("region", { name: "Held by" }).getByText(LABEL, { exact: true }).waitFor();
    await page.getByRole("region", { name: "1 waiting" }).getByText(`${LABEL} too`, { exact: true }).waitFor();
    expect(await page.locator("h1").textContent()).toBe(key);
    await expectPlainText(page);
    await page.reload();
    await page.getByRole("region", { name: "Held by" }).getByText(LABEL, { exact: true }).waitFor();
  });

  it("turns no words around it", async () => {
    const key = `release${TURNED}gpj.exe`;
    const page = await visit(stage());
    await page.getByLabel("Filter by prefix").fill(key);
    const nothing = page.getByText("No key begins with");
    await nothing.waitFor();
    await expectUnturned(nothing, "at the moment");
    const playground = await Playground.open(stage());
    await playground.useKey(key);
    await expectUnturned(playground.page.getByRole("heading", { name: "as the service sees it" }), "as the service");
    await using _held = await stage().observer.acquire(key, { limit: 3 });
    await playground.does("Ada", "Acquire");
    const problem = playground.card("Ada").getByRole("alert").getByText("another number of slots");
    await problem.waitFor();
    await expectUnturned(problem, "exists with");
    await expectPlainText(playground.page);
    await picture(playground.page, "playground-turned");
  });
});
