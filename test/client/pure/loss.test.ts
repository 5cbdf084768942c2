import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ConnectionError, LockLostError, type Locks, webLocks } from "../../../src/client/index.ts";
import { settled } from "./fake-clock.ts";
import { CREDENTIAL, freshToken, held, world } from "./fake-service.ts";

const unhandled: unknown[] = [];
const note = (reason: unknown) => unhandled.push(reason);
beforeAll(() => process.on("unhandledRejection", note));
afterAll(() => {
  process.off("unhandledRejection", note);
  expect(unhandled).toEqual([]);
});

describe("a loss", () => {
  it.each(["key", "a\u3000b"])("that is read in one go with its grant is told as well (%s)", async (key) => {
    const { service, locks } = await world();
    const token = freshToken();
    const asked = locks.acquire(key);
    await settled();
    const [frame] = service.frames.slice(-1);
    if (!frame) throw new Error("nothing was asked");
    void service.answer(frame, `ok ${token} 33`);
    service.socket.say(`! lost ${key} ${token} stolen`);
    const lock = await asked;
    expect((await lock.lost).reason).toBe("stolen");
    expect(lock.isHeld).toBe(false);
  });

  it.each([
    ["expired", "expired"],
    ["released", "released"],
    ["stolen", "stolen"],
    ["a-word-of-the-future", "stolen"],
  ])("that the service calls %s is told as %s, by signal and promise, once", async (word, reason) => {
    const here = await world();
    const lock = await held(here);
    const told: unknown[] = [];
    lock.signal.addEventListener("abort", () => told.push(lock.signal.reason));
    here.service.socket.say(`! lost key ${lock.token} ${word}`);
    here.service.socket.say(`! lost key ${lock.token} expired`);
    await here.clock.pass(60_000);
    const error = await lock.lost;
    expect(told).toEqual([error]);
    expect(error).toBeInstanceOf(LockLostError);
    expect(error).toMatchObject({ code: "lost", reason });
    expect(lock.isHeld).toBe(false);
  });

  it("is told when a renewal is refused, and the reason that was told first stays", async () => {
    const here = await world();
    const refused = await held(here);
    await here.clock.pass(10_000);
    await here.service.answer(here.service.last("n"), "error");
    // Nobody knows: it is not believed in, but not told lost either.
    expect(refused.isHeld).toBe(false);
    expect(refused.signal.aborted).toBe(false);
    await here.service.answer(here.service.last("n"), "error");
    expect((await refused.lost).reason).toBe("expired");
    const stolen = await held(here);
    await here.clock.pass(10_000);
    here.service.socket.say(`! lost key ${stolen.token} stolen`);
    await here.service.answer(here.service.last("n"), "error");
    expect((await stolen.lost).reason).toBe("stolen");
  });

  it("is not made of one failure of the service: the lock asks again", async () => {
    const here = await world();
    const lock = await held(here);
    await here.clock.pass(10_000);
    await here.service.answer(here.service.last("n"), "error");
    await here.service.answer(here.service.last("n"), "ok 30");
    expect(here.service.count("n")).toBe(2);
    await here.clock.pass(9_000);
    expect(lock.isHeld).toBe(true);
    expect(lock.signal.aborted).toBe(false);
  });

  it("of one lock leaves the others as they are", async () => {
    const here = await world();
    const [first, second] = [await held(here), await held(here)];
    here.service.socket.say(`! lost key ${first.token} stolen`);
    await settled();
    expect([first.isHeld, second.isHeld]).toEqual([false, true]);
  });

  it("that comes after the release is not told", async () => {
    const here = await world();
    const lock = await held(here);
    const released = lock.release();
    here.service.socket.say(`! lost key ${lock.token} expired`);
    await here.service.answer(here.service.last("r"), "error");
    expect(await released).toBe(false);
    expect(lock.signal.aborted).toBe(false);
  });

  it("that nobody listens to harms nobody", async () => {
    const here = await world();
    await held(here);
    await here.clock.pass(60_000);
    await here.locks.close();
  });
});

