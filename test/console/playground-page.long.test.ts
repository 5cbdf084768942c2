/** The playground as a page: which key it plays with, what it asks of the service, who can use it, and what he is told. */
import { describe, expect, it } from "vitest";
import { hide } from "../browser/support/lifecycle.ts";
import { useStage } from "../browser/support/stage.ts";
import { connectTo, freshKey, waitersOf } from "../client/support.ts";
import { Api } from "../support/rest.ts";
import { Playground } from "./support/playground.ts";
import { expectUsable, picture } from "./support/visitor.ts";

const stage = useStage();

describe("the key", () => {
  it("shows also those who are not of this page, by their labels", async () => {
    const playground = await Playground.open(stage());
    const key = freshKey("shared");
    await using lock = await stage().observer.acquire(key);
    await playground.useKey(key);
    expect(await playground.held(1)).toEqual(["observer"]);
    await playground.acquireInTurn("Ada");
    const again = stage().observer.acquire(key);
    expect(await playground.queued(2)).toEqual(["Ada", "observer"]);
    await picture(playground.page, "playground-outside");
    await lock.release();
    await playground.shows("Ada", "Holding");
    await playground.does("Ada", "Release");
    expect((await again).fence > lock.fence).toBe(true);
    // One held it before as well: to wait for their number would not do.
    await expect.poll(() => playground.held(1)).toEqual(["observer"]);
    await (await again).release();
  });

  it("tells also those who stand behind all that it lists that they wait", async () => {
    const playground = await Playground.open(stage());
    const key = freshKey("crowd");
    await using _held = await stage().observer.acquire(key, { lease: 60_000 });
    await using crowd = connectTo(stage().server.httpPort, { label: "crowd" });
    for (let waiter = 0; waiter < 120; waiter += 1) crowd.acquire(key).catch(() => {});
    await waitersOf(stage().observer, key, 120);
    await playground.useKey(key);
    expect(await playground.queued(100)).toEqual(Array(100).fill("crowd"));
    await playground.page.getByText("and 20 more").waitFor();
    await playground.does("Ada", "Acquire");
    await playground.shows("Ada", "Waiting, behind the first 100 of 121");
    await playground.log.getByText("Ada waits, at least 100 ahead in the queue").waitFor();
    await playground.does("Ben", "Enqueue");
    await playground.shows("Ben", "Place taken, behind the first 100 of 122");
    await playground.page.getByText("and 22 more").waitFor();
    await expectUsable(playground.page);
    await picture(playground.page, "playground-crowd");
  });

  it("can be watched in another tab while it is played with", async () => {
    const playground = await Playground.open(stage());
    const key = await playground.key();
    await playground.acquireInTurn("Ada", "Ben");
    const [tab] = await Promise.all([
      playground.page.waitForEvent("popup"),
      playground.page.getByRole("link", { name: "Watch this key" }).click(),
    ]);
    await tab.getByRole("heading", { name: key, level: 1 }).waitFor();
    await tab.getByRole("region", { name: "1 waiting" }).waitFor();
    await playground.shows("Ada", "Holding");
    await tab.close();
  });

  it("keeps the clients of two visitors apart, though they have the same names", async () => {
    const [one, two] = [await Playground.open(stage()), await Playground.open(stage())];
    const key = await one.key();
    await two.useKey(key);
    await one.acquireInTurn("Ada");
    await two.acquireInTurn("Ada");
    await two.shows("Ada", "Waiting, position 1 of 1");
    await one.acquireInTurn("Ben");
    await one.shows("Ben", "Waiting, position 2 of 2");
    await one.shows("Ada", "Holding");
    expect(await one.held(1)).toEqual(["Ada"]);
    expect((await two.held(1))[0]).toMatch(/^Ada [a-z]{4}$/);
    expect(await two.queued(2)).toEqual(["Ada", expect.stringMatching(/^Ben [a-z]{4}$/)]);
  });

  it("can be another one only when nobody has or wants it, and is protected anew", async () => {
    const playground = await Playground.open(stage());
    const field = playground.page.getByLabel("Key");
    await playground.acquireInTurn("Ada");
    await playground.does("Ada", "Write");
    await playground.thing.getByText("1 write,").waitFor();
    expect(await field.isEditable()).toBe(false);
    expect(await playground.page.getByLabel("Slots").isDisabled()).toBe(true);
    await playground.does("Ada", "Release");
    await expect.poll(() => field.isEditable()).toBe(true);
    await playground.useKey(freshKey("another"));
    await playground.thing.getByText("Nobody has written yet.").waitFor();
  });

  it("is refused in words if it is none, or has other slots", async () => {
    const playground = await Playground.open(stage());
    const { page } = playground;
    await page.getByLabel("Key").fill("two words");
    await page.getByLabel("Key").press("Enter");
    await page.getByRole("alert").getByText("A key is 1 to 256 bytes of text without blanks").waitFor();
    await expectUsable(page);
    const key = freshKey("slots");
    await using _slot = await stage().observer.acquire(key, { limit: 3 });
    await playground.useKey(key);
    await playground.does("Ada", "Acquire");
    await playground
      .card("Ada")
      .getByRole("alert")
      .getByText(`\u2068${key}\u2069 exists with another number of slots.`)
      .waitFor();
    await playground.shows("Ada", "Has nothing");
    await expectUsable(page);
    await picture(page, "playground-mismatch");
  });
});

