/** Locks that are kept after their callback, against a service of nothing but what the test says. */
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { AcquireTimeoutError, type Lock, webLocks } from "../../../src/client/index.ts";
import { settled } from "./fake-clock.ts";
import { freshToken, type World, world } from "./fake-service.ts";

const STICKY = { sticky: true } as const;

/** Every claim is granted at once. */
async function open(options: Parameters<typeof world>[0] = {}, leaseS = 30): Promise<World> {
  const here = await world(options);
  here.service.reply = ({ command }) => {
    if (command === "l" || command === "sl" || command === "steal") return `ok ${freshToken()} ${leaseS}`;
    return command === "n" ? `ok ${leaseS}` : "ok";
  };
  return here;
}

/** A callback that ends when the test says so. */
function work(): { run: (lock: Lock) => Promise<void>; end: () => void; lock: () => Lock } {
  const { promise, resolve } = Promise.withResolvers<void>();
  let given: Lock | undefined;
  const run = (lock: Lock) => {
    given = lock;
    return promise;
  };
  return { run, end: resolve, lock: () => given as Lock };
}

const wanted = async ({ service }: World, { token }: Pick<Lock, "token">) => {
  service.socket.say(`! wanted key ${token}`);
  await settled();
};
const commands = ({ service }: World) => service.frames.map(({ command }) => command);

describe("a sticky lock", () => {
  it("is asked for once, says so, and taken again without a message", async () => {
    const here = await open();
    const seen: Lock[] = [];
    for (let count = 0; count < 5; count += 1)
      await here.locks.request("key", STICKY, (lock) => {
        expect(lock.isHeld).toBe(true);
        seen.push(lock);
      });
    expect(here.service.frames).toMatchObject([
      { command: "l", key: "key", arg: expect.stringMatching(/^\d+ wanted$/) },
    ]);
    expect(new Set(seen.map(({ fence }) => fence)).size).toBe(1);
  });

  it("is not held by a callback that has ended, nor released or lost by it", async () => {
    const here = await open();
    const first = await here.locks.request("key", STICKY, (lock) => lock);
    expect(first.isHeld).toBe(false);
    expect(await first.release()).toBe(false);
    await here.locks
      .request("key", STICKY, async (second) => {
        expect(first.isHeld).toBe(false);
        here.service.socket.say(`! lost key ${second.token} stolen`);
        expect((await second.lost).reason).toBe("stolen");
        expect(first.signal.aborted).toBe(false);
      })
      .catch(() => {});
    expect(commands(here)).not.toContain("r");
  });

  it("stays when the callback throws", async () => {
    const here = await open();
    const failed = here.locks.request("key", STICKY, () => Promise.reject(new Error("mine")));
    await expect(failed).rejects.toThrow("mine");
    await here.locks.request("key", STICKY, () => {});
    expect(commands(here)).toEqual(["l"]);
  });

  it("is given back when nobody has used it for ten seconds, or as long as it is told", async () => {
    const here = await open();
    await here.locks.request("key", STICKY, () => {});
    await here.clock.pass(9_999);
    expect(here.service.count("r")).toBe(0);
    await here.clock.pass(1);
    expect(here.service.count("r")).toBe(1);
    await here.locks.request("key", { ...STICKY, maxIdle: 500 }, () => {});
    await here.clock.pass(500);
    expect(here.service.count("r")).toBe(2);
    await here.locks.request("key", STICKY, () => {});
    expect(here.service.count("l")).toBe(3);
  });

  it("is renewed while it is kept, and while it goes from one short callback to the next", async () => {
    const here = await open();
    await here.locks.request("key", { ...STICKY, maxIdle: 60_000 }, () => {});
    await here.clock.pass(25_000);
    expect(here.service.count("n")).toBe(2);
    for (let count = 0; count < 300; count += 1) await here.locks.request("key", STICKY, () => here.clock.pass(99));
    expect(here.service.count("l")).toBe(1);
    expect(here.service.count("n")).toBeGreaterThanOrEqual(4);
  });

  it("that was lost while no callback used it has just disappeared", async () => {
    const here = await open();
    const { token } = await here.locks.request("key", STICKY, (lock) => lock);
    here.service.socket.say(`! lost key ${token} expired`);
    await settled();
    await here.locks.request("key", STICKY, (lock) => expect(lock.token).not.toBe(token));
    expect(commands(here)).toEqual(["l", "l"]);
  });

  it("that is lost under a callback is lost as ever", async () => {
    const here = await open();
    await here.locks.request("key", STICKY, () => {});
    const job = work();
    const asked = here.locks.request("key", STICKY, job.run);
    await settled();
    here.service.socket.say(`! lost key ${job.lock().token} stolen`);
    await settled();
    expect(job.lock().signal.aborted).toBe(true);
    job.end();
    await expect(asked).rejects.toMatchObject({ name: "LockLostError", reason: "stolen" });
  });

  it("keeps `maxHold` for every callback on its own", async () => {
    const here = await open();
    await here.locks.request("key", STICKY, () => here.clock.pass(4_000));
    const late = here.locks.request("key", { ...STICKY, maxHold: 5_000 }, async (lock) => {
      await here.clock.pass(4_000);
      expect(lock.isHeld).toBe(true);
      await here.clock.pass(1_000);
    });
    await expect(late).rejects.toMatchObject({ reason: "expired" });
    expect(commands(here)).toEqual(["l", "r"]);
  });

  it("is left with the client", async () => {
    const here = await open();
    await here.locks.request("key", STICKY, () => {});
    await here.locks.close();
    expect(here.service.socket.closedWith).toBe(1000);
    await here.clock.pass(0);
    expect(here.clock.timers).toBe(0);
    await expect(here.locks.request("key", STICKY, () => {})).rejects.toThrow("the client is closed");
  });

  it("is asked for by the whole client, if that is told so, and not where a call says otherwise", async () => {
    const here = await open({ sticky: true });
    await here.locks.request("key", () => {});
    await here.locks.request("key", () => {});
    expect(commands(here)).toEqual(["l"]);
    await here.locks.request("other", { sticky: false }, () => {});
    expect(commands(here)).toEqual(["l", "l", "r"]);
    expect(here.service.last("l").arg).not.toContain("wanted");
  });
});

