/** What a batch that could not be stored leaves behind: nothing of itself, and everything of the others. */
import { describe, expect, it } from "vitest";
import { type Client, World } from "./support/world.ts";

const FILE = { kind: "file", tag: "", note: "" } as const;

describe("while nothing can be stored", () => {
  it("what is due waits for the next try, instead of failing over and over", () => {
    const { runtime, store, connect } = worldWithClients();
    const [holder, waiter] = [connect(), connect()];
    holder.ask("l", "k", "10 1");
    waiter.ask("l", "k", "10");
    runtime.settle();
    store.fails = true;
    const { attempts } = store;
    runtime.advance(5_500);
    expect(store.attempts - attempts).toBeLessThan(8);
    store.fails = false;
    runtime.advance(1_500);
    const next = connect();
    next.ask("l", "k", "0");
    runtime.settle();
    expect(next.last).toMatch(/^ok /);
  });

  it("there is one try a second, however often a batch fails", () => {
    const { world, runtime, store, connect } = worldWithClients();
    const holder = connect();
    holder.ask("l", "held", "10 3600");
    runtime.settle();
    for (let round = 0; round < 5; round += 1) {
      store.fails = true;
      connect().ask("l", `k${round}`, "10");
      runtime.advance(100);
      store.fails = false;
      holder.ask("n", "held", `${holder.token} 3600`);
      runtime.advance(50);
      expect(world.host.isWell).toBe(true);
    }
    store.fails = true;
    connect().ask("l", "other", "10");
    runtime.settle();
    const { attempts } = store;
    runtime.advance(10_000);
    expect(store.attempts - attempts).toBeLessThan(13);
  });

  it("a client that changes nothing keeps its socket, although sums are due to be stored", () => {
    const { runtime, store, connect } = worldWithClients();
    const [holder, bystander] = [connect(), connect()];
    holder.ask("l", "k", "10 3600");
    runtime.settle();
    store.fails = true;
    runtime.advance(6_500);
    bystander.ask("ping");
    runtime.settle();
    expect(bystander.last).toBe("ok");
    expect(bystander.closedWith).toBeUndefined();
  });

  it("a client that asks while a commit is tried keeps its socket", () => {
    const { runtime, store, connect } = worldWithClients();
    const [unlucky, bystander] = [connect(), connect()];
    runtime.settle();
    store.fails = true;
    unlucky.ask("l", "k", "10");
    runtime.settle();
    const { attempts } = store;
    for (let ms = 0; ms < 5_000; ms += 10) {
      bystander.ask("ping");
      runtime.advance(10, { endsTurns: false });
      runtime.settle();
    }
    expect(store.attempts - attempts).toBeGreaterThan(3);
    expect(bystander.closedWith).toBeUndefined();
    expect(bystander.lines.length).toBe(500);
  });

  it("a client that asks when sums are due to be stored, or are asked for, keeps its socket", async () => {
    const { world, runtime, store, connect } = worldWithClients();
    const [holder, bystander] = [connect(), connect()];
    holder.ask("l", "k", "10 3600");
    runtime.settle();
    store.fails = true;
    const readings: Promise<string>[] = [];
    for (let ms = 0; ms < 12_000; ms += 10) {
      bystander.ask("ping");
      if (ms > 6_000)
        readings.push(
          world.service.meter.read().then(
            () => "read",
            () => "rejected",
          ),
        );
      runtime.advance(10, { endsTurns: false });
      runtime.settle();
    }
    expect(new Set(await Promise.all(readings))).toEqual(new Set(["rejected"]));
    expect(bystander.closedWith).toBeUndefined();
    expect(bystander.lines.length).toBe(1_200);
    store.fails = false;
    runtime.advance(2_000);
    const reading = world.service.meter.read();
    runtime.settle();
    expect((await reading).sums).toMatchObject({ "grants_total|lock|immediate": 1 });
  });

  it("no session is opened and none is made resumable, and that costs no one a socket", async () => {
    const { world, runtime, store, connect } = worldWithClients();
    const [unlucky, early, late] = [connect(), connect(), connect()];
    early.ask("session", "_", "resume");
    runtime.settle();
    store.fails = true;
    unlucky.ask("l", "k", "10");
    runtime.settle();
    const opening = world.service.rest.open("192.0.2.7", undefined);
    late.ask("session", "_", "resume");
    early.ask("session", "_", "resume");
    runtime.settle();
    expect(await opening).toEqual({ status: "unavailable" });
    expect(late.lines).toEqual(["error"]);
    expect(late.closedWith).toBeUndefined();
    expect(early.lines).toEqual([early.lines[0], early.lines[0]]);
    store.fails = false;
    runtime.advance(1_000);
    late.ask("session", "_", "resume");
    runtime.settle();
    expect(late.last).toMatch(/^ok [0-9a-f]{32}\./);
  });

  it("a client that resumes and repeats its request is not told that it has no place", async () => {
    const { world, runtime, store, connect } = worldWithClients();
    const [holder, waiter] = [connect(), connect()];
    holder.ask("l", "k", "10 3600");
    waiter.ask("@r session", "_", "resume");
    runtime.settle();
    const credential = credentialOf(waiter);
    waiter.ask("@1 l", "k", "100");
    runtime.settle();
    store.fails = true;
    waiter.ask("@2 l", "other", "10");
    runtime.settle();
    expect(waiter.closedWith).toBe(1012);
    const back = await resumed(world, credential);
    back.ask("@1 l", "k", "100");
    runtime.settle();
    expect(back.lines.filter((line) => line.startsWith("@1"))).toEqual([]);
    store.fails = false;
    runtime.advance(1_000);
    holder.ask("r", "k", holder.token);
    runtime.settle();
    expect(back.last).toMatch(/^@1 ok /);
  });
});