describe("a release", () => {
  it("resolves at once after a loss, and asks nothing of the service", async () => {
    const here = await world();
    const lock = await held(here);
    here.service.socket.say(`! lost key ${lock.token} stolen`);
    await settled();
    expect(await lock.release()).toBe(false);
    expect(here.service.count("r")).toBe(0);
  });

  it("is sent once, however often it is called, and stops the renewing", async () => {
    const here = await world();
    const lock = await held(here);
    const [first, second] = [lock.release(), lock.release()];
    await settled();
    await here.service.answer(here.service.last("r"), "ok");
    expect([await first, await second, await lock.release()]).toEqual([true, true, true]);
    await here.clock.pass(60_000);
    expect([here.service.count("r"), here.service.count("n")]).toEqual([1, 0]);
  });

  it("is over after five seconds without an answer", async () => {
    const here = await world();
    const lock = await held(here);
    const released = lock.release();
    await here.clock.pass(4_900);
    expect(await Promise.race([released, settled()])).toBeUndefined();
    await here.clock.pass(200);
    expect(await released).toBe(false);
  });

  it("asked for while there is no connection is sent on the next one", async () => {
    const here = await world();
    const lock = await held(here);
    here.service.socket.lose();
    const released = lock.release();
    await here.clock.pass(500);
    expect(here.service.last("r")).toMatchObject({ arg: lock.token });
    await here.service.answer(here.service.last("r"), "ok");
    expect(await released).toBe(true);
  });

  it("that was carried out, but whose answer was lost with the connection, counts", async () => {
    const here = await world();
    const lock = await held(here);
    const released = lock.release();
    await settled();
    here.service.socket.lose();
    await here.clock.pass(500);
    expect(here.service.count("r")).toBe(2);
    await here.service.answer(here.service.last("r"), "error");
    expect(await released).toBe(true);
  });
});

describe("a request with a callback", () => {
  const granting = async () => {
    const here = await world();
    let token = 0;
    here.service.reply = ({ command }) => {
      token += 1;
      return command === "l" ? `ok ${String(token).padStart(32, "0")} 30` : "ok";
    };
    return here;
  };

  it("gives the lock back and passes on what the callback gives", async () => {
    const { service, locks } = await granting();
    expect(await locks.request("key", async () => 42)).toBe(42);
    expect(await locks.request("key", { lease: 5_000 }, () => "plain")).toBe("plain");
    expect(service.count("r")).toBe(2);
  });

  it("passes on the callback's error, also when the release fails too", async () => {
    const { service, locks } = await granting();
    const failing = locks.request("key", () => {
      service.reply = () => "error";
      throw new RangeError("the callback's own");
    });
    await expect(failing).rejects.toThrow("the callback's own");
    expect(service.count("r")).toBe(1);
  });

  describe.each([
    ["of the client", (locks: Locks) => (run: () => unknown) => locks.request("key", run)],
    ["of a semaphore", (locks: Locks) => (run: () => unknown) => locks.mutex("key").request(run)],
    ["in the shape of Web Locks", (locks: Locks) => (run: () => unknown) => webLocks(locks).request("key", run)],
  ])("%s", (_, requestOf) => {
    /** A request whose lock is stolen while its callback runs, and the end of that. */
    const robbed = async () => {
      const { service, locks } = await granting();
      const { promise: ended, resolve: end, reject: fail } = Promise.withResolvers<unknown>();
      let isSettled = false;
      const outcome = requestOf(locks)(() => ended)
        .catch((error: unknown) => error)
        .finally(() => {
          isSettled = true;
        });
      await settled();
      service.socket.say(`! lost key ${"1".padStart(32, "0")} stolen`);
      await settled();
      expect(isSettled).toBe(false);
      return { service, outcome, end, fail };
    };

    it("rejects with the loss of its lock, once the callback has ended", async () => {
      const { service, outcome, end } = await robbed();
      end("done");
      const error = await outcome;
      expect(error).toBeInstanceOf(LockLostError);
      expect(error).toMatchObject({ code: "lost", reason: "stolen", message: "key is lost: stolen" });
      expect(service.count("r")).toBe(0);
    });

    it("rejects with what the callback throws, also after a loss", async () => {
      const { outcome, fail } = await robbed();
      const own = new RangeError("the callback's own");
      fail(own);
      expect(await outcome).toBe(own);
    });
  });

  it("is not ended by the loss of the lock: the callback goes on, and is told", async () => {
    const { service, locks } = await granting();
    const told: unknown[] = [];
    const result = locks.request("key", async (lock) => {
      service.socket.say(`! lost key ${lock.token} stolen`);
      told.push((await lock.lost).reason, lock.signal.aborted);
    });
    await expect(result).rejects.toBeInstanceOf(LockLostError);
    expect(told).toEqual(["stolen", true]);
  });

  it.each([
    ["confirms that it was held", "ok", "done"],
    ["does not know it any more", "error", "key is lost: expired"],
  ])("whose lease ran out unnoticed believes the service, which %s", async (_, answer, expected) => {
    const { clock, service, locks } = await granting();
    const result = locks
      .request("key", async () => {
        // The callback keeps the thread, so no timer runs.
        clock.sleep(31_000);
        service.reply = () => answer;
        return "done";
      })
      .catch((error: Error) => error.message);
    expect(await result).toBe(expected);
  });

  it("rejects with a loss that was still on its way when the callback ended", async () => {
    const { service, locks } = await granting();
    const result = locks.request("key", async (lock) => {
      service.reply = ({ command }) => {
        service.socket.say(`! lost key ${lock.token} stolen`);
        return command === "r" ? "error" : undefined;
      };
    });
    await expect(result).rejects.toMatchObject({ code: "lost", reason: "stolen" });
  });

  it.each([
    ["works when it is asked for again", ["error", "ok"]],
    ["fails and is then not answered", ["error", undefined]],
    ["is not answered", [undefined]],
  ])("whose release %s has lost nothing", async (_, replies) => {
    const { clock, service, locks } = await granting();
    const result = locks.request("key", () => {
      service.reply = () => replies.shift();
      return "done";
    });
    await clock.pass(5_000);
    expect(await result).toBe("done");
    expect(replies).toEqual([]);
  });

  it("that released its lock itself has lost nothing, even if nobody answers", async () => {
    const { clock, service, locks } = await granting();
    const result = locks.request("key", async (lock) => {
      service.reply = () => undefined;
      void lock.release();
      return "done";
    });
    await clock.pass(5_000);
    expect(await result).toBe("done");
  });

  it("gives the lock back with `await using`", async () => {
    const { service, locks } = await granting();
    {
      await using lock = await locks.acquire("key");
      expect(lock.isHeld).toBe(true);
    }
    expect(service.count("r")).toBe(1);
  });
});

