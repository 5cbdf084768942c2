/** What a client knows of its connection, its locks and its places, against the real server. */
import { inspect } from "node:util";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { AuthError, ConnectionError, LockLostError, type Locks, webLocks } from "../../src/client/index.ts";
import { freePort } from "../cli/support.ts";
import { poll } from "../support/poll.ts";
import { startServer, type TestServer } from "../support/server.ts";
import { connectTo, errorIn, freshKey, waitersOf } from "./support.ts";

const [TOKEN, ADMIN] = ["the shared token", "the operator's token"];
let server: TestServer;
let [a, b, operator]: Locks[] = [];
const first = () => a as Locks;
const second = () => b as Locks;
const admin = () => operator as Locks;
beforeAll(async () => {
  server = await startServer({ variables: { AUTH_TOKEN: TOKEN, ADMIN_TOKEN: ADMIN } });
  [a, b, operator] = [TOKEN, TOKEN, ADMIN].map((token) => connectTo(server.httpPort, { token }));
});
afterAll(async () => {
  await Promise.all([a?.close(), b?.close(), operator?.close()]);
  await server.stop();
});

describe("the connection", () => {
  it("is waited for, and known by its status", async () => {
    await using locks = connectTo(server.httpPort, { token: TOKEN });
    expect(locks.status).toBe("connecting");
    await locks.ready({ timeout: 5_000 });
    expect(locks.status).toBe("connected");
    await locks.close();
    expect(locks.status).toBe("closed");
  });

  it("that does not come about is told in time, and a wrong token at once", async () => {
    await using nobody = connectTo(await freePort());
    const late = await errorIn(nobody.ready({ timeout: 500 }));
    expect(late).toBeInstanceOf(ConnectionError);
    expect(late).toMatchObject({
      message: expect.stringMatching(/^not connected within 500 ms: ./),
      cause: expect.anything(),
    });
    await using stranger = connectTo(server.httpPort, { token: "a wrong one" });
    expect(await errorIn(stranger.ready({ timeout: 5_000 }))).toBeInstanceOf(AuthError);
  });
});

describe("a place in a queue", () => {
  it("has a position that falls as others leave, until it has come up", async () => {
    const key = freshKey();
    const held = await first().acquire(key);
    const stop = new AbortController();
    const ahead = errorIn(first().acquire(key, { signal: stop.signal }));
    await waitersOf(first(), key, 1);
    await using ticket = await second().enqueue(key);
    expect(await ticket.position()).toBe(2);
    const behind = second().acquire(key, { timeout: 10_000 });
    await waitersOf(first(), key, 3);
    const waiting = ticket.wait({ timeout: 10_000 });
    expect(await ticket.position()).toBe(2);
    stop.abort("enough");
    expect(await ahead).toBe("enough");
    await poll("the place to move up", 5_000, async () => (await ticket.position()) === 1 || undefined);
    await held.release();
    await (await waiting).release();
    expect(await errorIn(ticket.position())).toMatchObject({ code: "not_enqueued" });
    await (await behind).release();
  });

  it("that has come up and is not waited for is at 0", async () => {
    const key = freshKey();
    const held = await first().acquire(key);
    await using ticket = await second().enqueue(key);
    await held.release();
    await poll("the place to come up", 5_000, async () => (await ticket.position()) === 0 || undefined);
    expect((await ticket.wait({ timeout: 5_000 })).isHeld).toBe(true);
  });
});

describe("a lock", () => {
  it("knows when it ends unless it is renewed, and shows no token", async () => {
    const asked = Date.now();
    await using lock = await first().acquire(freshKey(), { lease: 3_000 });
    expect(lock.expiresAt).toBeGreaterThan(asked + 2_900);
    expect(lock.expiresAt).toBeLessThanOrEqual(Date.now() + 3_000);
    const { expiresAt } = lock;
    await poll("a renewal", 5_000, async () => lock.expiresAt > expiresAt + 500 || undefined);
    expect(inspect(lock)).toBe(`Lock { key: '${lock.key}', fence: '${lock.fence}', isHeld: true }`);
  });

  it.each([
    ["request", (key: string, run: () => Promise<void>) => first().request(key, run)],
    ["Web Locks", (key: string, run: () => Promise<void>) => webLocks(first()).request(key, run)],
  ])("that is stolen from %s is told when the callback has ended", async (_, request) => {
    const key = freshKey();
    const { promise: mayEnd, resolve: end } = Promise.withResolvers<void>();
    const { promise: isHeld, resolve: held } = Promise.withResolvers<void>();
    let hasEnded = false;
    const victim = errorIn(
      request(key, async () => {
        held();
        await mayEnd;
        hasEnded = true;
      }),
    );
    await isHeld;
    await using _stolen = await admin().acquire(key, { steal: true });
    end();
    expect(await victim).toBeInstanceOf(LockLostError);
    expect(await victim).toMatchObject({ reason: "stolen" });
    expect(hasEnded).toBe(true);
  });
});
