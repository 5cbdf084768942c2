/** Several keys in one request. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { connect, type KeyOptions, type Lock, type Locks } from "../../../src/client/index.ts";
import { compareKeys } from "../../../src/client/wire.ts";
import { compareBytes } from "../../../src/core/byte-order.ts";
import { CoreService } from "./core-service.ts";
import { FakeClock, settled } from "./fake-clock.ts";
import { Wire } from "./fake-network.ts";
import { freshToken, type World, world } from "./fake-service.ts";

const LEASE_S = 30;

/** The service grants every key but these at once, and confirms renewals and releases. */
function granting({ service }: World, ...taken: readonly string[]): void {
  service.reply = ({ command, key }) => {
    if (/^s?l$/.test(command)) return taken.includes(key) ? undefined : `ok ${freshToken()} ${LEASE_S}`;
    return command === "n" ? `ok ${LEASE_S}` : "ok";
  };
}

/** What was asked of the service about which key. */
const told = ({ service }: World, ...commands: readonly string[]) =>
  service.frames.filter(({ command }) => commands.includes(command)).map(({ command, key }) => `${command} ${key}`);

const failed = (asked: Promise<unknown>) =>
  asked.then(
    () => new Error("it was granted"),
    (reason) => reason,
  );

describe("a request for several keys", () => {
  it("takes them in the order of their bytes, whatever order they are given in", async () => {
    const here = await world();
    granting(here);
    // U+FF5E is before U+1F512 in UTF-8, and behind its first half in UTF-16.
    const keys = ["b", "\u{1f512}", "a/2", "Z", "\uff5e", "a", "ä", "\u0001", "a/10"];
    const sorted = ["\u0001", "Z", "a", "a/10", "a/2", "b", "ä", "\uff5e", "\u{1f512}"];
    for (const given of [keys, keys.toReversed(), sorted])
      expect(await here.locks.request(given, (locks) => locks.map(({ key }) => key))).toEqual(given);
    const taken = told(here, "l").map((line) => line.slice(2));
    expect(taken).toEqual([...sorted, ...sorted, ...sorted]);
    expect(
      sorted
        .map((key) => Buffer.from(key))
        .toSorted(Buffer.compare)
        .map(String),
    ).toEqual(sorted);
  });

  it("takes them in the order in which a Worker does", () => {
    fc.assert(
      fc.property(fc.uniqueArray(fc.string({ unit: "grapheme", minLength: 1 })), (keys) => {
        expect(keys.toSorted(compareKeys)).toEqual(keys.toSorted(compareBytes));
      }),
    );
  });

  it("asks for a key once it holds the one before it", async () => {
    const here = await world();
    const { service, locks } = here;
    const asked = locks.request(["a", "b"], ([a, b]) => [a.key, b.key, a.isHeld && b.isHeld]);
    await settled();
    expect(told(here, "l")).toEqual(["l a"]);
    await service.answer(service.last("l"), `ok ${freshToken()} ${LEASE_S}`);
    expect(told(here, "l")).toEqual(["l a", "l b"]);
    service.reply = () => "ok";
    await service.answer(service.last("l"), `ok ${freshToken()} ${LEASE_S}`);
    expect(await asked).toEqual(["a", "b", true]);
    expect(told(here, "r").toSorted()).toEqual(["r a", "r b"]);
  });

  it("takes each key on its own terms, and on those of the request where it has none", async () => {
    const here = await world();
    granting(here);
    const keys = [{ key: "tenant/7" }, { key: "api", limit: 20, lease: undefined }, here.locks.semaphore("gpu", 3)];
    await here.locks.request(keys, { limit: 2, lease: 60_000, sticky: true }, () => {});
    await here.locks.request([{ key: "db", lease: 5_000 }, "disk"], () => {});
    const frames = here.service.frames.filter(({ command }) => /^s?l$/.test(command));
    expect(frames.map(({ command, key, arg }) => [command, key, arg.replace(/^9223372036 ?/, "")])).toEqual([
      ["sl", "api", "20 60"],
      ["sl", "gpu", "3 60"],
      ["sl", "tenant/7", "2 60"],
      ["l", "db", "5"],
      ["l", "disk", ""],
    ]);
    // A client whose locks are sticky keeps none of several.
    expect(here.service.count("r") + here.service.count("sr")).toBe(5);
    await here.locks.close();
  });

  it("releases all of them when the callback throws, and its own error wins over a loss", async () => {
    const here = await world();
    granting(here);
    const error = new Error("its own");
    const asked = here.locks.request(["b", "a"], async ([, a], signal) => {
      here.service.socket.say(`! lost a ${a.token} stolen`);
      await settled();
      expect(signal.aborted).toBe(true);
      throw error;
    });
    expect(await failed(asked)).toBe(error);
    expect(told(here, "r")).toEqual(["r b"]);
  });

  it("does not care what its callback does to the list of locks", async () => {
    const here = await world();
    granting(here);
    await here.locks.request(["a", "b"] as string[], (locks) => locks.splice(0));
    expect(told(here, "r").toSorted()).toEqual(["r a", "r b"]);
  });

  it("renews what it holds while it waits for the rest", async () => {
    const here = await world();
    granting(here, "b");
    const { clock, service, locks } = here;
    const asked = locks.request(["a", "b"], ([a]) => a.isHeld);
    await clock.pass(LEASE_S * 10_000);
    const renewals = told(here, "n");
    expect(new Set(renewals)).toEqual(new Set(["n a"]));
    expect(renewals.length).toBeGreaterThanOrEqual(30);
    await service.answer(service.last("l"), `ok ${freshToken()} ${LEASE_S}`);
    expect(await asked).toBe(true);
    await locks.close();
    expect(clock.timers).toBe(0);
  });
});

