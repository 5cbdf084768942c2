/** Nothing is told before it is durable; what cannot be stored has not happened. */
import { describe, expect, it } from "vitest";
import { app } from "../../src/http/app.ts";
import { World } from "./support/world.ts";

describe("a batch", () => {
  it("answers nobody before its commit, and everybody after it", () => {
    const { connect, runtime, store } = worldWithClients();
    const [ann, ben] = [connect(), connect()];
    ann.ask("l", "a", "10");
    ben.ask("l", "b", "10");
    expect([...ann.lines, ...ben.lines]).toEqual([]);
    const { commits } = store;
    runtime.endTurn();
    expect(ann.last).toMatch(/^ok [0-9a-f]{32} 33$/);
    expect(ben.last).toMatch(/^ok [0-9a-f]{32} 33$/);
    expect(store.commits).toBe(commits + 1);
  });

  it("says nothing while its commit is held up: no time-out, `stats`, `query` or GET that shows its grant", async () => {
    const { world, connect, runtime, store } = worldWithClients();
    const { service, host } = world;
    const [ann, ben, cat] = [connect(), connect(), connect()];
    runtime.settle();
    const replies: string[] = [];
    const get = async (path: string) => {
      const request = new Request(`http://localhost${path}`);
      const reply = await app.fetch(request, { service, address: "192.0.2.7" });
      replies.push(`${reply.status} ${await reply.text()}`);
    };
    const said = () => [...ann.lines, ...ben.lines, ...cat.lines, ...replies];
    // Reports are made in the batch that follows the question. Here that is the batch of the grant.
    host.batch.afterBatch(() => {
      ann.ask("l", "k", "10");
      ben.ask("l", "k", "0");
      void get("/v1/files/k");
    });
    cat.ask("@1 stats");
    cat.ask("@2 query", "k");
    void get("/v1/keys/k");
    void get("/v1/stats");
    await soon();
    runtime.endTurn();
    await soon();
    const saidAtCommit: (readonly string[])[] = [];
    store.committing = () => void saidAtCommit.push(said());
    runtime.endTurn();
    expect(saidAtCommit).toEqual([[]]);
    await runtime.advanceUntil(1_000, () => said().length === 7);
    expect(ann.lines).toEqual([expect.stringMatching(/^ok [0-9a-f]{32} 33$/)]);
    expect(ben.lines).toEqual(["timeout"]);
    expect(cat.lines.toSorted()).toEqual([
      expect.stringMatching(/^@1 ok \{"connections":3,"locks":\[\{"key":"k"/),
      expect.stringMatching(/^@2 ok \{"key":"k",.*"holders":1/),
    ]);
    expect(replies.toSorted()).toEqual([
      expect.stringMatching(/^200 pid=0\n/),
      expect.stringMatching(/^200 \{"connections":3,"locks":\[\{"key":"k"/),
      expect.stringMatching(/^200 \{"key":"k",.*"holders":1/),
    ]);
  });

  it("hands a lock from one client to the next in one commit", () => {
    const { connect, runtime, store } = worldWithClients();
    const [ann, ben] = [connect(), connect()];
    ann.ask("l", "k", "10");
    runtime.settle();
    ben.ask("l", "k", "10");
    runtime.settle();
    const { commits } = store;
    ann.ask("r", "k", ann.token);
    runtime.endTurn();
    expect(ann.last).toBe("ok");
    expect(ben.last).toMatch(/^ok [0-9a-f]{32} 33$/);
    expect(store.commits).toBe(commits + 1);
  });

  it("runs a long pipeline without nesting, and in order", () => {
    const { connect, runtime } = worldWithClients();
    const ann = connect();
    for (let count = 0; count < 3_000; count += 1) ann.ask("l", `k${count}`, "10");
    runtime.settle();
    expect(ann.lines.length).toBe(3_000);
    expect(ann.lines.every((line) => line.startsWith("ok "))).toBe(true);
  });
});

describe("a commit that fails", () => {
  it("has told nobody, costs its clients their sockets, and nobody a lock", () => {
    const { world, connect, runtime, store } = worldWithClients();
    const [holder, bystander, unlucky] = [connect(), connect(), connect()];
    holder.ask("l", "held", "10");
    bystander.ask("l", "other", "10");
    runtime.settle();
    store.fails = true;
    unlucky.ask("l", "new", "10");
    runtime.settle();
    expect(unlucky.lines).toEqual([]);
    expect(unlucky.closedWith).toBe(1012);
    expect(bystander.closedWith).toBeUndefined();
    expect(world.host.keys.get("new")).toBeUndefined();
    expect(world.host.isWell).toBe(false);
    store.fails = false;
    runtime.advance(1_000);
    expect(world.host.isWell).toBe(true);
    holder.ask("n", "held", holder.token);
    bystander.ask("r", "other", bystander.token);
    runtime.settle();
    expect(holder.last).toBe("ok 33");
    expect(bystander.last).toBe("ok");
    expect(world.faults).toEqual([]);
  });

  it("takes back a release: the lock stays with its holder", () => {
    const { connect, runtime, store } = worldWithClients();
    const [holder, waiter] = [connect(), connect()];
    holder.ask("l", "k", "10");
    runtime.settle();
    waiter.ask("l", "k", "100");
    runtime.settle();
    store.fails = true;
    holder.ask("r", "k", holder.token);
    runtime.settle();
    expect(holder.last).toMatch(/^ok [0-9a-f]{32}/);
    expect(holder.closedWith).toBe(1012);
    store.fails = false;
    runtime.advance(1_000);
    const again = connect();
    again.ask("n", "k", holder.token);
    runtime.settle();
    expect(again.last).toBe("ok 33");
  });

  it("refuses new locks until a commit works, while holders renew", () => {
    const { connect, runtime, store } = worldWithClients();
    const [holder, other] = [connect(), connect()];
    holder.ask("l", "k", "10");
    runtime.settle();
    store.fails = true;
    other.ask("l", "x", "10");
    runtime.settle();
    store.fails = false;
    const next = connect();
    next.ask("l", "y", "10");
    runtime.settle();
    expect(next.last).toBe("error");
    holder.ask("n", "k", holder.token);
    runtime.settle();
    expect(holder.last).toBe("ok 33");
  });

  it("leaves a resumable client its lock and its place: it resumes", async () => {
    const { world, connect, runtime, store } = worldWithClients();
    const [holder, waiter] = [connect(), connect()];
    holder.ask("l", "k", "10");
    waiter.ask("session", "_", "resume");
    runtime.settle();
    const [session = "", secret = ""] = (waiter.last ?? "").split(" ")[1]?.split(".") ?? [];
    waiter.ask("@1 l", "k", "100");
    runtime.settle();
    store.fails = true;
    waiter.ask("@2 l", "other", "10");
    runtime.settle();
    expect(waiter.closedWith).toBe(1012);
    store.fails = false;
    runtime.advance(1_000);
    const back = await world.resume({ session, secret });
    if (typeof back === "string") throw new Error(back);
    back.ask("@1 l", "k", "100");
    holder.ask("r", "k", holder.token);
    runtime.settle();
    expect(back.last).toMatch(/^@1 ok [0-9a-f]{32} 33$/);
  });

  it("rejects what HTTP asked, and a REST session continues from what is stored", async () => {
    const { world, runtime, store } = worldWithClients();
    const { rest } = world.service;
    const opening = rest.open("192.0.2.7", undefined);
    runtime.settle();
    const opened = await opening;
    if (opened.status !== "opened") throw new Error(opened.status);
    const request = { type: "acquire", key: "k", limit: 1, waitSeconds: 1, leaseSeconds: undefined } as const;
    store.fails = true;
    const failing = rest.perform(opened.id, { request, label: undefined }, new AbortController().signal);
    const outcome = failing.then(
      () => "told",
      () => "rejected",
    );
    runtime.settle();
    expect(await outcome).toBe("rejected");
    store.fails = false;
    runtime.advance(1_000);
    const again = rest.perform(opened.id, { request, label: undefined }, new AbortController().signal);
    runtime.settle();
    expect(await again).toMatchObject({ status: "ok", leaseSeconds: 33 });
  });
});

function worldWithClients() {
  const world = new World();
  const { runtime, store } = world;
  return { world, runtime, store, connect: () => world.connect() };
}

async function soon(): Promise<void> {
  for (let tick = 0; tick < 50; tick += 1) await Promise.resolve();
}
