import { describe, expect, it } from "vitest";
import { CapacityError, connect, LockError, type Locks, webLocks } from "../../../src/client/index.ts";
import { labelOf } from "../../../src/http/request/label.ts";
import { settled } from "./fake-clock.ts";
import { FakeService, freshToken, held, world } from "./fake-service.ts";

describe("an address", () => {
  const addressOf = (url: string, label?: string) => {
    const service = new FakeService();
    const locks = connect(url, { WebSocket: service.WebSocket, ...(label !== undefined && { label }) });
    return settled().then(async () => {
      await locks.close();
      return service.socket.url;
    });
  };

  it.each([
    ["ws://127.0.0.1:6389", "ws://127.0.0.1:6389/v1/ws"],
    ["http://127.0.0.1:6389/", "ws://127.0.0.1:6389/v1/ws"],
    ["https://locks.example", "wss://locks.example/v1/ws"],
    ["wss://locks.example/v1/ws", "wss://locks.example/v1/ws"],
    ["wss://locks.example/v1/ws/", "wss://locks.example/v1/ws"],
    ["https://example/locks/#top", "wss://example/locks/v1/ws"],
    ["https://example/v1/ws?ticket=abc", "wss://example/v1/ws?ticket=abc"],
  ])("may be written %s", async (url, expected) => {
    expect(await addressOf(url)).toBe(expected);
  });

  it("carries the label", async () => {
    expect(await addressOf("ws://x", "worker 7")).toBe("ws://x/v1/ws?label=worker+7");
  });

  it.each(["ftp://x", "nonsense"])("is not %s", (url) => {
    expect(() => connect(url)).toThrow(TypeError);
  });

  it.each([
    ["worker 7", true],
    ["Ada’s tab 🔒", true],
    ["🔒".repeat(64), true],
    ["x".repeat(65), false],
    ["line\nfeed", false],
    ["in\u200bvisible", false],
    ["para\u2029graph", false],
    ["half \ud83d", false],
  ])("takes the label %j if, and only if, the service does", (label, isTaken) => {
    const take = () => void addressOf("ws://x", label);
    if (isTaken) expect(take).not.toThrow();
    else expect(take).toThrow(TypeError);
    expect(labelOf(label).ok).toBe(isTaken);
  });

  it("has no empty label", () => {
    expect(() => connect("ws://x", { label: "" })).toThrow(TypeError);
  });
});

describe("times on the wire", () => {
  it.each([
    [{}, "l", "9223372036"],
    [{ timeout: Number.POSITIVE_INFINITY }, "l", "9223372036"],
    [{ timeout: 0 }, "l", "0"],
    [{ timeout: 1 }, "l", "1"],
    [{ timeout: 0.001 }, "l", "1"],
    [{ timeout: 1_000 }, "l", "1"],
    [{ timeout: 1_001, lease: 1 }, "l", "2 1"],
    [{ timeout: 5_000, lease: 30_001 }, "l", "5 31"],
    [{ timeout: 5_000, lease: 30_000, limit: 3 }, "sl", "5 3 30"],
    [{ steal: true, lease: 30_000, limit: 3 }, "steal", "3 30"],
    [{ steal: true }, "steal", "1"],
  ])("are whole seconds, never fewer than asked for: %j", async (options, command, arg) => {
    const { service, locks } = await world();
    locks.acquire("key", options).catch(() => {});
    await settled();
    expect(service.frames).toEqual([{ tag: expect.any(String), command, key: "key", arg }]);
    await locks.close();
  });

  it.each([
    [{}, "e", ""],
    [{ lease: 500 }, "e", "1"],
    [{ limit: 2, lease: 1_500 }, "se", "2 2"],
  ])("of a place: %j", async (options, command, arg) => {
    const { service, locks } = await world();
    service.reply = ({ command }) => (command.endsWith("e") ? "queued" : undefined);
    const ticket = await locks.enqueue("key", options);
    expect(service.frames).toEqual([{ tag: expect.any(String), command, key: "key", arg }]);
    ticket.wait({ timeout: 2_500 }).catch(() => {});
    await settled();
    expect(service.frames[1]).toMatchObject({ command: command === "e" ? "w" : "sw", arg: "3" });
    await locks.close();
  });
});