describe("when somebody else wants it", () => {
  it("it is given back at once if no callback uses it", async () => {
    const here = await open();
    const { token } = await here.locks.request("key", STICKY, (lock) => lock);
    await wanted(here, { token });
    expect(here.service.last("r").arg).toBe(token);
  });

  it("it is given back after the running callback, and the next caller asks behind that", async () => {
    const here = await open();
    const [first, second] = [work(), work()];
    const asked = [here.locks.request("key", STICKY, first.run), here.locks.request("key", STICKY, second.run)];
    await settled();
    await wanted(here, first.lock());
    expect(first.lock().isHeld).toBe(true);
    expect(commands(here)).toEqual(["l"]);
    first.end();
    await settled();
    expect(commands(here)).toEqual(["l", "r", "l"]);
    expect(second.lock().token > first.lock().token).toBe(true);
    second.end();
    await Promise.all(asked);
  });

  it.each(["answer of the grant", "answer of a renewal", "same go as the grant"])(
    "and says so in the %s, it is not kept",
    async (where) => {
      const here = await open();
      const token = freshToken();
      here.service.reply = ({ command, tag }) => {
        if (command === "n") return "ok 30 wanted";
        if (command !== "l") return "ok";
        if (where === "answer of the grant") return `ok ${token} 30 wanted`;
        if (where === "answer of a renewal") return `ok ${token} 30`;
        here.service.socket.say(`@${tag} ok ${token} 30`);
        here.service.socket.say(`! wanted key ${token}`);
        return undefined;
      };
      await here.locks.request("key", STICKY, (lock) => {
        expect(lock.lease).toBe(30_000);
        if (where === "answer of a renewal") return here.clock.pass(10_000);
      });
      await settled();
      expect(here.service.count("r")).toBe(1);
    },
  );

  it("a client that lost its connection meanwhile hears of it when it is back", async () => {
    const here = await open();
    await here.locks.request("key", { ...STICKY, maxIdle: 60_000 }, () => {});
    const { reply } = here.service;
    here.service.reply = (frame) => (frame.command === "n" ? "ok 30 wanted" : reply(frame));
    here.service.socket.lose();
    await here.clock.pass(1_000);
    expect(here.service.count("n")).toBe(1);
    expect(here.service.count("r")).toBe(1);
  });

  it("a push that was lost costs no more than the time to the next renewal", async () => {
    const here = await open();
    const { reply } = here.service;
    here.service.reply = (frame) => (frame.command === "n" ? "ok 30 wanted" : reply(frame));
    let cycles = 0;
    for (; here.service.count("r") === 0 && cycles < 1_000; cycles += 1)
      await here.locks.request("key", STICKY, () => here.clock.pass(100));
    expect(here.service.count("l")).toBe(1);
    expect(cycles).toBeLessThanOrEqual(102);
  });

  it("callbacks that wait for nothing leave room to hear of it", async () => {
    const here = await open();
    vi.spyOn(here.clock, "steady").mockImplementation(() => performance.now());
    vi.spyOn(here.clock, "after").mockImplementation((ms, call) => {
      const timer = setTimeout(call, ms);
      return () => clearTimeout(timer);
    });
    const { token } = await here.locks.request("key", STICKY, (lock) => lock);
    setImmediate(() => here.service.socket.say(`! wanted key ${token}`));
    for (let isSame = true; isSame; ) isSame = await here.locks.request("key", STICKY, (lock) => lock.token === token);
    vi.restoreAllMocks();
    expect(here.service.count("r")).toBe(1);
  });
});

