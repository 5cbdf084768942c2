/** Whatever a client sends counts, in the order in which it was sent, and costs the others little. */
import { describe, expect, it } from "vitest";
import { World } from "./support/world.ts";

const TICKETLESS = { AUTH_TOKEN: "x".repeat(60_000) };
const encoder = new TextEncoder();

describe("input of one connection", () => {
  it("that was sent before an orderly close is carried out", () => {
    const world = new World({ AUTO_RELEASE_ON_DISCONNECT: "false" });
    const { runtime } = world;
    const ann = world.connect();
    ann.ask("l", "k", "10 3600");
    runtime.settle();
    const ben = world.connect();
    ben.askAll(Array.from({ length: 200 }, (_, count) => ["ping", `padding-${count}`, "_"] as const));
    ben.askAll(Array.from({ length: 200 }, (_, count) => ["ping", `padding-${count}`, "_"] as const));
    ben.ask("r", "k", ann.token);
    ben.hangUp(1000);
    runtime.settle();
    const cat = world.connect();
    cat.ask("l", "k", "0");
    runtime.settle();
    expect(cat.last).toMatch(/^ok /);
  });

  it("is dropped if the client has vanished, and everything of it is free", () => {
    const world = new World();
    const { runtime } = world;
    const ann = world.connect();
    ann.askAll(Array.from({ length: 300 }, (_, count) => ["l", `k${count}`, "10"] as const));
    ann.askAll(Array.from({ length: 300 }, (_, count) => ["l", `j${count}`, "10"] as const));
    ann.hangUp(1006);
    runtime.settle();
    const ben = world.connect();
    ben.askAll([
      ["l", "k0", "0"],
      ["l", "k299", "0"],
      ["l", "j299", "0"],
    ]);
    runtime.settle();
    expect(ben.lines).toEqual([
      expect.stringMatching(/^ok /),
      expect.stringMatching(/^ok /),
      expect.stringMatching(/^ok /),
    ]);
  });

  it("is answered in order before a message that is too long closes the connection", () => {
    const world = new World();
    const { runtime } = world;
    const ann = world.connect();
    ann.askAll(Array.from({ length: 400 }, (_, count) => ["ping", `padding-${count}`, "_"] as const));
    ann.askAll(Array.from({ length: 100 }, (_, count) => ["ping", `padding-${count}`, "_"] as const));
    ann.connection?.sentTooMuch();
    runtime.settle();
    expect(ann.lines.filter((line) => line === "ok").length).toBe(500);
    expect(ann.closedWith).toBeDefined();
  });

  it("may be one long line of authentication", async () => {
    const world = new World(TICKETLESS);
    const { runtime } = world;
    const ann = world.connect();
    const bytes = encoder.encode(`auth\n_\n${TICKETLESS.AUTH_TOKEN}\nping\n_\n_\n`);
    for (let at = 0; at < bytes.length; at += 8_192) ann.connection?.received(bytes.subarray(at, at + 8_192));
    for (let turn = 0; turn < 50; turn += 1) {
      runtime.endTurn();
      await Promise.resolve();
    }
    expect(ann.lines).toEqual(["ok", "ok"]);
    expect(ann.isPaused).toBe(false);
  });

  it("costs no turns while it has to wait for a report", async () => {
    const world = new World();
    const { runtime } = world;
    const report = Promise.withResolvers<string>();
    world.host.reports = () => report.promise;
    const ann = world.connect();
    ann.ask("stats");
    for (let chunk = 0; chunk < 60; chunk += 1)
      ann.askAll(Array.from({ length: 100 }, (_, count) => ["ping", `padding-${chunk}-${count}`, "_"] as const));
    for (let turn = 0; turn < 200; turn += 1) runtime.endTurn();
    expect(ann.isPaused).toBe(true);
    expect(runtime.turns).toBe(0);
    report.resolve("{}");
    for (let turn = 0; turn < 200; turn += 1) {
      await Promise.resolve();
      runtime.endTurn();
    }
    runtime.advance(1_000);
    expect(ann.lines.length).toBe(6_001);
    expect(ann.isPaused).toBe(false);
  });

  it("waits for a report however slowly it comes in, and is not cut off", async () => {
    const world = new World();
    const { runtime } = world;
    const report = Promise.withResolvers<string>();
    world.host.reports = () => report.promise;
    const ann = world.connect();
    ann.ask("stats");
    let chunks = 0;
    for (; chunks < 300 && !ann.isPaused; chunks += 1) {
      ann.askAll(Array.from({ length: 50 }, (_, count) => ["ping", `padding-${chunks}-${count}`, "_"] as const));
      runtime.endTurn();
    }
    expect(ann.closedWith).toBeUndefined();
    expect(ann.isPaused).toBe(true);
    report.resolve("{}");
    for (let turn = 0; turn < 300; turn += 1) {
      await Promise.resolve();
      runtime.endTurn();
    }
    expect(ann.lines.length).toBe(1 + 50 * chunks);
    expect(ann.isPaused).toBe(false);
  });

  it("behind a request that waits is cut off at 64 KiB, not paused", () => {
    const world = new World();
    const { runtime } = world;
    const [holder, ann] = [world.connect(), world.connect()];
    holder.ask("l", "k", "10");
    runtime.settle();
    ann.ask("l", "k", "100");
    for (let chunk = 0; chunk < 60; chunk += 1) {
      ann.askAll(Array.from({ length: 100 }, (_, count) => ["ping", `padding-${chunk}-${count}`, "_"] as const));
      runtime.settle();
    }
    expect(ann.closedWith).toBeDefined();
    expect(world.host.keys.get("k")?.engine.view().waiters).toBe(0);
  });

  it("that has ended is answered before the connection is closed", () => {
    const world = new World();
    const { runtime } = world;
    const ann = world.connect({ transport: "tcp" });
    ann.askAll(Array.from({ length: 400 }, (_, count) => ["ping", `padding-${count}`, "_"] as const));
    ann.ask("ping");
    ann.connection?.inputEnded();
    runtime.settle();
    expect(ann.lines.length).toBe(401);
    expect(ann.closedWith).toBeDefined();
  });

  it("that is a hundred thousand signs of life in one turn is paused, and leaves others their turn", () => {
    const world = new World();
    const { runtime } = world;
    const [ann, ben] = [world.connect(), world.connect()];
    runtime.settle();
    ann.connection?.inputEnded();
    for (let count = 0; count < 100_000; count += 1) {
      if (count % 2 === 0) ann.connection?.heard();
      else ann.connection?.inputEnded();
    }
    expect(ann.isPaused).toBe(true);
    expect(world.host.batch.backlog).toBe(0);
    ben.ask("ping");
    runtime.endTurn();
    expect(ben.last).toBe("ok");
    expect(world.host.batch.backlog).toBeLessThan(10);
  });

  it("that comes in messages of one byte is paused, and all of it counts", () => {
    const world = new World();
    const { runtime } = world;
    const ann = world.connect();
    runtime.settle();
    const bytes = encoder.encode("ping\n_\n_\n".repeat(2_500));
    let isPausedAfter = 0;
    for (const [at] of bytes.entries()) {
      ann.connection?.received(bytes.subarray(at, at + 1));
      if (!ann.isPaused) isPausedAfter = at + 1;
    }
    expect(isPausedAfter).toBeLessThan(2_000);
    runtime.settle();
    expect(ann.lines).toEqual(Array.from({ length: 2_500 }, () => "ok"));
    expect(ann.isPaused).toBe(false);
  });

  it("keeps its order, however long its messages are, and whatever happens in between", () => {
    const world = new World();
    const { runtime } = world;
    const ann = world.connect({ transport: "tcp" });
    runtime.settle();
    const requests = Array.from({ length: 900 }, (_, count) => `@${count} ping\n_\n_\n`);
    const bytes = encoder.encode(requests.join(""));
    for (let at = 0, length = 1; at < bytes.length; at += length) {
      length = ((at * 7_919) % 11) ** 3 + 1;
      ann.connection?.received(bytes.subarray(at, at + length));
      if (length % 2 === 0) ann.connection?.heard();
    }
    ann.connection?.inputEnded();
    runtime.settle();
    expect(ann.lines).toEqual(requests.map((_, count) => `@${count} ok`));
    expect(ann.closedWith).toBeDefined();
  });

  it("does not pile up while a batch has no time left: what is not taken yet is counted", () => {
    const world = new World();
    const { runtime } = world;
    const [ann, ben] = [world.connect(), world.connect()];
    runtime.settle();
    runtime.msPerLook = 25;
    for (let turn = 0; turn < 20; turn += 1) {
      for (let count = 0; count < 40; count += 1) ann.ask("ping", "x".repeat(80));
      ben.ask("ping");
      runtime.endTurn();
    }
    expect(world.host.batch.backlog).toBeLessThan(10);
    runtime.msPerLook = 0;
    runtime.settle();
    expect(ann.lines.length).toBe(800);
    expect(ben.lines.length).toBe(20);
  });
});

