/** Tokens, tickets and the administrator's right, as clients show them. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { AuthError } from "../../src/client/index.ts";
import { startCutProxy } from "../support/cut-proxy.ts";
import { startServer, type TestServer } from "../support/server.ts";
import { becomes, connectTo, errorIn, freshKey, ticketOf, waitersOf } from "./support.ts";

const [TOKEN, ADMIN] = ["the shared token", "the operator's token"];
let server: TestServer;
beforeAll(async () => {
  server = await startServer({ variables: { AUTH_TOKEN: TOKEN, ADMIN_TOKEN: ADMIN } });
});
afterAll(() => server.stop());

describe("a token", () => {
  it("opens the service, also one that somebody has to be asked for", async () => {
    await using plain = connectTo(server.httpPort, { token: `${TOKEN}\n` });
    await using asked = connectTo(server.httpPort, { token: async () => TOKEN });
    for (const locks of [plain, asked]) expect(await locks.request(freshKey(), () => "held")).toBe("held");
  });

  it.each([["the wrong one"], [undefined]])(
    "that is %j is refused, and the client can be asked again",
    async (token) => {
      let shown: string | undefined = token;
      await using locks = connectTo(server.httpPort, token === undefined ? {} : { token: () => shown ?? "" });
      const refusal = await errorIn(locks.acquire(freshKey()));
      expect(refusal).toBeInstanceOf(AuthError);
      const problem = token === undefined ? 'needs a token: set the option "token"' : "refused the token";
      expect(refusal).toMatchObject({ message: `the service ${problem}` });
      expect(await errorIn(locks.query(freshKey()))).toBeInstanceOf(AuthError);
      if (token === undefined) return;
      shown = TOKEN;
      expect(await locks.request(freshKey(), () => "held")).toBe("held");
    },
  );

  it("where none is needed does no harm", async () => {
    await using open = await startServer();
    await using locks = connectTo(open.httpPort, { token: "whatever" });
    expect(await locks.request("key", () => "held")).toBe("held");
  });
});

describe("a ticket", () => {
  it("opens its keys and no others", async () => {
    const key = freshKey();
    await using locks = connectTo(server.httpPort, {
      token: () => ticketOf(server, TOKEN, { keys: [key], operations: ["lock"], ttl_s: 60 }),
    });
    await using lock = await locks.acquire(key);
    expect(lock.isHeld).toBe(true);
    expect(await errorIn(locks.acquire(freshKey()))).toBeInstanceOf(AuthError);
    expect(await errorIn(locks.acquire(key, { limit: 2 }))).toBeInstanceOf(AuthError);
    expect(await errorIn(locks.query(key))).toBeInstanceOf(AuthError);
  });
});

describe("stealing", () => {
  it("is the administrator's: he gets the lock ahead of the queue, and the victim is told", async () => {
    const key = freshKey();
    await using victim = connectTo(server.httpPort, { token: TOKEN });
    await using admin = connectTo(server.httpPort, { token: ADMIN });
    const lock = await victim.acquire(key);
    const waiting = victim.acquire(key);
    await waitersOf(admin, key, 1);
    const stolen = await admin.acquire(key, { steal: true });
    expect((await lock.lost).reason).toBe("stolen");
    expect(stolen.fence > lock.fence).toBe(true);
    expect(await admin.query(key)).toMatchObject({ held_by: [{ fence: stolen.fence }], waiters: 1 });
    await stolen.release();
    await (await waiting).release();
  });

  it("is told as such also to a victim that was cut off meanwhile", async () => {
    const key = freshKey();
    await using proxy = await startCutProxy(() => server.httpPort);
    await using victim = connectTo(proxy.port, { token: TOKEN });
    await using admin = connectTo(server.httpPort, { token: ADMIN });
    const lock = await victim.acquire(key);
    proxy.close();
    await becomes(victim, "reconnecting");
    await using stolen = await admin.acquire(key, { steal: true });
    expect(lock.isHeld).toBe(true);
    proxy.heal();
    expect((await lock.lost).reason).toBe("stolen");
    expect(stolen.isHeld).toBe(true);
  });

  it("is the administrator's also where everybody may come in", async () => {
    await using open = await startServer({ variables: { ADMIN_TOKEN: ADMIN } });
    await using anybody = connectTo(open.httpPort, { token: "whatever" });
    await using admin = connectTo(open.httpPort, { token: ADMIN });
    const lock = await anybody.acquire("key");
    expect(await errorIn(anybody.acquire("key", { steal: true }))).toBeInstanceOf(AuthError);
    const stolen = await admin.acquire("key", { steal: true });
    expect((await lock.lost).reason).toBe("stolen");
    expect(await stolen.release()).toBe(true);
  });

  it("is nobody else's", async () => {
    const key = freshKey();
    await using locks = connectTo(server.httpPort, { token: TOKEN });
    const lock = await locks.acquire(key);
    const refusal = await errorIn(locks.acquire(key, { steal: true }));
    expect(refusal).toBeInstanceOf(AuthError);
    expect(refusal).toMatchObject({ message: `only the admin token may steal ${key}` });
    expect(await lock.release()).toBe(true);
  });
});
