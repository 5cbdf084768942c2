/** A lock is never called held for longer than the service keeps it. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { LockLostError } from "../../../src/client/index.ts";
import { settled } from "./fake-clock.ts";
import { freshToken, held, world } from "./fake-service.ts";

describe("a lease", () => {
  it("is counted from when its request was sent, not from when it was answered", async () => {
    const { clock, service, locks } = await world();
    const asked = locks.acquire("key", { lease: 30_000 });
    await clock.pass(9_000);
    await service.answer(service.last("l"), `ok ${freshToken()} 30`);
    const lock = await asked;
    service.socket.isBlackHole = true;
    await clock.pass(20_600);
    expect(lock.signal.aborted || !lock.isHeld).toBe(false);
    await clock.pass(400);
    expect(lock.signal.reason).toBeInstanceOf(LockLostError);
  });

  it("is renewed at a third of it, with the same length, and then counted from the renewal", async () => {
    const here = await world();
    const lock = await held(here, { leaseS: 30 });
    await here.clock.pass(9_900);
    expect(here.service.count("n")).toBe(0);
    await here.clock.pass(200);
    expect(here.service.last("n")).toMatchObject({ key: "key", arg: `${lock.token} 30` });
    await here.service.answer(here.service.last("n"), "ok 30");
    await here.clock.pass(9_800);
    expect(here.service.count("n")).toBe(1);
    await here.clock.pass(300);
    expect(here.service.count("n")).toBe(2);
    expect(lock.isHeld).toBe(true);
  });

  it("of one second is renewed in time", async () => {
    const here = await world();
    here.service.reply = ({ command }) => (command === "n" ? "ok 1" : undefined);
    const lock = await held(here, { leaseS: 1 });
    await here.clock.pass(60_000);
    expect(lock.isHeld).toBe(true);
    expect(lock.signal.aborted).toBe(false);
  });

  it("that runs out unrenewed while connected is lost as expired", async () => {
    const here = await world();
    const lock = await held(here, { leaseS: 6 });
    const started = here.clock.steady();
    const lostAt = lock.lost.then(() => here.clock.steady() - started);
    await here.clock.pass(6_000);
    expect(await lostAt).toBeLessThan(6_000);
    expect((await lock.lost).reason).toBe("expired");
  });
});

describe("a lock whose program was stopped", () => {
  it("is lost when the machine slept through its lease, though no timer knows", async () => {
    const here = await world();
    const lock = await held(here);
    here.clock.sleep(40_000);
    expect(lock.isHeld).toBe(false);
    await here.clock.pass(10_000);
    expect((await lock.lost).reason).toBe("expired");
  });

  it("is lost when its event loop stood still through its lease, and is told before anything is renewed", async () => {
    const here = await world();
    const lock = await held(here);
    await here.clock.freeze(31_000);
    expect((await lock.lost).reason).toBe("expired");
    expect(here.service.count("n")).toBe(0);
  });

  it("is not believed in when the stop was longer than the service keeps a session that it has lost sight of", async () => {
    const here = await world();
    const lock = await held(here);
    here.clock.sleep(10_000);
    // The lease of 30 seconds is not over; but whether the connection has held, only an answer can tell.
    expect(lock.isHeld).toBe(false);
  });

  it("is kept when the stop was short of the lease", async () => {
    const here = await world();
    here.service.reply = ({ command }) => (command === "n" ? "ok 30" : undefined);
    const lock = await held(here);
    await here.clock.freeze(28_000);
    await here.clock.pass(60_000);
    expect(lock.isHeld).toBe(true);
  });

  it("is not held longer for a clock that was set back", async () => {
    const here = await world();
    const lock = await held(here);
    here.service.socket.isBlackHole = true;
    here.clock.setWall(-3_600_000);
    await here.clock.pass(30_000);
    expect(lock.signal.aborted).toBe(true);
  });
});

describe("a grant that is old news", () => {
  it("is confirmed by a renewal before anybody holds it", async () => {
    const { clock, service, locks } = await world();
    const asked = locks.acquire("key");
    await clock.pass(15_000);
    const token = freshToken();
    await service.answer(service.last("l"), `ok ${token} 33`);
    expect(await Promise.race([asked, settled()])).toBeUndefined();
    expect(service.last("n")).toMatchObject({ arg: `${token} 33` });
    await service.answer(service.last("n"), "ok 33");
    expect((await asked).isHeld).toBe(true);
  });

  it("is confirmed also if the machine has slept for longer than the grace: only then is it believed", async () => {
    const { clock, service, locks } = await world();
    const asked = locks.acquire("key");
    await settled();
    clock.sleep(20_000);
    await service.answer(service.last("l"), `ok ${freshToken()} 300`);
    expect(await Promise.race([asked, settled()])).toBeUndefined();
    await clock.pass(1);
    await service.answer(service.last("n"), "ok 300");
    expect((await asked).isHeld).toBe(true);
  });

  it("is confirmed within the time to wait, or not at all", async () => {
    const { clock, service, locks } = await world();
    const asked = locks.acquire("key", { timeout: 20_000 }).catch((error) => error);
    await clock.pass(15_000);
    await service.answer(service.last("l"), `ok ${freshToken()} 33`);
    await clock.pass(4_900);
    expect(await Promise.race([asked, settled()])).toBeUndefined();
    await clock.pass(200);
    expect(await asked).toMatchObject({ code: "timeout" });
    expect(service.count("r")).toBe(1);
  });

  it("is no grant if the renewal fails", async () => {
    const { clock, service, locks } = await world();
    const asked = locks.acquire("key").catch((error) => error);
    await clock.pass(15_000);
    await service.answer(service.last("l"), `ok ${freshToken()} 33`);
    await service.answer(service.last("n"), "error");
    expect(await asked).toMatchObject({ name: "LockLostError", reason: "expired" });
  });

  it("is given back if its wait is aborted before it is confirmed", async () => {
    const { clock, service, locks } = await world();
    const stop = new AbortController();
    const asked = locks.acquire("key", { signal: stop.signal }).catch((error) => error);
    await clock.pass(15_000);
    const token = freshToken();
    await service.answer(service.last("l"), `ok ${token} 33`);
    stop.abort("enough");
    expect(await asked).toBe("enough");
    await settled();
    expect(service.last("r")).toMatchObject({ arg: token });
  });
});

it("the longest hold ends a lock that is alive, tells it, and gives it back", async () => {
  const here = await world();
  here.service.reply = ({ command }) => (command === "n" ? "ok 30" : undefined);
  const lock = await held(here, { maxHold: 45_000 });
  await here.clock.pass(44_900);
  expect(lock.isHeld).toBe(true);
  await here.clock.pass(200);
  expect((await lock.lost).reason).toBe("expired");
  expect(here.service.last("r")).toMatchObject({ arg: lock.token });
});

it("whatever the clocks do, a lock is lost no later than its lease, counted from its last renewal", async () => {
  const step = fc.oneof(
    fc.record({ kind: fc.constantFrom("pass", "freeze", "sleep"), ms: fc.integer({ min: 0, max: 8_000 }) }),
    fc.record({ kind: fc.constant("set"), ms: fc.integer({ min: -20_000, max: 20_000 }) }),
    fc.record({ kind: fc.constantFrom("hole", "heal"), ms: fc.constant(0) }),
  );
  // A clock that is set back while the other one stands still is beyond anybody's knowledge.
  const isKnowable = (steps: readonly { kind: string }[]) =>
    !["set", "sleep"].every((kind) => steps.some((each) => each.kind === kind));
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 25 }).filter(isKnowable), async (steps) => {
      const here = await world();
      const { clock, service } = here;
      let renewedAt = clock.truth;
      service.reply = ({ command }) => {
        if (command !== "n") return undefined;
        renewedAt = clock.truth;
        return "ok 10";
      };
      const lock = await held(here, { leaseS: 10 });
      for (const { kind, ms } of steps) {
        if (kind === "pass") await clock.pass(ms);
        else if (kind === "freeze") await clock.freeze(ms);
        else if (kind === "sleep") clock.sleep(ms);
        else if (kind === "set") clock.setWall(ms);
        else for (const socket of service.sockets) socket.isBlackHole = kind === "hole";
        if (clock.truth - renewedAt >= 10_000) expect(lock.isHeld).toBe(false);
      }
      await clock.pass(10_000);
      if (clock.truth - renewedAt >= 10_000) expect(lock.signal.aborted).toBe(true);
    }),
    { numRuns: 300 },
  );
});
