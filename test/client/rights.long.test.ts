/** A ticket that is replaced before it runs out. The same in virtual time: `pure/tokens.test.ts`. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { sleep } from "../support/poll.ts";
import { startServer, type TestServer } from "../support/server.ts";
import { connectTo, freshKey, storyOf, ticketOf } from "./support.ts";

const TOKEN = "the shared token";
let server: TestServer;
beforeAll(async () => {
  server = await startServer({ variables: { AUTH_TOKEN: TOKEN } });
});
afterAll(() => server.stop());

describe("a ticket", () => {
  it("that runs out is replaced in time, and the lock outlives it", async () => {
    const key = freshKey();
    let tickets = 0;
    const token = () => {
      tickets += 1;
      return ticketOf(server, TOKEN, { keys: [key], operations: ["semaphore"], ttl_s: 6 });
    };
    await using locks = connectTo(server.httpPort, { token });
    const lock = await locks.acquire(key, { limit: 2, lease: 3_000 });
    const story = storyOf(locks);
    await sleep(11);
    expect(lock.isHeld).toBe(true);
    expect(tickets).toBeGreaterThan(1);
    expect(story.slice(0, 3)).toEqual(["connected", "reconnecting", "resumed"]);
    expect(await lock.release()).toBe(true);
  });
});