describe("the page", () => {
  it("has as many sessions as clients, and one to look with; none when it is left", async () => {
    const sessions = async () => (await stage().observer.stats()).connections;
    // The observer's own.
    const before = 1;
    await expect.poll(sessions).toBe(before);
    const playground = await Playground.open(stage());
    const { page } = playground;
    const key = await playground.key();
    await expect.poll(sessions).toBe(before + 4);
    await page.getByRole("button", { name: "Add a client" }).click();
    await playground.shows("Dan", "connected");
    expect(await sessions()).toBe(before + 5);
    await playground.acquireInTurn("Ada");
    const next = stage().observer.acquire(key);
    await playground.queued(1);
    await page.getByRole("link", { name: "Keys", exact: true }).click();
    await using _lock = await next;
    await expect.poll(sessions).toBe(before);
    await page.getByRole("link", { name: "Playground", exact: true }).click();
    await playground.isReady();
    await expect.poll(sessions).toBe(before + 4);
    // Before its connections are there.
    await page.reload();
    await page.getByRole("link", { name: "Keys", exact: true }).click();
    await expect.poll(sessions).toBe(before);
  });

  it("asks nothing of the service while nobody sees it", async () => {
    const page = await stage().visit("about:blank", "console", { isOrdinary: true });
    let looks = 0;
    page.on("websocket", (socket) =>
      socket.on("framesent", ({ payload }) => {
        if (/ query\n/.test(String(payload))) looks += 1;
      }),
    );
    await page.goto(`${stage().service}/#/playground`);
    await new Playground(page).isReady();
    await expect.poll(() => looks, { timeout: 5_000 }).toBeGreaterThan(2);
    await hide(page);
    const seen = looks;
    await page.evaluate(() => new Promise((resolve) => setTimeout(resolve, 3_000)));
    expect(looks - seen).toBeLessThanOrEqual(1);
  });

  it("moves, unless its visitor does not want that", async () => {
    const playground = await Playground.open(stage());
    const { page } = playground;
    const running = () => page.evaluate(() => document.getAnimations().length);
    await playground.acquireInTurn("Ada");
    await expect.poll(running).toBeGreaterThan(0);
    await playground.does("Ada", "Release");
    await page.emulateMedia({ reducedMotion: "reduce" });
    await playground.acquireInTurn("Ben", "Cleo");
    await expect.poll(running).toBe(0);
    await playground
      .card("Ben")
      .getByText(/^lease \d+ of 15 s$/)
      .waitFor();
  });

  it("can be used with the keyboard alone", async () => {
    const playground = await Playground.open(stage());
    const { page } = playground;
    const focused = () =>
      page.evaluate(() => {
        const { activeElement } = document;
        return [activeElement?.closest("section")?.getAttribute("aria-label"), activeElement?.textContent].join(" ");
      });
    const tabTo = async (wanted: string) => {
      for (let presses = 0; presses < 60; presses += 1) {
        if ((await focused()) === wanted) return;
        await page.keyboard.press("Tab");
      }
      throw new Error(`the keyboard does not lead to ${wanted}`);
    };
    await tabTo("Ada Acquire");
    await page.keyboard.press("Enter");
    await playground.shows("Ada", "Holding");
    expect(await focused()).toBe("Ada Acquire");
    await tabTo("Ben Acquire");
    await page.keyboard.press("Space");
    await playground.shows("Ben", "Waiting, position 1 of 1");
    await page.keyboard.press("Shift+Tab");
    await tabTo("Ben Give up");
    await page.keyboard.press("Enter");
    await playground.shows("Ben", "Has nothing");
    await picture(page, "playground-keyboard");
  });

  it("fits on a phone, and is dark where that is wanted", async () => {
    const phone = await Playground.open(stage(), { size: "phone", scheme: "dark" });
    await phone.acquireInTurn("Ada", "Ben", "Cleo");
    await phone.does("Ada", "Write");
    await expectUsable(phone.page);
    await phone.page.evaluate(() => scrollTo(0, 0));
    await picture(phone.page, "playground-phone-dark");
    await phone.queue.scrollIntoViewIfNeeded();
    await picture(phone.page, "playground-phone-dark-key");
    await phone.card("Ben").scrollIntoViewIfNeeded();
    await picture(phone.page, "playground-phone-dark-cards");
    const dark = await Playground.open(stage(), { scheme: "dark" });
    await dark.acquireInTurn("Ada", "Ben", "Cleo");
    await dark.does("Ben", "Freeze");
    await expectUsable(dark.page);
    await picture(dark.page, "playground-dark");
  });

  it("shows what is possible and what is left of a lease in the few colours of those who choose their own", async () => {
    const playground = await Playground.open(stage());
    const { page } = playground;
    await playground.acquireInTurn("Ada", "Ben");
    const colourOf = (action: string) =>
      playground.button("Ada", action).evaluate((button) => getComputedStyle(button).color);
    for (const colorScheme of ["light", "dark"] as const) {
      await page.emulateMedia({ forcedColors: "active", colorScheme });
      const bar = playground.card("Ada").locator(".drain");
      const grounds = await bar.evaluate((drain) =>
        [drain, drain.firstElementChild ?? drain].map((part) => getComputedStyle(part).backgroundColor),
      );
      expect(grounds[0]).not.toBe(grounds[1]);
      expect(await colourOf("Acquire")).not.toBe(await colourOf("Release"));
      await picture(page, `playground-forced-colors-${colorScheme}`);
    }
  });
});