describe("what no service would take is refused before it is sent", () => {
  it.each([
    ["", {}],
    ["a b", {}],
    ["a\nb", {}],
    ["\ud800", {}],
    ["é".repeat(129), {}],
    ["key", { timeout: -1 }],
    ["key", { timeout: Number.NaN }],
    ["key", { lease: 0 }],
    ["key", { lease: Number.NaN }],
    ["key", { lease: Number.POSITIVE_INFINITY }],
    ["key", { limit: 0 }],
    ["key", { limit: 1.5 }],
    ["key", { limit: 1_048_577 }],
    ["key", { maxHold: 0 }],
    ["key", { maxHold: Number.NaN }],
  ])("%j with %j", async (key, options) => {
    const { service, locks } = await world();
    const error = await locks.acquire(key, options).catch((reason) => reason);
    expect(error instanceof TypeError || error instanceof RangeError).toBe(true);
    expect(service.frames).toEqual([]);
  });

  it("and a key of 256 bytes is taken", async () => {
    const { service, locks } = await world();
    locks.acquire("é".repeat(128)).catch(() => {});
    await settled();
    expect(service.frames).toHaveLength(1);
  });
});

describe("a wrong argument is named, with its rule, and harms nothing", () => {
  const wrong = (value: unknown) => value as never;
  type Call = (locks: Locks) => unknown;
  it.each<[string, Call]>([
    [
      'acquire: option "timout" is not known; known are: lease, limit, maxHold, signal, steal, timeout',
      (locks) => locks.acquire("key", wrong({ timout: 5 })),
    ],
    [
      'acquire: option "signal" must be an AbortSignal, not an object',
      (locks) => locks.acquire("key", wrong({ signal: {} })),
    ],
    [
      'acquire: option "signal" must be an AbortSignal, not null',
      (locks) => locks.acquire("key", wrong({ signal: null })),
    ],
    [
      'acquire: option "timeout" must be milliseconds, 0 or more, not null',
      (locks) => locks.acquire("key", wrong({ timeout: null })),
    ],
    [
      'acquire: option "timeout" must be milliseconds, 0 or more, not "5"',
      (locks) => locks.acquire("key", wrong({ timeout: "5" })),
    ],
    [
      'acquire: option "timeout" must be milliseconds, 0 or more, not -1',
      (locks) => locks.acquire("key", { timeout: -1 }),
    ],
    [
      'acquire: option "lease" must be milliseconds, more than 0 and at most 9223372036000, not Infinity',
      (locks) => locks.acquire("key", { lease: Number.POSITIVE_INFINITY }),
    ],
    [
      'acquire: option "maxHold" must be milliseconds, more than 0, not NaN',
      (locks) => locks.acquire("key", { maxHold: Number.NaN }),
    ],
    [
      'acquire: option "limit" must be a whole number from 1 to 1048576, not 1.5',
      (locks) => locks.acquire("key", { limit: 1.5 }),
    ],
    ['acquire: option "steal" must be true or false, not 1', (locks) => locks.acquire("key", wrong({ steal: 1 }))],
    ["acquire: options must be an object, not null", (locks) => locks.acquire("key", wrong(null))],
    [
      "acquire: options must be an object, not a function",
      (locks) =>
        locks.acquire(
          "key",
          wrong(() => {}),
        ),
    ],
    ['acquire: key must be 1 to 256 bytes without blanks, not "a b"', (locks) => locks.acquire("a b")],
    ["acquire: key must be 1 to 256 bytes without blanks, not undefined", (locks) => locks.acquire(wrong(undefined))],
    [
      'acquire: option "signal" must be an AbortSignal, not an object',
      (locks) => locks.acquire("key", Object.create({ signal: {} })),
    ],
    ["request: callback must be a function, not undefined", (locks) => locks.request("key", {}, wrong(undefined))],
    [
      'request: option "wait" is not known; known are: lease, limit, maxHold, maxIdle, signal, steal, sticky, timeout',
      (locks) => locks.request("key", wrong({ wait: 5 }), () => {}),
    ],
    [
      'tryAcquire: option "timeout" is not known; known are: lease, limit, maxHold, signal, steal',
      (locks) => locks.tryAcquire("key", wrong({ timeout: 5 })),
    ],
    [
      'enqueue: option "timeout" is not known; known are: lease, limit, signal',
      (locks) => locks.enqueue("key", wrong({ timeout: 5 })),
    ],
    ["query: key must be 1 to 256 bytes without blanks, not 7", (locks) => locks.query(wrong(7))],
    ['mutex: key must be 1 to 256 bytes without blanks, not ""', (locks) => locks.mutex("")],
    [
      "semaphore: limit must be a whole number from 1 to 1048576, not undefined",
      (locks) => locks.semaphore("key", wrong(undefined)),
    ],
    [
      'acquire: option "limit" is not known; known are: lease, maxHold, signal, steal, timeout',
      (locks) => locks.semaphore("key", 3).acquire(wrong({ limit: 4 })),
    ],
    [
      'request: option "limit" is not known; known are: lease, maxHold, maxIdle, signal, steal, sticky, timeout',
      (locks) => locks.semaphore("key", 3).request(wrong({ limit: 4 }), () => {}),
    ],
    [
      'request: option "timeout" is not known; known are: ifAvailable, mode, signal, steal',
      (locks) => webLocks(locks).request("key", wrong({ timeout: 5 }), () => {}),
    ],
    [
      'request: option "signal" must be an AbortSignal, not an object',
      (locks) => webLocks(locks).request("key", wrong({ signal: {} }), () => {}),
    ],
    [
      'request: option "mode" must be "exclusive", not "shared"',
      (locks) => webLocks(locks).request("key", { mode: "shared" }, () => {}),
    ],
    ['request: name must not begin with a hyphen: "-x"', (locks) => webLocks(locks).request("-x", () => {})],
    ['ready: option "lease" is not known; known are: signal, timeout', (locks) => locks.ready(wrong({ lease: 5 }))],
    [
      `acquire: key must be 1 to 256 bytes without blanks, not "${"x".repeat(64)}"…`,
      (locks) => locks.acquire("x".repeat(300)),
    ],
    [
      'connect: option "tokne" is not known; known are: WebSocket, clock, label, sticky, token',
      () => connect("ws://x", wrong({ tokne: "x" })),
    ],
    ['connect: option "token" must be a string or a function', () => connect("ws://x", wrong({ token: 123_456 }))],
    ['connect: option "label" must be 1 to 64 printable characters, not ""', () => connect("ws://x", { label: "" })],
    [
      'connect: option "WebSocket" must be a function, not an object',
      () => connect("ws://x", wrong({ WebSocket: {} })),
    ],
    ['connect: url must begin with http, https, ws or wss, not "ftp:"', () => connect("ftp://x?ticket=s3cret")],
    ['connect: url must begin with http, https, ws or wss, not ""', () => connect("s3cret")],
    ['connect: url must begin with http, https, ws or wss, not "127.0.0.1:8489"', () => connect("127.0.0.1:8489")],
    ['connect: url must begin with http, https, ws or wss, not "locks.lan:8489"', () => connect("locks.lan:8489")],
    ['connect: url must begin with http, https, ws or wss, not "user:"', () => connect("user:12345@locks.lan")],
    ["connect: url must begin with http, https, ws or wss, not undefined", () => connect(wrong(undefined))],
  ])("%s", async (message, call) => {
    const here = await world();
    const error = await (async () => call(here.locks))().catch((reason: unknown) => reason);
    expect(error).toMatchObject({ message });
    expect(here.service.frames).toEqual([]);
    // The client goes on, and closes as if nothing had been.
    expect((await held(here)).isHeld).toBe(true);
    await here.locks.close();
    expect(here.clock.timers).toBe(0);
  });

  it("leaves a ticket as it was", async () => {
    const { service, locks } = await world();
    service.reply = ({ command }) => (command === "e" ? "queued" : `ok ${freshToken()} 33`);
    const ticket = await locks.enqueue("key");
    await expect(ticket.wait(wrong({ signal: {} }))).rejects.toThrow('wait: option "signal" must be an AbortSignal');
    expect((await ticket.wait()).isHeld).toBe(true);
    await locks.close();
  });
});

