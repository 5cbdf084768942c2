/** What stands above every place of the console. */
import type { Page } from "playwright-core";
import { expect, it } from "vitest";
import { useStage } from "../browser/support/stage.ts";
import { freshKey } from "../client/support.ts";
import { poll } from "../support/poll.ts";
import { expectUsable, visit } from "./support/visitor.ts";

const stage = useStage();

/** The figure beside that word. */
async function figure(page: Page, term: string): Promise<string> {
  const found = page.locator(".figures > div", { has: page.getByText(term, { exact: true }) });
  return (await found.locator("dd").textContent()) ?? "";
}

it("counts sessions, keys, waiters and grants as they come", async () => {
  const page = await visit(stage());
  const key = freshKey("figures");
  await using held = await stage().observer.acquire(key, { lease: 60_000 });
  const waiting = stage().observer.acquire(key, { timeout: 60_000 });
  for (let round = 0; round < 50; round += 1) await (await stage().observer.acquire(freshKey("figures"))).release();
  await poll("the waiter to be counted", 15_000, async () => (await figure(page, "waiting")) === "1" || undefined);
  expect(Number(await figure(page, "sessions"))).toBeGreaterThan(0);
  expect(Number(await figure(page, "keys"))).toBeGreaterThan(0);
  await poll("the grants to be counted", 15_000, async () => Number(await figure(page, "grants/s")) > 0 || undefined);
  expect(await figure(page, "hold p95")).toMatch(/^\d+(\.\d)? (ms|s)$/);
  await held.release();
  await (await waiting).release();
  await poll("the waiter to be gone", 15_000, async () => (await figure(page, "waiting")) === "0" || undefined);
});

it("leads everywhere with the keyboard alone, and says where one is", async () => {
  const page = await visit(stage());
  await page.getByText("Live", { exact: true }).waitFor();
  const focused = () => page.evaluate(() => document.activeElement?.textContent?.trim());
  await page.keyboard.press("Tab");
  expect(await focused()).toBe("Skip to content");
  await page.keyboard.press("Enter");
  expect(await page.evaluate(() => [document.activeElement?.id, location.hash])).toEqual(["content", "#/"]);
  for (const name of ["Playground", "Keys"]) {
    await page.getByRole("link", { name, exact: true }).focus();
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { name, level: 1 }).waitFor();
    expect(await page.locator("nav [aria-current=page]").textContent()).toBe(name);
  }
  expect(await page.getByRole("button", { name: "Sign out" }).count()).toBe(0);
  await expectUsable(page);
});
