/** The server is killed without warning. Its storage comes back, soon or late. */
import { describe, expect, it } from "vitest";
import { startCutProxy } from "../support/cut-proxy.ts";
import { poll } from "../support/poll.ts";
import { startServerProcess } from "../support/server-process.ts";
import { connectTo, freshKey, storyOf, waitersOf } from "./support.ts";

describe("after a kill -9", () => {
  it("locks and places go on if the server is back within the grace", async () => {
    await using server = await startServerProcess();
    await using proxy = await startCutProxy(() => server.httpPort);
    await using holder = connectTo(proxy.port, { label: "holder" });
    await using waiter = connectTo(proxy.port, { label: "waiter" });
    const key = freshKey();
    const lock = await holder.acquire(key);
    const waiting = waiter.acquire(key);
    await waitersOf(holder, key, 1);
    const behind = holder.acquire(key);
    await waitersOf(holder, key, 2);
    const story = storyOf(holder);
    await server.restart();
    await poll("both to be back", 10_000, async () => story.includes("resumed") || undefined);
    expect(lock.isHeld).toBe(true);
    expect(await holder.query(key)).toMatchObject({
      held_by: [{ fence: lock.fence }],
      queue: [{ position: 1 }, { position: 2 }],
    });
    expect(await lock.release()).toBe(true);
    const second = await waiting;
    expect(second.fence > lock.fence).toBe(true);
    await second.release();
    await (await behind).release();
    expect(story).toEqual(["connected", "reconnecting", "resumed"]);
  });
});
