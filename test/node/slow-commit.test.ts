/** A lease runs from the moment it is decided: a grant that has run out during its commit is not one. */
import { describe, expect, it } from "vitest";
import { World } from "./support/world.ts";

const GODISTLOCK = { protocol: "godistlock" } as const;
const FILE = { kind: "file", tag: "", note: "" } as const;

describe("a commit that takes longer than a lease", () => {
  it("is followed by error_lease_expired instead of a grant, and by the next holder's grant", () => {
    const { world, slowly } = slowWorld();
    const [ann, ben] = [world.connect(), world.connect()];
    world.runtime.settle();
    slowly(3_000, () => ann.ask("l", "k", "10 2"));
    expect(ann.lines).toEqual(["error_lease_expired"]);
    ben.ask("l", "k", "0");
    world.runtime.settle();
    expect(ben.last).toMatch(/^ok /);
  });

  it("is followed by an error instead of a renewal", () => {
    const { world, slowly } = slowWorld();
    const ann = world.connect();
    ann.ask("l", "k", "10 30");
    world.runtime.settle();
    slowly(3_000, () => ann.ask("n", "k", `${ann.token} 2`));
    expect(ann.last).toBe("error");
  });

  it("is followed by a later GIVE instead of one whose fence is void", () => {
    const { world, slowly } = slowWorld();
    const [ann, ben] = [world.connect(GODISTLOCK), world.connect(GODISTLOCK)];
    world.runtime.settle();
    slowly(3_000, () => ann.say("ON k 1000 n1"));
    expect(ann.lines).toEqual([expect.stringMatching(/^GIVE n1 \d+$/)]);
    ben.say("IS k n2");
    world.runtime.settle();
    expect(ben.lines).toEqual([`LOCK n2 ${ann.last?.split(" ")[2]}`]);
  });

  it("puts an ON at the end of the queue: another client may be first", () => {
    const { world, slowly } = slowWorld();
    const [ann, ben] = [world.connect(GODISTLOCK), world.connect(GODISTLOCK)];
    world.runtime.settle();
    slowly(3_000, () => {
      ann.say("ON k 1000 n1");
      ben.say("ON k 60000 n2");
    });
    expect(ann.lines).toEqual([]);
    expect(ben.lines).toEqual([expect.stringMatching(/^GIVE n2 /)]);
    ben.say("OFF k n3");
    world.runtime.settle();
    expect(ann.lines).toEqual([expect.stringMatching(/^GIVE n1 /)]);
  });

  it("is followed by one GIVE for each nonce, with one fence, if a client has asked twice", () => {
    const { world, slowly } = slowWorld();
    const ann = world.connect(GODISTLOCK);
    world.runtime.settle();
    slowly(3_000, () => ann.say("ON k 1000 n1", "ON k 2000 n2"));
    expect(ann.lines.map((line) => line.split(" ").slice(0, 2))).toEqual([
      ["GIVE", "n1"],
      ["GIVE", "n2"],
    ]);
    expect(new Set(ann.lines.map((line) => line.split(" ")[2])).size).toBe(1);
  });

  it("is followed by NO if the client has given the lock up meanwhile", () => {
    const { world, slowly } = slowWorld();
    const ann = world.connect(GODISTLOCK);
    world.runtime.settle();
    slowly(3_000, () => ann.say("ON k 1000 n1", "OFF k n2"));
    expect(ann.lines).toEqual(["NO n1"]);
    ann.say("IS k n3");
    world.runtime.settle();
    expect(ann.last).toBe("NO n3");
  });

  it("is followed by a later GIVE to a TRY, too: the lock is free", () => {
    const { world, slowly } = slowWorld();
    const [ann, ben] = [world.connect(GODISTLOCK), world.connect(GODISTLOCK)];
    world.runtime.settle();
    slowly(3_000, () => ann.say("TRY k 1000 n1"));
    expect(ann.lines).toEqual([expect.stringMatching(/^GIVE n1 \d+$/)]);
    ben.say("IS k n2");
    world.runtime.settle();
    expect(ben.lines).toEqual([`LOCK n2 ${ann.last?.split(" ")[2]}`]);
  });

  it("is followed by LOCK instead of a GIVE to a TRY if another client has the lock by then", () => {
    const { world, slowly } = slowWorld();
    const [ann, ben] = [world.connect(GODISTLOCK), world.connect(GODISTLOCK)];
    world.runtime.settle();
    slowly(3_000, () => {
      ann.say("TRY k 1000 n1");
      ben.say("ON k 60000 n2");
    });
    expect(ben.lines).toEqual([expect.stringMatching(/^GIVE n2 /)]);
    expect(ann.lines).toEqual([expect.stringMatching(/^LOCK n1 \d+$/)]);
  });

  it("is followed by LOCK instead of a GIVE to a TRY if all commits take that long", () => {
    const { world } = slowWorld();
    const { runtime, store } = world;
    const ann = world.connect(GODISTLOCK);
    runtime.settle();
    store.committing = () => runtime.stall(3_000);
    ann.say("TRY k 1000 n1");
    runtime.settle();
    expect(ann.lines).toEqual(["LOCK n1 0"]);
  });

  it("is followed by NO instead of a GIVE to a REFRESH", () => {
    const { world, slowly } = slowWorld();
    const ann = world.connect(GODISTLOCK);
    ann.say("ON k 60000 n1");
    world.runtime.settle();
    const [, , fence] = (ann.last ?? "").split(" ");
    slowly(3_000, () => ann.say(`REFRESH k ${fence} 1000 n2`));
    expect(ann.lines.slice(1)).toEqual(["NO n2"]);
  });

  it("is followed by a GIVE with a new fence if an ON has renewed a hold that has ended", () => {
    const { world, slowly } = slowWorld();
    const ann = world.connect(GODISTLOCK);
    ann.say("ON k 60000 n1");
    world.runtime.settle();
    slowly(3_000, () => ann.say("ON k 1000 n2"));
    const [first, second, ...more] = ann.lines.map((line) => line.split(" "));
    expect([second?.[1], more]).toEqual(["n2", []]);
    expect(BigInt(second?.[2] ?? 0) > BigInt(first?.[2] ?? 0)).toBe(true);
  });

  it("grants nothing to a client that has hung up meanwhile", () => {
    const { world, slowly } = slowWorld();
    const [ann, ben] = [world.connect(GODISTLOCK), world.connect(GODISTLOCK)];
    world.runtime.settle();
    slowly(3_000, () => {
      ann.say("ON k 1000 n1");
      ann.hangUp();
    });
    ben.say("TRY k 1000 n2");
    world.runtime.settle();
    expect(ben.last).toMatch(/^GIVE n2 /);
    expect(ann.lines).toEqual([]);
  });

  it("tells the holder of a lock file that its refresh was too late", async () => {
    const { world, slowly } = slowWorld();
    const { keys } = world.service;
    const claiming = keys.claim("f", { leaseSeconds: 60, waitMs: 0, sessionless: FILE }, new AbortController().signal);
    world.runtime.settle();
    expect((await claiming).status).toBe("granted");
    const command = { kind: "file", which: { by: "any" }, leaseSeconds: 2, tag: undefined } as const;
    const refresh = () => keys.ask("f", { type: "refresh", command });
    expect(await slowly(1_000, refresh)).toMatchObject({ status: "refreshed" });
    expect(await slowly(3_000, refresh)).toEqual({ status: "not_held" });
  });

  it("tells a REST client that there is nothing left to renew", async () => {
    const { world, slowly } = slowWorld();
    const { rest } = world.service;
    const opening = rest.open("192.0.2.7", undefined);
    world.runtime.settle();
    const opened = await opening;
    if (opened.status !== "opened") throw new Error(opened.status);
    const request = { type: "acquire", key: "k", limit: 1, waitSeconds: 1, leaseSeconds: 30 } as const;
    const asking = rest.perform(opened.id, { request, label: undefined }, undefined);
    world.runtime.settle();
    const { token = "" } = (await asking) as { token?: string };
    const renewal = { type: "renew", key: "k", token, leaseSeconds: 2 } as const;
    const answer = slowly(3_000, () => rest.perform(opened.id, { request: renewal, label: undefined }, undefined));
    expect(await answer).toEqual({ status: "not_held" });
  });

  it("is followed by a grant if the lease is longer", () => {
    const { world, slowly } = slowWorld();
    const ann = world.connect();
    world.runtime.settle();
    slowly(3_000, () => ann.ask("l", "k", "10 4"));
    expect(ann.last).toMatch(/^ok [0-9a-f]{32} 4$/);
  });

  it("does not shorten the lease of a waiter: it begins when the waiter is told", () => {
    const { world, slowly } = slowWorld();
    const { runtime } = world;
    const [ann, ben, cat] = [world.connect(), world.connect(), world.connect()];
    ann.ask("l", "k", "10 30");
    runtime.settle();
    ben.ask("l", "k", "100 2");
    runtime.settle();
    slowly(3_000, () => ann.ask("r", "k", ann.token));
    expect(ben.last).toMatch(/^ok [0-9a-f]{32} 2$/);
    runtime.advance(1_500);
    cat.ask("l", "k", "0");
    runtime.settle();
    expect(cat.last).toBe("timeout");
    runtime.advance(1_000);
    cat.ask("l", "k", "0");
    runtime.settle();
    expect(cat.last).toMatch(/^ok /);
  });

  it("tells a REST client and a holder without a session that the lease has expired", async () => {
    const { world, slowly } = slowWorld();
    const { rest, keys } = world.service;
    const { signal } = new AbortController();
    const opening = rest.open("192.0.2.7", undefined);
    world.runtime.settle();
    const opened = await opening;
    if (opened.status !== "opened") throw new Error(opened.status);
    const request = { type: "acquire", key: "k", limit: 1, waitSeconds: 1, leaseSeconds: 2 } as const;
    const answers = slowly(3_000, () => [
      rest.perform(opened.id, { request, label: undefined }, signal),
      keys.claim("f", { leaseSeconds: 2, waitMs: 0, sessionless: FILE }, signal),
    ]);
    expect(await Promise.all(answers)).toEqual([{ status: "lease_expired" }, { status: "lease_expired" }]);
  });
});

function slowWorld() {
  const world = new World();
  const { runtime, store } = world;
  return {
    world,
    /** The commit of what is done takes this long. */
    slowly<Result>(ms: number, act: () => Result): Result {
      const result = act();
      store.committing = () => runtime.stall(ms);
      runtime.endTurn();
      store.committing = () => {};
      runtime.settle();
      return result;
    },
  };
}
