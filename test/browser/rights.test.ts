/** Pages of a service that asks who they are. */
import { expect, it } from "vitest";
import { freshKey } from "../client/support.ts";
import { useStage } from "./support/stage.ts";

const [TOKEN, ADMIN] = ["the shared token", "the operator's token"];
const stage = useStage({ AUTH_TOKEN: TOKEN, ADMIN_TOKEN: ADMIN }, TOKEN);

it("a page with a ticket from its own backend, and without the token, has the keys of the ticket and no others", async () => {
  const key = freshKey("ticket");
  const response = await fetch(`http://127.0.0.1:${stage().server.httpPort}/v1/tickets`, {
    method: "POST",
    headers: { Authorization: `Bearer ${TOKEN}` },
    body: JSON.stringify({ keys: [key], operations: ["lock"], ttl_s: 60 }),
  });
  const { ticket } = (await response.json()) as { ticket: string };
  const page = await stage().open("guest", { token: ticket });
  const outcomes = await page.evaluate(async (key) => {
    const own = await locks.request(key, ({ isHeld }) => isHeld);
    const others = await locks.acquire(`${key}-other`).catch((error) => error);
    return { own, others: others instanceof holdfast.AuthError };
  }, key);
  expect(outcomes).toEqual({ own: true, others: true });
});

it("a page without ticket or token is refused, with an error that can be caught", async () => {
  const page = await stage().open("stranger");
  const code = await page.evaluate((key) => locks.acquire(key).catch((error) => error.code), freshKey("ticket"));
  expect(code).toBe("auth");
});

it("code written for navigator.locks does the same with locks of the service", async () => {
  const name = `${freshKey("web")} of a page`;
  const page = await stage().open("web", { token: ADMIN });
  // As text: what transforms the tests would transform this as well.
  const script = await page.evaluateHandle<{ story(locks: unknown, name: string): Promise<string[]> }>(
    'import("/web-locks-story.js")',
  );
  const [browser, service] = await page.evaluate(
    async ({ script, name }) => [
      await script.story(navigator.locks, name),
      await script.story(holdfast.webLocks(locks), name),
    ],
    { script, name },
  );
  expect(browser?.length).toBeGreaterThan(20);
  expect(service).toEqual(browser);
});
