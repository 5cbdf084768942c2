/** What browsers do to pages, one event at a time. In a real browser: `test/browser/`. */
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { settled } from "./fake-clock.ts";
import { held, world } from "./fake-service.ts";

const listeners = new Map<string, (event: object) => void>();
const happens = (type: string, event: object = {}) => listeners.get(type)?.(event);
const page = {
  visibilityState: "visible",
  addEventListener: (type: string, listener: () => void) => listeners.set(type, listener),
  removeEventListener: (type: string) => listeners.delete(type),
};

beforeEach(() => {
  page.visibilityState = "visible";
  vi.stubGlobal("document", page);
  vi.stubGlobal("ononline", null);
  vi.stubGlobal("addEventListener", page.addEventListener);
  vi.stubGlobal("removeEventListener", page.removeEventListener);
});
afterEach(() => {
  vi.unstubAllGlobals();
  listeners.clear();
});

it("a page that comes back looks at once whether its locks and its connection are still there", async () => {
  const here = await world();
  const [short, long] = [await held(here, { leaseS: 20 }), await held(here, { leaseS: 60 })];
  here.clock.sleep(25_000);
  happens("visibilitychange");
  expect((await short.lost).reason).toBe("expired");
  expect(here.service.last("n")).toMatchObject({ arg: `${long.token} 60` });
  expect(here.service.socket.heartbeats).toBe(1);
  here.service.welcome = "unreachable";
  here.service.socket.lose();
  await here.clock.pass(60_000);
  here.service.welcome = "session";
  happens("online");
  await settled();
  expect(here.service.socket.sent.length).toBeGreaterThan(0);
  await here.locks.close();
  expect(listeners.size).toBe(0);
});

describe("a page that is frozen", () => {
  it("gives its socket up, and takes its session up again when it thaws in time", async () => {
    const here = await world();
    const lock = await held(here);
    happens("freeze");
    expect(here.service.socket.closedWith).toBe(4412);
    here.clock.sleep(5_000);
    expect(lock.isHeld).toBe(true);
    happens("resume");
    await settled();
    expect(here.service.sockets).toHaveLength(2);
    expect(here.service.socket.protocols[1]).toMatch(/^holdfast\.resume\./);
    expect(lock.isHeld).toBe(true);
  });

  it("knows by the clock that its lock may be somebody else's, before any event says so", async () => {
    const here = await world();
    const lock = await held(here, { leaseS: 60 });
    happens("freeze");
    here.clock.sleep(10_000);
    expect(lock.isHeld).toBe(false);
    expect(lock.signal.aborted).toBe(false);
    happens("resume");
    expect(lock.signal.reason).toMatchObject({ reason: "disconnected" });
  });
});

describe("a page that is left", () => {
  it("and kept has left the service, and begins anew when it is come back to", async () => {
    const here = await world();
    const lock = await held(here);
    happens("pagehide", { persisted: true });
    expect(here.service.socket.closedWith).toBe(1000);
    expect(lock.signal.reason).toMatchObject({ reason: "disconnected" });
    page.visibilityState = "hidden";
    happens("visibilitychange");
    happens("freeze");
    await here.clock.pass(60_000);
    expect(here.service.sockets).toHaveLength(1);
    page.visibilityState = "visible";
    happens("pageshow", { persisted: true });
    await settled();
    expect(here.service.sockets).toHaveLength(2);
    expect(here.service.socket.protocols).toHaveLength(1);
    expect((await held(here)).isHeld).toBe(true);
  });

  it("for ever is its browser's business", async () => {
    const here = await world();
    const lock = await held(here);
    happens("pagehide", { persisted: false });
    expect(here.service.socket.closedWith).toBe(undefined);
    expect(lock.isHeld).toBe(true);
  });
});

describe("a dedicated worker of a page", () => {
  beforeEach(() => {
    vi.unstubAllGlobals();
    vi.stubGlobal("DedicatedWorkerGlobalScope", class {});
  });

  it("does not believe in its lock after standing still, until the service has answered later", async () => {
    const here = await world();
    const lock = await held(here);
    await here.clock.pass(1_000);
    expect(lock.isHeld).toBe(true);
    here.clock.sleep(1_100);
    expect(lock.isHeld).toBe(false);
    await here.clock.pass(740);
    expect(lock.isHeld).toBe(false);
    await here.clock.pass(10);
    expect(here.service.socket.heartbeats).toBe(1);
    expect(lock.isHeld).toBe(true);
  });

  it("begins to doubt anew when it stands still again", async () => {
    const here = await world();
    const lock = await held(here);
    here.clock.sleep(1_100);
    await here.clock.pass(600);
    here.clock.sleep(1_100);
    await here.clock.pass(600);
    expect(lock.isHeld).toBe(false);
    await here.clock.pass(400);
    expect(lock.isHeld).toBe(true);
  });

  it("connects anew at once when its connection breaks after a standstill, and knows then", async () => {
    const here = await world();
    const lock = await held(here);
    await here.clock.pass(5_000);
    here.clock.sleep(1_100);
    here.service.socket.lose();
    expect(lock.isHeld).toBe(false);
    expect(lock.signal.aborted).toBe(false);
    await settled();
    expect(here.service.sockets).toHaveLength(2);
    expect(lock.isHeld).toBe(true);
  });

  it("is told at once if its session had ended meanwhile", async () => {
    const here = await world();
    const lock = await held(here);
    await here.clock.pass(5_000);
    here.clock.sleep(1_100);
    const now = here.clock.steady();
    here.service.welcome = "gone";
    here.service.socket.lose();
    expect((await lock.lost).reason).toBe("disconnected");
    expect(here.clock.steady()).toBe(now);
  });

  it("finds out that its connection died while it stood still, and is told when the grace is over", async () => {
    const here = await world();
    const lock = await held(here, { leaseS: 600 });
    await here.clock.pass(5_000);
    here.service.socket.isBlackHole = true;
    here.clock.sleep(1_100);
    await here.clock.pass(2_000);
    expect(here.service.sockets).toHaveLength(2);
    expect(lock.isHeld).toBe(true);
  });

  it("keeps believing through a lost connection as everybody does, and comes back as unhurriedly", async () => {
    const here = await world();
    const lock = await held(here);
    await here.clock.pass(5_000);
    here.service.socket.lose();
    await settled();
    expect(here.service.sockets).toHaveLength(1);
    expect(lock.isHeld).toBe(true);
    await here.clock.pass(150);
    expect(here.service.sockets).toHaveLength(2);
  });

  it("looks out for as long as it is connected, and leaves no timer", async () => {
    const { clock, service, locks } = await world();
    expect(clock.timers).toBe(2);
    service.socket.lose();
    await clock.pass(200);
    expect(clock.timers).toBe(2);
    await locks.close();
    expect(clock.timers).toBe(0);
  });
});
