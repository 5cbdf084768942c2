import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { ConnectionError, connect, type Lock } from "../../../src/client/index.ts";
import { CoreService } from "./core-service.ts";
import { FakeClock, settled } from "./fake-clock.ts";
import { Wire } from "./fake-network.ts";
import { freshToken, world } from "./fake-service.ts";

describe("an aborted wait", () => {
  it("ends at once with the signal's reason, and is taken back at the service", async () => {
    const { service, locks } = await world();
    const stop = new AbortController();
    const asked = locks.acquire("key", { signal: stop.signal }).catch((reason) => reason);
    await settled();
    const reason = new Error("enough");
    stop.abort(reason);
    expect(await asked).toBe(reason);
    expect(service.last("cancel")).toMatchObject({ arg: service.last("l").tag });
  });

  it("was never sent if the signal had aborted before", async () => {
    const { service, locks } = await world();
    await expect(locks.acquire("key", { signal: AbortSignal.abort("early") })).rejects.toBe("early");
    await expect(locks.enqueue("key", { signal: AbortSignal.abort("early") })).rejects.toBe("early");
    expect(service.frames).toEqual([]);
  });

  it("is never sent if it aborts before there is a connection", async () => {
    const { clock, service, locks } = await world();
    service.socket.lose();
    const stop = new AbortController();
    const asked = locks.acquire("key", { signal: stop.signal }).catch((reason) => reason);
    stop.abort("enough");
    expect(await asked).toBe("enough");
    await clock.pass(1_000);
    expect(service.frames).toEqual([]);
  });

  it("gives back a grant that was on its way", async () => {
    const { service, locks } = await world();
    const stop = new AbortController();
    const asked = locks.acquire("key", { signal: stop.signal }).catch((reason) => reason);
    await settled();
    stop.abort("enough");
    const token = freshToken();
    await service.answer(service.last("l"), `ok ${token} 33`);
    expect(await asked).toBe("enough");
    expect(service.last("r")).toMatchObject({ arg: token });
  });

  it("gives back a grant that came in the same moment", async () => {
    const { service, locks } = await world();
    const stop = new AbortController();
    const asked = locks.acquire("key", { signal: stop.signal }).catch((reason) => reason);
    await settled();
    const token = freshToken();
    service.socket.say(`@${service.last("l").tag} ok ${token} 33`);
    queueMicrotask(() => stop.abort("enough"));
    expect(await asked).toBe("enough");
    await settled();
    expect(service.last("r")).toMatchObject({ arg: token });
  });

  it("leaves a lock that is held already alone", async () => {
    const { service, locks } = await world();
    const stop = new AbortController();
    const asked = locks.acquire("key", { signal: stop.signal });
    await settled();
    await service.answer(service.last("l"), `ok ${freshToken()} 33`);
    const lock = await asked;
    stop.abort();
    await settled();
    expect([lock.isHeld, service.count("r"), service.count("cancel")]).toEqual([true, 0, 0]);
  });

  it("is asked for and taken back again if the connection is lost in between", async () => {
    const { clock, service, locks } = await world();
    const stop = new AbortController();
    const asked = locks.acquire("key", { signal: stop.signal }).catch((reason) => reason);
    await settled();
    service.socket.lose();
    stop.abort("enough");
    expect(await asked).toBe("enough");
    await clock.pass(150);
    expect(service.frames.map(({ command }) => command)).toEqual(["l", "l", "cancel"]);
    await service.answer(service.last("l"), "cancelled");
    service.socket.lose();
    await clock.pass(1_000);
    expect(service.count("l")).toBe(2);
  });

  it("of a place gives the place up, also when it was taken before the abort arrived", async () => {
    const { service, locks } = await world();
    const stop = new AbortController();
    const asked = locks.enqueue("key", { signal: stop.signal }).catch((reason) => reason);
    await settled();
    stop.abort("enough");
    await service.answer(service.last("e"), "queued");
    expect(await asked).toBe("enough");
    expect(service.last("w")).toMatchObject({ arg: "0" });
    const token = freshToken();
    await service.answer(service.last("w"), `ok ${token} 33`);
    expect(service.last("r")).toMatchObject({ arg: token });
  });

  it("of a place that has come up leaves the hold alone if the wait of an older ticket has taken it over", async () => {
    const { service, locks } = await world();
    service.reply = ({ command }) => (command === "e" ? "queued" : undefined);
    const older = await locks.enqueue("key");
    // It comes up and runs out while nobody waits for it: the service has room for another place of this client.
    service.reply = () => undefined;
    const stop = new AbortController();
    const asked = locks.enqueue("key", { signal: stop.signal }).catch((reason) => reason);
    const waiting = older.wait();
    await settled();
    stop.abort("enough");
    expect(await asked).toBe("enough");
    const [enqueued, waited, token] = [service.last("e"), service.last("w"), freshToken()];
    await service.answer(enqueued, `acquired ${token} 33`);
    await service.answer(waited, `ok ${token} 33`);
    const lock = await waiting;
    expect(service.count("r")).toBe(0);
    await service.answer(service.last("w"), "error_not_enqueued");
    expect([lock.isHeld, service.count("r")]).toEqual([true, 0]);
  });
});

