/** The list of keys: who holds what and who waits, at a glance and as it happens. */
import { spawn } from "node:child_process";
import type { Page } from "playwright-core";
import { describe, expect, it } from "vitest";
import { hide } from "../browser/support/lifecycle.ts";
import { useStage } from "../browser/support/stage.ts";
import { Clients } from "../support/clients.ts";
import { startCutProxy } from "../support/cut-proxy.ts";
import type { HttpExchange } from "../support/http-client.ts";
import { poll, sleep } from "../support/poll.ts";
import { Api } from "../support/rest.ts";
import { SHELL, shellEnvironment } from "../support/shell.ts";
import { ask, joinQueue, lock } from "../support/wire-client.ts";
import { filter, rowOf, says } from "./support/list.ts";
import { expectUsable, picture, visit } from "./support/visitor.ts";

const stage = useStage();

/** The addresses of the lists that the page asks for, from now on. */
function listsAskedBy(page: Page): string[] {
  const asked: string[] = [];
  page.on("request", (request) => {
    if (request.url().includes("detail=true")) asked.push(request.url());
  });
  return asked;
}

/** Undoes `hide`: a page that has the focus is seen. */
async function show(page: Page): Promise<void> {
  const control = await page.context().newCDPSession(page);
  await control.send("Emulation.setFocusEmulationEnabled", { enabled: true });
}

/** Runs a command, and ends it with all that it has started. */
function shell(command: string): Disposable {
  const { pid } = spawn(SHELL, ["-c", command], { env: shellEnvironment(), detached: true, stdio: "ignore" });
  return {
    [Symbol.dispose]() {
      if (pid !== undefined) process.kill(-pid);
    },
  };
}

