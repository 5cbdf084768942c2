/** Several keys in one request, against real servers. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { AcquireTimeoutError, type Keys, type Locks } from "../../src/client/index.ts";
import { HOSTS } from "../support/hosts.ts";
import { poll } from "../support/poll.ts";
import type { TestServer } from "../support/server.ts";
import { ask, TcpClient } from "../support/wire-client.ts";
import { connectTo, errorIn, freshKey, waitersOf } from "./support.ts";

const ROUNDS = 200;

describe.each(HOSTS)("several keys, on $name", (host) => {
  let server: TestServer;
  let ada: Locks;
  let bob: Locks;
  beforeAll(async () => {
    server = await host.start();
    ada = connectTo(server.httpPort, { label: "ada" });
    bob = connectTo(server.httpPort, { label: "bob" });
  });
  afterAll(async () => {
    await Promise.all([ada.close(), bob.close()]);
    await server.stop();
  });

  const holdersOf = async (key: string) => (await ada.query(key))?.holders ?? 0;

  it(`two clients that want them in different orders never wait for each other, ${ROUNDS} times [M13]`, async () => {
    const [a, b] = [freshKey("a"), freshKey("b")];
    let inside = 0;
    const work = async (locks: Locks, keys: Keys) => {
      for (let round = 0; round < ROUNDS; round += 1)
        await locks.request(keys, async (held, signal) => {
          inside += 1;
          expect(inside).toBe(1);
          await new Promise((resolve) => setImmediate(resolve));
          expect([held.every(({ isHeld }) => isHeld), signal.aborted]).toEqual([true, false]);
          inside -= 1;
        });
    };
    await Promise.all([work(ada, [a, b]), work(bob, [b, a])]);
    expect([await holdersOf(a), await holdersOf(b)]).toEqual([0, 0]);
  });

  it("aborts its signal when one of them is released elsewhere [M14]", async () => {
    const [a, b] = [freshKey("a"), freshKey("b")];
    const asked = ada.request([a, b], async ([, second], signal) => {
      const thief = await TcpClient.open(server.tcpPort);
      expect(await ask(thief, "r", b, second.token)).toBe("ok");
      thief.close();
      await poll("the signal", 20_000, async () => signal.aborted || undefined);
      return signal.reason;
    });
    expect(await errorIn(asked)).toMatchObject({ name: "LockLostError", message: `${b} is lost: released` });
    expect(await holdersOf(a)).toBe(0);
  });

  it("gives back what it has when the rest is not free in time", async () => {
    const [a, b] = [freshKey("a"), freshKey("b")];
    await using held = await bob.acquire(b);
    const asked = ada.request([b, a], { timeout: 300 }, () => expect.fail("ran without all locks"));
    await waitersOf(bob, b, 1);
    expect(await holdersOf(a)).toBe(1);
    expect(await errorIn(asked)).toBeInstanceOf(AcquireTimeoutError);
    expect([await holdersOf(a), (await bob.query(b))?.waiters, held.isHeld]).toEqual([0, 0, true]);
  });
});
