/** Reports on many keys: Node tells of all of them, a Worker of a hundred, and says that there are more. */
import { describe, expect, it } from "vitest";
import { parseExposition } from "../metrics/parse.ts";
import { Clients } from "../support/clients.ts";
import { CLOUDFLARE, type Host, NODE } from "../support/hosts.ts";
import { poll } from "../support/poll.ts";
import { Api } from "../support/rest.ts";
import type { TestServer } from "../support/server.ts";
import { readStats, type Stats } from "../support/stats.ts";
import { ask, lock } from "../support/wire-client.ts";

const KEYS = 215;
const HELD = 20;
const PAGE = 100;
const keyName = (index: number) => `key-${String(index).padStart(3, "0")}`;

/** A server on which the keys have been used, and the first of them are held. */
async function startUsed(host: Host): Promise<TestServer> {
  const server = await host.start({ variables: { GC_MAX_IDLE_S: "3600", AUTO_RELEASE_ON_DISCONNECT: "false" } });
  using clients = new Clients(server);
  const client = await clients.tcp();
  for (let index = 0; index < KEYS; index += 1) {
    const token = await lock(client, keyName(index), "0 3600");
    if (index >= HELD) expect(await ask(client, "r", keyName(index), token)).toBe("ok");
  }
  return server;
}

/** The statistics over HTTP and over the wire. */
async function statsOf(server: TestServer): Promise<Stats[]> {
  using clients = new Clients(server);
  return [await new Api(server).stats(), await readStats(await clients.tcp())];
}

async function scrape(server: TestServer, path = "/metrics") {
  const samples = parseExposition((await new Api(server).get(path)).body).flatMap((family) => family.samples);
  return (name: string) => samples.find((sample) => sample.name === `dflockd_${name}`);
}

describe("on Node", () => {
  it("reports are whole and exact, also after a restart", async () => {
    await using server = await startUsed(NODE);
    for (const round of ["before", "after"]) {
      for (const stats of await statsOf(server)) {
        expect([stats.locks.length, stats.idle_locks.length], round).toEqual([HELD, KEYS - HELD]);
        expect(stats).not.toHaveProperty("truncated");
      }
      for (const path of ["/metrics", "/metrics?exact=true"]) {
        const sample = await scrape(server, path);
        expect(sample("keys")).toMatchObject({ labels: {}, value: KEYS });
        expect(sample("keys_sampled")).toMatchObject({ value: KEYS });
        expect(sample("locks_held")).toMatchObject({ labels: {}, value: HELD });
      }
      if (round === "before") await server.restart();
    }
  });
});

describe("on Cloudflare", () => {
  it("statistics stop at a hundred keys and say so; metrics count all keys, and estimate how many are held", async () => {
    await using server = await startUsed(CLOUDFLARE);
    // New keys are listed after the answer.
    await poll("all keys to be counted", 5_000, async () =>
      (await scrape(server))("keys")?.value === KEYS ? true : undefined,
    );
    for (const stats of await statsOf(server)) {
      expect(stats.locks.length + stats.idle_locks.length).toBe(PAGE);
      expect(Object.entries(stats).at(-1)).toEqual(["truncated", true]);
    }
    expect((await scrape(server))("locks_held")?.labels).toEqual({ estimated: "true" });
    expect((await scrape(server, "/metrics?exact=true"))("locks_held")).toBeUndefined();
  });
});
