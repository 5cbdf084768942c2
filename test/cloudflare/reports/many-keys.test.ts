/** Reports on tens of thousands of keys ask, and wake, a hundred objects at most. */
import { reset, runInDurableObject } from "cloudflare:test";
import { env, exports } from "cloudflare:workers";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from "vitest";
import { allDirectories, byDirectory, directoryOfSession } from "../../../src/cloudflare/calls/directories.ts";
import type { DirectoryObject } from "../../../src/cloudflare/directory/directory-object.ts";
import { HttpSessionObject } from "../../../src/cloudflare/http-session/http-session-object.ts";
import { KeyObject } from "../../../src/cloudflare/key/key-object.ts";
import { SessionObject } from "../../../src/cloudflare/session/session-object.ts";
import { httpSessionName, newSessionId } from "../../../src/core/session-names.ts";
import { renderMetrics } from "../../../src/http/middleware/metrics.ts";
import { gatherCounts } from "../../../src/reports/counts.ts";
import { gatherStats } from "../../../src/reports/stats.ts";
import { parseExposition } from "../../metrics/parse.ts";
import { pass, stopClock } from "../clock.ts";
import { Client, service } from "../support.ts";

const nameOf = (object: unknown) => (object as { ctx: DurableObjectState }).ctx.id.name ?? "";
const keyName = (index: number) => `key-${String(index).padStart(6, "0")}`;
const numberOf = (key: string) => Number(key.slice(4));

/** Every object that was asked, and therefore woken. */
const woken = new Set<string>();

beforeEach(() => {
  stopClock();
  woken.clear();
  // One key in four is held, and has two waiters.
  vi.spyOn(KeyObject.prototype, "state").mockImplementation(async function (this: unknown) {
    const key = nameOf(this);
    woken.add(key);
    const isHeld = numberOf(key) % 4 === 0;
    const holder = { session: "s", since: 0, leaseSeconds: 33, expiresAt: Date.now() + 33_000, fence: "0".repeat(16) };
    const view = {
      limit: 1,
      holderCount: isHeld ? 1 : 0,
      holders: isHeld ? [holder] : [],
      waiters: isHeld ? 2 : 0,
      queue: [],
      lastActivity: Date.now(),
    };
    return { status: "used", view };
  });
  for (const { prototype } of [HttpSessionObject, SessionObject]) {
    vi.spyOn(prototype, "isLive").mockImplementation(async function (this: unknown) {
      woken.add(nameOf(this));
      return { isLive: true };
    });
  }
});

afterEach(() => {
  vi.restoreAllMocks();
  vi.useRealTimers();
});

async function listKeys(count: number): Promise<void> {
  const names = Array.from({ length: count }, (_, index) => keyName(index));
  for (const { directory, keys } of byDirectory(env, names)) {
    await runInDurableObject(directory, (_, { storage }) => {
      for (const key of keys) storage.sql.exec("INSERT INTO keys VALUES (?, 0)", key);
    });
  }
}

/** Sessions of many addresses, which the directory has not heard of for a while. */
async function listSessions(count: number): Promise<void> {
  const open = (index: number) => {
    const address = `192.0.2.${index % 250}`;
    const name = index % 2 === 0 ? httpSessionName(newSessionId()) : newSessionId();
    const directory = directoryOfSession(env, { session: name, address });
    return directory.openSession({ session: name, address, transport: index % 2 === 0 ? "http" : "ws" });
  };
  await Promise.all(Array.from({ length: count }, (_, index) => open(index)));
  pass(3_600_000);
}

async function scrape(options?: { readonly estimates: boolean }) {
  const families = parseExposition(await renderMetrics(service(), { isDraining: false, estimates: true, ...options }));
  return (name: string) => families.find((family) => family.name === `dflockd_${name}`)?.samples ?? [];
}

const ESTIMATED = { estimated: "true" };

