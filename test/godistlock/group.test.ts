import { describe, expect, it } from "vitest";
import { CLOUDFLARE, NODE } from "../support/hosts.ts";
import { Group, given, sleep, takenUnder } from "./group.ts";

describe.each([
  { hosts: [NODE, NODE, NODE], name: "on Node" },
  { hosts: [CLOUDFLARE, NODE, CLOUDFLARE], name: "on both hosts" },
])("three servers $name", ({ hosts }) => {
  it("agree on one holder, and on the next one", async () => {
    await using group = await Group.start(...hosts);
    const [a, b, c] = await Promise.all([group.client(0), group.client(1), group.client(2)]);
    const fence = given(await a.ask("ON g1 60000"));
    for (const other of [b, c]) expect(takenUnder(fence)).toContain(await other.ask("TRY g1 1000"));
    a.send("OFF g1");
    expect(given(await a.ask("TRY g2 1000"))).toBeGreaterThan(0n);
    // The release has been sent before what followed it.
    const next = await eventuallyGiven(() => b.ask("TRY g1 60000"));
    expect(next).toBeGreaterThan(fence);
    expect(takenUnder(next)).toContain(await c.ask("TRY g1 1000"));
  });

  it("go on without long waits when one of them is gone, and say so when two are", async () => {
    await using group = await Group.start(...hosts);
    const [a, b] = await Promise.all([group.client(0), group.client(1)]);
    await group.at(2).kill9();
    let fence = 0n;
    let fastest = Number.POSITIVE_INFINITY;
    for (const client of [a, b, a, b, a, b]) {
      const { reply, ms } = await timed(() => client.ask("ON g3 60000"));
      expect(given(reply)).toBeGreaterThan(fence);
      fence = given(reply);
      fastest = Math.min(fastest, ms);
      client.send("OFF g3");
    }
    // No phase waits for the one that is gone.
    expect(fastest).toBeLessThan(900);
    b.close();
    await group.at(1).kill9();
    expect(await a.ask("TRY g4 1000")).toBe("ERR no-quorum");
    const again = await group.client(0);
    const nonce = again.send("ON g4 60000");
    await sleep(500);
    await group.at(1).restart();
    given(await again.answer(nonce, 3_000));
  });
});

async function timed(ask: () => Promise<string>): Promise<{ reply: string; ms: number }> {
  const begun = performance.now();
  const reply = await ask();
  return { reply, ms: performance.now() - begun };
}

async function eventuallyGiven(ask: () => Promise<string>): Promise<bigint> {
  for (let attempt = 0; attempt < 40; attempt++) {
    const reply = await ask();
    if (reply.startsWith("GIVE")) return given(reply);
    await sleep(50);
  }
  throw new Error("not given");
}
