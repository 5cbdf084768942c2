/** Code written for `navigator.locks`, against the real server. The same promises as in the Web Locks API, where they can be kept. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Locks, type WebLocks, webLocks } from "../../src/client/index.ts";
import { startServer, type TestServer } from "../support/server.ts";
import { connectTo, errorIn, freshKey, waitersOf } from "./support.ts";

const [TOKEN, ADMIN] = ["the shared token", "the operator's token"];
let server: TestServer;
let clients: Locks[] = [];
let [here, there]: WebLocks[] = [];
const mine = () => here as WebLocks;
const theirs = () => there as WebLocks;
beforeAll(async () => {
  server = await startServer({ variables: { AUTH_TOKEN: TOKEN, ADMIN_TOKEN: ADMIN } });
  clients = [TOKEN, ADMIN].map((token) => connectTo(server.httpPort, { token }));
  [here, there] = clients.map((locks) => webLocks(locks));
});
afterAll(async () => {
  await Promise.all(clients.map((locks) => locks.close()));
  await server.stop();
});

describe("request", () => {
  it("runs the callback while the lock is held, and gives what it gives", async () => {
    const name = freshKey();
    const seen = await mine().request(name, async (lock) => {
      expect(await theirs().request(name, { ifAvailable: true }, (other) => other)).toBe(null);
      return lock;
    });
    expect(seen).toEqual({ name, mode: "exclusive" });
    expect(await theirs().request(name, { ifAvailable: true }, (other) => other?.name)).toBe(name);
  });

  it("takes options that are left out as undefined", async () => {
    expect(await mine().request(freshKey(), undefined, (lock) => lock?.mode)).toBe("exclusive");
    await expect(mine().request(freshKey(), undefined as never)).rejects.toThrow(TypeError);
  });

  it("gives the lock back when the callback throws, and throws the same", async () => {
    const name = freshKey();
    const failing = mine().request(name, () => {
      throw new RangeError("the callback's own");
    });
    await expect(failing).rejects.toThrow("the callback's own");
    expect(await theirs().request(name, { ifAvailable: true }, (lock) => lock !== null)).toBe(true);
  });

  it("can be aborted while it waits, not afterwards", async () => {
    const name = freshKey();
    const stop = new AbortController();
    await mine().request(name, { signal: stop.signal }, async () => {
      stop.abort();
      const late = new AbortController();
      const waiting = theirs().request(name, { signal: late.signal }, () => "never");
      await waitersOf(clients[0] as Locks, name, 1);
      late.abort("enough");
      expect(await errorIn(waiting)).toBe("enough");
    });
  });

  it("steals, and the victim's promise rejects with the loss once its callback has ended", async () => {
    const name = freshKey();
    let goOn = () => {};
    const isGoingOn = new Promise<void>((resolve) => {
      goOn = resolve;
    });
    const { promise: isHeld, resolve: held } = Promise.withResolvers<void>();
    const victim = errorIn(
      mine().request(name, async () => {
        held();
        await isGoingOn;
      }),
    );
    await isHeld;
    expect(await theirs().request(name, { steal: true }, () => "stolen")).toBe("stolen");
    goOn();
    expect(await victim).toMatchObject({ name: "LockLostError", reason: "stolen" });
  });

  it.each([
    ["shared mode", "x", { mode: "shared" as const }],
    ["a name with a hyphen in front", "-x", {}],
    ["stealing if available", "x", { steal: true, ifAvailable: true }],
    ["aborting a theft", "x", { steal: true, signal: new AbortController().signal }],
    ["aborting what does not wait", "x", { ifAvailable: true, signal: new AbortController().signal }],
  ])("does not support %s", async (_, name, options) => {
    expect(await errorIn(mine().request(name, options, () => {}))).toMatchObject({ name: "NotSupportedError" });
  });

  it("wants a callback", async () => {
    expect(await errorIn(mine().request("x", {} as never))).toBeInstanceOf(TypeError);
  });
});

describe("names", () => {
  it.each(["", "my lock", "100%", "%20", "a\nb\tc\r", "ключ 🔒"])("may be %j", async (name) => {
    await mine().request(name, async (lock) => {
      expect(lock?.name).toBe(name);
      const { held } = await theirs().query();
      expect(held.map((each) => each.name)).toContain(name);
      expect(await theirs().request(name, { ifAvailable: true }, (other) => other)).toBe(null);
    });
  });

  it("that differ are different locks, however they are written down", async () => {
    await mine().request("a b", async () => {
      expect(await theirs().request("a%20b", { ifAvailable: true }, (lock) => lock?.name)).toBe("a%20b");
    });
  });
});

it("query shows who holds and who waits, by client", async () => {
  const name = freshKey();
  const stop = new AbortController();
  await mine().request(name, async () => {
    const waiting = theirs().request(name, { signal: stop.signal }, () => {});
    waiting.catch(() => {});
    await waitersOf(clients[0] as Locks, name, 1);
    const { held, pending } = await mine().query();
    const [holder] = held.filter((each) => each.name === name);
    const [waiter] = pending.filter((each) => each.name === name);
    expect(holder).toEqual({ name, mode: "exclusive", clientId: expect.stringMatching(/^[0-9]+$/) });
    expect(waiter?.clientId).not.toBe(holder?.clientId);
    stop.abort();
  });
});
