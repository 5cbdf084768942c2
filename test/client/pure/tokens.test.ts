import { describe, expect, it, vi } from "vitest";
import { AuthError } from "../../../src/client/index.ts";
import { settled } from "./fake-clock.ts";
import { freshToken, held, world } from "./fake-service.ts";

describe("a token", () => {
  it("is shown before anything else, and fetched anew for every connection", async () => {
    const token = vi.fn(async () => `ticket-${token.mock.calls.length}\n`);
    const { clock, service } = await world({ token });
    await settled();
    service.socket.lose();
    await clock.pass(150);
    expect(service.sockets.map(({ sent }) => sent[0])).toEqual(["auth\n_\nticket-1\n", "auth\n_\nticket-2\n"]);
  });

  it("that is refused rejects what is under way; the next request tries again, nobody else does", async () => {
    const { clock, service, locks } = await world({ token: "wrong" });
    service.welcome = "refused";
    service.socket.lose(4410);
    const asked = locks.acquire("key").catch((error) => error);
    await clock.pass(500);
    expect(await asked).toBeInstanceOf(AuthError);
    const attempts = service.sockets.length;
    await clock.pass(60_000);
    expect(service.sockets).toHaveLength(attempts);
    expect(clock.timers).toBe(0);
    service.welcome = "session";
    const again = locks.acquire("key");
    await settled();
    await service.answer(service.last("l"), `ok ${freshToken()} 33`);
    expect((await again).isHeld).toBe(true);
  });

  it("that cannot be fetched is asked for again later", async () => {
    let calls = 0;
    const token = () => {
      calls += 1;
      if (calls < 3) throw new Error("the issuer is away");
      return "ticket";
    };
    const { clock, service } = await world({ token });
    await clock.pass(1_000);
    expect(calls).toBe(3);
    expect(service.socket.sent[0]).toBe("auth\n_\nticket\n");
  });

  it("that never comes is asked for again after a while, and holds up no close", async () => {
    let calls = 0;
    const token = () => {
      calls += 1;
      return calls === 1 ? new Promise<string>(() => {}) : "ticket";
    };
    const { clock, service, locks } = await world({ token });
    await clock.pass(5_150);
    expect(calls).toBe(2);
    expect(service.socket.sent[0]).toBe("auth\n_\nticket\n");
    await locks.close();
    const { clock: late, locks: waiting } = await world({ token: () => new Promise<string>(() => {}) });
    await waiting.close();
    await late.pass(5_000);
    expect(late.timers).toBe(0);
  });

  it("that has run out on an open connection is replaced by a fresh one, and no lock is lost by it", async () => {
    const here = await world({ token: async () => "ticket" });
    await settled();
    const lock = await held(here, { leaseS: 30 });
    await here.clock.pass(10_000);
    await here.service.answer(here.service.last("n"), "error_auth");
    await here.clock.pass(200);
    expect(here.service.sockets).toHaveLength(2);
    expect(here.service.count("n")).toBe(2);
    await here.service.answer(here.service.last("n"), "ok 30");
    await here.clock.pass(9_000);
    expect(lock.isHeld).toBe(true);
  });

  it("that does not cover a request is not fetched again and again", async () => {
    const { clock, service, locks } = await world({ token: () => "ticket" });
    service.reply = () => "error_auth";
    await clock.pass(10_000);
    for (let round = 0; round < 3; round += 1) {
      const asked = locks.acquire("forbidden").catch((error) => error);
      await clock.pass(200);
      expect(await asked).toBeInstanceOf(AuthError);
    }
    expect(service.sockets).toHaveLength(2);
  });
});