describe("whoever may not do everything", () => {
  const TOKEN = "the shared token";
  const ADMIN = "the operator's token";
  const stage = useStage({ AUTH_TOKEN: TOKEN, ADMIN_TOKEN: ADMIN, RESUME_GRACE_S: "2" }, ADMIN);

  async function ticketFor(...keys: string[]): Promise<string> {
    const api = new Api(stage().server, { Authorization: `Bearer ${TOKEN}` });
    const issued = await api.post("/v1/tickets", { keys, operations: ["stats", "lock"], ttl_s: 60 });
    return (JSON.parse(issued.body) as { ticket: string }).ticket;
  }

  it("is told in words that a ticket does not cover the key, and plays with one that it covers", async () => {
    const playground = await Playground.open(stage(), { credential: await ticketFor("mine/*") });
    const key = await playground.key();
    const words = `This token or ticket does not cover the key \u2068${key}\u2069.`;
    await playground.page.getByRole("region", { name: "as the service sees it" }).getByText(words).waitFor();
    await playground.does("Ada", "Acquire");
    await playground.card("Ada").getByRole("alert").getByText(words).waitFor();
    await playground.does("Ben", "Enqueue");
    await playground.card("Ben").getByRole("alert").getByText(words).waitFor();
    await expectUsable(playground.page);
    await picture(playground.page, "playground-ticket");
    await playground.useKey("mine/a");
    await playground.acquireInTurn("Ada", "Ben");
    expect(await playground.queued(1)).toEqual(["Ben"]);
    stage().forgive(/403/);
  });

  it("sees that an administrator has stolen the lock", async () => {
    const playground = await Playground.open(stage(), { credential: TOKEN });
    await playground.acquireInTurn("Ada");
    await using _stolen = await stage().observer.acquire(await playground.key(), { steal: true });
    await playground.shows("Ada", "Lost: stolen");
    expect(await playground.held(1)).toEqual(["observer"]);
  });

  it("sees that the service is gone, and what that costs", async () => {
    const playground = await Playground.open(stage(), { credential: TOKEN });
    await playground.acquireInTurn("Ada", "Ben");
    await stage().server.kill9();
    await playground.shows("Ada", "connection lost, trying again …");
    await playground.shows("Ada", "Lost: disconnected");
    await playground.card("Ben").getByRole("alert").getByText("The connection was lost").waitFor();
    await picture(playground.page, "playground-gone");
    stage().forgive(/WebSocket connection to|ERR_CONNECTION/);
  });
});
