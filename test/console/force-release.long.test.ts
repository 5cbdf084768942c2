/** Taking a key away from its holder: nobody is hit by accident, and nobody who was not meant. */
import type { Page } from "playwright-core";
import { describe, expect, it } from "vitest";
import type { Lock } from "../../src/client/index.ts";
import { useStage } from "../browser/support/stage.ts";
import { connectTo, waitersOf } from "../client/support.ts";
import { Clients } from "../support/clients.ts";
import { Api, freshKey } from "../support/rest.ts";
import { ask, fenceOf, joinQueue, lock } from "../support/wire-client.ts";
import { expectUsable, picture, visit } from "./support/visitor.ts";

const [TOKEN, ADMIN] = ["the shared token", "the administrator"];
const stage = useStage({ AUTH_TOKEN: TOKEN, ADMIN_TOKEN: ADMIN }, TOKEN);

const at = (key: string) => `#/keys/${encodeURIComponent(key)}`;
const dialogOf = (page: Page) => page.getByRole("dialog");
const opener = (page: Page) => page.getByRole("button", { name: "Force release" });
const confirmation = (page: Page) => dialogOf(page).getByRole("button", { name: "Take it away from" });

/** Removals that the page asks for, from now on. */
function removalsOf(page: Page): string[] {
  const asked: string[] = [];
  page.on("request", (request) => {
    if (request.method() === "DELETE") asked.push(request.url());
  });
  return asked;
}

/** Somebody called victim holds the key, and the observer waits for it. */
async function holdWithQueue(key: string): Promise<{ held: Lock; next: Promise<Lock> } & AsyncDisposable> {
  const victim = connectTo(stage().server.httpPort, { label: "victim", token: TOKEN });
  const held = await victim.acquire(key, { lease: 60_000 });
  const next = stage().observer.acquire(key, { timeout: 60_000 });
  await waitersOf(stage().observer, key, 1);
  const leave = async () => {
    await victim.close();
    await (await next).release();
  };
  return { held, next, [Symbol.asyncDispose]: leave };
}

async function open(key: string, credential: string): Promise<Page> {
  const page = await visit(stage(), at(key), { credential });
  await opener(page).click();
  await dialogOf(page).waitFor();
  return page;
}

