/** What was told survives the process; what was not told need not. */
import { describe, expect, it } from "vitest";
import { World } from "./support/world.ts";

describe("after a crash", () => {
  it("a lock stays with its holder, and a waiter whose connection is lost is out of the queue", () => {
    const world = new World();
    const [holder, waiter] = [world.connect(), world.connect()];
    holder.ask("l", "k", "10");
    world.runtime.settle();
    waiter.ask("l", "k", "100");
    world.runtime.settle();
    world.crash();
    const next = world.connect();
    next.ask("n", "k", holder.token);
    world.runtime.settle();
    expect(next.last).toBe("ok 33");
    next.ask("r", "k", holder.token);
    next.ask("l", "k", "0");
    world.runtime.settle();
    expect(next.last).toMatch(/^ok [0-9a-f]{32} 33$/);
  });

  it("what was not committed has not happened", () => {
    const world = new World();
    const ann = world.connect();
    ann.ask("l", "k", "10");
    world.crash();
    expect(ann.lines).toEqual([]);
    const ben = world.connect();
    ben.ask("l", "k", "0");
    world.runtime.settle();
    expect(ben.last).toMatch(/^ok /);
  });

  it("fences rise, also over keys that were deleted and a clock that was set back", () => {
    const world = new World({ GC_MAX_IDLE_S: "1", GC_INTERVAL_S: "1" });
    const ann = world.connect();
    ann.ask("l", "k", "10");
    world.runtime.settle();
    const before = ann.token.slice(0, 16);
    ann.ask("r", "k", ann.token);
    world.runtime.advance(5_000);
    expect(world.host.keys.get("k")).toBeUndefined();
    world.runtime.setBack(3_600_000);
    world.crash();
    const ben = world.connect();
    ben.ask("l", "k", "10");
    world.runtime.settle();
    expect(ben.token.slice(0, 16) > before).toBe(true);
  });

  it("a lease ends by the clock, whatever nobody watched", () => {
    const world = new World();
    const ann = world.connect();
    ann.ask("l", "k", "10 5");
    world.runtime.settle();
    world.crash();
    world.runtime.advance(4_000);
    const ben = world.connect();
    ben.ask("l", "k", "0");
    world.runtime.settle();
    expect(ben.last).toBe("timeout");
    world.runtime.advance(1_500);
    ben.ask("l", "k", "0");
    world.runtime.settle();
    expect(ben.last).toMatch(/^ok /);
  });

  it("a resumable client has its lock, its place and what it lost", async () => {
    const world = new World();
    const [holder, ann] = [world.connect(), world.connect()];
    holder.ask("l", "k", "10");
    ann.ask("session", "_", "resume");
    world.runtime.settle();
    const [session = "", secret = ""] = (ann.last ?? "").split(" ")[1]?.split(".") ?? [];
    ann.ask("@1 l", "k", "100");
    ann.ask("@2 l", "own", "10");
    world.runtime.settle();
    world.crash();
    const back = await world.resume({ session, secret });
    if (typeof back === "string") throw new Error(back);
    back.ask("@1 l", "k", "100");
    world.runtime.settle();
    const other = world.connect();
    other.ask("r", "k", holder.token);
    other.ask("l", "own", "0");
    world.runtime.settle();
    expect(back.last).toMatch(/^@1 ok [0-9a-f]{32} 33$/);
    expect(other.last).toBe("timeout");
  });

  it("a resumable client that stays away loses everything when its grace is over", () => {
    const world = new World();
    const ann = world.connect();
    ann.ask("session", "_", "resume");
    ann.ask("@2 l", "own", "10");
    world.runtime.settle();
    world.crash();
    world.runtime.advance(11_000);
    const ben = world.connect();
    ben.ask("l", "own", "0");
    world.runtime.settle();
    expect(ben.last).toMatch(/^ok /);
    expect(world.host.sessions.byTransport).toEqual({ tcp: 0, ws: 1, http: 0 });
  });

  it("a REST session goes on, and ends when its client stays silent", async () => {
    const world = new World();
    const { rest } = world.service;
    const opening = rest.open("192.0.2.7", "cron");
    world.runtime.settle();
    const opened = await opening;
    if (opened.status !== "opened") throw new Error(opened.status);
    const request = { type: "acquire", key: "k", limit: 1, waitSeconds: 1, leaseSeconds: 3_600 } as const;
    const asking = rest.perform(opened.id, { request, label: undefined }, new AbortController().signal);
    world.runtime.settle();
    expect(await asking).toMatchObject({ status: "ok" });
    world.crash();
    const pinging = world.service.rest.ping(opened.id);
    world.runtime.settle();
    expect(await pinging).toBe(true);
    expect(world.host.sessions.labelOf(`http:${opened.id}`)).toBe("cron");
    world.runtime.advance(80_000);
    const ben = world.connect();
    ben.ask("l", "k", "0");
    world.runtime.settle();
    expect(ben.last).toMatch(/^ok /);
  });
});