describe("after a failed batch", () => {
  it("the places of lost clients go, even if somebody else's commit is the first that works", () => {
    const { world, runtime, store, connect } = worldWithClients();
    const [holder, waiter] = [connect(), connect()];
    holder.ask("l", "k", "10 3600");
    runtime.settle();
    waiter.ask("l", "k", "900");
    runtime.settle();
    store.fails = true;
    waiter.ask("l", "x", "0");
    // The wait comes first.
    waiter.hangUp();
    runtime.settle();
    store.fails = false;
    holder.ask("n", "k", `${holder.token} 3600`);
    runtime.settle();
    expect(holder.last).toBe("ok 3600");
    expect(world.host.keys.get("k")?.engine.view().waiters).toBe(0);
  });

  it("a start whose first commit fails removes the places of lost clients later", () => {
    const { world, runtime, store, connect } = worldWithClients();
    const [holder, waiter] = [connect(), connect()];
    holder.ask("l", "k", "10 3600");
    runtime.settle();
    waiter.ask("l", "k", "900");
    runtime.settle();
    store.fails = true;
    world.crash();
    store.fails = false;
    runtime.advance(1_500);
    expect(world.host.keys.get("k")?.engine.view()).toMatchObject({ waiters: 0, holderCount: 1 });
  });

  it("a connection that was about to be closed is closed", () => {
    const { runtime, store, connect } = worldWithClients();
    const client = connect();
    store.fails = true;
    client.ask("l", "k", "10");
    client.connection?.inputEnded();
    runtime.settle();
    expect(client.closedWith).toBe(1012);
  });

  it("a client that was let in before is not left on a session that is no more", async () => {
    const { world, runtime, store, connect } = worldWithClients();
    const [holder, waiter] = [connect(), connect()];
    holder.ask("l", "k", "10");
    waiter.ask("@r session", "_", "resume");
    runtime.settle();
    const credential = credentialOf(waiter);
    waiter.ask("@1 l", "k", "100");
    runtime.settle();
    waiter.hangUp();
    runtime.settle();
    const admission = world.admitAgain(credential);
    runtime.settle();
    const { attach } = await admission;
    store.fails = true;
    holder.ask("r", "k", holder.token);
    runtime.settle();
    const back = attach();
    runtime.settle();
    expect(back.closedWith).toBe(1012);
  });

  it("a key that it had deleted is listed again", async () => {
    const { world, runtime, store, connect } = worldWithClients({ GC_MAX_IDLE_S: "1", GC_INTERVAL_S: "1" });
    const client = connect();
    client.ask("l", "k", "10");
    runtime.settle();
    client.ask("r", "k", client.token);
    runtime.settle();
    store.fails = true;
    store.committing = () => void world.host.names.inOrder;
    runtime.advance(3_000);
    expect(world.host.keys.get("k")).toBeDefined();
    expect(world.host.names.inOrder).toEqual(["k"]);
  });

  it("a claim that waits is rejected, and leaves the queue", async () => {
    const { world, runtime, store, connect } = worldWithClients();
    const [holder, other] = [connect(), connect()];
    holder.ask("l", "k", "10 3600");
    runtime.settle();
    const { signal } = new AbortController();
    const claim = world.service.keys.claim("k", { waitMs: 300_000, leaseSeconds: 5, sessionless: FILE }, signal);
    const outcome = claim.then(
      ({ status }) => status,
      () => "rejected",
    );
    runtime.settle();
    store.fails = true;
    other.ask("r", "k", holder.token);
    runtime.settle();
    expect(await outcome).toBe("rejected");
    store.fails = false;
    runtime.advance(1_500);
    expect(world.host.keys.get("k")?.engine.view()).toMatchObject({ waiters: 0, holderCount: 1 });
  });

  it("a request of an HTTP session that waits is rejected, and leaves the queue", async () => {
    const { world, runtime, store, connect } = worldWithClients();
    const holder = connect();
    holder.ask("l", "k", "10 3600");
    const opening = world.service.rest.open("192.0.2.7", undefined);
    runtime.settle();
    const opened = await opening;
    if (opened.status !== "opened") throw new Error(opened.status);
    const request = { type: "acquire", key: "k", limit: 1, waitSeconds: 900, leaseSeconds: 5 } as const;
    const { signal } = new AbortController();
    const ask = (key: string) =>
      world.service.rest.perform(opened.id, { request: { ...request, key }, label: undefined }, signal);
    const waiting = ask("k").catch(() => "rejected");
    runtime.settle();
    store.fails = true;
    const failing = ask("other").catch(() => "rejected");
    runtime.settle();
    expect([await waiting, await failing]).toEqual(["rejected", "rejected"]);
    store.fails = false;
    runtime.advance(1_500);
    expect(world.host.keys.get("k")?.engine.view().waiters).toBe(0);
  });

  it("fences rise, although it had deleted the key and the clock was set back", () => {
    const { world, runtime, store, connect } = worldWithClients({ GC_MAX_IDLE_S: "1", GC_INTERVAL_S: "1" });
    const ann = connect();
    ann.ask("l", "k", "10");
    runtime.settle();
    const before = ann.token.slice(0, 16);
    ann.ask("r", "k", ann.token);
    runtime.settle();
    store.fails = true;
    runtime.advance(2_600);
    store.fails = false;
    // A batch without changes, before the key is deleted again.
    ann.ask("ping");
    runtime.settle();
    runtime.advance(5_000);
    expect(world.host.keys.get("k")).toBeUndefined();
    runtime.setBack(3_600_000);
    world.crash();
    const ben = connect();
    ben.ask("l", "k", "10");
    runtime.settle();
    expect(ben.token.slice(0, 16) > before).toBe(true);
  });

  it("nobody is told of a grant that it has taken back, however the turn was cut", () => {
    const { runtime, store, connect } = worldWithClients();
    const [holder, waiter] = [connect(), connect()];
    holder.ask("l", "k", "10 3600");
    runtime.settle();
    waiter.ask("l", "k", "900");
    runtime.settle();
    store.fails = true;
    // The release is carried out, and its news waits for the next turn.
    runtime.msPerLook = 25;
    holder.ask("r", "k", holder.token);
    runtime.endTurn();
    runtime.msPerLook = 0;
    store.fails = false;
    runtime.settle();
    expect(waiter.lines).toEqual([]);
  });
});

