/** The console of services that are set up, or change, in ways that people meet. */
import type { Page } from "playwright-core";
import { expect, it } from "vitest";
import { useStage } from "../browser/support/stage.ts";
import { connectTo } from "../client/support.ts";
import { poll } from "../support/poll.ts";
import { startServer, type TestServer } from "../support/server.ts";
import { expectUsable, picture, visit } from "./support/visitor.ts";

const stage = useStage();

const addressOf = ({ httpPort }: TestServer) => `http://127.0.0.1:${httpPort}`;

/** Lets a page find a server that has come back on another port at its old address, as it would in life. */
async function redirect(page: Page, oldPort: number, server: TestServer): Promise<void> {
  await page.route(`http://127.0.0.1:${oldPort}/**`, async (route) => {
    const moved = route.request().url().replace(`:${oldPort}/`, `:${server.httpPort}/`);
    await route.fulfill({ response: await route.fetch({ url: moved }) });
  });
}

it("a service that drains says so above all", async () => {
  await using server = await startServer({ variables: { DRAINING: "true" } });
  const page = await visit(stage(), "#/", { service: addressOf(server) });
  await page.getByRole("status").getByText("Draining: the service takes no new work").waitFor();
});

it("a service that wants to be asked less often is asked less often, and the page says why it is not up to date", async () => {
  const limits = { HTTP_RATE_LIMIT_PER_IP: "1", HTTP_RATE_LIMIT_BURST: "4" };
  await using server = await startServer({ variables: limits });
  const page = await visit(stage(), "#/", { service: addressOf(server) });
  await page.getByText("The service asks to be asked less often.").first().waitFor();
  await picture(page, "rate-limited");
  stage().forgive(/429/);
});

it("a page whose script the service refuses for once is not white, and works when it is loaded again", async () => {
  const page = await stage().visit("about:blank", "console");
  await page.route(/console\.js$/, (route) => route.fulfill({ status: 429 }));
  await page.goto(`${stage().service}/`);
  await page.getByText("If this stays, load the page again").waitFor();
  await page.unroute(/console\.js$/);
  await page.reload();
  await page.getByRole("heading", { name: "Keys" }).waitFor();
  expect(await page.getByText("If this stays").count()).toBe(0);
  stage().forgive(/429/);
});

it("a service that has got a token meanwhile is asked for nothing before the page's user has shown it", async () => {
  await using server = await startServer();
  const page = await visit(stage(), "#/", { service: addressOf(server) });
  await page.getByText("Live", { exact: true }).waitFor();
  const { httpPort } = server;
  await server.restart({ AUTH_TOKEN: "fresh" });
  await redirect(page, httpPort, server);
  await page.getByRole("heading", { name: "Sign in" }).waitFor();
  await page.getByRole("alert").getByText("does not accept this token").waitFor();
  await page.getByLabel("Token or ticket").fill("fresh");
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByText("Live", { exact: true }).waitFor();
  expect(await page.evaluate(() => document.activeElement?.id)).toBe("content");
  await expectUsable(page);
  stage().forgive(/Failed to load resource/);
});

it("a key's page keeps the grants it was told of when the service forgets them", async () => {
  await using server = await startServer();
  const { httpPort } = server;
  const page = await visit(stage(), "#/keys/kept", { service: addressOf(server) });
  expect(await page.title()).toBe("kept · holdfast");
  await using locks = connectTo(httpPort);
  for (let round = 0; round < 3; round += 1) await (await locks.acquire("kept")).release();
  await page.getByText("Of the last 3 grants").waitFor();
  await server.restart();
  await redirect(page, httpPort, server);
  await using others = connectTo(server.httpPort);
  await (await others.acquire("kept")).release();
  await poll(
    "the fourth grant",
    15_000,
    async () => (await page.getByText("Of the last 4 grants").count()) || undefined,
  );
  stage().forgive(/Failed to load resource/);
});