describe("a timeout", () => {
  it("is kept to the millisecond, and the request taken back", async () => {
    const { clock, service, locks } = await world();
    const asked = locks.acquire("key", { timeout: 250 }).catch((reason) => reason);
    await clock.pass(249);
    expect(service.count("cancel")).toBe(0);
    await clock.pass(1);
    expect(await asked).toMatchObject({ name: "AcquireTimeoutError", code: "timeout" });
    expect(service.last("cancel")).toMatchObject({ arg: service.last("l").tag });
  });
});

describe("a steal that nobody wants any more", () => {
  it.each([1, 3])(
    "takes nothing when it is sent again, with %i slots, and gives back what it had got",
    async (limit) => {
      const { clock, service, locks } = await world();
      const stop = new AbortController();
      const asked = locks.acquire("key", { limit, steal: true, signal: stop.signal }).catch((reason) => reason);
      await settled();
      service.socket.lose();
      stop.abort("changed my mind");
      expect(await asked).toBe("changed my mind");
      await clock.pass(200);
      expect(service.count("steal")).toBe(1);
      const again = service.last(limit === 1 ? "l" : "sl");
      expect(again).toMatchObject({ tag: service.last("steal").tag, key: "key", arg: limit === 1 ? "0" : "0 3" });
      const token = freshToken();
      await service.answer(again, `ok ${token} 33`);
      expect(service.last(limit === 1 ? "r" : "sr").arg).toBe(token);
    },
  );
});

describe("a ticket", () => {
  it("is left while it waits: the wait ends, and nothing is kept", async () => {
    const { service, locks } = await world();
    service.reply = ({ command }) => (command === "e" ? "queued" : undefined);
    const ticket = await locks.enqueue("key");
    const waiting = ticket.wait().catch((reason) => reason);
    await settled();
    await ticket.leave();
    expect(await waiting).toMatchObject({ name: "AbortError" });
    expect(service.last("cancel")).toMatchObject({ arg: service.last("w").tag });
    await expect(ticket.wait()).rejects.toMatchObject({ code: "not_enqueued" });
  });

  it("that nobody waits for is given up at the end of its block", async () => {
    const { service, locks } = await world();
    service.reply = ({ command }) => (command === "e" ? "queued" : "timeout");
    {
      await using ticket = await locks.enqueue("key");
      expect(ticket.key).toBe("key");
    }
    expect(service.last("w")).toMatchObject({ arg: "0" });
  });

  it("whose wait ends before it could be sent gives up the place all the same", async () => {
    const { clock, service, locks } = await world();
    service.reply = ({ command }) => (command === "e" ? "queued" : undefined);
    const ticket = await locks.enqueue("key");
    service.welcome = "unreachable";
    service.socket.lose();
    const waiting = ticket.wait({ timeout: 500 }).catch((error) => error);
    await clock.pass(500);
    expect(await waiting).toMatchObject({ code: "timeout" });
    service.welcome = "session";
    await clock.pass(2_000);
    expect(service.last("cancel")).toMatchObject({ arg: service.last("w").tag });
  });

  it("that this client has no room to wait for gives up the place", async () => {
    const { service, locks } = await world();
    service.reply = ({ command }) => (command === "e" ? "queued" : undefined);
    const ticket = await locks.enqueue("key");
    const others = Array.from({ length: 512 }, (_, index) => locks.acquire(`other-${index}`).catch(() => {}));
    await expect(ticket.wait()).rejects.toMatchObject({ code: "too_many_requests" });
    expect(service.last("w")).toMatchObject({ key: "key", arg: "0" });
    await locks.close();
    await Promise.all(others);
  });

  it("whose wait ended on a lost connection is told so: it is not enqueued any more", async () => {
    const { clock, service, locks } = await world();
    service.reply = ({ command }) => (command === "e" ? "queued" : undefined);
    const waits = [];
    for (const timeout of [0, 5_000, Number.POSITIVE_INFINITY])
      waits.push((await locks.enqueue(`key-${timeout}`)).wait({ timeout }).catch((error) => error));
    await settled();
    service.reply = () => "error_not_enqueued";
    service.socket.lose();
    await clock.pass(500);
    expect(await Promise.all(waits)).toMatchObject([{ code: "timeout" }, { code: "lost" }, { code: "lost" }]);
  });

  it("whose session ends before its wait could be sent is lost with it", async () => {
    const { clock, service, locks } = await world();
    service.reply = () => "queued";
    const ticket = await locks.enqueue("key");
    service.welcome = "gone";
    service.socket.lose();
    const waiting = ticket.wait().catch((error) => error);
    await clock.pass(500);
    service.welcome = "session";
    await clock.pass(5_000);
    expect(await waiting).toBeInstanceOf(ConnectionError);
    expect(service.count("w")).toBe(0);
  });

  it("is worth nothing in another session", async () => {
    const { clock, service, locks } = await world();
    service.reply = () => "queued";
    const ticket = await locks.enqueue("key");
    service.socket.lose(4410);
    await clock.pass(500);
    await expect(ticket.wait()).rejects.toMatchObject({ code: "connection" });
    await ticket.leave();
    expect(service.count("w")).toBe(0);
  });
});