describe("callers of one client", () => {
  it("take turns in the order in which they asked, without a message", async () => {
    const here = await open();
    const order: number[] = [];
    const asked = [0, 1, 2, 3, 4].map((caller) =>
      here.locks.request("key", STICKY, async () => {
        order.push(caller);
        await settled();
      }),
    );
    await Promise.all(asked);
    expect(order).toEqual([0, 1, 2, 3, 4]);
    expect(commands(here)).toEqual(["l"]);
  });

  it("may stop waiting for their turn, and are passed over", async () => {
    const here = await open();
    const [first, last] = [work(), work()];
    const stop = new AbortController();
    const asked = here.locks.request("key", STICKY, first.run);
    const aborted = here.locks.request("key", { ...STICKY, signal: stop.signal }, () => {});
    const late = here.locks.request("key", { ...STICKY, timeout: 500 }, () => {});
    const never = here.locks.request("key", { ...STICKY, timeout: 0 }, () => {});
    const next = here.locks.request("key", STICKY, last.run);
    stop.abort("enough");
    await expect(aborted).rejects.toBe("enough");
    for (const refused of [late, never]) refused.catch(() => {});
    await here.clock.pass(0);
    await expect(never).rejects.toBeInstanceOf(AcquireTimeoutError);
    await here.clock.pass(500);
    await expect(late).rejects.toThrow("key was not free within 500 ms");
    first.end();
    await asked;
    await settled();
    expect(last.lock().isHeld).toBe(true);
    last.end();
    await next;
    expect(commands(here)).toEqual(["l"]);
  });

  it("that wait for their turn are told when the client is closed", async () => {
    const here = await open();
    const first = work();
    const asked = [here.locks.request("key", STICKY, first.run), here.locks.request("key", STICKY, () => {})];
    const outcomes = Promise.allSettled(asked);
    await settled();
    void here.locks.close();
    first.end();
    expect((await outcomes).map(({ status }) => status)).toEqual(["rejected", "rejected"]);
  });

  it("do not wait for a callback whose lock is lost or released", async () => {
    const here = await open();
    const [first, second, third] = [work(), work(), work()];
    const asked = [first, second, third].map(({ run }) => here.locks.request("key", STICKY, run));
    const outcomes = Promise.allSettled(asked);
    await settled();
    here.service.socket.say(`! lost key ${first.lock().token} stolen`);
    await settled();
    expect(second.lock().isHeld).toBe(true);
    await second.lock().release();
    await settled();
    expect(third.lock().isHeld).toBe(true);
    for (const { end } of [first, second, third]) end();
    expect((await outcomes).map(({ status }) => status)).toEqual(["rejected", "fulfilled", "fulfilled"]);
  });

  it("go on when one could not get the lock", async () => {
    const here = await open();
    const { reply } = here.service;
    here.service.reply = (frame) => (frame.command === "l" ? "error_draining" : reply(frame));
    const first = here.locks.request("key", STICKY, () => {});
    const second = here.locks.request("key", STICKY, () => "got it");
    await expect(first).rejects.toThrow("takes no new work");
    here.service.reply = reply;
    // The second has asked already.
    await expect(second).rejects.toThrow("takes no new work");
    expect(await here.locks.request("key", STICKY, () => "got it")).toBe("got it");
  });
});