describe("a command that throws", () => {
  it("costs its caller an answer, and no one else", async () => {
    const { world, runtime } = worldWithClients();
    const answer = world.host.batch.ask(() => {
      throw new Error("none may");
    });
    const outcome = answer.catch((error: Error) => error.message);
    runtime.settle();
    expect(await outcome).toBe("none may");
  });

  it("leaves its key as stored, however far it has come", () => {
    const { runtime, connect } = worldWithClients();
    const client = connect();
    client.ask("l", "k", "10");
    runtime.settle();
    client.ask("r", "k", client.token);
    runtime.settle();
    const unlucky = connect();
    runtime.settle();
    // The engine takes the slot, and then chance for the token.
    runtime.isOutOfChance = true;
    unlucky.ask("l", "k", "10");
    runtime.settle();
    expect(unlucky.closedWith).toBe(1012);
    runtime.isOutOfChance = false;
    runtime.advance(1_500);
    const next = connect();
    next.ask("l", "k", "0");
    runtime.settle();
    expect(next.last).toMatch(/^ok /);
  });
});

describe("a commit that takes long", () => {
  it("answers a grant whose lease has ended with error_lease_expired", () => {
    const { runtime, store, connect } = worldWithClients();
    const client = connect();
    store.committing = () => runtime.stall(2_000);
    client.ask("l", "k", "10 1");
    runtime.settle();
    expect(client.lines).toEqual(["error_lease_expired"]);
    store.committing = () => {};
    client.ask("l", "k", "10 1");
    runtime.settle();
    expect(client.last).toMatch(/^ok /);
  });

  it("does so over HTTP and for claims", async () => {
    const { world, runtime, store } = worldWithClients();
    const { rest, keys } = world.service;
    const opening = rest.open("192.0.2.7", undefined);
    runtime.settle();
    const opened = await opening;
    if (opened.status !== "opened") throw new Error(opened.status);
    const { signal } = new AbortController();
    const request = { type: "acquire", key: "a", limit: 1, waitSeconds: 1, leaseSeconds: 1 } as const;
    const answer = rest.perform(opened.id, { request, label: undefined }, signal);
    const claim = keys.claim("b", { waitMs: 0, leaseSeconds: 1, sessionless: FILE }, signal);
    store.committing = () => runtime.stall(2_000);
    runtime.settle();
    expect(await answer).toEqual({ status: "lease_expired" });
    expect(await claim).toEqual({ status: "lease_expired" });
  });
});

