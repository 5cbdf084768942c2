import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, describe, expect, it, vi } from "vitest";
import {
  inTurn,
  isRush,
  mustWait,
  noteReturn,
  patienceFor,
  ReturnTurns,
} from "../../../src/cloudflare/session/paced-returns.ts";
import { resumeSession } from "../../../src/cloudflare/transports/session.ts";
import { REFUSAL_HEADER } from "../../../src/core/protocols/carrier/refusal.ts";
import { pass, stopClock } from "../clock.ts";
import { cut, ENTRY, resumable, resume } from "../resuming.ts";
import { fresh, keyStub, never, tokenOf, until } from "../support.ts";

const renewal = (leaseSeconds: number | undefined) => ({ type: "renew", key: "k", token: "t", leaseSeconds }) as const;

function manyReturnAt(now: number): void {
  for (let count = 0; count < 20; count += 1) noteReturn(now);
}

/** Only waits take time. A rush lasts a fifth of a second, and a stalled machine would miss it. */
function waitByStoppedClock() {
  stopClock();
  const wait = scheduler.wait.bind(scheduler);
  return vi.spyOn(scheduler, "wait").mockImplementation(async (ms) => {
    await wait(0);
    pass(Math.ceil(ms));
  });
}

describe("sessions that are taken up again", () => {
  afterEach(() => {
    vi.restoreAllMocks();
    vi.useRealTimers();
  });

  it("are a rush when many come within a moment, until that is over", () => {
    const now = Date.now() + 60_000;
    expect(isRush(now)).toBe(false);
    for (let count = 0; count < 5; count += 1) noteReturn(now);
    expect(isRush(now)).toBe(false);
    manyReturnAt(now);
    expect(isRush(now)).toBe(true);
    expect(isRush(now + 1_000)).toBe(false);
    expect(isRush(now - 1_000)).toBe(false);
  });

  it("wait for no more than a quarter of the lease they want to renew", () => {
    expect(patienceFor(renewal(4), 33_000)).toBe(1_000);
    expect(patienceFor(renewal(33), 33_000)).toBe(8_250);
    expect(patienceFor(renewal(3_600), 33_000)).toBe(15_000);
    expect(patienceFor(renewal(undefined), 4_000)).toBe(1_000);
    expect(patienceFor({ type: "release", key: "k", token: "t" }, 33_000)).toBe(0);
  });

  it("wait for no more than a quarter of the time they wait for a lock anyway", () => {
    const acquire = (waitSeconds: number) =>
      ({ type: "acquire", key: "k", limit: 1, waitSeconds, leaseSeconds: 1 }) as const;
    expect(patienceFor(acquire(0), 33_000)).toBe(0);
    expect(patienceFor(acquire(8), 33_000)).toBe(2_000);
    expect(patienceFor(acquire(9_223_372_036), 33_000)).toBe(15_000);
    expect(patienceFor({ type: "wait", key: "k", waitSeconds: 4 }, 33_000)).toBe(1_000);
    expect(patienceFor({ type: "enqueue", key: "k", limit: 1, leaseSeconds: 1 }, 33_000)).toBe(2_000);
  });

  it("ask at once if there is no rush, and go on when their patience or the rush is over", async () => {
    const waits = waitByStoppedClock();
    expect(mustWait(Date.now())).toBe(false);
    expect(await inTurn(8_000, async () => "done")).toBe("done");
    expect(waits).not.toHaveBeenCalled();
    manyReturnAt(Date.now());
    expect(mustWait(Date.now())).toBe(true);
    const askedAt = Date.now();
    await inTurn(50, async () => {});
    expect(isRush(Date.now())).toBe(true);
    expect(Date.now() - askedAt).toBeGreaterThanOrEqual(50);
    await inTurn(10_000, async () => {});
    expect(isRush(Date.now())).toBe(false);
  });

  it("are served a few at a time, so that others are heard between them", async () => {
    await until(async () => !isRush(Date.now()), { timeout: 2_000, interval: 10 });
    let running = 0;
    let most = 0;
    const task = async () => {
      running += 1;
      most = Math.max(most, running);
      await scheduler.wait(5);
      running -= 1;
    };
    await Promise.all(Array.from({ length: 40 }, () => inTurn(10_000, task)));
    expect(most).toBe(8);
    expect(mustWait(Date.now())).toBe(false);
  });

  it("have their requests on one key begun in the order in which they came, whatever the patience of each", async () => {
    waitByStoppedClock();
    const turns = new ReturnTurns(10_000);
    const begun: string[] = [];
    const ask = (key: string, number: number, patienceMs: number) =>
      turns.run(key, patienceMs, async () => void begun.push(`${key}${number}`));
    manyReturnAt(Date.now());
    const all = [0, 1, 2, 3, 4].flatMap((number) => [ask("a", number, 300 - number * 60), ask("b", number, 0)]);
    expect(turns.isWaiting("a")).toBe(true);
    await Promise.all(all);
    const ofKey = (key: string) => begun.filter((name) => name.startsWith(key));
    expect(ofKey("a")).toEqual(["a0", "a1", "a2", "a3", "a4"]);
    expect(ofKey("b")).toEqual(["b0", "b1", "b2", "b3", "b4"]);
    expect(begun.indexOf("b4")).toBeLessThan(begun.indexOf("a0"));
    expect(turns.isWaiting("a")).toBe(false);
  });

  it("keep nobody waiting for one that failed, or died with its object", async () => {
    stopClock();
    // Whatever rush there was is over.
    pass(1_000);
    await expect(inTurn(0, () => Promise.reject(new Error("failed")))).rejects.toThrow("failed");
    expect(mustWait(Date.now())).toBe(false);
    for (let count = 0; count < 8; count += 1) void inTurn(0, never);
    expect(mustWait(Date.now())).toBe(true);
    expect(mustWait(Date.now() + 10_000)).toBe(false);
  });
});

