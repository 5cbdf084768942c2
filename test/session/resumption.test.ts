import { expect, it } from "vitest";
import { SessionContext } from "../../src/core/session/context.ts";
import { Resumption } from "../../src/core/session/resumption.ts";
import { CONFIG, origin, Stored } from "./stored.ts";

it("remembers the newest 64 losses, and none that a client cannot have missed within the grace period", () => {
  const stored = new Stored();
  const lives = () => new SessionContext(origin(stored, { config: { ...CONFIG, resumeGraceMs: 10_000 } }));
  const context = lives();
  const resumption = new Resumption(context);
  const lose = (token: string, now: number) => {
    context.now = now;
    resumption.rememberLoss({ key: "key", token, reason: "expired" });
    for (const effect of context.takeEffects()) stored.take(effect);
  };
  const tokensAt = (now: number) => {
    const restarted = lives();
    restarted.now = now;
    return new Resumption(restarted).recentLosses().map(({ token }) => token);
  };
  for (let n = 1; n <= 70; n++) lose(String(n), 1_000 + n);
  expect(tokensAt(2_000)).toEqual(Array.from({ length: 64 }, (_, n) => String(n + 7)));
  expect(tokensAt(41_068)).toEqual(["69", "70"]);
  lose("last", 60_000);
  expect(tokensAt(2_000)).toEqual(["last"]);
});
