/** A server that has seen its keys reports on all of them without waking any; one that has not says so. */
import { expect, it } from "vitest";
import { parseExposition } from "../metrics/parse.ts";
import { Clients } from "../support/clients.ts";
import { poll } from "../support/poll.ts";
import { Api } from "../support/rest.ts";
import { startServer } from "../support/server.ts";
import { readStats } from "../support/stats.ts";
import { ask, lock, type WireClient } from "../support/wire-client.ts";

const KEYS = 215;
const HELD = 20;
const keyName = (index: number) => `key-${String(index).padStart(3, "0")}`;

async function useKeys(client: WireClient): Promise<void> {
  for (let index = 0; index < KEYS; index += 1) {
    const token = await lock(client, keyName(index), "0 3600");
    if (index >= HELD) expect(await ask(client, "r", keyName(index), token)).toBe("ok");
  }
}

it("reports are whole and exact with more keys than may be asked, and become so again after a restart", async () => {
  await using server = await startServer({ variables: { GC_MAX_IDLE_S: "3600", AUTO_RELEASE_ON_DISCONNECT: "false" } });
  const api = new Api(server);
  const scrape = async (path = "/metrics") => {
    const samples = parseExposition((await api.get(path)).body).flatMap((family) => family.samples);
    return (name: string) => samples.find((sample) => sample.name === `dflockd_${name}`);
  };
  {
    using clients = new Clients(server);
    const client = await clients.tcp();
    await useKeys(client);
    const stats = await readStats(client);
    expect([stats.locks.length, stats.idle_locks.length]).toEqual([HELD, KEYS - HELD]);
    expect("truncated" in stats).toBe(false);
    for (const path of ["/metrics", "/metrics?exact=true"]) {
      const sample = await scrape(path);
      expect(sample("keys")).toMatchObject({ labels: {}, value: KEYS });
      expect(sample("keys_sampled")).toMatchObject({ value: KEYS });
      expect(sample("locks_held")).toMatchObject({ labels: {}, value: HELD });
    }
  }

  await server.restart();
  const first = await api.stats();
  // Sessions that have to be probed are among the hundred.
  expect(first.locks.length + first.idle_locks.length).toBeLessThanOrEqual(100);
  expect(first.locks.length + first.idle_locks.length).toBeGreaterThan(90);
  expect(Object.entries(first).at(-1)).toEqual(["truncated", true]);
  const sample = await scrape();
  expect(sample("keys")).toMatchObject({ labels: {}, value: KEYS });
  expect(sample("locks_held")?.labels).toEqual({ estimated: "true" });
  await poll("every key to be known again", 10_000, async () => {
    const held = (await scrape())("locks_held");
    return held?.labels.estimated === undefined && held?.value === HELD ? true : undefined;
  });
  const whole = await api.stats();
  expect([whole.locks.length, whole.idle_locks.length]).toEqual([HELD, KEYS - HELD]);
  expect("truncated" in whole).toBe(false);
});