it("in whatever order lines, aborts and cuts happen: at most one holds, and nothing is left behind", async () => {
  const plan = fc.array(
    fc.record({
      client: fc.integer({ min: 0, max: 2 }),
      /** When it is aborted, if at all: before the first, second, … event of the run. */
      abortAt: fc.option(fc.integer({ min: 0, max: 60 }), { nil: undefined }),
      holdsFor: fc.integer({ min: 0, max: 20 }),
    }),
    { minLength: 1, maxLength: 8 },
  );
  const cuts = fc.array(fc.integer({ min: 5, max: 120 }), { maxLength: 3 });
  await fc.assert(
    fc.asyncProperty(plan, cuts, fc.scheduler(), async (wishes, cutAt, scheduler) => {
      const clock = new FakeClock();
      const service = new CoreService(clock);
      const wires = ["ada", "bob", "eve"].map(
        (name) =>
          new Wire(service, name, (label, arrive) => {
            void scheduler.schedule(Promise.resolve(), label).then(arrive);
          }),
      );
      const clients = wires.map(({ WebSocket }) => connect("ws://service", { clock, WebSocket }));
      const held = new Set<Lock>();
      let events = 0;
      const until = async (event: number) => {
        while (events < event) await settled();
      };
      const outcomes = wishes.map(async ({ client, abortAt, holdsFor }) => {
        const stop = new AbortController();
        if (abortAt !== undefined) void until(abortAt).then(() => stop.abort("enough"));
        try {
          const lock = await clients[client]?.acquire("key", { signal: stop.signal });
          if (!lock) return "nobody";
          expect([...held].filter((other) => other.isHeld)).toEqual([]);
          held.add(lock);
          await until(events + holdsFor);
          held.delete(lock);
          return (await lock.release()) ? "held" : "lost";
        } catch (reason) {
          return reason;
        }
      });
      const all = Promise.all(outcomes);
      const isOver = { value: false };
      void all.then(() => {
        isOver.value = true;
      });
      const lastCut = Math.max(0, ...cutAt);
      for (let idle = 0; !isOver.value || events <= lastCut || idle < 20; events += 1) {
        if (cutAt.includes(events)) for (const wire of wires) wire.cut({ up: 0, down: 0 });
        if (scheduler.count() > 0) {
          idle = 0;
          await scheduler.waitOne();
        } else {
          idle += 1;
          await clock.pass(100);
        }
        if (events > 5_000) throw new Error("it never ends");
      }
      for (const outcome of await all) expect(["held", "enough"]).toContain(outcome);
      expect(service.engine.view({ detail: true })).toMatchObject({ holderCount: 0, waiters: 0 });
      for (const each of clients) void each.close();
    }),
    { numRuns: 400 },
  );
}, 60_000);