it("an option that is undefined is one that is left out, in every call", async () => {
  const nothing = {
    lease: undefined,
    limit: undefined,
    maxHold: undefined,
    signal: undefined,
    steal: undefined,
    timeout: undefined,
  };
  const options = { clock: undefined, label: undefined, token: undefined };
  const { service, locks } = await world();
  service.reply = ({ command }) => (command === "e" ? "queued" : `ok ${freshToken()} 33`);
  expect((await locks.acquire("key", nothing)).isHeld).toBe(true);
  expect((await locks.tryAcquire("key", nothing))?.isHeld).toBe(true);
  expect(await locks.request("key", nothing, ({ isHeld }) => isHeld)).toBe(true);
  const { lease, signal, maxHold, timeout } = nothing;
  expect((await (await locks.enqueue("key", { lease, signal })).wait({ maxHold, signal, timeout })).isHeld).toBe(true);
  expect((await locks.semaphore("key", 2).acquire(nothing)).isHeld).toBe(true);
  expect(service.last("sl").arg).toBe("9223372036 2");
  await locks.ready({ signal, timeout });
  const web = { mode: undefined, ifAvailable: undefined, steal: undefined, signal };
  expect(await webLocks(locks).request("key", web, (lock) => lock?.name)).toBe("key");
  const other = connect("ws://service", { ...options, WebSocket: service.WebSocket });
  await Promise.all([locks.close(), other.close()]);
});

