/** Workers that use the service by a service binding: the service and its callers are different Workers of one workerd. */
import { rmSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { GrantDetail } from "../../src/reports/key-detail.ts";
import { startWorker, type TestWorker } from "../support/cloudflare-server.ts";
import { type HttpExchange, startRequest } from "../support/http-client.ts";
import { poll, sleep } from "../support/poll.ts";
import { storageFolder } from "../support/storage.ts";
import { TcpClient } from "../support/wire-client.ts";
import { bundleWorker } from "../support/worker.ts";
import type { Neighbour } from "../support/workerd.ts";

const CALLER = fileURLToPath(new URL("../cloudflare/locks/caller.ts", import.meta.url));
/** Longer than any test: what ends within it does not end by its lease. */
const LONG_MS = 600_000;
const DEADLINE_MS = 20_000;
/** An answer, given a machine that does other things. */
const REPLY_WITHIN_MS = 55_000;

interface Acquired {
  readonly key: string;
  readonly token: string;
  readonly fence: string;
  readonly lease: number;
  readonly expiresAt: number;
}

interface Described {
  readonly kind: string;
  readonly limit: number;
  readonly holders: number;
  readonly waiters: number;
  readonly held_by: readonly { readonly label?: string; readonly protocol?: string; readonly fence: string }[];
  readonly queue: readonly { readonly label?: string; readonly protocol?: string }[];
}

interface Grant {
  readonly fence: string;
  /** By the key's clock, which is the machine's; undefined while the key is held. */
  readonly endedAt?: number;
}

/** What a caller answers: a result, or the error that its call was rejected with. */
interface Answer {
  readonly result?: unknown;
  readonly name?: string;
  readonly message?: string;
  readonly isType?: boolean;
  readonly isRange?: boolean;
}

/** How a Worker may get at locks. Two callers use each way. */
const WAYS = ["a service binding", "locks() with a service binding", "locks() with LockKey"] as const;
type Way = (typeof WAYS)[number];
type CallerName = "one" | "two" | "orders" | "reader" | "typo" | "legacy";

const folder = storageFolder();
const script = join(folder, "caller.js");
let service: TestWorker;

const COUNTER = { service: "one", entrypoint: "Counter" };

function caller(name: CallerName, props?: object, compatibilityFlags: readonly string[] = []): Neighbour {
  const LOCKS = { service: "main", entrypoint: "Locks", props };
  return {
    name,
    script,
    compatibilityFlags,
    objects: [],
    variables: { IS_PLAIN: "yes" },
    services: { LOCKS, COUNTER },
  };
}

const wrapped = (name: string): Neighbour => ({
  name,
  script,
  compatibilityFlags: [],
  objects: [],
  services: { LOCKS: { service: "main", entrypoint: "Locks" }, COUNTER },
});

/** The variables are the caller's own: what the service would make of them is not asked. */
const withOwnKeys = (name: string, script_name?: string): Neighbour => ({
  name,
  script,
  compatibilityFlags: [],
  objects: [{ name: "LOCK_KEY", class_name: "LockKey", ...(script_name !== undefined && { script_name }) }],
  variables: { DEBUG: "of my own", MAX_LOCKS: "none", AUTH_TOKEN: "" },
  services: { COUNTER },
});

/** Callers whose `wrangler.toml` is wrong. */
const MISTAKEN: readonly Neighbour[] = [
  { ...withOwnKeys("unbound"), objects: [] },
  { ...withOwnKeys("another class"), objects: [{ name: "LOCK_KEY", class_name: "Other" }] },
  { ...withOwnKeys("no migration"), objects: [{ name: "LOCK_KEY", class_name: "LockKey", has_no_sql: true }] },
  { ...withOwnKeys("another entrypoint"), objects: [], services: { COUNTER, LOCKS: COUNTER } },
];

/** The names of the callers, by way. */
const CALLERS: Readonly<Record<Way, Readonly<Record<"one" | "two", string>>>> = {
  "a service binding": { one: "one", two: "two" },
  "locks() with a service binding": { one: "wrapped", two: "wrapped too" },
  "locks() with LockKey": { one: "own", two: "own too" },
};

const start = (variables: Readonly<Record<string, string>> = {}) =>
  startWorker({
    variables,
    neighbours: [
      caller("one"),
      caller("two"),
      caller("orders", { keys: ["orders/*", "menu"] }),
      caller("reader", { readOnly: true }),
      caller("typo", { readonly: true }),
      caller("legacy", undefined, ["legacy_error_serialization"]),
      wrapped("wrapped"),
      wrapped("wrapped too"),
      withOwnKeys("own"),
      withOwnKeys("own too", "own"),
      ...MISTAKEN,
    ],
  });

beforeAll(async () => {
  await bundleWorker(CALLER, script);
  service = await start();
});

afterAll(async () => {
  await service?.stop();
  rmSync(folder, { recursive: true, force: true });
});

let keys = 0;
const newKey = () => `binding-${++keys}`;

/** The callers of one way, and what the tests have them do. */
function callersOf(way: Way) {
  const send = (name: CallerName, path: string, asked: object, to = service): HttpExchange => {
    const known: Readonly<Record<string, string>> = CALLERS[way];
    const exchange = startRequest(
      to.portOf(known[name] ?? name),
      { method: "POST", path, body: JSON.stringify(asked) },
      REPLY_WITHIN_MS,
    );
    // Some are reset on purpose.
    exchange.reply.catch(() => {});
    return exchange;
  };
  const ask = (name: CallerName, call: string, args: readonly unknown[], to = service) =>
    answerOf(send(name, "/call", { call, args }, to));
  const acquire = (key: string, options: object = {}, name: CallerName = "one") =>
    resultOf(ask(name, "acquire", [key, options])) as Promise<Acquired | null>;
  const release = (key: string, token: string, name: CallerName = "one") =>
    resultOf(ask(name, "release", [key, token]));
  const describeKey = (key: string) => resultOf(ask("one", "describe", [key])) as Promise<Described | null>;
  const held = async (key: string, options: object = {}, name: CallerName = "one"): Promise<Acquired> => {
    const acquired = await acquire(key, { timeout: 0, lease: LONG_MS, ...options }, name);
    if (!acquired) throw new Error(`${key} is not free`);
    return acquired;
  };
  const until = (what: string, key: string, isSo: (described: Described | null) => boolean, withinMs = DEADLINE_MS) =>
    poll(what, withinMs, async () => (isSo(await describeKey(key)) ? true : undefined));
  const waiters = (key: string, count: number) =>
    until(`${count} waiters of ${key}`, key, (described) => described?.waiters === count);
  /** All grants of a key. */
  const grantsOf = async (key: string): Promise<readonly Grant[]> => {
    if (way === "locks() with LockKey") return (await resultOf(answerOf(send("one", "/history", { key })))) as Grant[];
    const reply = await fetch(`http://127.0.0.1:${service.httpPort}/v1/keys/${key}?history=true`);
    const { history } = (await reply.json()) as { history: { grants: readonly GrantDetail[] } };
    return history.grants.map(({ fence, granted_at, held_s }) => ({
      fence,
      ...(held_s !== undefined && { endedAt: Date.parse(granted_at) + held_s * 1000 }),
    }));
  };
  return { send, ask, acquire, release, describeKey, held, until, waiters, grantsOf };
}

async function answerOf({ reply }: HttpExchange): Promise<Answer> {
  return JSON.parse((await reply).body) as Answer;
}

async function resultOf(answering: Promise<Answer>): Promise<unknown> {
  const { result, message } = await answering;
  if (message !== undefined) throw new Error(message);
  return result;
}

describe.each(WAYS)("over %s,", (way) => {
  const { send, ask, acquire, release, describeKey, held, until, waiters, grantsOf } = callersOf(way);

  describe("two Workers that contend for a key [W1]", () => {
    it("are granted it one at a time, in the order in which they asked, with rising fences", async () => {
      const key = newKey();
      const first = await held(key);
      const order: string[] = [];
      const fences = [first.fence];
      const waiting = (["two", "one", "two"] as const).map(async (name, index) => {
        // Each asks once the one before it is in the queue.
        await waiters(key, index);
        const acquired = await acquire(key, { timeout: 50_000, lease: LONG_MS, label: `${name} ${index}` }, name);
        order.push(`${name} ${index}`);
        fences.push(acquired?.fence ?? "");
        const described = await describeKey(key);
        expect(described?.held_by.map(({ label }) => label)).toEqual([`${name} ${index}`]);
        expect(await release(key, acquired?.token ?? "", name)).toBe(true);
      });
      await waiters(key, 3);
      expect(await release(key, first.token)).toBe(true);
      await Promise.all(waiting);
      expect(order).toEqual(["two 0", "one 1", "two 2"]);
      expect(fences).toEqual(fences.toSorted());
      expect(new Set(fences).size).toBe(4);
    });

    it("are told how long they may count on it, by their own clock", async () => {
      const key = newKey();
      const before = Date.now();
      const acquired = await held(key, { lease: 90_000 });
      expect(acquired).toEqual({
        key,
        token: expect.stringMatching(/^[0-9a-f]{32}$/),
        fence: acquired.token.slice(0, 16),
        lease: 90_000,
        expiresAt: expect.any(Number),
      });
      expect(acquired.expiresAt).toBeGreaterThanOrEqual(before + 90_000);
      expect(acquired.expiresAt).toBeLessThanOrEqual(Date.now() + 90_000);
      const waiting = acquire(key, { timeout: 50_000, lease: 90_000 }, "two");
      await waiters(key, 1);
      const releasedAt = Date.now();
      await release(key, acquired.token);
      const { expiresAt = 0 } = (await waiting) ?? {};
      // Whatever the way took: the bound is on the safe side, and not far from the truth.
      expect(expiresAt).toBeLessThanOrEqual(Date.now() + 90_000);
      expect(expiresAt).toBeGreaterThan(releasedAt + 60_000);
    });
  });

  describe("a Worker that does not want to wait", () => {
    it("gets null at once if the key is held [W2]", async () => {
      const key = newKey();
      await held(key);
      expect(await acquire(key, { timeout: 0 }, "two")).toBe(null);
      expect(await describeKey(key)).toMatchObject({ holders: 1, waiters: 0 });
    });

    it("gets null when its time has passed, and leaves the queue", async () => {
      const key = newKey();
      await held(key);
      expect(await acquire(key, { timeout: 200 }, "two")).toBe(null);
      expect(await describeKey(key)).toMatchObject({ holders: 1, waiters: 0 });
    });

    it("is told a timeout by `request`, and its callback does not run", async () => {
      const key = newKey();
      await held(key);
      const asked = { key, options: { timeout: 100 }, does: "throw" };
      const { message } = await answerOf(send("two", "/request", asked));
      expect(message).toBe(`LockTimeoutError: key "${key}" was not free within 100 ms`);
    });
  });

  describe("a Worker that is cancelled", () => {
    it.each(["/call", "/request"])(
      "while it waits gives up its place, and is never granted the key [W3] (%s)",
      async (path) => {
        const key = newKey();
        const { token, fence } = await held(key);
        const options = { timeout: 60_000, lease: LONG_MS };
        const asked = path === "/call" ? { call: "acquire", args: [key, options] } : { key, options, does: "hold" };
        const waiting = send("two", path, asked);
        await waiters(key, 1);
        waiting.reset();
        await waiters(key, 0);
        const next = acquire(key, { timeout: 50_000 });
        await waiters(key, 1);
        await release(key, token);
        await next;
        expect((await grantsOf(key)).map((grant) => grant.fence)).toEqual([fence, (await next)?.fence]);
      },
    );

    it("in the middle of `request` releases the lock within a second, however long its lease [W4]", async () => {
      const key = newKey();
      const running = send("two", "/request", { key, options: { lease: LONG_MS }, does: "hold" });
      await until("the lock", key, (described) => described?.holders === 1);
      running.reset();
      // Whatever the runtime answers now, it has heard of the reset before: a busy machine is late with both.
      await describeKey(key);
      const heardAt = Date.now();
      await until("the release", key, (described) => described?.holders === 0);
      const [{ endedAt = Number.POSITIVE_INFINITY } = {}] = await grantsOf(key);
      expect(endedAt - heardAt).toBeLessThan(1_000);
      expect(await acquire(key, { timeout: 0 })).not.toBe(null);
    });

    it("or that ends without waiting for its `request`, releases the lock too", async () => {
      const key = newKey();
      const { result } = await answerOf(send("two", "/leave", { key, options: { lease: LONG_MS }, does: "hold" }));
      expect(result).toBe("left");
      await until("the release", key, (described) => described?.holders === 0);
    });
  });

  describe("`request`", () => {
    it("gives its callback the lock, and its caller what the callback returns", async () => {
      const key = newKey();
      const { result } = await answerOf(send("one", "/request", { key, does: "show" }));
      const { token } = result as Acquired;
      expect(result).toEqual({ key, token, fence: token.slice(0, 16), expiresAt: expect.any(Number), isHeld: true });
      expect(await describeKey(key)).toMatchObject({ holders: 0 });
      expect(await release(key, token)).toBe(false);
    });

    it("passes on a Response with its body", async () => {
      const reply = await send("one", "/request", { key: newKey(), does: "stream" }).reply;
      expect([reply.body, reply.headers["x-fence"]]).toEqual([
        "a long answer",
        expect.stringMatching(/^[0-9a-f]{16}$/),
      ]);
    });

    it("releases when its callback throws, and its caller gets that error [W5]", async () => {
      const key = newKey();
      const answer = await answerOf(send("one", "/request", { key, options: { lease: LONG_MS }, does: "throw" }));
      expect(answer).toMatchObject({ message: "the callback's own error", isRange: true });
      expect(await describeKey(key)).toMatchObject({ holders: 0 });
    });

    it("keeps the lock for longer than its lease [W7]", async () => {
      const key = newKey();
      const { result } = await answerOf(send("one", "/request", { key, options: { lease: 5_000 }, does: "outlive" }));
      expect(result).toMatchObject({ isHeld: true, isLonger: true });
      expect(await describeKey(key)).toMatchObject({ holders: 0 });
    });

    it("says that the lock was lost once its callback has ended", async () => {
      const key = newKey();
      const { message } = await answerOf(send("one", "/request", { key, options: { lease: 3_000 }, does: "lose" }));
      expect(message).toBe(`LockLostError: the lock on key "${key}" was lost before its callback ended`);
    });

    it("loses no increment of a counter that nothing else guards, 4 × 100 at once [W14]", async () => {
      const asked = { key: newKey(), options: { timeout: 60_000 }, does: "increment" };
      const count = async () => Number(await resultOf(answerOf(send("one", "/count", {}))));
      const before = await count();
      const names = ["one", "two", "one", "two"] as const;
      const answers = await Promise.all(names.map((name) => answerOf(send(name, "/increments", asked))));
      const fences = answers.flatMap(({ result, message }) => {
        expect(message).toBe(undefined);
        return result as string[];
      });
      expect(new Set(fences).size).toBe(400);
      expect(await count()).toBe(before + 400);
    });
  });

  describe("several keys", () => {
    /** Two keys, in the order in which they are taken. */
    const newKeys = () => {
      const key = newKey();
      return [`${key}/a`, `${key}/b`] as const;
    };
    const several = (name: CallerName, asked: object) => send(name, "/several", asked);

    it("are all held while the callback runs, and given to it in the order asked for", async () => {
      const [a, b] = newKeys();
      const { result } = await answerOf(several("one", { keys: [{ key: b, limit: 3, label: "b" }, a], does: "show" }));
      const [first, second] = result as (Acquired & { isHeld: boolean })[];
      expect([first, second]).toMatchObject([
        { key: b, isHeld: true },
        { key: a, isHeld: true },
      ]);
      expect(first?.token.startsWith(first.fence)).toBe(true);
      expect([await describeKey(a), await describeKey(b)]).toMatchObject([
        { limit: 1, holders: 0 },
        { limit: 3, holders: 0 },
      ]);
    });

    it("that two Workers want in different orders lose no increment, 2 × 100 at once [M13]", async () => {
      const [a, b] = newKeys();
      const asked = { options: { timeout: 60_000 }, does: "increment" };
      const count = async () => Number(await resultOf(answerOf(send("one", "/count", {}))));
      const before = await count();
      await Promise.all([
        resultOf(answerOf(send("one", "/increments", { ...asked, keys: [a, b] }))),
        resultOf(answerOf(send("two", "/increments", { ...asked, keys: [b, a] }))),
      ]);
      expect(await count()).toBe(before + 200);
    });

    it("of which one is lost: the callback is told, and the caller once it has ended [M14]", async () => {
      const [a, b] = newKeys();
      const lost = `LockLostError: the lock on key "${b}" was lost before its callback ended`;
      const asked = { keys: [b, a], options: { lease: 3_000 }, does: "lose" };
      expect((await answerOf(several("one", asked))).message).toBe(lost);
      expect([await describeKey(a), await describeKey(b)]).toMatchObject([{ holders: 0 }, { holders: 0 }]);
    });

    it("of which one is not free in time are given back", async () => {
      const [a, b] = newKeys();
      await held(b);
      const asked = answerOf(several("two", { keys: [b, a], options: { timeout: 1_500 }, does: "throw" }));
      await until("the first one", a, (described) => described?.holders === 1);
      expect((await asked).message).toBe(`LockTimeoutError: key "${b}" was not free within 1500 ms`);
      expect([await describeKey(a), await describeKey(b)]).toMatchObject([
        { holders: 0, waiters: 0 },
        { holders: 1, waiters: 0 },
      ]);
    });

    it("that are not all free are not waited for with a timeout of 0", async () => {
      const [a, b] = newKeys();
      await held(b);
      const asked = { keys: [a, b], options: { timeout: 0 }, does: "throw" };
      const { message } = await answerOf(several("two", asked));
      expect(message).toBe(`LockTimeoutError: key "${b}" was not free within 0 ms`);
      expect(await describeKey(a)).toMatchObject({ holders: 0 });
    });

    it("are renewed while the next one is waited for", async () => {
      const [a, b] = newKeys();
      const { token } = await held(b);
      const asked = answerOf(
        several("two", { keys: [a, b], options: { timeout: 60_000, lease: 3_000 }, does: "show" }),
      );
      await waiters(b, 1);
      const since = Date.now();
      await until("more than one lease", a, (described) => described?.holders !== 1 || Date.now() > since + 4_000);
      expect(await describeKey(a)).toMatchObject({ holders: 1 });
      await release(b, token);
      expect((await asked).result).toMatchObject([{ isHeld: true }, { isHeld: true }]);
    });

    it("whose caller is cancelled while it waits for the next one are given back, and so is the place", async () => {
      const [a, b] = newKeys();
      const { token } = await held(b);
      const waiting = several("two", { keys: [a, b], options: { timeout: 60_000, lease: LONG_MS }, does: "hold" });
      await waiters(b, 1);
      expect(await describeKey(a)).toMatchObject({ holders: 1 });
      waiting.reset();
      await waiters(b, 0);
      await until("the release", a, (described) => described?.holders === 0);
      expect(await release(b, token)).toBe(true);
    });

    it("whose caller is cancelled in the middle of `request` are given back", async () => {
      const [a, b] = newKeys();
      const running = several("two", { keys: [a, b], options: { lease: LONG_MS }, does: "hold" });
      await until("the locks", b, (described) => described?.holders === 1);
      running.reset();
      for (const key of [a, b]) await until("the release", key, (described) => described?.holders === 0);
    });

    it("are released when the callback throws, and the caller gets that error", async () => {
      const [a, b] = newKeys();
      const answer = await answerOf(several("one", { keys: [a, b], options: { lease: LONG_MS }, does: "throw" }));
      expect(answer).toMatchObject({ message: "the callback's own error", isRange: true });
      expect([await describeKey(a), await describeKey(b)]).toMatchObject([{ holders: 0 }, { holders: 0 }]);
    });

    it.each([
      [[], "RangeError: keys must be 1 to 16 in number, not 0"],
      [Array.from({ length: 17 }, (_, index) => `${index}`), "RangeError: keys must be 1 to 16 in number, not 17"],
      [["k", { key: "k", limit: 2 }], 'TypeError: key "k" is given twice'],
      [["k", null], "TypeError: key must be a string of 1 to 256 bytes without space, tab or line break, not null"],
      [[{ key: "k", timeout: 5 }], 'TypeError: option "timeout" is not known; known are: lease, limit, label'],
      [[{ key: "k", limit: 0 }], 'RangeError: option "limit" must be a whole number from 1 to 1048576, not 0'],
    ])("that are %j are refused", async (keys, message) => {
      expect((await answerOf(several("one", { keys, does: "show" }))).message).toBe(message);
    });
  });

  describe("a token", () => {
    it("is released once; a second release and a foreign token are false [W8]", async () => {
      const key = newKey();
      const { token } = await held(key);
      const other = await held(newKey());
      expect(await release(key, other.token)).toBe(false);
      expect(await release(key, token, "two")).toBe(true);
      expect(await release(key, token, "two")).toBe(false);
      expect(await release(newKey(), token)).toBe(false);
    });

    it("is renewed while it is held, and null says that it is not", async () => {
      const key = newKey();
      const { token } = await held(key, { lease: 60_000 });
      expect(await resultOf(ask("two", "renew", [key, token, { lease: LONG_MS }]))).toEqual({ remaining: LONG_MS });
      expect(await resultOf(ask("two", "renew", [key, token]))).toEqual({ remaining: 33_000 });
      await release(key, token);
      expect(await resultOf(ask("one", "renew", [key, token]))).toBe(null);
    });
  });

  describe("keys [W10]", () => {
    it.each(["k", "x".repeat(256), "ключ", "🔑".repeat(64), "a/b?c#d%20", "\u0000"])("may be %j", async (key) => {
      const { token } = await held(key);
      expect(await release(key, token)).toBe(true);
    });

    it.each(["", "x".repeat(257), "🔑".repeat(65), "a b", "a\tb", "a\nb", "a\rb"])("must not be %j", async (key) => {
      const { message, isType } = await ask("one", "acquire", [key]);
      expect(message).toMatch(
        /^TypeError: key must be a string of 1 to 256 bytes without space, tab or line break, not "/,
      );
      expect(isType).toBe(true);
    });
  });

  describe("a semaphore [W11]", () => {
    it("of limit 3 has three holders, and the fourth waits", async () => {
      const key = newKey();
      const options = { limit: 3, timeout: 0, lease: LONG_MS };
      const holders = await Promise.all((["one", "two", "one"] as const).map((name) => held(key, options, name)));
      expect(await acquire(key, options, "two")).toBe(null);
      const fourth = acquire(key, { ...options, timeout: 50_000 }, "two");
      await waiters(key, 1);
      expect(await describeKey(key)).toMatchObject({ kind: "semaphore", limit: 3, holders: 3 });
      expect(await release(key, holders[1]?.token ?? "")).toBe(true);
      expect((await fourth)?.token).toHaveLength(32);
      expect(await describeKey(key)).toMatchObject({ holders: 3, waiters: 0 });
    });

    it("of another limit than the key's is refused", async () => {
      const key = newKey();
      await held(key, { limit: 3 });
      const { message } = await ask("two", "acquire", [key, { limit: 2 }]);
      expect(message).toBe(`LimitMismatchError: key "${key}" is in use with limit 3, not 2`);
    });
  });

  describe("bad arguments", () => {
    const cases: readonly (readonly [call: string, args: readonly unknown[], message: string])[] = [
      ["acquire", [7], "RangeError: key must be a string of 1 to 256 bytes without space, tab or line break, not 7"],
      [
        "acquire",
        [null],
        "TypeError: key must be a string of 1 to 256 bytes without space, tab or line break, not null",
      ],
      ["acquire", ["k", 5], "RangeError: options must be an object, not 5"],
      [
        "acquire",
        ["k", { timeout: -1 }],
        'RangeError: option "timeout" must be a number of milliseconds from 0 to 60000, not -1',
      ],
      [
        "acquire",
        ["k", { timeout: 60_001 }],
        'RangeError: option "timeout" must be a number of milliseconds from 0 to 60000, not 60001',
      ],
      [
        "acquire",
        ["k", { timeout: "1" }],
        'TypeError: option "timeout" must be a number of milliseconds from 0 to 60000, not "1"',
      ],
      [
        "acquire",
        ["k", { lease: 0 }],
        'RangeError: option "lease" must be a number of milliseconds from 1 to 9223372036000, not 0',
      ],
      [
        "acquire",
        ["k", { limit: 1.5 }],
        'RangeError: option "limit" must be a whole number from 1 to 1048576, not 1.5',
      ],
      ["acquire", ["k", { label: "" }], 'TypeError: option "label" must be 1 to 64 printable characters, not ""'],
      ["acquire", ["k", { ttl: 5 }], 'TypeError: option "ttl" is not known; known are: timeout, lease, limit, label'],
      ["renew", ["k", "t", { timeout: 5 }], 'TypeError: option "timeout" is not known; known are: lease'],
      ["release", ["k"], "TypeError: token must be a string that is not empty"],
      ["request", ["k", {}, "callback"], 'TypeError: callback must be a function, not "callback"'],
    ];

    it.each(cases)("%s(%j) is rejected", async (call, args, message) => {
      const answer = await ask("one", call, args);
      expect(answer).toMatchObject({
        message,
        isType: message.startsWith("TypeError"),
        isRange: message.startsWith("RangeError"),
      });
    });
  });
});

describe.each(WAYS.slice(1))("a lock of %s", (way) => {
  const { send, describeKey } = callersOf(way);

  it("is renewed by itself, and released at the end of its block [W4]", async () => {
    const key = newKey();
    const { result } = await answerOf(send("one", "/using", { key }));
    expect(result).toEqual({
      renewed: { remaining: 900_000 },
      isLonger: true,
      lock: {
        key,
        token: expect.stringMatching(/^[0-9a-f]{32}$/),
        fence: expect.stringMatching(/^[0-9a-f]{16}$/),
        lease: 900_000,
        expiresAt: expect.any(Number),
      },
      holders: 1,
      holdersAfter: 0,
    });
  });

  it("is released when its block throws", async () => {
    const key = newKey();
    const { message } = await answerOf(send("one", "/using", { key, does: "throw" }));
    expect(message).toBe("the block's own error");
    expect(await describeKey(key)).toMatchObject({ holders: 0 });
  });
});

describe("locks() called once for all requests of a Worker", () => {
  it.each(WAYS.slice(1))("serves each of them: %s", async (way) => {
    const { send, held, waiters } = callersOf(way);
    const key = newKey();
    const take = (timeout: number) => send("one", "/shared", { key, options: { timeout } });
    for (let time = 0; time < 3; time++) expect(await answerOf(take(0))).toEqual({ result: [true, true] });
    await held(key, {}, "two");
    // One that is cancelled does not hold up the others.
    const left = take(50_000);
    await waiters(key, 1);
    left.reset();
    await waiters(key, 0);
    expect(await answerOf(take(0))).toEqual({ result: [false, null] });
  });
});

describe("two waits of one request", () => {
  it.each(WAYS.slice(1))("both give up their places: %s", async (way) => {
    const { send, held, waiters } = callersOf(way);
    const key = newKey();
    await held(key, {}, "two");
    await held(`${key}-2`, {}, "two");
    const left = send("one", "/both", { key, options: { timeout: 50_000 } });
    await waiters(key, 1);
    await waiters(`${key}-2`, 1);
    left.reset();
    await waiters(key, 0);
    await waiters(`${key}-2`, 0);
  });
});

describe("two waits of one request, for a key nearby and for one that is far away,", () => {
  it("both give up their places", async () => {
    const { send, held, waiters } = callersOf("locks() with LockKey");
    const key = newKey();
    await held(key, {}, "two");
    await held(`${key}-2`, {}, "two");
    const left = send("one", "/both", { key, options: { timeout: 50_000 }, isSecondFar: true });
    await waiters(key, 1);
    await waiters(`${key}-2`, 1);
    // By then both listen as long as they ever do.
    await sleep(3);
    left.reset();
    await waiters(key, 0);
    await waiters(`${key}-2`, 0);
  });
});

describe("the HTTP API over a binding", () => {
  const { send: sendAs } = callersOf("a service binding");
  const fetched = (name: CallerName, path: string, init: object = {}, to = service) =>
    resultOf(answerOf(sendAs(name, "/fetch", { path, init }, to)));

  it("asks for no token and no Host, and has no rate limit", async () => {
    await using own = await start({
      AUTH_TOKEN: "secret",
      HTTP_ALLOWED_HOSTS: "example.org",
      HTTP_RATE_LIMIT_PER_IP: "1",
    });
    for (let time = 0; time < 3; time++)
      expect(await fetched("one", "/v1/stats", {}, own)).toEqual([200, expect.stringContaining('"locks"')]);
  });

  it("opens a WebSocket that is authenticated", async () => {
    await using own = await start({ AUTH_TOKEN: "secret" });
    const Upgrade = "websocket";
    expect(await fetched("one", "/v1/ws", { headers: { Upgrade } }, own)).toMatch(/^ok [0-9a-f]{32} 33/);
    // Readers may not lock.
    expect(await fetched("reader", "/v1/ws", { headers: { Upgrade } }, own)).toMatch(/^error/);
  });

  it("carries the client library: a session with sticky locks", async () => {
    await using own = await start({ AUTH_TOKEN: "secret" });
    const key = newKey();
    const { lock, sticky } = (await resultOf(answerOf(sendAs("one", "/client", { key }, own)))) as {
      lock: { token: string; fence: string };
      sticky: string[];
    };
    expect(lock.token.startsWith(lock.fence)).toBe(true);
    expect(sticky[0]).toBe(sticky[1]);
    expect((sticky[0] ?? "") > lock.fence).toBe(true);
  });

  it("allows what the props allow", async () => {
    const [opened, answer] = (await fetched("orders", "/v1/sessions", { method: "POST" })) as [number, string];
    const headers = { "X-Dflockd-Session": (JSON.parse(answer) as { session_id: string }).session_id };
    expect(opened).toBe(200);
    const acquire = async (key: string) =>
      ((await fetched("orders", `/v1/locks/${key}`, { method: "POST", headers, body: "{}" })) as [number])[0];
    expect([await acquire("orders%2Fover-http"), await acquire("other")]).toEqual([200, 403]);
  });
});

describe("a Worker with a wrong setup", () => {
  const { ask: askAs } = callersOf("locks() with LockKey");

  it.each([
    [
      "unbound",
      /^TypeError: locks\(\) takes a namespace .*class_name = "LockKey".*new_sqlite_classes = \["LockKey"\]/s,
    ],
    ["another class", /^UnavailableError: .* class that is not LockKey.*class_name = "LockKey".*export \{ LockKey \}/s],
    [
      "no migration",
      /^UnavailableError: .* no SQLite storage.*\[\[migrations\]\].*new_sqlite_classes = \["LockKey"\]/s,
    ],
    ["another entrypoint", /^UnavailableError: .*\[\[services\]\].*entrypoint = "Locks"/s],
  ])("is told what to add to wrangler.toml by its first call (%s)", async (name, told) => {
    expect((await askAs(name as CallerName, "acquire", ["a-key"])).message).toMatch(told);
  });
});

const { send, ask, acquire, release, describeKey, held, waiters } = callersOf("a service binding");

describe("one queue with other protocols [W6]", () => {
  it("a lock held over TCP is not free for the binding, and is granted to it next", async () => {
    const key = newKey();
    const client = await TcpClient.open(service.tcpPort);
    client.send(`l\n${key}\n0 600\n`);
    const token = (await client.next()).split(" ")[1];
    expect(await acquire(key, { timeout: 0 })).toBe(null);
    const waiting = acquire(key, { timeout: 50_000 });
    await waiters(key, 1);
    client.send(`r\n${key}\n${token}\n`);
    expect(await client.next()).toBe("ok\n");
    const { fence = "" } = (await waiting) ?? {};
    expect(fence > (token ?? "").slice(0, 16)).toBe(true);
    client.close();
  });

  it("a lock held by the binding is not free over TCP, and is granted there next", async () => {
    const key = newKey();
    const { token } = await held(key);
    const client = await TcpClient.open(service.tcpPort);
    client.send(`l\n${key}\n0\n`);
    expect(await client.next()).toBe("timeout\n");
    client.send(`l\n${key}\n600\n`);
    await waiters(key, 1);
    expect(await release(key, token)).toBe(true);
    expect(await client.next()).toMatch(/^ok /);
    client.close();
  });

  it("shows holder and waiter by their label, or as a worker", async () => {
    const key = newKey();
    await held(key);
    const waiting = send("two", "/call", { call: "acquire", args: [key, { timeout: 60_000, label: "billing" }] });
    await waiters(key, 1);
    const described = await describeKey(key);
    expect(described).toMatchObject({
      held_by: [{ label: "worker", protocol: "worker" }],
      queue: [{ label: "billing", protocol: "worker" }],
    });
    const overHttp = await fetch(`http://127.0.0.1:${service.httpPort}/v1/keys/${key}`);
    expect(Object.keys((await overHttp.json()) as object)).toEqual(Object.keys(described as object));
    const stats = await fetch(`http://127.0.0.1:${service.httpPort}/v1/stats?detail=true&prefix=${key}`);
    expect(JSON.stringify(await stats.json())).toContain('"label":"billing"');
    waiting.reset();
    await waiters(key, 0);
    expect(await describeKey("nobody-used-this")).toBe(null);
  });
});

describe("a token", () => {
  it("outlives the service's objects: it is renewed and released after a crash [W13]", async () => {
    await using own = await start();
    const key = newKey();
    const call = (name: string, ...args: readonly unknown[]) => resultOf(ask("one", name, [key, ...args], own));
    const { token } = (await call("acquire", { lease: LONG_MS })) as Acquired;
    await own.restart();
    expect(await call("acquire", { timeout: 0 })).toBe(null);
    expect(await call("renew", token)).toEqual({ remaining: 33_000 });
    await own.restart();
    expect(await call("release", token)).toBe(true);
    expect(await call("release", token)).toBe(false);
  });
});

describe("props of a binding [W9]", () => {
  const codeOf = ({ message = "" }: Answer) => message.split(":")[0];

  it("restrict it to their keys", async () => {
    for (const key of ["orders/7", "menu"]) {
      const acquired = await held(key, {}, "orders");
      expect(await release(key, acquired.token, "orders")).toBe(true);
    }
    for (const call of ["acquire", "release", "renew", "describe"])
      expect(codeOf(await ask("orders", call, ["menus", "token"].slice(0, call.startsWith("re") ? 2 : 1)))).toBe(
        "ForbiddenError",
      );
    const asked = { key: "other", does: "show" };
    const { message } = await answerOf(send("orders", "/request", asked));
    expect(message).toBe('ForbiddenError: the props of the binding do not allow to lock key "other"');
  });

  it("are asked for each of several keys before any is taken", async () => {
    const asked = { keys: ["menu", "other"], does: "show" };
    const { message } = await answerOf(send("orders", "/several", asked));
    expect(message).toBe('ForbiddenError: the props of the binding do not allow to lock key "other"');
    expect((await describeKey("menu"))?.holders ?? 0).toBe(0);
    expect((await answerOf(send("orders", "/several", { ...asked, keys: ["menu", "orders/8"] }))).message).toBe(
      undefined,
    );
  });

  it("let it only read", async () => {
    const key = newKey();
    const { token } = await held(key);
    expect(codeOf(await ask("reader", "acquire", [key]))).toBe("ForbiddenError");
    expect(codeOf(await ask("reader", "renew", [key, token]))).toBe("ForbiddenError");
    expect(codeOf(await ask("reader", "release", [key, token]))).toBe("ForbiddenError");
    expect(await resultOf(ask("reader", "describe", [key]))).toMatchObject({ holders: 1 });
  });

  it("that are not understood allow nothing", async () => {
    const { message } = await ask("typo", "acquire", [newKey()]);
    expect(message).toBe("TypeError: props.readonly is not known; known are: keys, readOnly");
  });
});

describe("errors", () => {
  it("have a name, and a message that begins with it for callers whose compatibility date drops names", async () => {
    const key = newKey();
    await held(key);
    const asked = { key, options: { timeout: 0 }, does: "show" };
    const [current, legacy] = [
      await answerOf(send("one", "/request", asked)),
      await answerOf(send("legacy", "/request", asked)),
    ];
    expect([current.name, legacy.name]).toEqual(["LockTimeoutError", "Error"]);
    for (const { message } of [current, legacy]) expect(message).toMatch(/^LockTimeoutError: /);
  });
});

describe("a service that refuses", () => {
  it("says that a queue is full, or that it takes no new work", async () => {
    await using own = await start({ MAX_WAITERS: "1" });
    const key = newKey();
    const { token } = (await resultOf(ask("one", "acquire", [key, { lease: LONG_MS }], own))) as Acquired;
    const waiting = send("one", "/call", { call: "acquire", args: [key, { timeout: 60_000 }] }, own);
    await poll("a waiter", DEADLINE_MS, async () => {
      const described = (await resultOf(ask("one", "describe", [key], own))) as Described;
      return described.waiters === 1 ? true : undefined;
    });
    const full = await ask("two", "acquire", [key, { timeout: 1_000 }], own);
    expect(full.message).toMatch(/^CapacityError: .*MAX_WAITERS/);
    expect((await ask("two", "acquire", [key, { timeout: 0 }], own)).result).toBe(null);
    waiting.reset();
    await own.restart({ DRAINING: "true" });
    expect((await ask("two", "acquire", [key], own)).message).toBe("DrainingError: the service takes no new work");
    expect((await ask("two", "release", [key, token], own)).result).toBe(true);
  });
});
