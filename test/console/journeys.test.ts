/** Each page of the console, as its visitor goes through it once, one of them on both hosts. All the rest: `*.long.test.ts`. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { useStage } from "../browser/support/stage.ts";
import { Clients } from "../support/clients.ts";
import { HOSTS } from "../support/hosts.ts";
import { Api, freshKey } from "../support/rest.ts";
import { startServer, type TestServer } from "../support/server.ts";
import { ask, fenceOf, lock } from "../support/wire-client.ts";
import { filter, rowOf, says } from "./support/list.ts";
import { Playground } from "./support/playground.ts";
import { expectUsable, picture, signIn, visit } from "./support/visitor.ts";

const TOKEN = "the shared token";
const stage = useStage({ ADMIN_TOKEN: "the administrator" });

const urlOf = ({ httpPort }: TestServer) => `http://127.0.0.1:${httpPort}`;

it("the way in opens with the token, which outlives a reload but not the tab", async () => {
  await using server = await startServer({ variables: { AUTH_TOKEN: TOKEN } });
  const service = urlOf(server);
  const page = await visit(stage(), "#/", { service });
  await signIn(page, TOKEN);
  await page.getByRole("heading", { name: "Keys" }).waitFor();
  expect(await page.evaluate(() => [localStorage.length, document.cookie, location.href.includes("token")])).toEqual([
    0,
    "",
    false,
  ]);
  await page.reload();
  await page.getByRole("heading", { name: "Keys" }).waitFor();
  const other = await visit(stage(), "#/", { service });
  await other.getByRole("heading", { name: "Sign in" }).waitFor();
  await page.getByRole("button", { name: "Sign out" }).click();
  await page.getByRole("heading", { name: "Sign in" }).waitFor();
  await page.reload();
  await page.getByRole("heading", { name: "Sign in" }).waitFor();
});

it("the list follows clients over TCP, HTTP and WebSocket, from the first grant to the idle key", async () => {
  using clients = new Clients(stage().server);
  const page = await visit(stage());
  await filter(page, "live/");
  const tcp = await clients.tcp();
  const token = await lock(tcp, "live/a", "0 60");
  const row = rowOf(page, "live/a");
  await says(row, /^session [0-9]+$/);
  await says(row, "nobody waits");
  const rest = await new Api(stage().server).session({ "X-Holdfast-Label": "nightly import" });
  const polling = rest.start("/v1/locks/live%2Fa", { acquire_timeout_s: 60 });
  await says(row, "1 waiting");
  await says(row, "nightly import");
  const observed = stage().observer.acquire("live/a");
  await says(row, "2 waiting");
  expect(await row.locator("ol li").allTextContents()).toEqual([
    expect.stringMatching(/^1 nightly import [0-9]+ s$/),
    expect.stringMatching(/^2 observer [0-9]+ s$/),
  ]);
  await expectUsable(page);
  expect(await ask(tcp, "r", "live/a", token)).toBe("ok");
  await says(row.locator(".held"), "nightly import");
  await says(row, "1 waiting");
  await polling.reply;
  await rest.end();
  await says(row.locator(".held"), "observer");
  await (await observed).release();
  await says(row, /^free, idle for [0-9]+ s$/);
});

describe.each(HOSTS)("with the service on $name", (host) => {
  let server: TestServer;
  beforeAll(async () => {
    server = await host.start();
  });
  afterAll(() => server.stop());
  const person = (label: string) => new Api(server).session({ "X-Holdfast-Label": label });

  it("the page of a key shows who holds it and who waits, in their order, as it changes", async () => {
    using clients = new Clients(server);
    const key = freshKey("page/of");
    const [ada, bob] = [await person("ada"), await person("bob")];
    const token = await ada.lock(encodeURIComponent(key), { lease_ttl_s: 40 });
    const tcp = await clients.tcp();
    const first = await bob.waitInLine(encodeURIComponent(key), 90);
    tcp.send(`l\n${key}\n70\n`);
    const page = await visit(stage(), `#/keys/${encodeURIComponent(key)}`, { service: urlOf(server) });
    await page.getByRole("heading", { name: key }).waitFor();
    await page.getByText("2 waiting").waitFor();
    const holders = page.getByRole("region", { name: "Held by" });
    await holders.getByText("ada", { exact: true }).waitFor();
    expect(await holders.textContent()).toMatch(/3\d s of the lease left/);
    expect(await holders.locator("dd[title]").getAttribute("title")).toBe(fenceOf(token));
    const queue = page.getByRole("region", { name: "2 waiting" }).getByRole("listitem");
    expect(await queue.allTextContents()).toEqual([
      expect.stringMatching(/^1bob session \d+for \d+ s, gives up in 1 min 2\d s$/),
      expect.stringMatching(/^2session \d+ for \d+ s, gives up in 1 min \d s$/),
    ]);
    await expectUsable(page);
    await ada.release(encodeURIComponent(key), token);
    await holders.getByText("bob", { exact: true }).waitFor();
    await page.getByText("1 waiting").waitFor();
    await first.reply;
    await bob.end();
    await tcp.next();
    await page.getByText("Nobody waits").waitFor();
    tcp.close();
    await page.getByText("Nobody. Whoever asks gets it at once.").waitFor();
    await page.getByText(/^Lock, idle for \d+ s$/).waitFor();
  });
});

it("the playground shows the whole story: a hand-over in order, rising fences, a lease that ends, an old fence refused", async () => {
  const playground = await Playground.open(stage());
  const { page, thing } = playground;
  await playground.useLease("5 s");
  await expectUsable(page);
  await picture(page, "playground-desktop");
  await playground.acquireInTurn("Ada");
  expect(await playground.stepsDone()).toBe(1);
  await playground.acquireInTurn("Ben", "Cleo");
  expect(await playground.queued(2)).toEqual(["Ben", "Cleo"]);
  await expect.poll(() => playground.stepsDone()).toBe(2);
  await expectUsable(page);
  await picture(page, "playground-queue");

  const first = await playground.fenceOf("Ada");
  await playground.does("Ada", "Release");
  await playground.shows("Ben", "Holding");
  const second = await playground.fenceOf("Ben");
  expect(second > first).toBe(true);
  await playground.shows("Cleo", "Waiting, position 1 of 1");
  await expect.poll(() => playground.stepsDone()).toBe(3);

  await playground.does("Ben", "Freeze");
  await playground.shows("Ben", "Holding, frozen");
  await expectUsable(page);
  await picture(page, "playground-frozen");
  await playground.shows("Cleo", "Holding");
  const third = await playground.fenceOf("Cleo");
  expect(third > second).toBe(true);
  await playground.shows("Ben", "Believes it still holds");
  expect(await playground.stepsDone()).toBe(4);

  await playground.does("Cleo", "Write");
  await thing.getByText("Accepted").waitFor();
  await playground.does("Ben", "Thaw");
  await playground.shows("Ben", "Lost: expired");
  await playground.does("Ben", "Write");
  await thing.getByText(`Refused: Ben’s fence ${second} is older than ${third}`).waitFor();
  await page.getByText("You have seen it all").waitFor();
  expect(await playground.stepsDone()).toBe(5);
  const lines = await playground.log.locator("li span").allTextContents();
  expect(lines.toReversed().map((line) => line.replace(/after [\d.]+ m?s/, "after a while"))).toEqual([
    `Ada acquired it with fence ${first}`,
    "Ben waits, next in the queue",
    "Cleo waits, 1 ahead in the queue",
    "Ada released it",
    `Ben got it after a while, with fence ${second}`,
    "Ben stands still: nothing is renewed any more",
    `Cleo got it after a while, with fence ${third}`,
    `Cleo wrote with fence ${third}`,
    "Ben goes on as if nothing had happened",
    "Ben lost it: expired",
    `Ben was refused: fence ${second} is older than ${third}`,
  ]);
  await expectUsable(page);
  await picture(page, "playground-refused");
});
