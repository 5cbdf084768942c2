/** Nothing stays behind: no timer, no listener, no request. */
import { getEventListeners } from "node:events";
import { describe, expect, it } from "vitest";
import { settled } from "./fake-clock.ts";
import { freshToken, world } from "./fake-service.ts";

const IDLE_TIMERS = 1;

describe("after thousands of cycles", () => {
  it("of holding and giving back there is one timer, and nothing to send again", async () => {
    const { clock, service, locks } = await world();
    const stop = new AbortController();
    service.reply = ({ command }) => (command === "l" ? `ok ${freshToken()} 30` : "ok");
    expect(clock.timers).toBe(IDLE_TIMERS);
    for (let round = 0; round < 3_000; round += 1)
      await locks.request("key", { signal: stop.signal, timeout: 5_000 }, () => {});
    expect(clock.timers).toBe(IDLE_TIMERS);
    expect(getEventListeners(stop.signal, "abort")).toEqual([]);
    const frames = service.frames.length;
    service.socket.lose();
    await clock.pass(500);
    expect(service.frames).toHaveLength(frames);
    expect(clock.timers).toBe(IDLE_TIMERS);
  });

  it("of waiting in vain the same holds, however the wait ended", async () => {
    const { clock, service, locks } = await world();
    for (let round = 0; round < 1_000; round += 1) {
      const stop = new AbortController();
      const aborted = locks.acquire("key", { signal: stop.signal }).catch((reason) => reason);
      const late = locks.acquire("key", { timeout: 10, signal: stop.signal }).catch((reason) => reason);
      await settled();
      const [first, second] = service.frames.slice(-2);
      await clock.pass(10);
      expect((await late).code).toBe("timeout");
      stop.abort("enough");
      expect(await aborted).toBe("enough");
      expect(getEventListeners(stop.signal, "abort")).toEqual([]);
      for (const frame of [first, second]) service.socket.say(`@${frame?.tag} cancelled`);
      await settled();
    }
    expect(clock.timers).toBe(IDLE_TIMERS);
    const frames = service.frames.length;
    service.socket.lose();
    await clock.pass(500);
    expect(service.frames).toHaveLength(frames);
  }, 20_000);

  it("of losing locks the same holds", async () => {
    const { clock, service, locks } = await world();
    service.reply = ({ command }) => (command === "l" ? `ok ${freshToken()} 30` : "ok");
    for (let round = 0; round < 1_000; round += 1) {
      const lock = await locks.acquire("key");
      service.socket.say(`! lost key ${lock.token} stolen`);
      await lock.lost;
    }
    expect(clock.timers).toBe(IDLE_TIMERS);
    service.socket.lose();
    await clock.pass(500);
    expect(service.count("n")).toBe(0);
  });

  it("of questions that nobody answers, while the service is away, nothing is kept for later", async () => {
    const { clock, service, locks } = await world();
    service.welcome = "unreachable";
    service.socket.lose(4410);
    for (let round = 0; round < 100; round += 1) {
      const asked = [locks.query("key"), locks.tryAcquire("key"), locks.enqueue("key")].map((each) =>
        each.catch((error) => error.code),
      );
      await clock.pass(10_000);
      expect(await Promise.all(asked)).toEqual(["connection", "connection", "connection"]);
    }
    service.welcome = "session";
    await clock.pass(6_000);
    expect(service.frames).toEqual([]);
    expect(clock.timers).toBe(IDLE_TIMERS);
  });
});

describe("closing leaves no timer", () => {
  it.each(["session", "unreachable", "silence", "refused", "gone", "in use"] as const)(
    "when the service meets the client with: %s",
    async (welcome) => {
      const { clock, service, locks } = await world();
      service.welcome = welcome;
      locks.acquire("key").catch(() => {});
      service.socket.lose();
      await clock.pass(3_333);
      const closed = locks.close();
      await clock.pass(5_000);
      await closed;
      await settled();
      expect(clock.timers).toBe(0);
      const sockets = service.sockets.length;
      await clock.pass(60_000);
      expect(service.sockets).toHaveLength(sockets);
    },
  );
});
