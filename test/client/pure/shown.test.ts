/** What a lock shows of itself. */
import { inspect } from "node:util";
import { describe, expect, it } from "vitest";
import { settled } from "./fake-clock.ts";
import { held, world } from "./fake-service.ts";

describe("a lock that is logged", () => {
  it("shows key, fence and whether it is held, and not its token", async () => {
    const here = await world();
    const lock = await held(here);
    expect(inspect(lock)).toBe(`Lock { key: 'key', fence: '${lock.fence}', isHeld: true }`);
    expect(JSON.parse(JSON.stringify({ lock }))).toEqual({ lock: { key: "key", fence: lock.fence, isHeld: true } });
    expect(inspect({ deep: { lock } }, { depth: 0 })).not.toContain(lock.token);
    await here.locks.close();
    expect(inspect(lock)).toBe(`Lock { key: 'key', fence: '${lock.fence}', isHeld: false }`);
  });
});

describe("the end of a lease, as a time", () => {
  it("comes when the lock counts as lost, and moves with every renewal", async () => {
    const here = await world();
    const askedAt = here.clock.wall();
    const lock = await held(here, { leaseS: 30 });
    expect(lock.expiresAt).toBe(askedAt + 29_700);
    await here.clock.pass(10_000);
    expect(lock.expiresAt).toBe(askedAt + 29_700);
    await here.service.answer(here.service.last("n"), "ok 30");
    expect(lock.expiresAt).toBe(askedAt + 10_000 + 29_700);
    await here.locks.close();
  });

  it("is when `isHeld` turns false, if nobody answers", async () => {
    const here = await world();
    here.service.welcome = "no resuming";
    const lock = await held(here);
    const { expiresAt } = lock;
    await here.clock.pass(expiresAt - here.clock.wall() - 1);
    expect(lock.signal.aborted).toBe(false);
    await here.clock.pass(1);
    expect(lock.isHeld).toBe(false);
    expect(lock.expiresAt).toBe(expiresAt);
    await here.locks.close();
  });

  it("is not behind the end of the longest hold", async () => {
    const here = await world();
    const askedAt = here.clock.wall();
    const lock = await held(here, { maxHold: 5_000 });
    expect(lock.expiresAt).toBe(askedAt + 5_000);
    await here.locks.close();
  });

  it("is counted by the clock that says more: after a sleep it is over", async () => {
    const here = await world();
    const lock = await held(here);
    const { expiresAt } = lock;
    here.clock.sleep(60_000);
    expect(lock.expiresAt).toBe(expiresAt);
    expect(lock.expiresAt).toBeLessThan(here.clock.wall());
    // A wall clock that is set back makes no lease longer.
    here.clock.setWall(-3_600_000);
    await settled();
    expect(lock.expiresAt).toBeLessThanOrEqual(here.clock.wall() + 30_000);
    await here.locks.close();
  });
});
