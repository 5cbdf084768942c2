import { describe, expect, it } from "vitest";
import { SqliteStore } from "../../../src/node/store/sqlite.ts";
import { temporaryDir } from "../../cli/support.ts";
import { startCutProxy } from "../../support/cut-proxy.ts";
import { poll, sleep } from "../../support/poll.ts";
import { type Client, Deployments, given } from "./deployments.ts";

/** Asks again until the lock is given: what a majority does not know yet, it refuses. */
function eventuallyGiven(client: Client, request: string, withinMs = 20_000): Promise<bigint> {
  return poll(request, withinMs, async () => {
    const reply = await client.ask(request);
    return reply.startsWith("GIVE") ? given(reply) : undefined;
  });
}

async function timed<Result>(action: () => Promise<Result>): Promise<{ result: Result; ms: number }> {
  const begun = performance.now();
  const result = await action();
  return { result, ms: performance.now() - begun };
}

describe.each(["tcp", "ws"] as const)("three Node hosts over %s", (scheme) => {
  it("grant a lock once in the whole group", async () => {
    await using group = await Deployments.start(3, { scheme });
    const [a, b, c] = group.all.map((each) => each.client()) as [Client, Client, Client];
    const fence = given(await a.ask("ON once 60000"));
    for (const other of [b, c]) expect([`LOCK ${fence}`, "LOCK 0"]).toContain(await other.ask("TRY once 1000"));
    expect(await a.ask("IS once")).toBe(`LOCK ${fence}`);
    expect(given(await a.ask("TRY once 60000"))).toBe(fence);
  });

  it("hand a lock over with rising fences", async () => {
    await using group = await Deployments.start(3, { scheme });
    let last = 0n;
    for (let turn = 0; turn < 9; turn += 1) {
      const client = group.at(turn % 3).client();
      const fence = given(await client.ask("ON passed 60000"));
      expect(fence).toBeGreaterThan(last);
      last = fence;
      if (turn % 2 === 0) client.send("OFF passed");
      else client.leave();
    }
  });

  it("hear of each other", async () => {
    await using group = await Deployments.start(3, { scheme });
    const peers = await group.at(0).group.peers();
    expect(peers.map(({ id, isPresent }) => ({ id, isPresent }))).toEqual([
      { id: "s1", isPresent: true },
      { id: "s2", isPresent: true },
    ]);
    expect(await group.at(1).group.present()).toEqual(["s0"]);
  });
});

