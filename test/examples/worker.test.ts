/** The fence recipes for what Workers write to, in workerd with the real service beside it. */
import { env } from "cloudflare:workers";
import { expect, inject, it } from "vitest";
import { writeFenced } from "../../examples/fencing/object-store.ts";
import { r2Object } from "../../examples/fencing/r2.ts";
import { staleHolder } from "../support/stale-holder.ts";

const LOCKS_URL = inject("locksUrl");

it("a Durable Object takes no write of a holder that has lost the lock", async () => {
  const ledger = env.LEDGER.getByName("stale");
  await staleHolder(
    LOCKS_URL,
    "object",
    async (stale) => {
      expect(await ledger.write(stale.fence, 1)).toBe(true);
      expect(await ledger.write(stale.fence, 2)).toBe(true);
    },
    async (stale, fresh) => {
      expect(await ledger.write(fresh.fence, 3)).toBe(true);
      expect(await ledger.write(stale.fence, 4)).toBe(false);
      expect(await ledger.read()).toBe(3);
    },
  );
});

it("an object in R2 takes no write of a holder that has lost the lock", async () => {
  const object = r2Object(env.BUCKET, "report.json");
  await staleHolder(
    LOCKS_URL,
    "r2",
    async (stale) => {
      expect(await object.write("{}", "no such version")).toBe(false);
      expect(await writeFenced(object, stale.fence, "first")).toBe(true);
      expect(await object.write("{}", null)).toBe(false);
    },
    async (stale, fresh) => {
      expect(await writeFenced(object, fresh.fence, "second")).toBe(true);
      expect(await writeFenced(object, stale.fence, "too late")).toBe(false);
      expect(JSON.parse((await object.read())?.text ?? "")).toEqual({ fence: fresh.fence, value: "second" });
    },
  );
});