describe("what else takes the key", () => {
  it("a plain call of the same client finds nothing in its way", async () => {
    const here = await open();
    await here.locks.request("key", STICKY, () => {});
    expect(await here.locks.tryAcquire("key")).not.toBe(null);
    expect(commands(here)).toEqual(["l", "r", "l"]);
  });

  it("a steal asks the service, and what it took is not kept", async () => {
    const here = await open();
    await here.locks.request("key", { ...STICKY, steal: true }, () => {});
    expect(commands(here)).toEqual(["steal", "r"]);
  });

  it("of a semaphore one slot is kept, and more are asked for", async () => {
    const here = await open();
    const slots = here.locks.semaphore("pool", 3);
    const [first, second] = [work(), work()];
    const asked = [slots.request(STICKY, first.run), slots.request(STICKY, second.run)];
    await settled();
    expect(commands(here)).toEqual(["sl", "sl"]);
    expect(here.service.last("sl").arg).toMatch(/^\d+ 3 wanted$/);
    for (const { end } of [first, second]) end();
    await Promise.all(asked);
    expect(commands(here)).toEqual(["sl", "sl", "sr"]);
    await slots.request(STICKY, () => {});
    expect(commands(here)).toEqual(["sl", "sl", "sr"]);
    expect(here.service.count("l")).toBe(0);
  });

  it("Web Locks are sticky with their client, but for those that ask only if it is free", async () => {
    const here = await open({ sticky: true });
    const web = webLocks(here.locks);
    await web.request("key", () => {});
    await web.request("key", () => {});
    expect(commands(here)).toEqual(["l"]);
    await web.request("key", { ifAvailable: true }, (lock) => expect(lock).not.toBe(null));
    expect(commands(here)).toEqual(["l", "r", "l", "r"]);
  });
});

describe("a page that is hidden", () => {
  const listeners = new Map<string, () => void>();
  const page = {
    visibilityState: "visible",
    addEventListener: (type: string, listener: () => void) => listeners.set(type, listener),
    removeEventListener: (type: string) => listeners.delete(type),
  };
  const becomes = (state: string) => {
    page.visibilityState = state;
    listeners.get("visibilitychange")?.();
  };
  beforeEach(() => vi.stubGlobal("document", page));
  afterEach(() => {
    page.visibilityState = "visible";
    vi.unstubAllGlobals();
  });

  it("gives back what no callback uses, and keeps nothing until it is seen again", async () => {
    const here = await open();
    await here.locks.request("key", STICKY, () => {});
    becomes("hidden");
    expect(commands(here)).toEqual(["l", "r"]);
    await here.locks.request("key", STICKY, () => {});
    expect(commands(here)).toEqual(["l", "r", "l", "r"]);
    becomes("visible");
    await here.locks.request("key", STICKY, () => {});
    expect(commands(here)).toEqual(["l", "r", "l", "r", "l"]);
  });

  it("lets a running callback end, and gives its lock back then", async () => {
    const here = await open();
    const job = work();
    const asked = here.locks.request("key", STICKY, job.run);
    await settled();
    becomes("hidden");
    expect(job.lock().isHeld).toBe(true);
    job.end();
    await asked;
    expect(commands(here)).toEqual(["l", "r"]);
  });
});
