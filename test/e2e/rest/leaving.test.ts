/** Clients that go away while they wait, on a server that is not told so: it finds out when it writes to them. */
import { connect, type Socket } from "node:net";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { parseExposition, sampleValue } from "../../metrics/parse.ts";
import { poll, sleep } from "../../support/poll.ts";
import { expectError, expectJson, expectNoContent, grantIn, waited } from "../../support/replies.ts";
import { Api, freshKey, type RestSession } from "../../support/rest.ts";
import { startServer, type TestServer } from "../../support/server.ts";

let server: TestServer;
let api: Api;
beforeAll(async () => {
  server = await startServer();
  api = new Api(server);
});
afterAll(() => server.stop());

/** Whoever only tries gets the lock within a second. */
const soonFree = (session: RestSession, key: string) =>
  poll(`${key} to be free`, 1_000, async () => {
    const { body } = await session.post(`/v1/locks/${key}`, { acquire_timeout_s: 0 });
    return body.startsWith('{"status":"ok"') || undefined;
  });

async function goneNotices(): Promise<number> {
  const families = parseExposition((await api.get("/metrics")).body);
  return sampleValue(families, "dflockd_notifications_total", { result: "gone" }) ?? 0;
}

/** A poll on a bare connection, and what has come over it so far. */
class BarePoll {
  readonly #socket: Socket;
  #received = "";

  constructor({ id }: RestSession, key: string) {
    const body = JSON.stringify({ acquire_timeout_s: 60 });
    this.#socket = connect(server.httpPort, "127.0.0.1");
    this.#socket.on("data", (chunk) => {
      this.#received += chunk.toString("latin1");
    });
    this.#socket.on("error", () => {});
    this.#socket.write(
      `POST /v1/locks/${key} HTTP/1.1\r\nHost: holdfast\r\nX-Dflockd-Session: ${id}\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
    );
  }

  /** Leaves as soon as this much of the reply has come. */
  leaveAfter(part: RegExp, how: "close" | "reset"): Promise<void> {
    return new Promise((resolve) => {
      this.#socket.on("data", () => {
        if (!part.test(this.#received)) return;
        if (how === "close") this.#socket.destroy();
        else this.#socket.resetAndDestroy();
        resolve();
      });
    });
  }
}

describe.each(["close", "reset"] as const)("a client that goes away (%s)", (how) => {
  it("when its reply has only just begun leaves the lock to others within a second", async () => {
    for (let round = 0; round < 5; round += 1) {
      const [[holder, waiter, third], key] = [await api.sessions(3), freshKey("begun")];
      const token = await holder.lock(key);
      const polling = new BarePoll(waiter, key);
      await api.waitersOn(key, 1);
      const left = polling.leaveAfter(/\r\n\r\n/, how);
      await holder.release(key, token);
      await left;
      await soonFree(third, key);
    }
  });

  it("long before the holder releases costs nobody more than a second", async () => {
    const [[holder, waiter, next], key] = [await api.sessions(3), freshKey("long-gone")];
    const token = await holder.lock(key);
    const abandoned = await waiter.waitInLine(key, 60);
    const polling = await next.waitInLine(key, 60);
    abandoned[how]();
    await sleep(1);
    const releasedAt = performance.now();
    await holder.release(key, token);
    const reply = await polling.reply;
    grantIn(waited(reply));
    expect(reply.endedAt - releasedAt).toBeLessThanOrEqual(1_000);
  });

  it("from one of two polls keeps its place in the other queue", async () => {
    const [[holder, waiter, third], left, kept] = [await api.sessions(3), freshKey("left"), freshKey("kept")];
    const [leftToken, keptToken] = [await holder.lock(left), await holder.lock(kept)];
    const abandoned = await waiter.waitInLine(left, 60);
    const waiting = await waiter.waitInLine(kept, 60);
    abandoned[how]();
    await holder.release(left, leftToken);
    await soonFree(third, left);
    await holder.release(kept, keptToken);
    grantIn(waited(await waiting.reply));
    expectNoContent(await waiter.ping());
  });

  it("from the wait for its place has no place any more when its turn has come", async () => {
    const [[holder, waiter, third], key] = [await api.sessions(3), freshKey("place")];
    const token = await holder.lock(key);
    expectJson(await waiter.post(`/v1/locks/${key}/enqueue`, {}), 200, { status: "queued" });
    const waiting = waiter.start(`/v1/locks/${key}/wait`, { timeout_s: 60 });
    await poll("the wait to reach its key", 3_000, async () =>
      (await api.get(`/v1/keys/${key}`)).body.includes("timeout_in_s") ? true : undefined,
    );
    waiting[how]();
    await holder.release(key, token);
    await soonFree(third, key);
    expectError(await waiter.post(`/v1/locks/${key}/wait`, { timeout_s: 0 }), 409, "not_enqueued");
  });
});

describe("ten polls that were abandoned", () => {
  it("stand in nobody's way for more than three seconds, and are counted", async () => {
    const [[holder, live], key] = [await api.sessions(2), freshKey("ten")];
    const leavers = await api.sessions(10);
    const before = await goneNotices();
    const token = await holder.lock(key);
    const abandoned = [];
    for (const leaver of leavers) abandoned.push(await leaver.waitInLine(key, 60));
    // Of a reset the platform hears at once; of these it does not.
    for (const polling of abandoned) polling.close();
    const polling = await live.waitInLine(key, 60);
    const releasedAt = performance.now();
    await holder.release(key, token);
    const reply = await polling.reply;
    grantIn(waited(reply));
    expect(reply.endedAt - releasedAt).toBeLessThanOrEqual(3_000);
    await poll("ten to be counted as gone", 5_000, async () =>
      (await goneNotices()) - before >= leavers.length ? true : undefined,
    );
    for (const leaver of leavers) expectNoContent(await leaver.ping());
  });
});
