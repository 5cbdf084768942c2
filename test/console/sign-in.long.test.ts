/** Nobody sees anything before he has shown a token, where the service has one. */
import type { Page } from "playwright-core";
import { describe, expect, it } from "vitest";
import { useStage } from "../browser/support/stage.ts";
import { Api } from "../support/rest.ts";
import { expectUsable, picture, signIn, visit } from "./support/visitor.ts";

const TOKEN = "the shared token";
const stage = useStage({ AUTH_TOKEN: TOKEN }, TOKEN);

/** What the page asks of the service, from now on. */
function requestsOf(page: Page): string[] {
  const asked: string[] = [];
  page.on("request", (request) => asked.push(new URL(request.url()).pathname));
  page.on("websocket", (socket) => asked.push(socket.url()));
  return asked;
}

/** A ticket for all keys that begin with `mine/`, good for so many seconds. */
async function ticketFor(seconds: number): Promise<string> {
  const api = new Api(stage().server, { Authorization: `Bearer ${TOKEN}` });
  const scope = { keys: ["mine/*"], operations: ["stats", "lock"], ttl_s: seconds };
  const { body } = await api.post("/v1/tickets", scope);
  return (JSON.parse(body) as { ticket: string }).ticket;
}

describe("the way in", () => {
  it("loads nothing but the page itself before somebody has shown a token", async () => {
    const page = await stage().visit("about:blank", "console");
    const asked = requestsOf(page);
    await page.goto(`${stage().service}/`);
    await page.getByRole("heading", { name: "Sign in" }).waitFor();
    await expectUsable(page);
    await picture(page, "sign-in");
    expect(asked.toSorted()).toEqual(["/", "/console.css", "/console.js"]);
  });

  it("refuses a wrong token in words, and lets one try again", async () => {
    const page = await visit(stage());
    await signIn(page, "a guess");
    await page.getByRole("alert").getByText("does not accept this token").waitFor();
    await picture(page, "sign-in-refused");
    await expectUsable(page);
    expect(await page.evaluate(() => sessionStorage.length)).toBe(0);
    await signIn(page, TOKEN);
    await page.getByRole("heading", { name: "Keys" }).waitFor();
    stage().forgive(/401/);
  });

  it("asks for a token when none was written", async () => {
    const page = await visit(stage());
    const asked = requestsOf(page);
    await signIn(page, "  ");
    await page.getByRole("alert").getByText("A token is needed").waitFor();
    expect(asked).toEqual([]);
  });

  it("opens with a ticket, and shows what it covers", async () => {
    const ticket = await ticketFor(60);
    await using _mine = await stage().observer.acquire("mine/a");
    await using _other = await stage().observer.acquire("other");
    const page = await visit(stage());
    await signIn(page, ticket);
    await page.getByRole("link", { name: "mine/a" }).waitFor();
    expect(await page.getByRole("link", { name: "other" }).count()).toBe(0);
    await page.getByText("shows no figures of the whole service").waitFor();
    await picture(page, "ticket");
    stage().forgive(/403/);
  });

  it("tells whoever looks at a key that his ticket does not cover just that", async () => {
    await using _other = await stage().observer.acquire("other");
    const page = await visit(stage(), "#/keys/other", { credential: await ticketFor(60) });
    await page.getByRole("alert").getByText("This token or ticket may not do that.").waitFor();
    stage().forgive(/403/);
  });

  it("shows the door to whoever's ticket runs out, and says why", async () => {
    const page = await visit(stage(), "#/", { credential: await ticketFor(2) });
    await page.getByRole("heading", { name: "Sign in" }).waitFor();
    await page.getByRole("alert").getByText("a ticket that has run out").waitFor();
    expect(await page.evaluate(() => sessionStorage.length)).toBe(0);
    stage().forgive(/40[13]/);
  });
});