describe("the input of a thousand connections that flood", () => {
  it("leaves a newcomer its turn after a bounded number of commands", () => {
    const world = new World();
    const { runtime } = world;
    const flood = encoder.encode("ping\n_\n_\n".repeat(7_000));
    const crowd = Array.from({ length: 1_000 }, () => world.connect());
    runtime.settle();
    const send = () => {
      for (const client of crowd) if (!client.isPaused) client.connection?.received(flood);
    };
    send();
    // Each look at the clock costs a millisecond: a batch is over after twenty long commands.
    runtime.msPerLook = 1;
    for (let turn = 0; turn < 60; turn += 1) runtime.endTurn();
    const answered = () => crowd.reduce((count, { lines }) => count + lines.length, 0);
    const before = answered();
    const newcomer = world.connect();
    newcomer.ask("ping");
    for (let turn = 0; turn < 1_000 && newcomer.lines.length === 0; turn += 1) {
      send();
      runtime.endTurn();
    }
    expect(newcomer.lines).toEqual(["ok"]);
    // A few bytes of each: a ping has nine.
    expect(answered() - before).toBeLessThan(2 * (262_144 / 9));
  });

  it("ends a batch when its time is over, not many long commands later", () => {
    const world = new World();
    const { runtime } = world;
    const flood = encoder.encode("ping\n_\n_\n".repeat(7_000));
    const crowd = Array.from({ length: 64 }, () => world.connect());
    runtime.settle();
    for (const client of crowd) client.connection?.received(flood);
    runtime.msPerLook = 10;
    runtime.endTurn();
    runtime.endTurn();
    const served = crowd.filter(({ lines }) => lines.length > 0);
    expect(served.length).toBeGreaterThan(0);
    expect(served.length).toBeLessThan(6);
  });
});