describe("one of several that is lost [M14]", () => {
  it.each([0, 1])(
    "aborts the callback's signal, and the request rejects once the callback has ended (%i)",
    async (which) => {
      const here = await world();
      granting(here);
      let hasEnded = false;
      const asked = here.locks.request(["a", "b"], async (locks, signal) => {
        const lock = locks[which] as Lock;
        expect(signal.aborted).toBe(false);
        here.service.socket.say(`! lost ${lock.key} ${lock.token} expired`);
        await new Promise((resolve) => signal.addEventListener("abort", resolve));
        expect(signal.reason).toMatchObject({ name: "LockLostError", message: `${lock.key} is lost: expired` });
        expect(locks.map(({ isHeld }) => isHeld)).toEqual([which === 1, which === 0]);
        hasEnded = true;
      });
      const key = ["a", "b"][which];
      expect(await failed(asked)).toMatchObject({ name: "LockLostError", message: `${key} is lost: expired` });
      expect(hasEnded).toBe(true);
      expect(told(here, "r")).toEqual([which === 0 ? "r b" : "r a"]);
    },
  );

  it("is not a lock that is released: the signal stays as it is", async () => {
    const here = await world();
    granting(here);
    const signal = await here.locks.request(["a", "b"], async ([a], signal) => {
      expect(await a.release()).toBe(true);
      return signal;
    });
    await here.locks.close();
    expect(signal.aborted).toBe(false);
  });

  it("while another is waited for ends the wait: the rest is given back", async () => {
    const here = await world();
    granting(here, "c");
    const { service, locks } = here;
    const tokens: string[] = [];
    const { reply } = service;
    service.reply = (frame) => {
      const answer = reply(frame);
      if (frame.command === "l" && answer) tokens.push(answer.split(" ")[1] ?? "");
      return answer;
    };
    const asked = failed(locks.request(["a", "b", "c"], () => expect.fail("ran without all locks")));
    await settled();
    service.socket.say(`! lost a ${tokens[0]} stolen`);
    expect(await asked).toMatchObject({ name: "LockLostError", reason: "stolen", message: "a is lost: stolen" });
    expect(told(here, "r")).toEqual(["r b"]);
    // The claim on the last key is withdrawn, and given back if it was granted in that moment.
    const waiting = service.last("l");
    expect(service.last("cancel").arg).toBe(waiting.tag);
    const token = freshToken();
    await service.answer(waiting, `ok ${token} ${LEASE_S}`);
    expect(service.last("r")).toMatchObject({ key: "c", arg: token });
  });

  it("in the very moment in which it is granted counts too", async () => {
    const here = await world();
    const { service, locks } = here;
    const asked = failed(locks.request(["a", "b"], () => expect.fail("ran without all locks")));
    await settled();
    const token = freshToken();
    service.socket.say(`@${service.last("l").tag} ok ${token} ${LEASE_S}`);
    service.socket.say(`! lost a ${token} stolen`);
    expect(await asked).toMatchObject({ reason: "stolen" });
    // The next one may have been asked for already, and is withdrawn then.
    expect(service.count("cancel")).toBe(service.count("l") - 1);
  });

  it("by its clock, while the machine slept, is lost before the callback could run", async () => {
    const here = await world();
    granting(here, "b");
    const { clock, service, locks } = here;
    const asked = failed(locks.request(["a", "b"], () => expect.fail("ran without all locks")));
    await settled();
    clock.sleep(LEASE_S * 1_000);
    await service.answer(service.last("l"), `ok ${freshToken()} ${LEASE_S}`);
    expect(await asked).toMatchObject({ name: "LockLostError", message: "a is lost: expired" });
    expect(told(here, "r")).toContain("r b");
  });

  it("because its `maxHold` is over while another is waited for", async () => {
    const here = await world();
    granting(here, "b");
    const asked = failed(here.locks.request(["a", "b"], { maxHold: 2_000 }, () => expect.fail("ran")));
    await here.clock.pass(2_000);
    expect(await asked).toMatchObject({ message: "a is lost: expired" });
    expect(told(here, "r", "cancel").toSorted()).toEqual(["cancel _", "r a"]);
  });
});