describe("a service that nobody uses", () => {
  it("gives its commands to the clipboard, where there is one", async () => {
    const page = await visit(stage());
    await page.context().grantPermissions(["clipboard-read", "clipboard-write"]);
    await page.getByRole("button", { name: "Copy: Wire protocol" }).click();
    await page.getByText("Copied").waitFor();
    expect(await page.evaluate(() => navigator.clipboard.readText())).toMatch(/^\(printf 'l\\nhello/);
    // As on a page over http from another machine.
    await page.addInitScript(() => Reflect.deleteProperty(Navigator.prototype, "clipboard"));
    await page.reload();
    await page.getByRole("heading", { name: "Wire protocol" }).waitFor();
    expect(await page.getByRole("button", { name: "Copy" }).count()).toBe(0);
  });

  it("shows how to make something appear, and what it shows works", async () => {
    const page = await visit(stage());
    await page.getByRole("heading", { name: "Nobody holds anything" }).waitFor();
    await expectUsable(page);
    await picture(page, "keys-empty");
    const [rest = "", wire = "", program = ""] = await page.locator(".copyable pre").allTextContents();
    expect(program).toContain(`connect("${stage().service}"`);
    shell(rest);
    const row = rowOf(page, "hello");
    await says(row, /with curl/);
    using _connection = shell(wire.replace("6388", String(stage().server.tcpPort)));
    await says(row, "1 waiting");
  });

  it("says so of a prefix, and clears it", async () => {
    const page = await visit(stage());
    await filter(page, "nothing-begins-so");
    await expectUsable(page);
    await page.getByRole("button", { name: "Clear filter" }).click();
    await page.getByText("begins with").waitFor({ state: "detached" });
    const field = page.getByLabel("Filter by prefix");
    expect(await field.inputValue()).toBe("");
    expect(await field.evaluate((element) => element === document.activeElement)).toBe(true);
  });
});

describe("the list", () => {
  it("shows how many slots of a semaphore are held, by whom, and how much of each lease is left", async () => {
    using clients = new Clients(stage().server);
    const page = await visit(stage());
    await filter(page, "pool");
    for (const lease of [60, 90]) expect(await ask(await clients.tcp(), "sl", "pool", `0 3 ${lease}`)).toMatch(/^ok/);
    const row = rowOf(page, "pool");
    await says(row, "semaphore, 2 of 3 held");
    expect(await row.locator(".holder").count()).toBe(2);
    const part = () =>
      row
        .locator(".lease .fill")
        .first()
        .evaluate((fill) => new DOMMatrix(getComputedStyle(fill).transform).a);
    const before = await part();
    expect(before).toBeGreaterThan(0.8);
    await poll("the bar to drain", 5_000, async () => (await part()) < before - 0.01 || undefined);
  });

  it("keeps still for those who want no motion", async () => {
    using clients = new Clients(stage().server);
    await lock(await clients.tcp(), "still", "0 20");
    const page = await visit(stage());
    await page.emulateMedia({ reducedMotion: "reduce" });
    await filter(page, "still");
    await rowOf(page, "still").waitFor();
    expect(await page.evaluate(() => document.getAnimations().length)).toBe(0);
  });

  it("asks the service for the prefix, once typing has paused", async () => {
    using clients = new Clients(stage().server);
    const tcp = await clients.tcp();
    for (const key of ["sieve/one", "sieve/two", "other"]) await lock(tcp, key, "0 60");
    const page = await visit(stage());
    await rowOf(page, "other").waitFor();
    const asked = listsAskedBy(page);
    await page.getByLabel("Filter by prefix").pressSequentially("sieve/", { delay: 20 });
    await rowOf(page, "other").waitFor({ state: "detached" });
    await rowOf(page, "sieve/two").waitFor();
    await page.getByText("2 keys beginning with sieve/").waitFor();
    const prefixes = asked.map((url) => new URL(url).searchParams.get("prefix")).filter((prefix) => prefix !== null);
    expect(new Set(prefixes)).toEqual(new Set(["sieve/"]));
  });

  it("leaves nothing behind if it is left before the browser has drawn it", async () => {
    using clients = new Clients(stage().server);
    await lock(await clients.tcp(), "brief", "0 60");
    const page = await visit(stage());
    await rowOf(page, "brief").waitFor();
    await page.evaluate(async () => {
      // A browser that is busy with other things.
      const soon = requestAnimationFrame;
      globalThis.requestAnimationFrame = (draw) => soon(() => setTimeout(draw, 500));
      for (const place of ["#/keys/brief", "#/", "#/keys/brief"]) {
        location.hash = place;
        await new Promise((moved) => addEventListener("hashchange", () => setTimeout(moved), { once: true }));
      }
    });
    await page.getByRole("heading", { name: "brief" }).waitFor();
    const asked = listsAskedBy(page);
    await page
      .getByRole("region", { name: "Held by" })
      .getByText(/^([6-9]|\d\d) s$/)
      .waitFor();
    expect(await page.getByRole("list", { name: "Keys" }).count()).toBe(0);
    expect(asked).toEqual([]);
  });

  it("leads to a key by keyboard, and back to where one was", async () => {
    using clients = new Clients(stage().server);
    const tcp = await clients.tcp();
    for (const key of ["walk/1", "walk/2", "walk/3"]) await lock(tcp, key, "0 60");
    const page = await visit(stage());
    await page.getByLabel("Filter by prefix").focus();
    await page.keyboard.type("walk/");
    await page.getByText("3 keys beginning with walk/").waitFor();
    await page.keyboard.press("Tab");
    await page.keyboard.press("Tab");
    const focused = () => page.evaluate(() => document.activeElement?.textContent);
    expect(await focused()).toBe("walk/2");
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { name: "walk/2" }).waitFor();
    await page.goBack();
    await page.getByText("3 keys beginning with walk/").waitFor();
    await poll("the focus to be back", 3_000, async () => (await focused()) === "walk/2" || undefined);
  });

  it("asks nothing while nobody sees it, and at once when somebody does", async () => {
    const page = await stage().visit(`${stage().service}/#/`, "hidden", { isOrdinary: true });
    await page.getByRole("heading", { name: "Keys" }).waitFor();
    const asked = listsAskedBy(page);
    await poll("the page to ask", 5_000, async () => asked.length > 0 || undefined);
    await hide(page);
    await sleep(0.5);
    const before = asked.length;
    await sleep(5);
    expect(asked.length).toBe(before);
    await show(page);
    await poll("the page to ask again", 5_000, async () => asked.length > before || undefined);
  });

  it("says that it is not up to date while the service is down, and is live again once it is back", async () => {
    await using proxy = await startCutProxy(() => stage().server.httpPort);
    await using held = await stage().observer.acquire("down/a", { lease: 60_000 });
    const page = await stage().visit(`http://127.0.0.1:${proxy.port}/`, "console");
    await filter(page, "down/");
    await rowOf(page, "down/a").waitFor();
    await stage().server.kill9();
    await page.getByText("Not up to date. The service does not answer.").waitFor();
    expect(await rowOf(page, "down/a").count()).toBe(1);
    await expectUsable(page);
    await picture(page, "keys-down");
    await stage().server.restart();
    using clients = new Clients(stage().server);
    await lock(await clients.tcp(), "down/b", "0 60");
    await rowOf(page, "down/b").waitFor();
    await page.getByText("Not up to date").waitFor({ state: "hidden" });
    stage().forgive(/Failed to load resource/);
    await held.release().catch(() => {});
  });
});

describe("a list of 1,000 keys", () => {
  const name = (number: number) => `many/${String(number).padStart(4, "0")}`;

  /** A connection's requests are answered one after the other, so ten share the work. */
  async function takeMany(clients: Clients): Promise<void> {
    const takeSome = async (some: number) => {
      const tcp = await clients.tcp();
      for (let number = some; number < 1_000; number += 10) await lock(tcp, name(number), "0 600");
    };
    await Promise.all(Array.from({ length: 10 }, (_, some) => takeSome(some)));
  }

  it("has few rows in the document, goes to its end, and keeps place and focus while it changes", async () => {
    using clients = new Clients(stage().server);
    await takeMany(clients);
    const page = await visit(stage());
    await filter(page, "many/");
    await rowOf(page, name(0)).waitFor();
    const rows = () => page.getByRole("list", { name: "Keys" }).locator("> li").count();
    expect(await rows()).toBeLessThan(40);
    // The key End is for the page, not for the field.
    await page.getByRole("heading", { name: "Keys" }).click();
    await poll("the end of the list", 30_000, async () => {
      await page.keyboard.press("End");
      return (await rowOf(page, name(999)).count()) === 1 || undefined;
    });
    await page.getByText("1,000 keys beginning with many/").waitFor();
    expect(await rows()).toBeLessThan(40);
    expect(await rowOf(page, name(999)).getAttribute("aria-posinset")).toBe("1000");
    expect(await rowOf(page, name(999)).getAttribute("aria-setsize")).toBe("1000");
    await expectUsable(page);

    await page.evaluate(() => scrollTo(0, 500 * 64));
    const link = page.getByRole("link", { name: name(500), exact: true });
    await link.focus();
    const place = () => rowOf(page, name(500)).evaluate((row) => Math.round(row.getBoundingClientRect().top));
    const before = await place();
    await joinQueue(await clients.tcp(), name(500), "60");
    await says(rowOf(page, name(500)), "1 waiting");
    expect(await place()).toBe(before);
    expect(await link.evaluate((element) => element === document.activeElement)).toBe(true);

    const asked = listsAskedBy(page);
    await lock(await clients.tcp(), `${name(492)}-new`, "0 600");
    await rowOf(page, `${name(492)}-new`).waitFor();
    expect(await place()).toBe(before);
    expect(await link.evaluate((element) => element === document.activeElement)).toBe(true);
    expect(asked.every((url) => (new URL(url).searchParams.get("cursor") ?? "") >= name(300))).toBe(true);

    await page.evaluate(() => scrollTo(0, 0));
    await rowOf(page, name(0)).waitFor();
    expect(await link.evaluate((element) => element === document.activeElement)).toBe(true);
    await page.keyboard.press("Tab");
    expect(await page.evaluate(() => document.activeElement?.textContent)).toBe(name(501));
  });
});

describe("looks", () => {
  /** Somebody everywhere: in a queue, on a semaphore, with little left of a lease, and gone. */
  async function makeScene(place: string, clients: Clients): Promise<Disposable> {
    const api = new Api(stage().server);
    const key = (name: string) => encodeURIComponent(`${place}${name}`);
    const person = (label: string) => api.session({ "X-Holdfast-Label": label });
    const [ci, ada, bob] = [await person("ci-runner-7"), await person("ada on laptop"), await person("bob")];
    await ci.lock(key("deploy/production"), { lease_ttl_s: 45 });
    const polls: HttpExchange[] = [];
    for (const who of [ada, bob, ci, bob]) polls.push(await who.waitInLine(key("deploy/production"), 120));
    for (const who of [ada, bob]) await who.take(key("gpu"), 4);
    for (const lease of [30, 50, 70, 90, 110]) await ask(await clients.tcp(), "sl", `${place}licence`, `0 5 ${lease}`);
    await lock(await clients.tcp(), `${place}report-2026-11`, "0 4");
    await ada.lock(key("import"), { lease_ttl_s: 600 });
    await bob.release(key("backup"), await bob.lock(key("backup")));
    return {
      [Symbol.dispose]() {
        for (const polling of polls) polling.close();
      },
    };
  }

  it.each([
    ["desktop", "light"],
    ["desktop", "dark"],
    ["phone", "light"],
    ["phone", "dark"],
  ] as const)("%s, %s", async (size, scheme) => {
    using clients = new Clients(stage().server);
    const place = `${size}-${scheme}/`;
    using _scene = await makeScene(place, clients);
    const page = await visit(stage(), "#/", { size, scheme });
    await filter(page, place);
    await rowOf(page, `${place}backup`).waitFor();
    await expectUsable(page);
    await picture(page, `keys-${size}-${scheme}`);
  });

  it("in the few colours of those who choose their own", async () => {
    using clients = new Clients(stage().server);
    using _scene = await makeScene("forced/", clients);
    const page = await visit(stage());
    await filter(page, "forced/");
    const row = rowOf(page, "forced/import");
    await row.waitFor();
    for (const colorScheme of ["light", "dark"] as const) {
      await page.emulateMedia({ forcedColors: "active", colorScheme });
      const [bar, fill] = await row
        .locator(".lease, .fill")
        .evaluateAll((parts) => parts.map((part) => getComputedStyle(part).backgroundColor));
      expect(fill).not.toBe(bar);
      await expectUsable(page);
      await picture(page, `keys-forced-colors-${colorScheme}`);
    }
  });
});
