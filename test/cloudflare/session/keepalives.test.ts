import { runInDurableObject } from "cloudflare:test";
import { expect, it, vi } from "vitest";
import { resumable } from "../resuming.ts";
import { askKey, fresh, keyStub, sessionStub, tokenOf, until } from "../support.ts";

it("the platform answers no keep-alives while something is pushed to a client, and does again soon after", async () => {
  const key = fresh("key");
  const { client, credential } = await resumable();
  const token = tokenOf((await client.ask(`@l l\n${key}\n0 33\n`)).replace("@l ", ""));
  const session = sessionStub(credential.session);
  const isAutomatic = () => runInDurableObject(session, (_, ctx) => ctx.getWebSocketAutoResponse() !== null);
  expect(await client.ask("@w watch\n_\nlost\n")).toBe("@w ok");
  await until(isAutomatic, { timeout: 10_000, interval: 50 });
  const set = await runInDurableObject(session, (_, ctx) => vi.spyOn(ctx, "setWebSocketAutoResponse"));
  await askKey(keyStub(key), { type: "steal", fence: token.slice(0, 16) });
  expect(await client.line()).toMatch(/^! lost /);
  expect(set.mock.calls[0]).toEqual([]);
  await until(isAutomatic);
  client.close();
});