describe("a request for several keys that are not all to be had", () => {
  it("has one timeout for all of them, and gives back what it has", async () => {
    const here = await world();
    const { clock, service, locks } = here;
    const asked = failed(locks.request(["c", "b", "a"], { timeout: 1_000 }, () => expect.fail("ran")));
    let isOver = false;
    void asked.then(() => {
      isOver = true;
    });
    await clock.pass(400);
    await service.answer(service.last("l"), `ok ${freshToken()} ${LEASE_S}`);
    await clock.pass(400);
    await service.answer(service.last("l"), `ok ${freshToken()} ${LEASE_S}`);
    service.reply = ({ command }) => (command === "r" ? "ok" : undefined);
    await clock.pass(199);
    expect([isOver, told(here, "l", "r")]).toEqual([false, ["l a", "l b", "l c"]]);
    await clock.pass(1);
    expect(await asked).toMatchObject({
      name: "AcquireTimeoutError",
      code: "timeout",
      message: "c was not free within 1000 ms",
    });
    expect(told(here, "r").toSorted()).toEqual(["r a", "r b"]);
    expect(service.last("cancel").arg).toBe(service.last("l").tag);
  });

  it("does not wait for any of them with a timeout of 0", async () => {
    const here = await world();
    const { service, locks } = here;
    service.reply = ({ command, key }) => {
      if (command === "l") return key === "b" ? "timeout" : `ok ${freshToken()} ${LEASE_S}`;
      return "ok";
    };
    const error = await failed(locks.request(["a", "b", "c"], { timeout: 0 }, () => expect.fail("ran")));
    expect(error).toMatchObject({ code: "timeout", message: "b was not free within 0 ms" });
    expect(told(here, "l", "r")).toEqual(["l a", "l b", "r a"]);
    expect(service.last("l").arg).toBe("0");
  });

  it.each([
    ["error_auth", "AuthError"],
    ["error_max_waiters", "CapacityError"],
    ["error_draining", "DrainingError"],
  ])("gives back what it has, and rejects as for one key: %s", async (word, name) => {
    const here = await world();
    here.service.reply = ({ command, key }) => {
      if (command === "l") return key === "b" ? word : `ok ${freshToken()} ${LEASE_S}`;
      return "ok";
    };
    expect(await failed(here.locks.request(["b", "a"], () => expect.fail("ran")))).toMatchObject({ name });
    expect(told(here, "r")).toEqual(["r a"]);
  });

  it("is told in time without a connection, and gives back what it had once there is one", async () => {
    const here = await world();
    granting(here, "b");
    const { clock, service, locks } = here;
    const asked = failed(locks.request(["a", "b"], { timeout: 2_000 }, () => expect.fail("ran")));
    await clock.pass(1_000);
    service.welcome = "unreachable";
    service.socket.lose();
    const late = Promise.race([
      asked,
      clock
        .pass(1_000)
        .then(() => clock.pass(10))
        .then(() => "late"),
    ]);
    expect(await late).toMatchObject({
      code: "timeout",
      message: "b was not reached within 2000 ms: closed with code 1006",
    });
    service.welcome = "session";
    await clock.pass(2_000);
    expect(told(here, "r")).toContain("r a");
  });

  it("ends with the reason of its signal, and gives back what it has", async () => {
    const here = await world();
    granting(here, "b");
    const stop = new AbortController();
    const asked = failed(here.locks.request(["a", "b"], { signal: stop.signal }, () => expect.fail("ran")));
    await settled();
    stop.abort("enough");
    expect(await asked).toBe("enough");
    expect(told(here, "cancel", "r")).toEqual(["cancel _", "r a"]);
  });

  it("asks for nothing if its signal had aborted before; one that aborts later leaves the locks alone", async () => {
    const here = await world();
    granting(here);
    const signal = AbortSignal.abort("early");
    expect(await failed(here.locks.request(["a", "b"], { signal }, () => expect.fail("ran")))).toBe("early");
    expect(here.service.frames).toEqual([]);
    const stop = new AbortController();
    await here.locks.request(["a", "b"], { signal: stop.signal }, async ([a, b], lost) => {
      stop.abort("late");
      await settled();
      expect([a.isHeld, b.isHeld, lost.aborted]).toEqual([true, true, false]);
    });
  });

  it("ends when the client is closed, like one for a single key", async () => {
    const here = await world();
    granting(here, "b");
    const asked = failed(here.locks.request(["a", "b"], () => expect.fail("ran")));
    await settled();
    await here.locks.close();
    expect(["ConnectionError", "LockLostError"]).toContain((await asked).name);
    expect(here.clock.timers).toBe(0);
  });
});

