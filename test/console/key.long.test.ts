/** One key: its holders, its queue, and what has happened to it. */
import type { Page } from "playwright-core";
import { describe, expect, it } from "vitest";
import type { Locks } from "../../src/client/index.ts";
import { useStage } from "../browser/support/stage.ts";
import { connectTo, waitersOf } from "../client/support.ts";
import { Clients } from "../support/clients.ts";
import { startCutProxy } from "../support/cut-proxy.ts";
import { poll, sleep } from "../support/poll.ts";
import { Api, freshKey } from "../support/rest.ts";
import { ask, fenceOf, lock } from "../support/wire-client.ts";
import { expectUsable, picture, visit } from "./support/visitor.ts";

const stage = useStage({ ADMIN_TOKEN: "the administrator" });

const api = () => new Api(stage().server);
const person = (label: string) => api().session({ "X-Holdfast-Label": label });
const at = (key: string) => `#/keys/${encodeURIComponent(key)}`;

async function tableOf(page: Page): Promise<string[][]> {
  const rows = await page.locator(".grant-table tbody tr").all();
  return Promise.all(rows.map((row) => row.locator("td").allTextContents()));
}

/** The colours of the picture's pixels, without those that nothing was painted on. */
function coloursOf(page: Page): Promise<string[]> {
  return page.locator(".timeline canvas").evaluate((canvas: HTMLCanvasElement) => {
    const { width, height } = canvas;
    const copy = new OffscreenCanvas(width, height).getContext("2d", { willReadFrequently: true });
    copy?.drawImage(canvas, 0, 0);
    const { data } = copy?.getImageData(0, 0, width, height) ?? { data: [] };
    const seen = new Set<string>();
    for (let pixel = 0; pixel < data.length; pixel += 4)
      if (data[pixel + 3] === 255) seen.add(`rgb(${data[pixel]}, ${data[pixel + 1]}, ${data[pixel + 2]})`);
    return [...seen];
  });
}

describe("the page of a key", () => {
  it("shows the slots of a semaphore", async () => {
    using clients = new Clients(stage().server);
    const key = freshKey("semaphore");
    for (let slot = 0; slot < 3; slot += 1) await ask(await clients.tcp(), "sl", key, "0 4 60");
    const page = await visit(stage(), at(key));
    await page.getByText("Semaphore with 4 slots").waitFor();
    const holders = page.getByRole("region", { name: "Held by 3 of 4" });
    expect(await holders.getByRole("listitem").count()).toBe(3);
    expect(await holders.getByRole("button").count()).toBe(3);
  });

  it("waits for a key that nobody uses, and shows it as soon as somebody does", async () => {
    using clients = new Clients(stage().server);
    const key = freshKey("later");
    const page = await visit(stage(), at(key));
    await page.getByText("Nobody has used this key for a while").waitFor();
    await expectUsable(page);
    await lock(await clients.tcp(), key, "0 60");
    await page.getByRole("region", { name: "Held by" }).getByRole("listitem").waitFor();
  });

  it("says that it is not up to date while the service is down, with what it knew", async () => {
    await using proxy = await startCutProxy(() => stage().server.httpPort);
    using clients = new Clients(stage().server);
    const key = freshKey("cut");
    await lock(await clients.tcp(), key, "0 60");
    const page = await stage().visit(`http://127.0.0.1:${proxy.port}/${at(key)}`, "console");
    const holder = page.getByRole("region", { name: "Held by" }).getByRole("listitem");
    await holder.waitFor();
    proxy.close();
    await page.getByText("Not up to date. The service does not answer.").waitFor();
    expect(await holder.count()).toBe(1);
    proxy.heal();
    await page.getByText("Not up to date").waitFor({ state: "hidden" });
    stage().forgive(/Failed to load resource/);
  });

  it("leads back to all keys", async () => {
    using clients = new Clients(stage().server);
    const key = freshKey("back");
    await lock(await clients.tcp(), key, "0 60");
    const page = await visit(stage(), at(key));
    await page.getByRole("link", { name: "Back to all keys" }).click();
    await page.getByRole("heading", { name: "Keys" }).waitFor();
  });
});