describe("what a client was told", () => {
  it("a time-out ends the place of an HTTP session for good, also if the process dies right after", async () => {
    const { world, runtime, connect } = worldWithClients();
    const holder = connect();
    holder.ask("l", "k", "10 3600");
    const opening = world.service.rest.open("192.0.2.7", undefined);
    runtime.settle();
    const opened = await opening;
    if (opened.status !== "opened") throw new Error(opened.status);
    const { signal } = new AbortController();
    const ask = (request: Parameters<typeof world.service.rest.perform>[1]["request"]) =>
      world.service.rest.perform(opened.id, { request, label: undefined }, signal);
    const enqueued = ask({ type: "enqueue", key: "k", limit: 1, leaseSeconds: 5 });
    runtime.settle();
    expect(await enqueued).toMatchObject({ status: "queued" });
    let told: unknown;
    void ask({ type: "wait", key: "k", waitSeconds: 2 }).then((outcome) => {
      told = outcome;
    });
    await runtime.advanceUntil(5_000, () => told !== undefined);
    expect(told).toEqual({ status: "timeout" });
    world.crash();
    expect(world.host.keys.get("k")?.engine.view().waiters).toBe(0);
  });

  it("a client that was let in as its grace ended has its session", async () => {
    const { world, runtime, connect } = worldWithClients();
    const client = connect();
    client.ask("@r session", "_", "resume");
    client.ask("@1 l", "k", "10 3600");
    runtime.settle();
    const credential = credentialOf(client);
    client.hangUp();
    runtime.advance(9_900);
    const admission = world.admitAgain(credential);
    runtime.settle();
    const { attach } = await admission;
    runtime.advance(500);
    const back = attach();
    back.ask("@2 n", "k", client.token);
    runtime.settle();
    expect(back.last).toMatch(/^@2 ok/);
  });

  it("a client that opens its socket far too late is told that its session is gone", async () => {
    const { world, runtime, connect } = worldWithClients();
    const client = connect();
    client.ask("@r session", "_", "resume");
    runtime.settle();
    const credential = credentialOf(client);
    client.hangUp();
    runtime.settle();
    const admission = world.admitAgain(credential);
    runtime.settle();
    const { attach } = await admission;
    runtime.advance(20_000);
    const back = attach();
    back.ask("@2 ping");
    runtime.settle();
    expect([back.lines, back.closedWith]).toEqual([[], 4410]);
  });
});

function worldWithClients(variables: Readonly<Record<string, string>> = {}) {
  const world = new World(variables);
  const { runtime, store } = world;
  return { world, runtime, store, connect: () => world.connect() };
}

function credentialOf(client: Client) {
  const [, session = "", secret = ""] = /ok ([0-9a-f]{32})\.([0-9a-f]{32})/.exec(client.lines.join("\n")) ?? [];
  return { session, secret };
}

async function resumed(world: World, credential: { readonly session: string; readonly secret: string }) {
  const back = await world.resume(credential);
  if (typeof back === "string") throw new Error(back);
  return back;
}
