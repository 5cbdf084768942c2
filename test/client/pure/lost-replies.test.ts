/** A wait whose answer was lost with its connection ends with what really became of it. */
import { describe, expect, it } from "vitest";
import { connect, LockLostError } from "../../../src/client/index.ts";
import { CoreService } from "./core-service.ts";
import { FakeClock, settled } from "./fake-clock.ts";
import { Wire } from "./fake-network.ts";
import { freshToken, world } from "./fake-service.ts";

/** Clients of the service's own engine, on a network that carries everything at once, or swallows it on the way down. */
function party() {
  const clock = new FakeClock();
  const service = new CoreService(clock);
  const join = (name: string) => {
    const network = { swallows: false };
    const wire = new Wire(service, name, (label, arrive) => {
      if (!(network.swallows && label.startsWith(`${name} <`))) setImmediate(arrive);
    });
    return { network, locks: connect("ws://service", { clock, WebSocket: wire.WebSocket }) };
  };
  const pass = async (ms: number) => {
    for (let left = ms; left > 0; left -= 100) {
      await clock.pass(Math.min(100, left));
      service.wake();
      for (let turn = 0; turn < 8; turn += 1) await settled();
    }
  };
  return { clock, pass, holder: join("holder"), waiter: join("waiter") };
}

/** The time it took, and the error. */
async function ended(clock: FakeClock, asked: Promise<unknown>) {
  const since = clock.steady();
  const error = await asked.then(
    () => "held",
    (reason: unknown) => reason,
  );
  return { error, ms: clock.steady() - since };
}

describe("a wait that was granted unheard", () => {
  it("and has lapsed since is told as lost, not as a time-out", async () => {
    const { clock, pass, holder, waiter } = party();
    await pass(100);
    const held = holder.locks.acquire("key");
    await pass(100);
    const placed = waiter.locks.enqueue("key", { lease: 1_000 });
    await pass(100);
    const waiting = ended(clock, (await placed).wait({ timeout: 15_000 }));
    await pass(500);
    // The service says it on a connection that brings nothing any more.
    waiter.network.swallows = true;
    void (await held).release();
    await pass(200);
    waiter.network.swallows = false;
    await pass(6_000);
    const { error, ms } = await waiting;
    expect(error).toBeInstanceOf(LockLostError);
    expect(error).toMatchObject({ code: "lost", reason: "expired" });
    expect(ms).toBeLessThan(7_000);
  });

  it("is told as a time-out when its time is over, whatever became of it", async () => {
    const { clock, service, locks } = await world();
    service.reply = ({ command }) => (command === "e" ? "queued" : undefined);
    const ticket = await locks.enqueue("key");
    const waiting = ended(clock, ticket.wait({ timeout: 5_000 }));
    await settled();
    service.socket.lose();
    // The machine sleeps, and with it the timer that would have ended the wait.
    clock.sleep(6_000);
    await clock.pass(150);
    await service.answer(service.last("w"), "error_not_enqueued");
    expect((await waiting).error).toMatchObject({ code: "timeout" });
  });
});

describe("a wait that the service failed to answer", () => {
  it("is asked for again at its place, with the time that is left", async () => {
    const { clock, service, locks } = await world();
    service.reply = ({ command }) => (command === "e" ? "queued" : undefined);
    const waiting = ended(clock, (await locks.enqueue("key")).wait({ timeout: 15_000 }));
    await clock.pass(4_000);
    await service.answer(service.last("w"), "error");
    expect(service.last("w")).toMatchObject({ arg: "11" });
    expect(service.count("w")).toBe(2);
    await service.answer(service.last("w"), `ok ${freshToken()} 33`);
    expect((await waiting).error).toBe("held");
  });

  it("twice rejects with that, and the place is given up", async () => {
    const { service, locks } = await world();
    service.reply = ({ command }) => (command === "e" ? "queued" : undefined);
    const waiting = (await locks.enqueue("key")).wait().catch((error) => error);
    await settled();
    await service.answer(service.last("w"), "error");
    await service.answer(service.last("w"), "error");
    expect(await waiting).toMatchObject({ code: "protocol" });
    expect(service.count("w")).toBe(3);
    expect(service.last("w")).toMatchObject({ arg: "0" });
  });

  it("rejects with that failure if the place went with it", async () => {
    const { service, locks } = await world();
    service.reply = ({ command }) => (command === "e" ? "queued" : undefined);
    const waiting = (await locks.enqueue("key")).wait({ timeout: 15_000 }).catch((error) => error);
    await settled();
    await service.answer(service.last("w"), "error");
    await service.answer(service.last("w"), "error_not_enqueued");
    expect(await waiting).toMatchObject({ code: "protocol" });
  });
});