describe("a closed client", () => {
  it("has lost its locks and says so, rejects what is under way and what comes after, and leaves no timer", async () => {
    const here = await world();
    const lock = await held(here);
    const waiting = here.locks.acquire("other").catch((error) => error);
    const seen: string[] = [];
    const watching = (async () => {
      for await (const status of here.locks.statuses()) seen.push(status);
    })();
    await settled();
    await here.locks.close();
    expect(here.service.socket.closedWith).toBe(1000);
    expect((await lock.lost).reason).toBe("disconnected");
    expect(await waiting).toBeInstanceOf(ConnectionError);
    await expect(here.locks.acquire("key")).rejects.toBeInstanceOf(ConnectionError);
    await expect(here.locks.query("key")).rejects.toBeInstanceOf(ConnectionError);
    await watching;
    expect(seen).toEqual(["connected", "closed"]);
    await here.locks.closed;
    expect(here.clock.timers).toBe(0);
  });

  it("takes its session up once more to leave it, if there is no connection at that moment", async () => {
    const here = await world();
    const lock = await held(here);
    here.service.socket.lose();
    await settled();
    await here.locks.close();
    expect((await lock.lost).reason).toBe("disconnected");
    expect(here.service.sockets).toHaveLength(2);
    expect(here.service.socket.protocols).toContain(`holdfast.resume.${CREDENTIAL}`);
    expect(here.service.socket.closedWith).toBe(1000);
    expect(here.clock.timers).toBe(0);
  });

  it("leaves on the connection that is just being made", async () => {
    const here = await world();
    here.service.welcome = "silence";
    here.service.socket.lose();
    await here.clock.pass(150);
    const closed = here.locks.close();
    here.service.welcome = "session";
    here.service.socket.open();
    await closed;
    expect(here.service.sockets).toHaveLength(2);
    expect(here.service.socket.closedWith).toBe(1000);
    expect(here.clock.timers).toBe(0);
  });

  it.each([
    ["unreachable", 0],
    ["gone", 0],
    ["silence", 5_000],
  ] as const)("does not insist when the service is %s", async (welcome, ms) => {
    const here = await world();
    here.service.welcome = welcome;
    here.service.socket.lose();
    await settled();
    const closed = here.locks.close();
    await here.clock.pass(ms);
    await closed;
    await here.clock.pass(60_000);
    expect(here.service.sockets).toHaveLength(2);
    expect(here.clock.timers).toBe(0);
  });

  it("is closed after five seconds even if the service does not answer", async () => {
    const here = await world();
    here.service.socket.isBlackHole = true;
    const closed = here.locks.close();
    await here.clock.pass(5_100);
    await closed;
    expect(here.clock.timers).toBe(0);
  });
});