describe("a list of keys that is not valid is refused before anything is sent", () => {
  const wrong = (value: unknown) => value as never;
  const sixteen = Array.from({ length: 16 }, (_, index) => `key-${index}`);

  it.each<[string, new (text: string) => Error, (locks: Locks) => Promise<unknown>]>([
    ["request: keys must be 1 to 16 in number, not 0", RangeError, (locks) => locks.request([], () => {})],
    [
      "request: keys must be 1 to 16 in number, not 17",
      RangeError,
      (locks) => locks.request([...sixteen, "one more"], () => {}),
    ],
    ['request: key "a" is given twice', TypeError, (locks) => locks.request(["a", "b", "a"], () => {})],
    [
      'request: key "a" is given twice',
      TypeError,
      (locks) => locks.request([{ key: "a", limit: 2 }, "b", { key: "a", limit: 3 }], () => {}),
    ],
    [
      'request: key must be 1 to 256 bytes without blanks, not "a b"',
      TypeError,
      (locks) => locks.request(["a", "a b"], () => {}),
    ],
    [
      "request: key must be 1 to 256 bytes without blanks, not null",
      TypeError,
      (locks) => locks.request(["a", wrong(null)], () => {}),
    ],
    [
      "request: key must be 1 to 256 bytes without blanks, not undefined",
      TypeError,
      (locks) => locks.request(["a", wrong({ limit: 3 })], () => {}),
    ],
    [
      'request of a key: option "limit" must be a whole number from 1 to 1048576, not 0',
      RangeError,
      (locks) => locks.request(["a", { key: "b", limit: 0 }], () => {}),
    ],
    [
      'request of a key: option "timeout" is not known; known are: lease, limit, maxHold',
      TypeError,
      (locks) => locks.request([wrong({ key: "a", timeout: 5 })], () => {}),
    ],
    [
      'request: option "wait" is not known; known are: lease, limit, maxHold, maxIdle, signal, steal, sticky, timeout',
      TypeError,
      (locks) => locks.request(["a"], wrong({ wait: 5 }), () => {}),
    ],
    [
      'request: option "steal" is for one key: what it took cannot be given back',
      TypeError,
      (locks) => locks.request(["a", "b"], wrong({ steal: true }), () => {}),
    ],
    [
      "request: callback must be a function, not undefined",
      TypeError,
      (locks) => locks.request(["a"], {}, wrong(undefined)),
    ],
  ])("%s", async (message, type, call) => {
    const here = await world();
    granting(here);
    const error = await failed(call(here.locks));
    expect(error).toBeInstanceOf(type);
    expect(error.message).toBe(message);
    expect(here.service.frames).toEqual([]);
    // Sixteen are not too many, and the client goes on.
    expect(await here.locks.request(sixteen, (locks) => locks.length)).toBe(16);
    await here.locks.close();
    expect(here.clock.timers).toBe(0);
  });
});

