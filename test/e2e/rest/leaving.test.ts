/** Clients that go away while they wait. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { parseExposition, sampleValue } from "../../metrics/parse.ts";
import { HOSTS } from "../../support/hosts.ts";
import { poll, sleep } from "../../support/poll.ts";
import { expectError, expectJson, expectNoContent, grantIn } from "../../support/replies.ts";
import { Api, freshKey, type RestSession } from "../../support/rest.ts";
import type { TestServer } from "../../support/server.ts";
import { stopwatch } from "../../support/stopwatch.ts";

describe.each(HOSTS)("leaving, on $name", (host) => {
  let server: TestServer;
  let api: Api;
  beforeAll(async () => {
    server = await host.start();
    api = new Api(server);
  });
  afterAll(() => server.stop());

  /** Whoever only tries gets the lock within a second. */
  const soonFree = (session: RestSession, key: string) =>
    poll(`${key} to be free`, 1_000, async () => {
      const { body } = await session.post(`/v1/locks/${key}`, { acquire_timeout_s: 0 });
      return body.startsWith('{"status":"ok"') || undefined;
    });

  /** Requests that ended because their client had left. */
  async function canceled(): Promise<number> {
    const families = parseExposition((await api.get("/metrics")).body);
    const labels = { method: "POST", path: "/v1/locks/{key}", status: "408" };
    return sampleValue(families, "dflockd_http_requests_total", labels) ?? 0;
  }

  describe.each(host.hangUps)("a client that goes away (%s)", (how) => {
    it("at about the time of the grant leaves the lock to others within a second, or has been answered", async () => {
      for (let round = 0; round < 6; round += 1) {
        const [[holder, waiter, third], key] = [await api.sessions(3), freshKey("crossing")];
        const token = await holder.lock(key);
        const polling = await waiter.waitInLine(key, 60);
        const releasing = holder.release(key, token);
        await sleep(round / 2_000);
        polling[how]();
        await releasing;
        // A reply that was written is the client's, although it was not there to read it: then its session decides.
        await soonFree(third, key).catch(async () => {
          expect(await api.queue(key)).toEqual([]);
          expectNoContent(await waiter.end());
          await soonFree(third, key);
        });
      }
    });

    it("long before the holder releases is not in the queue when it does", async () => {
      const [[holder, waiter, next], key] = [await api.sessions(3), freshKey("long-gone")];
      const token = await holder.lock(key);
      const abandoned = await waiter.waitInLine(key, 60);
      const polling = await next.waitInLine(key, 60);
      abandoned[how]();
      await api.waitersOn(key, 1);
      const elapsed = stopwatch();
      await holder.release(key, token);
      const reply = await polling.reply;
      expect(elapsed()).toBeLessThanOrEqual(500);
      grantIn(reply);
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
      grantIn(await waiting.reply);
      expectNoContent(await waiter.ping());
    });

    it("from the wait for its place has no place any more", async () => {
      const [[holder, waiter, third], key] = [await api.sessions(3), freshKey("place")];
      const token = await holder.lock(key);
      expectJson(await waiter.post(`/v1/locks/${key}/enqueue`, {}), 200, { status: "queued" });
      const waiting = waiter.start(`/v1/locks/${key}/wait`, { timeout_s: 60 });
      await poll("the wait to reach its key", 20_000, async () =>
        (await api.get(`/v1/keys/${key}`)).body.includes("timeout_in_s") ? true : undefined,
      );
      waiting[how]();
      await api.waitersOn(key, 0);
      await holder.release(key, token);
      await soonFree(third, key);
      expectError(await waiter.post(`/v1/locks/${key}/wait`, { timeout_s: 0 }), 409, "not_enqueued");
    });
  });

  describe("ten polls that were abandoned", () => {
    /** Ten abandoned polls, one that is not behind them, and the holder's token. */
    async function abandonTen() {
      const [[holder, live], key] = [await api.sessions(2), freshKey("ten")];
      const leavers = await api.sessions(10);
      const token = await holder.lock(key);
      const abandoned = [];
      for (const leaver of leavers) abandoned.push(await leaver.waitInLine(key, 60));
      const polling = await live.waitInLine(key, 60);
      for (const [n, each] of abandoned.entries()) each[host.hangUps[n % host.hangUps.length] ?? "reset"]();
      const handOver = async () => {
        const elapsed = stopwatch();
        await holder.release(key, token);
        grantIn(await polling.reply);
        return elapsed();
      };
      return { key, leavers, handOver };
    }

    it("are out of the queue within a second, delay nobody, and are counted", async () => {
      const before = await canceled();
      const { key, leavers, handOver } = await abandonTen();
      await poll("ten to be gone", 1_000, async () => ((await api.queue(key)).length === 1 ? true : undefined));
      expect(await handOver()).toBeLessThanOrEqual(500);
      await poll("ten to be counted", 5_000, async () =>
        (await canceled()) - before >= leavers.length ? true : undefined,
      );
      for (const leaver of leavers) expectNoContent(await leaver.ping());
    });

    it("delay the one behind them by less than a second when the holder releases in that moment", async () => {
      const { handOver } = await abandonTen();
      expect(await handOver()).toBeLessThanOrEqual(1_000);
    });
  });
});
