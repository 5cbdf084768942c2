import { describe, expect, it } from "vitest";
import { ConnectionError } from "../../../src/client/index.ts";
import { settled } from "./fake-clock.ts";
import { freshToken, world } from "./fake-service.ts";

/** The outcome if there is one, else "pending". */
async function now<T>(promise: Promise<T>): Promise<T | "pending" | Error> {
  const pending = settled().then(() => "pending" as const);
  return Promise.race([promise.catch((error: Error) => error), pending]);
}

describe("a request made while there is no connection", () => {
  it("is sent when there is one", async () => {
    const { clock, service, locks } = await world();
    service.welcome = "unreachable";
    service.socket.lose();
    const asked = locks.acquire("key");
    await clock.pass(20_000);
    service.welcome = "session";
    await clock.pass(6_000);
    await service.answer(service.last("l"), `ok ${freshToken()} 33`);
    expect((await asked).isHeld).toBe(true);
  });

  it("is over in time: a wait at its timeout, anything else after ten seconds", async () => {
    const { clock, service, locks } = await world();
    service.welcome = "unreachable";
    service.socket.lose(4410);
    await settled();
    const wait = locks.acquire("key", { timeout: 700 }).catch((error) => error);
    const others = [locks.tryAcquire("key"), locks.query("key"), locks.enqueue("key")].map((each) =>
      each.catch((error) => error),
    );
    await clock.pass(700);
    expect(await wait).toMatchObject({
      code: "timeout",
      message: expect.stringMatching(/^key was not reached within 700 ms: closed with code \d+$/),
      cause: expect.anything(),
    });
    expect(await now(others[0] as Promise<unknown>)).toBe("pending");
    await clock.pass(9_500);
    for (const other of others) expect(await other).toBeInstanceOf(ConnectionError);
    service.welcome = "session";
    await clock.pass(6_000);
    expect(service.frames).toEqual([]);
  });
});

describe("the story of a connection", () => {
  it("is told to any number of readers from where they come in, until the end", async () => {
    const { clock, service, locks } = await world();
    const read = async (story: string[]) => {
      for await (const status of locks.statuses()) story.push(status);
    };
    const [early, late]: [string[], string[]] = [[], []];
    const readers = [read(early)];
    await settled();
    service.socket.lose();
    await settled();
    readers.push(read(late));
    await clock.pass(150);
    service.welcome = "gone";
    service.socket.lose();
    await clock.pass(300);
    service.welcome = "session";
    await clock.pass(3_000);
    await locks.close();
    await Promise.all(readers);
    expect(early).toEqual(["connected", "reconnecting", "resumed", "reconnecting", "connected", "closed"]);
    expect(late).toEqual(early.slice(1));
  });

  it("can be left while somebody waits for the next chapter, and is over then", async () => {
    const { service, locks } = await world();
    const story = locks.statuses();
    expect(await story.next()).toEqual({ done: false, value: "connected" });
    const waiting = [story.next(), story.next()];
    await story.return?.();
    expect(await Promise.all(waiting)).toEqual([
      { done: true, value: undefined },
      { done: true, value: undefined },
    ]);
    service.socket.lose();
    expect((await story.next()).done).toBe(true);
  });

  it("says in `problem` why there is no connection", async () => {
    const { clock, service, locks } = await world();
    expect(locks.problem).toBeUndefined();
    service.welcome = "unreachable";
    service.socket.lose(1012);
    await settled();
    expect(locks.problem).toBe("closed with code 1012");
    service.welcome = "session";
    await clock.pass(1_000);
    expect(locks.problem).toBeUndefined();
  });

  it("has no `problem` left after it was closed, nor as the cause of what fails later", async () => {
    const { clock, service, locks } = await world();
    service.socket.lose(1012);
    await clock.pass(1_000);
    const asked = locks.query("key").catch((error) => error);
    await clock.pass(10_000);
    expect(await asked).toMatchObject({ code: "connection", message: "no answer within 10000 ms" });
    expect((await asked).cause).toBeUndefined();
    service.welcome = "unreachable";
    service.socket.lose(1012);
    await settled();
    expect(locks.problem).toBe("closed with code 1012");
    const closed = locks.close();
    await clock.pass(5_000);
    await closed;
    expect(locks.problem).toBeUndefined();
  });

  it("can be left at any time", async () => {
    const { locks } = await world();
    for await (const status of locks.statuses()) {
      expect(status).toBe("connected");
      break;
    }
  });
});
