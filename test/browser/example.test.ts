/** The page of examples/, as its user opens it: in tabs of one browser, with the mouse. */
import { readFile } from "node:fs/promises";
import type { Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Status } from "../../src/client/index.ts";
import { freshKey, waitersOf } from "../client/support.ts";
import { startCutProxy } from "../support/cut-proxy.ts";
import { poll } from "../support/poll.ts";
import { cutOff } from "./support/cut-off.ts";
import { serveRepository } from "./support/repository.ts";
import { useStage } from "./support/stage.ts";
import type { Web } from "./support/web.ts";

const ADMIN = "the operator's token";
const SHOWN_WITHIN_MS = 20_000;
const stage = useStage({ ADMIN_TOKEN: ADMIN }, ADMIN);

let repository: Web;
let address: string;
beforeAll(async () => {
  repository = await serveRepository();
  const readme = await readFile(new URL("../../examples/README.md", import.meta.url), "utf8");
  const [, path] = /http:\/\/127\.0\.0\.1:8080(\/\S+)/.exec(readme) ?? [];
  if (path === undefined) throw new Error("examples/README.md does not say where the page is");
  address = repository.origin + path;
});
afterAll(() => repository[Symbol.asyncDispose]());

/** A tab with the page, and what a person sees and does there. */
class Tab {
  readonly page: Page;

  constructor(page: Page) {
    this.page = page;
  }

  /** Clicks the button of that name. Only works once it can be clicked. */
  click(name: "Take the lock" | "Stop waiting" | "Give it back"): Promise<void> {
    return this.page.getByRole("button", { name }).click({ timeout: SHOWN_WITHIN_MS });
  }

  /** The names of the buttons that can be clicked. */
  get choices(): Promise<string[]> {
    return this.page.locator("button:enabled").allTextContents();
  }

  /** Resolves once the page shows that state of the lock. */
  shows(state: string): Promise<void> {
    return this.#shows("#state", state);
  }

  /** Resolves once the page shows that state of its connection. */
  showsConnection(status: Status): Promise<void> {
    return this.#shows("#connection", status);
  }

  /** Resolves once the page shows that it holds the lock, with the fence it shows. */
  async holds(): Promise<string> {
    await this.shows("held");
    return (await this.page.locator("#fence").textContent()) ?? "";
  }

  get log(): Promise<string[]> {
    return this.page.locator("#log li").allTextContents();
  }

  #shows(selector: string, text: string): Promise<void> {
    const shown = this.page.locator(selector).and(this.page.getByText(text, { exact: true }));
    return shown.waitFor({ timeout: SHOWN_WITHIN_MS });
  }
}

/** Opens the page with parameters in its address. */
async function open(label: string, fields: Readonly<Record<string, string>>): Promise<Tab> {
  const parameters = new URLSearchParams({ service: stage().service, ...fields });
  return new Tab(await stage().visit(`${address}?${parameters}`, label, { isOrdinary: true }));
}

const heldBy = async (key: string) => (await stage().observer.query(key))?.held_by;

describe("two tabs with one lock", () => {
  it("take it in turn, may stop waiting, and see fences rise", async () => {
    const key = freshKey("example");
    const [one, two] = [await open("one", { key }), await open("two", { key })];
    expect(await one.choices).toEqual(["Take the lock"]);

    await one.click("Take the lock");
    const first = await one.holds();
    await one.showsConnection("connected");
    expect(first).toMatch(/^[0-9a-f]{16}$/);
    expect(await one.choices).toEqual(["Give it back"]);
    expect(await heldBy(key)).toMatchObject([{ fence: first, label: "a tab" }]);

    await two.click("Take the lock");
    await waitersOf(stage().observer, key, 1);
    await two.shows("waiting");
    expect(await two.choices).toEqual(["Stop waiting"]);
    await two.click("Stop waiting");
    await two.shows("free");
    await waitersOf(stage().observer, key, 0);

    await two.click("Take the lock");
    await waitersOf(stage().observer, key, 1);
    await one.click("Give it back");
    await one.shows("free");
    const second = await two.holds();
    expect(second > first).toBe(true);
    expect(await heldBy(key)).toMatchObject([{ fence: second }]);

    expect(await one.log).toEqual(["waiting", `held ${first}`, "free"]);
    expect(await two.log).toEqual(["waiting", "free", "waiting", `held ${second}`]);
  });

  it("hand it over when one of them is closed", async () => {
    const key = freshKey("example");
    const [one, two] = [await open("one", { key }), await open("two", { key })];
    await one.click("Take the lock");
    const first = await one.holds();
    await two.click("Take the lock");
    await waitersOf(stage().observer, key, 1);
    await using witness = await cutOff(stage());
    await one.page.close();
    expect((await two.holds()) > first).toBe(true);
    expect(await witness.isKept()).toBe(true);
  });
});

it("the fields may be filled by hand as well", async () => {
  const key = freshKey("example");
  const tab = new Tab(await stage().visit(address, "typist", { isOrdinary: true }));
  const fields = { Service: "http://127.0.0.1:6389", Key: "demo", "Lease in ms": "33000" };
  for (const [label, value] of Object.entries(fields)) {
    expect(await tab.page.getByLabel(label).inputValue()).toBe(value);
  }
  await tab.page.getByLabel("Service").fill(stage().service);
  await tab.page.getByLabel("Key").fill(key);
  await tab.page.getByLabel("Lease in ms").fill("7000");
  await tab.click("Take the lock");
  const fence = await tab.holds();
  const [holder] = (await heldBy(key)) ?? [];
  expect(holder?.fence).toBe(fence);
  expect(holder?.lease_expires_in_s).toBeGreaterThan(4);
  expect(holder?.lease_expires_in_s).toBeLessThanOrEqual(7);
});

it("a lock that is taken away is shown as lost, and can be taken again", async () => {
  const key = freshKey("example");
  const tab = await open("victim", { key });
  await tab.click("Take the lock");
  const first = await tab.holds();
  const stolen = await stage().observer.acquire(key, { steal: true });
  await tab.shows("lost: stolen");
  expect(await tab.choices).toEqual(["Take the lock"]);
  await tab.click("Take the lock");
  await waitersOf(stage().observer, key, 1);
  await stolen.release();
  const second = await tab.holds();
  expect(await tab.log).toEqual(["waiting", `held ${first}`, "lost: stolen", "waiting", `held ${second}`]);
});

it("a lost connection is shown, and costs nothing", async () => {
  const key = freshKey("example");
  await using proxy = await startCutProxy(() => stage().server.httpPort);
  const tab = await open("traveller", { key, service: `http://127.0.0.1:${proxy.port}` });
  await tab.click("Take the lock");
  const fence = await tab.holds();
  proxy.close();
  await tab.showsConnection("reconnecting");
  proxy.heal();
  await tab.showsConnection("resumed");
  expect(await tab.holds()).toBe(fence);
  await tab.click("Give it back");
  await tab.shows("free");
  expect(await heldBy(key)).toEqual([]);
  // The browser itself reports every socket that does not come about.
  stage().forgive(/^traveller: WebSocket connection to '\S+' failed/);
});

it("what cannot be done is said, and the next attempt is free", async () => {
  const key = freshKey("example");
  const tab = await open("typist", { key, lease: "half an hour" });
  await tab.click("Take the lock");
  await poll("a failure", SHOWN_WITHIN_MS, async () => (await tab.log).at(-1)?.startsWith("failed: ") || undefined);
  await tab.page.getByLabel("Lease in ms").fill("30000");
  await tab.click("Take the lock");
  await tab.holds();
});