/** A generator of numbers below 1, the same for the same seed. */
function randomFrom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state * 1_103_515_245 + 12_345) % 2 ** 31;
    return state / 2 ** 31;
  };
}

it.each([1, 2, 3])(
  "clients that want the same keys in different orders take turns for ever, on the service's own core [M13] (seed %i)",
  async (seed) => {
    const random = randomFrom(seed);
    const clock = new FakeClock();
    const service = new CoreService(clock);
    const travelling: (() => void)[] = [];
    const clientOf = (name: string) => {
      const { WebSocket } = new Wire(service, name, (_, arrive) => travelling.push(arrive));
      return connect("ws://service", { clock, WebSocket });
    };
    const inside = new Map<string, number>();
    const enter = (keys: readonly string[]) => {
      for (const key of keys) inside.set(key, (inside.get(key) ?? 0) + 1);
      expect(Math.max(...inside.values())).toBe(1);
    };
    const leave = (keys: readonly string[]) => {
      for (const key of keys) inside.set(key, 0);
    };
    const rounds = 200;
    let done = 0;
    const work = async (name: string, ...orders: readonly (readonly (string | KeyOptions)[])[]) => {
      const locks = clientOf(name);
      for (let round = 0; round < rounds; round += 1) {
        const order = orders[round % orders.length] ?? [];
        await locks.request(order, async (held, signal) => {
          const keys = held.map(({ key }) => key);
          enter(keys);
          for (let pause = Math.floor(random() * 4); pause > 0; pause -= 1) await settled();
          expect([held.every(({ isHeld }) => isHeld), signal.aborted]).toEqual([true, false]);
          leave(keys);
        });
        done += 1;
      }
      void locks.close();
    };
    const all = Promise.all([
      work("ada", ["a", "b"]),
      work("bob", ["b", "a"]),
      work("eve", ["b", { key: "c" }], ["c", "a"]),
    ]);
    let isOver = false;
    void all.finally(() => {
      isOver = true;
    });
    for (let last = -1, idle = 0; !isOver; ) {
      if (travelling.length > 0) travelling.splice(Math.floor(random() * travelling.length), 1)[0]?.();
      await settled();
      // Nothing is under way, and nobody gets on: that is a deadlock.
      idle = done === last ? idle + 1 : 0;
      last = done;
      if (idle > 5_000) throw new Error(`nobody gets on after ${done} rounds`);
    }
    await all;
    expect(done).toBe(3 * rounds);
    for (const key of ["a", "b", "c"])
      expect(service.engineOf(key).view({ detail: true })).toMatchObject({ holderCount: 0, waiters: 0 });
  },
);