it("where there is no WebSocket, the error names the option", () => {
  const own = Object.getOwnPropertyDescriptor(globalThis, "WebSocket");
  Reflect.deleteProperty(globalThis, "WebSocket");
  try {
    expect(() => connect("ws://x")).toThrow('connect: option "WebSocket" is needed, as of the package ws');
  } finally {
    if (own) Object.defineProperty(globalThis, "WebSocket", own);
  }
});

describe("every answer that is none has an error of its own", () => {
  it.each([
    ["timeout", "AcquireTimeoutError", "timeout", "key was not free within 700 ms"],
    ["error_lease_expired", "LockLostError", "lost", "key is lost: expired"],
    ["error_auth", "AuthError", "auth", "the token does not cover key"],
    ["error_limit_mismatch", "LimitMismatchError", "limit_mismatch", "key is in use with another limit than 1"],
    ["error_max_locks", "CapacityError", "max_locks", "no room for key: the service is full (max_locks)"],
    ["error_max_waiters", "CapacityError", "max_waiters", "no room for key: the queue is full (max_waiters)"],
    ["error_draining", "DrainingError", "draining", "the service takes no new work"],
    [
      "error_already_enqueued",
      "ProtocolError",
      "already_enqueued",
      "key: this client has a place in the queue already",
    ],
    ["error_not_enqueued", "ProtocolError", "not_enqueued", "key: the place in the queue is gone"],
    ["error", "ProtocolError", "protocol", "key: the service answered error"],
    ["error_of_the_future", "ProtocolError", "protocol", "key: the service answered error_of_the_future"],
  ])("%s", async (word, name, code, message) => {
    const { service, locks } = await world();
    service.reply = () => word;
    const error = await locks.acquire("key", { timeout: 700 }).catch((reason) => reason);
    expect(error).toBeInstanceOf(LockError);
    expect(error).toMatchObject({ name, code, message });
  });

  it("but a key that is taken is nothing to whoever only tries", async () => {
    const { service, locks } = await world();
    for (const word of ["timeout", "error_max_waiters"]) {
      service.reply = () => word;
      expect(await locks.tryAcquire("key")).toBe(null);
    }
    service.reply = () => "error_max_locks";
    await expect(locks.tryAcquire("key")).rejects.toBeInstanceOf(CapacityError);
  });
});

it("more waits than a session may have are refused, and those that hold can still renew and release", async () => {
  const { service, locks } = await world();
  const waits = Array.from({ length: 901 }, () => locks.acquire("key").catch((error) => error));
  expect(await waits.at(-1)).toMatchObject({ name: "CapacityError", code: "too_many_requests" });
  await settled();
  await service.answer(service.frames[0] as never, `ok ${freshToken()} 30`);
  const lock = await waits[0];
  service.reply = () => "ok";
  expect(await lock.release()).toBe(true);
  await locks.close();
});
