import { runInDurableObject } from "cloudflare:test";
import { expect, it } from "vitest";
import { resumable } from "../resuming.ts";
import { askKey, fresh, keyStub, sessionStub, tokenOf, until } from "../support.ts";

it("what is pushed to a client does not meet a keep-alive that the platform answers", async () => {
  const key = fresh("key");
  const { client, credential } = await resumable();
  const token = tokenOf((await client.ask(`@l l\n${key}\n0 33\n`)).replace("@l ", ""));
  const isAutomatic = () =>
    runInDurableObject(sessionStub(credential.session), (_, ctx) => ctx.getWebSocketAutoResponse() !== null);
  expect(await client.ask("@w watch\n_\nlost\n")).toBe("@w ok");
  await until(isAutomatic, { timeout: 10_000, interval: 50 });
  await askKey(keyStub(key), { type: "steal", fence: token.slice(0, 16) });
  expect(await client.line()).toMatch(/^! lost /);
  expect(await isAutomatic()).toBe(false);
});