describe("a group of Node hosts", () => {
  it("never has two holders, however many clients want the lock", async () => {
    await using group = await Deployments.start(3);
    let holders = 0;
    const fences: bigint[] = [];
    const clients = Array.from({ length: 9 }, (_, index) => group.at(index % 3).client());
    await Promise.all(
      clients.map(async (client) => {
        for (let turn = 0; turn < 3; turn += 1) {
          fences.push(given(await client.ask("ON wanted 60000", 50_000)));
          holders += 1;
          expect(holders).toBe(1);
          await sleep(0.005);
          holders -= 1;
          client.send("OFF wanted");
        }
      }),
    );
    expect(fences).toEqual([...fences].sort((one, other) => (one < other ? -1 : 1)));
    expect(new Set(fences).size).toBe(27);
  });

  it("lets another deployment have a lock that clients of one hand to each other", async () => {
    await using group = await Deployments.start(3);
    let turns = 0;
    let isOver = false;
    const cycle = async (client: Client) => {
      while (!isOver) {
        given(await client.ask("ON passed 60000", 30_000));
        turns += 1;
        await sleep(0.02);
        client.send("OFF passed");
      }
    };
    const cycling = Array.from({ length: 5 }, () => cycle(group.at(0).client()));
    await poll("turns of the first deployment", 10_000, async () => turns > 5 || undefined);
    const other = group.at(1).client();
    const before = turns;
    given(await other.ask("ON passed 60000", 20_000));
    expect(turns - before).toBeLessThan(10);
    isOver = true;
    other.send("OFF passed");
    await Promise.all(cycling);
  });

  it("prolongs a lease that a majority keeps, and no other", async () => {
    await using group = await Deployments.start(3);
    const [a, b] = [group.at(0).client(), group.at(1).client()];
    const fence = given(await a.ask("ON long 1000"));
    expect(await a.ask(`REFRESH long ${fence} 60000`)).toBe(`GIVE ${fence}`);
    await sleep(2.5);
    expect(await a.ask("IS long")).toBe(`LOCK ${fence}`);
    expect(await b.ask("TRY long 1000")).toMatch(/^LOCK/);
    await Promise.all([group.at(1).drop(), group.at(2).drop()]);
    expect(await a.ask(`REFRESH long ${fence} 90000`)).toBe(`LOCK ${fence}`);
  });

  it("goes on without waiting when one is gone, and counts it again when it is back", async () => {
    await using group = await Deployments.start(3);
    const [a, b] = [group.at(0).client(), group.at(1).client()];
    given(await a.ask("ON first 60000"));
    await group.at(2).drop();
    let last = 0n;
    let fastest = Number.POSITIVE_INFINITY;
    for (const client of [a, b, a, b]) {
      const { result, ms } = await timed(() => client.ask("ON left 60000"));
      expect(given(result)).toBeGreaterThan(last);
      last = given(result);
      fastest = Math.min(fastest, ms);
      client.send("OFF left");
    }
    expect(fastest).toBeLessThan(500);
    await group.at(2).start();
    await poll("the release at s0", 2_000, async () => (await a.ask("IS left")) === "NO" || undefined);
    await group.at(1).drop();
    // The one that is back knows nothing of the fences so far, and the majority does.
    expect(await eventuallyGiven(group.at(2).client(), "TRY left 60000")).toBeGreaterThan(last);
  });

  it("refuses without a majority, and serves whoever waits once it is back", async () => {
    await using group = await Deployments.start(3);
    await Promise.all([group.at(1).drop(), group.at(2).drop()]);
    const client = group.at(0).client();
    expect(await client.ask("TRY few 1000")).toBe("ERR no-quorum");
    await poll("the end of the connection", 2_000, async () => client.isClosed || undefined);
    const patient = group.at(0).client();
    const nonce = patient.send("ON few 60000");
    await sleep(0.7);
    await group.at(1).start();
    given(await patient.answer(nonce, 3_000));
  });

  it("withdraws the round of a client that leaves", async () => {
    await using group = await Deployments.start(3);
    await Promise.all([group.at(1).drop(), group.at(2).drop()]);
    const [gone, next] = [group.at(0).client(), group.at(0).client()];
    gone.send("ON queue 60000");
    const nonce = next.send("ON queue 60000");
    await sleep(0.2);
    gone.leave();
    await group.at(1).start();
    given(await next.answer(nonce, 3_000));
  });

  it("frees what a dropped host held when its time is over, with a higher fence", async () => {
    await using group = await Deployments.start(3);
    const fence = given(await group.at(0).client().ask("ON orphan 1500"));
    await group.at(0).drop();
    const { result, ms } = await timed(() => group.at(1).client().ask("ON orphan 60000"));
    expect(given(result)).toBeGreaterThan(fence);
    expect(ms).toBeGreaterThan(1_400);
    expect(ms).toBeLessThan(6_000);
  });

  it("keeps a dropped host's promises to the others when it comes back from its file", async () => {
    const folder = temporaryDir();
    await using group = await Deployments.start(3, { store: (index) => SqliteStore.open(`${folder}/s${index}.db`) });
    const holder = group.at(0).client();
    const fence = given(await holder.ask("ON kept 60000"));
    // Late answers are told as well: all three know it now.
    await poll("the third one", 3_000, async () => {
      const replies = await Promise.all([1, 2].map((index) => group.at(index).client().ask("IS kept")));
      return replies.every((reply) => reply === `LOCK ${fence}`) || undefined;
    });
    await Promise.all([group.at(1).drop(), group.at(2).drop()]);
    await Promise.all([group.at(1).start(), group.at(2).start()]);
    expect(await group.at(1).client().ask("TRY kept 1000")).toMatch(/^LOCK/);
    holder.send("OFF kept");
    expect(await eventuallyGiven(group.at(2).client(), "TRY kept 60000")).toBeGreaterThan(fence);
  });

  it("dials again when a peer has fallen silent without closing its connection", async () => {
    const proxies: Awaited<ReturnType<typeof startCutProxy>>[] = [];
    const portFor = async (_: number, port: number) => {
      const proxy = await startCutProxy(() => port);
      proxies.push(proxy);
      return proxy.port;
    };
    await using group = await Deployments.start(2, { portFor });
    const client = group.at(0).client();
    given(await client.ask("ON before 60000"));
    for (const proxy of proxies) proxy.blackHole();
    given(await client.ask("ON after 60000", 15_000));
    for (const proxy of proxies) await proxy[Symbol.asyncDispose]();
  });
});