describe("the grants of a key", () => {
  /** Somebody releases, somebody's lease runs out, somebody is robbed, somebody leaves, and somebody stays. */
  async function makeHistory(key: string, clients: Clients): Promise<void> {
    const [ada, bob] = [await person("ada"), await person("bob")];
    const admin = api().with({ Authorization: "Bearer the administrator" });
    const path = encodeURIComponent(key);
    const first = await ada.lock(path);
    const waiting = await bob.waitInLine(path, 30);
    // The labels of those who leave are known to whoever has looked.
    await api().get(`/v1/keys/${path}?history=true`);
    await ada.release(path, first);
    const { token } = JSON.parse((await waiting.reply).body) as { token: string };
    await admin.delete(`/v1/admin/holders/${path}?token_fence=${fenceOf(token)}`);
    const leaver = await clients.tcp();
    await lock(leaver, key, "0 1");
    const next = await clients.tcp();
    await lock(next, key, "5 30");
    next.close();
    await lock(await clients.tcp(), key, "5 60");
  }

  it("are drawn, counted and listed: by whom, how long, and how they ended", async () => {
    using clients = new Clients(stage().server);
    const key = freshKey("history");
    const page = await visit(stage(), at(key));
    await makeHistory(key, clients);
    await page.getByRole("heading", { name: /^Grants of the last (15|30) s$/ }).waitFor();
    await page.getByText("The same as a table").click();
    await poll("five grants", 5_000, async () => (await tableOf(page)).length === 5 || undefined);
    const table = await tableOf(page);
    expect(table.map(([, who, , , end]) => [who, end])).toEqual([
      [expect.stringMatching(/^session \d+$/), "held now"],
      [expect.stringMatching(/^session \d+$/), "its session ended"],
      [expect.stringMatching(/^session \d+$/), "lease ran out"],
      ["bob", "taken by an administrator"],
      ["ada", "released"],
    ]);
    const history = await api().get(`/v1/keys/${encodeURIComponent(key)}?history=true`);
    const { grants } = (JSON.parse(history.body) as { history: { grants: { fence: string }[] } }).history;
    const fences = await page
      .locator(".grant-table td.mono")
      .evaluateAll((cells) => cells.map((cell) => cell.getAttribute("title")));
    expect(fences).toEqual(grants.map(({ fence }) => fence).toReversed());
    expect(await page.getByRole("img", { name: "Timeline of 5 grants, 1 of them still held" }).count()).toBe(1);
    await page.getByText("Of the last 5 grants").waitFor();
    const held = await page.getByRole("row", { name: "Held" }).first().locator("td").allTextContents();
    expect(held.at(-1)).toMatch(/^[1-4]\.\d s$/);
    // Accent, danger, waiting and faint, as base.css has them in the light.
    const colours = ["rgb(11, 107, 99)", "rgb(179, 38, 30)", "rgb(138, 75, 0)", "rgb(81, 96, 111)"];
    await expect.poll(() => coloursOf(page)).toEqual(expect.arrayContaining(colours));
    await expectUsable(page);
    await page.locator("details").scrollIntoViewIfNeeded();
    await picture(page, "key-grants");
  });

  it("are drawn in the colours of the night when it comes, and in the width there is", async () => {
    using clients = new Clients(stage().server);
    const key = freshKey("night");
    await lock(await clients.tcp(), key, "0 60");
    const page = await visit(stage(), at(key));
    await page.locator(".timeline canvas").waitFor();
    const shows = (colour: string) =>
      poll(`the colour ${colour}`, 5_000, async () => (await coloursOf(page)).includes(colour) || undefined);
    await shows("rgb(11, 107, 99)");
    await page.emulateMedia({ colorScheme: "dark" });
    await shows("rgb(79, 209, 193)");
    await page.setViewportSize({ width: 390, height: 844 });
    await poll("the narrow picture", 5_000, async () => {
      const box = await page.locator(".timeline canvas").boundingBox();
      return (box && box.width < 390) || undefined;
    });
    await expectUsable(page);
  });
});

describe("looks", () => {
  /** Four people take turns, one loses the key to time and one to the network; at the end one holds it and three wait. */
  async function makeScene(key: string, clients: Clients): Promise<AsyncDisposable> {
    const people = ["ci-runner-7", "ada on laptop", "bob", "nightly cron"].map((label) =>
      connectTo(stage().server.httpPort, { label }),
    );
    const turn = async (who: Locks, seconds: number) => {
      await using _mine = await who.acquire(key);
      await sleep(seconds);
    };
    await Promise.all(people.map((who, index) => turn(who, 0.3 + index * 0.3)));
    await lock(await clients.tcp(), key, "0 1");
    const leaver = await clients.tcp();
    await lock(leaver, key, "5");
    await sleep(0.6);
    leaver.close();
    for (const who of people) await turn(who, 0.3);
    const [holder, ...others] = people;
    await holder?.acquire(key, { lease: 20_000 });
    for (const [index, who] of others.entries()) {
      who.acquire(key, { timeout: 90_000 }).catch(() => {});
      await waitersOf(stage().observer, key, index + 1);
    }
    return { [Symbol.asyncDispose]: async () => void (await Promise.all(people.map((who) => who.close()))) };
  }

  it("by day and by night, on desks and in pockets", async () => {
    using clients = new Clients(stage().server);
    const key = freshKey("deploy/production");
    // The service remembers what happens while somebody looks.
    await visit(stage(), at(key));
    await using _scene = await makeScene(key, clients);
    for (const size of ["desktop", "phone"] as const)
      for (const scheme of ["light", "dark"] as const) {
        const page = await visit(stage(), at(key), { size, scheme });
        await page.getByText("3 waiting").waitFor();
        await page.locator(".timeline canvas").waitFor();
        await expectUsable(page);
        await picture(page, `key-${size}-${scheme}`);
      }
  });

  it("in the few colours of those who choose their own, also when they choose while they look", async () => {
    using clients = new Clients(stage().server);
    const key = freshKey("forced");
    const page = await visit(stage(), at(key));
    await using _scene = await makeScene(key, clients);
    await page.getByText("3 waiting").waitFor();
    await page.locator(".timeline canvas").waitFor();
    for (const colorScheme of ["light", "dark"] as const) {
      await page.emulateMedia({ forcedColors: "active", colorScheme });
      const ground = await page.locator(".swatch.held").evaluate((swatch) => getComputedStyle(swatch).backgroundColor);
      await expect.poll(() => coloursOf(page)).toContain(ground);
      await expectUsable(page);
      await page.locator(".legend").scrollIntoViewIfNeeded();
      await picture(page, `key-forced-colors-${colorScheme}`);
    }
  });
});
