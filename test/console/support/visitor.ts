/** Looks at the console as people do, takes pictures, and asks whether everybody can use it. */
import { mkdir, readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { fileURLToPath } from "node:url";
import type { AxeResults } from "axe-core";
import type { Page } from "playwright-core";
import { expect } from "vitest";
import type { Stage } from "../../browser/support/stage.ts";

const PICTURES = fileURLToPath(new URL("../pictures/", import.meta.url));
const AXE = createRequire(import.meta.url).resolve("axe-core/axe.min.js");
const SIZES = { desktop: { width: 1280, height: 800 }, phone: { width: 390, height: 844 } } as const;

export interface Look {
  readonly size?: keyof typeof SIZES;
  readonly scheme?: "light" | "dark";
  /** Shown before, in this very tab. */
  readonly credential?: string;
  /** Another service than the stage's own. */
  readonly service?: string;
}

/** Opens the console in a tab of its own, at a place behind its `#`. */
export async function visit(
  stage: Stage,
  place = "#/",
  { size = "desktop", scheme = "light", credential, service = stage.service }: Look = {},
): Promise<Page> {
  const page = await stage.visit("about:blank", "console");
  await page.setViewportSize(SIZES[size]);
  await page.emulateMedia({ colorScheme: scheme });
  if (credential !== undefined)
    await page.addInitScript((secret) => sessionStorage.setItem("holdfast.credential", secret), credential);
  await page.goto(`${service}/${place}`);
  return page;
}

export async function signIn(page: Page, secret: string): Promise<void> {
  await page.getByLabel("Token or ticket").fill(secret);
  await page.getByRole("button", { name: "Sign in" }).click();
}

/** Writes a picture of what is seen to `test/console/pictures/`. */
export async function picture(page: Page, name: string): Promise<void> {
  await mkdir(PICTURES, { recursive: true });
  await page.screenshot({ path: `${PICTURES}${name}.png` });
}

/** Nothing on the page keeps anybody from using it, and nothing sticks out of it. */
export async function expectUsable(page: Page): Promise<void> {
  // Colours are judged once what has just come has faded in. (A lease drains for as long as it lasts, and fades nothing.)
  await page.evaluate(async () => {
    const isFadingIn = ({ effect }: Animation) =>
      effect instanceof KeyframeEffect &&
      effect.getTiming().iterations !== Number.POSITIVE_INFINITY &&
      effect.getKeyframes().some((frame) => "opacity" in frame);
    const fading = document.getAnimations().filter(isFadingIn);
    await Promise.all(fading.map(({ finished }) => finished.catch(() => {})));
  });
  // As a user's own script would, not as one of the page: that is forbidden to all but its own.
  await page.evaluate(await readFile(AXE, "utf8"));
  const found = await page.evaluate(async () => {
    const { axe } = globalThis as unknown as { axe: { run(): Promise<AxeResults> } };
    const { violations } = await axe.run();
    return violations
      .filter(({ impact }) => impact === "serious" || impact === "critical")
      .map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html).join(" | ")}`);
  });
  expect(found).toEqual([]);
  const overhang = await page.evaluate(
    () => document.documentElement.scrollWidth - document.documentElement.clientWidth,
  );
  expect(overhang).toBeLessThanOrEqual(0);
}
