/** The list of keys in a tab, in the words of its visitor. */
import type { Locator, Page } from "playwright-core";

/** The row of a key, which need not be there yet. */
export function rowOf(page: Page, key: string): Locator {
  return page.getByRole("list", { name: "Keys" }).locator(`> li[data-key="${key}"]`);
}

/** Resolves once the row says so. */
export async function says(row: Locator, text: string | RegExp): Promise<void> {
  await row.getByText(text).first().waitFor();
}

/** Resolves once the page shows what there is with that prefix. */
export async function filter(page: Page, prefix: string): Promise<void> {
  await page.getByLabel("Filter by prefix").fill(prefix);
  await page.getByText(new RegExp(`(begins|beginning) with ${prefix}`)).waitFor();
}
