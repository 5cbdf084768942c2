/** What browsers do to tabs that nobody looks at. Only to ordinary ones: see `TabOptions`. */
import type { Page } from "playwright-core";
import { expect } from "vitest";

/** Puts the page to sleep, or wakes it. */
export async function lifecycleOf(page: Page): Promise<(state: "frozen" | "active") => Promise<void>> {
  const control = await page.context().newCDPSession(page);
  return async (state) => {
    await control.send("Page.setWebLifecycleState", { state });
  };
}

/** Freezing hides a page, and thawing does not show it again. */
export async function hide(page: Page): Promise<void> {
  const become = await lifecycleOf(page);
  await become("frozen");
  await become("active");
  expect(await page.evaluate(() => document.visibilityState)).toBe("hidden");
}
