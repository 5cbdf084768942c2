/** What an operator sees of the directory: how listings go, and whether some are late. */
import { reset, runInDurableObject } from "cloudflare:test";
import { afterEach, expect, it, vi } from "vitest";
import { DirectoryObject } from "../../../src/cloudflare/directory/directory-object.ts";
import { renderMetrics } from "../../../src/http/middleware/metrics.ts";
import { parseExposition, sampleValue } from "../../metrics/parse.ts";
import { expectLog } from "../../support/expected-logs.ts";
import { pass, stopClock } from "../clock.ts";
import { replaceNext } from "../spies.ts";
import {
  askKey,
  command,
  fresh,
  grantedToken,
  keyStub,
  listed,
  PRUNED_AFTER_MS,
  runAlarm,
  service,
  until,
} from "../support.ts";

afterEach(async () => {
  vi.restoreAllMocks();
  vi.useRealTimers();
  await reset();
});

async function scrape() {
  const families = parseExposition(await renderMetrics(service(), { isDraining: false, estimates: true }));
  const listings = (result: string) => sampleValue(families, "dflockd_listings_total", { result }) ?? 0;
  return { listings, backlog: sampleValue(families, "dflockd_listing_backlog", {}) };
}

it("listings are counted by what came of them, and late ones are a backlog for a minute", async () => {
  stopClock();
  const before = await scrape();
  const since = (now: typeof before, result: string) => now.listings(result) - before.listings(result);
  expect(before.backlog).toBe(0);
  expectLog("directory_unreachable", { error: "Error: unreachable" });
  const [prompt, late] = [fresh("key"), fresh("key")];
  replaceNext(DirectoryObject.prototype, "listKey", late, async () => {
    throw new Error("unreachable");
  });
  for (const key of [prompt, late]) {
    const token = grantedToken(
      await askKey(keyStub(key), { type: "acquire", command: command({ leaseSeconds: 600 }) }),
    );
    await askKey(keyStub(key), { type: "release", token, session: "" });
  }
  await listed(prompt);
  await until(async () => since(await scrape(), "failed") > 0);
  const failed = await scrape();
  expect([since(failed, "listed"), since(failed, "failed"), failed.backlog]).toEqual([1, 1, 0]);
  await until(() => runInDurableObject(keyStub(late), (_, { storage }) => storage.getAlarm()));
  pass(60_000);
  grantedToken(await askKey(keyStub(late), { type: "acquire", command: command({ leaseSeconds: 1 }) }));
  await listed(late);
  expect((await scrape()).backlog).toBe(1);
  pass(PRUNED_AFTER_MS);
  await runAlarm(prompt);
  const end = await scrape();
  expect([since(end, "listed"), since(end, "unlisted"), end.backlog]).toEqual([2, 1, 0]);
});
