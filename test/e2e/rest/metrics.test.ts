/** What the service counts is what its clients have seen, whatever they speak. */
import { describe, expect, it } from "vitest";
import { type ParsedFamily, parseExposition } from "../../metrics/parse.ts";
import { Clients } from "../../support/clients.ts";
import { HOSTS } from "../../support/hosts.ts";
import { poll } from "../../support/poll.ts";
import { expectJson, expectNoContent, grantIn } from "../../support/replies.ts";
import { Api } from "../../support/rest.ts";
import { ask, joinQueue, lock, tokenOf } from "../../support/wire-client.ts";

type Scrape = readonly ParsedFamily[];

/** The sum of a family's series that have these labels. */
function total(scrape: Scrape, name: string, labels: Readonly<Record<string, string>> = {}): number {
  const samples = scrape.flatMap((family) => family.samples).filter((sample) => sample.name === `dflockd_${name}`);
  const matching = samples.filter((sample) =>
    Object.entries(labels).every(([label, value]) => sample.labels[label] === value),
  );
  return matching.reduce((sum, { value }) => sum + value, 0);
}

/** Every counter and every bucket, by name and labels. */
function counts(scrape: Scrape): Map<string, number> {
  const counting = scrape.filter(({ type }) => type !== "gauge").flatMap(({ samples }) => samples);
  return new Map(counting.map(({ name, labels, value }) => [`${name} ${JSON.stringify(labels)}`, value]));
}

const LOCK = { kind: "lock" };
const SEMAPHORE = { kind: "semaphore" };

describe.each(HOSTS)("metrics, on $name", (host) => {
  it("counters agree with a mixed run over TCP, WebSocket and REST, and do not fall when the process is killed", async () => {
    await using server = await host.start();
    const api = new Api(server);
    const scrape = async () => parseExposition((await api.get("/metrics")).body);
    const seen = { lock: 0, semaphore: 0, timeouts: 0 };
    {
      using clients = new Clients(server);
      const [tcp, ws] = [await clients.tcp(), await clients.ws()];
      const [one, two, gone] = await api.sessions(3);
      // Ten hand-overs through four hands, one of them a place taken before.
      let token = await lock(tcp, "relay", "0 60");
      seen.lock += 1;
      for (let round = 0; round < 10; round += 1) {
        const [polling, other] = [await one.waitInLine("relay", 60), await two.waitInLine("relay", 60)];
        await joinQueue(ws, "relay", "60");
        expectJson(await gone.post("/v1/locks/relay/enqueue", {}), 200, { status: "queued" });
        expect(await ask(tcp, "r", "relay", token)).toBe("ok");
        await one.release("relay", grantIn(await polling.reply));
        await two.release("relay", grantIn(await other.reply));
        expect(await ask(ws, "r", "relay", tokenOf(await ws.next()))).toBe("ok");
        await gone.release("relay", grantIn(await gone.post("/v1/locks/relay/wait", { timeout_s: 5 })));
        token = await lock(tcp, "relay", "0 60");
        seen.lock += 5;
      }
      for (let slot = 0; slot < 3; slot += 1) {
        await one.take("slots", 3);
        seen.semaphore += 1;
      }
      for (const refused of [one, two]) {
        const reply = await refused.post("/v1/semaphores/slots", { acquire_timeout_s: 0, limit: 3 });
        expectJson(reply, 200, { status: "timeout" });
        expectJson(await refused.post("/v1/locks/relay", { acquire_timeout_s: 1 }), 200, { status: "timeout" });
        seen.timeouts += 2;
      }
      // A poll that is abandoned is granted to nobody.
      const abandoned = await gone.waitInLine("relay", 60);
      abandoned.reset();
      await api.waitersOn("relay", 0);
      expect(await ask(tcp, "r", "relay", token)).toBe("ok");
      await poll("relay to be free", 2_000, async () => {
        const reply = await two.post("/v1/locks/relay", { acquire_timeout_s: 0 });
        if (JSON.parse(reply.body).status === "timeout") seen.timeouts += 1;
        else seen.lock += 1;
        return reply.body.includes('"ok"') || undefined;
      });
      for (const session of [one, two, gone]) expectNoContent(await session.end());
    }

    // Keys report what they have counted within about a second.
    const before = await poll("every grant and every end of a hold to be counted", 5_000, async () => {
      const now = await scrape();
      const reported = ["grants_total", "lock_hold_seconds_count"].flatMap((name) => [
        total(now, name, LOCK),
        total(now, name, SEMAPHORE),
      ]);
      const isAll = reported.join() === [seen.lock, seen.semaphore, seen.lock, seen.semaphore].join();
      return isAll && total(now, "connections") === 0 ? now : undefined;
    });
    for (const kind of [LOCK, SEMAPHORE]) {
      const grants = total(before, "grants_total", kind);
      expect(total(before, "lock_wait_seconds_count", kind)).toBe(grants);
      expect(total(before, "lock_wait_seconds_bucket", { ...kind, le: "+Inf" })).toBe(grants);
    }
    expect(total(before, "grants_total", { ...LOCK, how: "queued" })).toBe(40);
    expect(total(before, "acquire_timeouts_total")).toBe(seen.timeouts);
    expect(total(before, "releases_total", { ...SEMAPHORE, reason: "disconnect" })).toBe(seen.semaphore);
    expect(total(before, "releases_total", { ...LOCK, reason: "gone" })).toBe(0);
    const ungranted = total(before, "releases_total", { reason: "gone" });
    expect(total(before, "releases_total") - ungranted).toBe(seen.lock + seen.semaphore);
    expect(total(before, "http_requests_total", { path: "/v1/sessions", status: "200" })).toBe(3);
    for (const gauge of ["http_sessions", "locks_held", "lock_waiters", "semaphore_holders", "semaphore_waiters"]) {
      expect([gauge, total(before, gauge)]).toEqual([gauge, 0]);
    }

    const read = counts(await scrape());
    await server.restart();
    const after = counts(await scrape());
    const fallen = [...read].filter(([name, value]) => (after.get(name) ?? 0) < value);
    expect(fallen).toEqual([]);
    const session = await api.session();
    await session.lock("relay");
    await poll("the next grant to be counted", 5_000, async () =>
      total(await scrape(), "grants_total", LOCK) === seen.lock + 1 ? true : undefined,
    );
  });
});