describe("with 20,000 keys", () => {
  beforeAll(() => listKeys(20_000));
  afterAll(() => reset());

  it("a scrape asks a hundred, counts all, and calls what it estimates an estimate", async () => {
    const samples = await scrape();
    expect(woken.size).toBeLessThanOrEqual(100);
    expect(woken.size).toBeGreaterThan(80);
    expect(samples("keys")).toEqual([{ name: "dflockd_keys", labels: {}, value: 20_000 }]);
    expect(samples("keys_sampled")[0]?.value).toBe(woken.size);
    const [held] = samples("locks_held");
    expect(held?.labels).toEqual(ESTIMATED);
    // 5,000 are held. So far off is one sample in a hundred thousand.
    expect(held?.value).toBeGreaterThan(1_200);
    expect(held?.value).toBeLessThan(8_800);
    expect(samples("lock_waiters")[0]?.labels).toEqual(ESTIMATED);
    expect(Math.abs((samples("lock_waiters")[0]?.value ?? 0) - 2 * (held?.value ?? 0))).toBeLessThanOrEqual(1);
    for (const name of ["semaphore_holders", "semaphore_waiters", "keys_unreachable"])
      expect(samples(name)).toMatchObject([{ labels: ESTIMATED, value: 0 }]);
  });

  it("an exact scrape leaves estimates out and asks no key", async () => {
    const samples = await scrape({ estimates: false });
    expect(woken.size).toBe(0);
    expect(samples("keys")[0]?.value).toBe(20_000);
    for (const name of ["locks_held", "lock_waiters", "semaphore_holders", "semaphore_waiters"])
      expect(samples(name)).toEqual([]);
  });

  it("a document asks a hundred, the first in key order, and says that there are more", async () => {
    const stats = await gatherStats(service());
    expect(woken.size).toBe(100);
    const keys = [...stats.locks, ...stats.idle_locks].map(({ key }) => key).sort();
    expect(keys).toEqual(Array.from({ length: 100 }, (_, index) => keyName(index)));
    expect(Object.keys(stats).at(-1)).toBe("truncated");
    expect("next_cursor" in stats).toBe(false);
  });

  it("the same is answered on the wire", async () => {
    const client = await Client.open();
    const reply = await client.ask("stats\n_\n_\n");
    expect(reply).toMatch(/^ok \{"connections":1,.*"truncated":true\}$/);
    expect(woken.size).toBe(100);
    client.close();
  });

  it("a page has as many keys as asked for, up to a hundred, and pages follow each other", async () => {
    for (const [limit, size] of [
      [1, 1],
      [50, 50],
      [10_000, 100],
    ] as const) {
      woken.clear();
      const page = await gatherStats(service(), { limit, cursor: keyName(9), detail: true });
      expect(woken.size).toBe(size);
      expect(page.locks.length + page.idle_locks.length).toBe(size);
      expect(page.next_cursor).toBe(keyName(9 + size));
      expect("truncated" in page).toBe(false);
    }
  });

  it("opening the console asks for the keys of its first page only", async () => {
    // What the page asks for: `src/console/keys/watch.ts` and `src/console/shared/throughput.ts`.
    for (const path of ["/v1/stats?limit=50&detail=true", "/metrics?exact=true"]) {
      const reply = await exports.default.fetch(`http://localhost${path}`);
      expect([path, reply.status]).toEqual([path, 200]);
      await reply.text();
    }
    expect(woken).toEqual(new Set(Array.from({ length: 50 }, (_, index) => keyName(index))));
  });

  it("the numbers of godistlock's STATS say that they are estimates", async () => {
    const counts = await gatherCounts(service());
    expect(woken.size).toBeLessThanOrEqual(100);
    expect(counts).toMatchObject({ estimated: 1, clients: 0 });
    expect(Math.abs((counts.waiters ?? 0) - 2 * (counts.locks ?? 0))).toBeLessThanOrEqual(1);
  });

  it("keys are counted once, not every time", async () => {
    await service().directory.gauges({ mayEstimate: true });
    const read = await Promise.all(
      allDirectories(env).map((directory) =>
        runInDurableObject(directory, async (object: DirectoryObject, { storage: { sql } }) => {
          const exec = vi.spyOn(sql, "exec");
          await object.census();
          object.tally();
          return exec.mock.results.reduce((rows, { value }) => rows + (value as { rowsRead: number }).rowsRead, 0);
        }),
      ),
    );
    expect(Math.max(...read)).toBe(0);
  });

  it("sessions that must be probed are among the hundred", async () => {
    await listSessions(400);
    const samples = await scrape();
    expect(woken.size).toBeLessThanOrEqual(100);
    expect(woken.size).toBeGreaterThan(80);
    expect([...woken].filter((name) => !name.startsWith("key-")).length).toBe(32);
    expect(samples("connections")[0]?.value).toBe(400);
    woken.clear();
    await gatherStats(service());
    expect(woken.size).toBe(100);
  });
});

describe("with a hundred keys", () => {
  it("all are asked and nothing is an estimate", async () => {
    await listKeys(100);
    const samples = await scrape();
    expect(woken.size).toBe(100);
    expect(samples("locks_held")).toEqual([{ name: "dflockd_locks_held", labels: {}, value: 25 }]);
    expect(samples("keys_sampled")[0]?.value).toBe(100);
    const stats = await gatherStats(service());
    expect(stats.locks.length + stats.idle_locks.length).toBe(100);
    expect("truncated" in stats).toBe(false);
    expect("next_cursor" in (await gatherStats(service(), { limit: 100 }))).toBe(false);
  });
});
