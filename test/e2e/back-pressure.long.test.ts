/** A client that does not read is cut once there is something to tell it. */
import { describe, expect, it } from "vitest";
import { Clients } from "../support/clients.ts";
import { sleep } from "../support/poll.ts";
import { startServer } from "../support/server.ts";
import { ask, joinQueue, lock, TRANSPORTS } from "../support/wire-client.ts";

describe("a client that never reads", () => {
  it.each(TRANSPORTS)("is cut at the write deadline, and its lock goes on (%s)", async (transport) => {
    await using strict = await startServer({ variables: { WRITE_TIMEOUT_S: "1" } });
    using clients = new Clients(strict);
    const [owner, next, deaf] = [await clients.tcp(), await clients.tcp(), await clients.open(transport)];
    for (let index = 0; index < 120; index += 1) await lock(owner, `${index}-${"long".repeat(60)}`);
    await lock(deaf, "deaf");
    await joinQueue(next, "deaf", "30");
    deaf.pause();
    deaf.send("stats\n_\n_\n".repeat(1_000));
    expect(await next.next(20_000)).toMatch(/^@wait ok /);
    expect(await ask(owner, "ping", "_", "_")).toBe("ok");
  });

  it("is left alone while there is nothing to tell it", async () => {
    await using strict = await startServer({ variables: { WRITE_TIMEOUT_S: "1" } });
    using clients = new Clients(strict);
    const deaf = await clients.tcp();
    await lock(deaf, "quiet");
    deaf.pause();
    await sleep(2.5);
    deaf.resume();
    expect(await ask(deaf, "ping", "_", "_")).toBe("ok");
  });
});
