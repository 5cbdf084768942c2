import { describe, expect, it } from "vitest";
import { NODE } from "../support/hosts.ts";
import { Group, given, sleep } from "./group.ts";
import { speakTo } from "./speaker.ts";

describe("three servers", () => {
  it("give the lock of a server that is gone to others when its lease and a second are over", async () => {
    await using group = await Group.start(NODE, NODE, NODE);
    const [a, b] = await Promise.all([group.client(0), group.client(1)]);
    const fence = given(await a.ask("ON g5 3000"));
    const grantedAt = performance.now();
    await group.at(0).kill9();
    expect(given(await b.ask("ON g5 60000"))).toBeGreaterThan(fence);
    const seconds = (performance.now() - grantedAt) / 1000;
    expect(seconds).toBeGreaterThan(3.5);
    expect(seconds).toBeLessThan(6);
  });

  it("never have two holders at once, and give fences that rise, while many contend", async () => {
    await using group = await Group.start(NODE, NODE, NODE);
    const holds: { from: number; to: number; fence: bigint }[] = [];
    const ends = performance.now() + 30_000;
    const contend = async (index: number) => {
      const client = await group.client(index % 3);
      while (performance.now() < ends) {
        // The servers of a group do not take turns: one that hands over to its own waiters may keep the others waiting for long.
        const reply = await client.ask(index % 2 === 0 ? "ON g6 20000" : "TRY g6 20000", 60_000);
        if (reply.startsWith("GIVE")) {
          const from = performance.now();
          await sleep(Math.random() * 20);
          holds.push({ from, to: performance.now(), fence: given(reply) });
          client.send("OFF g6");
        } else await sleep(Math.random() * 50);
      }
      client.close();
    };
    await Promise.all(Array.from({ length: 20 }, (_, index) => contend(index)));
    holds.sort((one, other) => one.from - other.from);
    expect(holds.length).toBeGreaterThan(50);
    for (const [index, hold] of holds.entries()) {
      const next = holds[index + 1];
      if (!next) break;
      expect(hold.to, "ends before the next begins").toBeLessThanOrEqual(next.from);
      expect(next.fence > hold.fence, "the fence rises").toBe(true);
    }
  }, 90_000);

  it("free the lock of a server that was restarted when its lease is over", async () => {
    await using group = await Group.start(NODE, NODE, NODE);
    const a = await group.client(0);
    given(await a.ask("ON g7 4000"));
    const grantedAt = performance.now();
    await group.at(0).restart();
    const [own, other] = await Promise.all([group.client(0), group.client(1)]);
    given(await own.ask("ON g7 1000", 8_000));
    expect((performance.now() - grantedAt) / 1000).toBeLessThan(7);
    own.send("OFF g7");
    given(await other.ask("ON g7 1000", 8_000));
  });
});

describe("a server without the others", () => {
  it("lets nobody wait behind a client that was lost in a crash", async () => {
    await using group = await Group.start(NODE, NODE, NODE);
    await Promise.all([group.at(1).kill9(), group.at(2).kill9()]);
    const lost = await group.client(0);
    lost.send("ON g9 60000");
    await sleep(500);
    await group.at(0).restart();
    const other = await speakTo({ port: group.at(0).tcpPort });
    other.send(new TextEncoder().encode("l\ng9\n10\n"));
    const arrival = await other.inbox.take(8_000);
    expect(arrival).toMatchObject({ kind: "line", line: expect.stringMatching(/^ok /) });
    other.close();
  });
});

describe("five servers", () => {
  it("agree while two are gone", async () => {
    await using group = await Group.start(NODE, NODE, NODE, NODE, NODE);
    await Promise.all([group.at(3).kill9(), group.at(4).kill9()]);
    const [a, b, c] = await Promise.all([group.client(0), group.client(1), group.client(2)]);
    const fence = given(await a.ask("ON g8 60000"));
    expect(await b.ask("TRY g8 1000")).toBe(`LOCK ${fence}`);
    a.send("OFF g8");
    expect(given(await c.ask("ON g8 60000"))).toBeGreaterThan(fence);
  });
});