describe("whoever takes a key away", () => {
  it("is told whom it would hit, and does it with a second click", async () => {
    const key = freshKey("robbed/by-hand");
    await using story = await holdWithQueue(key);
    const page = await open(key, ADMIN);
    const asked = removalsOf(page);
    const text = await dialogOf(page).textContent();
    expect(text).toContain(`Take ${key} away from victim?`);
    expect(text).toMatch(/Session\d+Held for\d+ sLease left\d+ sFence/);
    expect(text).toContain(`Fence${story.held.fence.replace(/^0+/, "")}`);
    expect(text).toContain("1 session; observer is next");
    expect(text).toContain("victim is told that it was stolen, if it listens; its work is not stopped.");
    await expectUsable(page);
    await picture(page, "force-release");
    expect(asked).toEqual([]);
    await confirmation(page).click();
    await dialogOf(page).getByText("Done. victim does not hold it any more.").waitFor();
    await expectUsable(page);
    expect((await story.held.lost).reason).toBe("stolen");
    expect((await story.next).fence > story.held.fence).toBe(true);
    await page.getByRole("region", { name: "Held by" }).getByText("observer", { exact: true }).waitFor();
    await dialogOf(page).getByRole("button", { name: "Close" }).click();
    await dialogOf(page).waitFor({ state: "detached" });
    expect(await page.evaluate(() => document.activeElement?.tagName)).toBe("H1");
  });

  it("can do all of it by keyboard, and gets the focus back", async () => {
    using clients = new Clients(stage().server);
    const key = freshKey("keyboard");
    const tcp = await clients.tcp();
    await ask(tcp, "auth", "_", TOKEN);
    await lock(tcp, key, "0 60");
    const page = await visit(stage(), at(key), { credential: ADMIN });
    await opener(page).focus();
    const hasFocus = () => opener(page).evaluate((button) => button === document.activeElement);
    await page.keyboard.press("Enter");
    await dialogOf(page).waitFor();
    await page.keyboard.press("Escape");
    await dialogOf(page).waitFor({ state: "detached" });
    expect(await hasFocus()).toBe(true);
    await page.keyboard.press("Enter");
    await dialogOf(page).waitFor();
    expect(await page.evaluate(() => document.activeElement?.textContent)).toBe("Cancel");
    await page.keyboard.press("Enter");
    await dialogOf(page).waitFor({ state: "detached" });
    expect(await hasFocus()).toBe(true);
    await page.keyboard.press("Enter");
    await dialogOf(page).waitFor();
    await page.keyboard.press("Tab");
    await page.keyboard.press("Enter");
    await dialogOf(page).getByText("Done.").waitFor();
    expect(await ask(tcp, "r", key, "0".repeat(32))).toBe("error");
    await page.keyboard.press("Escape");
    await dialogOf(page).waitFor({ state: "detached" });
  });

  it("is refused without the administrator's token, and may show it", async () => {
    const key = freshKey("guarded");
    await using story = await holdWithQueue(key);
    const page = await open(key, TOKEN);
    await confirmation(page).click();
    await dialogOf(page).getByRole("alert").getByText("Only the administrator may do this").waitFor();
    const field = dialogOf(page).getByLabel("Administrator's token");
    await field.waitFor();
    await expectUsable(page);
    await picture(page, "force-release-refused");
    expect(await field.getAttribute("type")).toBe("password");
    await field.fill("a guess");
    await confirmation(page).click();
    await dialogOf(page).getByText("That is not the administrator's token.").waitFor();
    expect(story.held.isHeld).toBe(true);
    await field.fill(ADMIN);
    await page.keyboard.press("Enter");
    await dialogOf(page).getByText("Done.").waitFor();
    expect((await story.held.lost).reason).toBe("stolen");
    expect(await page.evaluate(() => Object.values(sessionStorage))).toEqual([TOKEN]);
    await dialogOf(page).getByRole("button", { name: "Close" }).click();
    await opener(page).click();
    expect(await dialogOf(page).getByLabel("Administrator's token").count()).toBe(0);
    stage().forgive(/40[13]/);
  });

  it("hits nobody if the holder has changed while the question stood", async () => {
    using clients = new Clients(stage().server);
    const key = freshKey("moved");
    const [first, second] = [await clients.tcp(), await clients.tcp()];
    for (const tcp of [first, second]) await ask(tcp, "auth", "_", TOKEN);
    const token = await lock(first, key, "0 60");
    await joinQueue(second, key, "60");
    const page = await open(key, ADMIN);
    expect(await confirmation(page).isEnabled()).toBe(true);
    expect(await ask(first, "r", key, token)).toBe("ok");
    await dialogOf(page).getByText("It has already moved on").waitFor();
    expect(await confirmation(page).isEnabled()).toBe(false);
    await expectUsable(page);
    await second.next();
  });

  it("hits nobody if the holder changed before the page could know", async () => {
    using clients = new Clients(stage().server);
    const key = freshKey("raced");
    const [first, second] = [await clients.tcp(), await clients.tcp()];
    for (const tcp of [first, second]) await ask(tcp, "auth", "_", TOKEN);
    const token = await lock(first, key, "0 60");
    await joinQueue(second, key, "60");
    const page = await open(key, ADMIN);
    // From now on the page learns nothing new.
    await page.route(/\/v1\/keys\//, (route) => route.abort());
    expect(await ask(first, "r", key, token)).toBe("ok");
    const won = (await second.next()).split(" ")[2] ?? "";
    await confirmation(page).click();
    await dialogOf(page).getByText("It has already moved on. Nothing was taken away.").waitFor();
    const reply = await new Api(stage().server, { Authorization: `Bearer ${TOKEN}` }).get(`/v1/keys/${key}`);
    expect(JSON.parse(reply.body)).toMatchObject({ held_by: [{ fence: fenceOf(won) }] });
    stage().forgive(/404|ERR_FAILED/);
  });

  it("cannot look away before it is known what came of it", async () => {
    const key = freshKey("robbed/slowly");
    await using story = await holdWithQueue(key);
    const page = await open(key, ADMIN);
    let answer = () => {};
    const answered = new Promise<void>((resolve) => {
      answer = resolve;
    });
    await page.route(/\/v1\/admin\//, async (route) => {
      const response = await route.fetch();
      await answered;
      await route.fulfill({ response });
    });
    await confirmation(page).click();
    await story.held.lost;
    await page.keyboard.press("Escape");
    expect(await dialogOf(page).getByRole("button", { name: "Cancel" }).isDisabled()).toBe(true);
    answer();
    await dialogOf(page).getByText("Done. victim does not hold it any more.").waitFor();
  });

  it("sees the question whole on a phone in the dark", async () => {
    const key = freshKey("a-key-with-a-name-so-long-that-it-does-not-fit-in-one-line-of-a-phone");
    await using _story = await holdWithQueue(key);
    const page = await visit(stage(), at(key), { credential: ADMIN, size: "phone", scheme: "dark" });
    await opener(page).click();
    await dialogOf(page).waitFor();
    await expectUsable(page);
    await picture(page, "force-release-phone-dark");
  });
});