describe("while many sessions are resumed", () => {
  afterEach(() => {
    vi.useRealTimers();
  });

  /** A client with a lock that has just resumed, in a rush that lasts until time passes. */
  async function backInRush() {
    const key = fresh("key");
    const { client, credential } = await resumable();
    const token = tokenOf(await client.ask(`@l l\n${key}\n0 33\n`).then((line) => line.replace("@l ", "")));
    await cut(client);
    stopClock();
    const back = await resume(credential);
    manyReturnAt(Date.now());
    return { key, token, back, credential };
  }

  const holders = async (key: string) => (await keyStub(key).describe())?.holders.length;

  it("one that is left keeps its locks until those that return have been served, and is not resumed again", async () => {
    const { key, back, credential } = await backInRush();
    back.close();
    await back.closed();
    const refused = await resumeSession(env, ENTRY, credential);
    expect(refused.headers.get(REFUSAL_HEADER)).toBe("session_gone");
    expect(await holders(key)).toBe(1);
    pass(2_000);
    await until(async () => (await holders(key)) === 0, { timeout: 5_000, interval: 10 });
  });

  it("what is pushed to a client does not meet a keep-alive that the platform answers", async () => {
    const { key, token, back, credential } = await backInRush();
    const isAutomatic = () =>
      runInDurableObject(
        env.SESSION.getByName(credential.session),
        (_, ctx) => ctx.getWebSocketAutoResponse() !== null,
      );
    expect(await back.ask("@w watch\n_\nlost\n")).toBe("@w ok");
    await until(isAutomatic, { timeout: 10_000, interval: 50 });
    await keyStub(key).steal(token.slice(0, 16));
    expect(await back.line()).toMatch(/^! lost /);
    expect(await isAutomatic()).toBe(false);
  });

  it("a request that waits for its turn does not keep the platform from answering keep-alives", async () => {
    const { key, token, back, credential } = await backInRush();
    back.send(`@n n\n${key}\n${token} 33\n`);
    const isAutomatic = () =>
      runInDurableObject(
        env.SESSION.getByName(credential.session),
        (_, ctx) => ctx.getWebSocketAutoResponse() !== null,
      );
    await until(async () => !(await isAutomatic()), { timeout: 5_000, interval: 10 });
    await until(isAutomatic, { timeout: 10_000, interval: 50 });
    expect(await back.ask("@keepalive ping\n_\n_\n")).toBe("@keepalive ok");
    expect(back.unread).toEqual([]);
    pass(2_000);
    expect(await back.line()).toBe("@n ok 33");
    expect(await isAutomatic()).toBe(false);
  });
});
