/** What operators learn of commits, and what measuring them costs: nothing that is not stored anyway. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import { serve } from "../../src/node/index.ts";
import { parseExposition, sampleValue } from "../metrics/parse.ts";
import { World } from "./support/world.ts";

const folders: string[] = [];

afterEach(() => {
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true, force: true });
});

async function sumsOf(world: World): Promise<Readonly<Record<string, number>>> {
  const reading = world.host.readMetrics();
  world.runtime.settle();
  return (await reading).sums;
}

/** Acquires and releases a key, in one batch each. */
function cycles(world: World, count: number): void {
  const client = world.connect();
  for (let cycle = 0; cycle < count; cycle += 1) {
    client.ask("l", "key", "0");
    world.runtime.settle();
    client.ask("r", "key", /ok (\S+)/.exec(client.lines.at(-1) ?? "")?.[1] ?? "");
    world.runtime.settle();
  }
}

const countIn = (sums: Readonly<Record<string, number>>, family: string) =>
  Object.entries(sums).reduce((sum, [name, value]) => {
    const isBucket = name.startsWith(`${family}|`) && !name.endsWith("|sum");
    return sum + (isBucket ? value : 0);
  }, 0);

describe("a commit is measured", () => {
  it("with its time and its changes, once", async () => {
    const world = new World();
    world.store.committing = () => world.runtime.stall(40);
    cycles(world, 10);
    const { commits } = world.store;
    const sums = await sumsOf(world);
    expect(commits).toBeGreaterThanOrEqual(20);
    expect(countIn(sums, "commit_seconds")).toBe(commits);
    expect(sums["commit_seconds|0.05"]).toBe(commits);
    expect(countIn(sums, "commit_changes")).toBe(commits);
    expect(sums["commit_changes|1"]).toBeGreaterThanOrEqual(20);
    expect(sums.commits_failed_total).toBeUndefined();
  });

  it("also if it fails", async () => {
    const world = new World();
    world.store.fails = true;
    cycles(world, 1);
    world.store.fails = false;
    world.runtime.advance(3_000);
    const { attempts, commits } = world.store;
    expect(attempts - commits).toBeGreaterThan(0);
    const sums = await sumsOf(world);
    expect(sums.commits_failed_total).toBe(attempts - commits);
    expect(countIn(sums, "commit_seconds")).toBe(commits);
  });

  it("with all that one batch has changed", async () => {
    const world = new World();
    const client = world.connect();
    world.runtime.settle();
    client.askAll(Array.from({ length: 15 }, (_, key) => [`@${key} l`, `key-${key}`, "0"] as const));
    world.runtime.settle();
    expect((await sumsOf(world))["commit_changes|20"]).toBe(1);
  });
});

describe("measuring commits", () => {
  it("makes no commit necessary: an idle server comes to rest", () => {
    const world = new World();
    cycles(world, 3);
    world.runtime.advance(60_000);
    const { commits } = world.store;
    world.runtime.advance(3_600_000);
    // The key is forgotten, and that is counted.
    expect(world.store.commits).toBeLessThanOrEqual(commits + 2);
    world.runtime.advance(36_000_000);
    expect(world.store.commits).toBeLessThanOrEqual(commits + 2);
  });

  it("is stored before it is reported: no figure falls after a crash", async () => {
    const world = new World();
    cycles(world, 3);
    world.runtime.advance(60_000);
    const { commits } = world.store;
    const sums = await sumsOf(world);
    expect(world.store.commits).toBe(commits + 1);
    const stored = world.store.load().values.get("metrics") ?? "{}";
    expect(JSON.parse(stored)).toEqual(sums);
  });
});

it("sums are not told if a commit of their own fails before the batch that reports them", async () => {
  const world = new World();
  const ann = world.connect();
  ann.ask("l", "k", "10 3600");
  world.runtime.settle();
  const reading = world.host.readMetrics();
  world.store.fails = true;
  // Sums are due, and so is the next try.
  world.runtime.advance(7_000, { endsTurns: false });
  world.runtime.settle();
  await expect(reading).rejects.toThrow();
});

it("/metrics shows commits and the size of the log", async () => {
  const folder = mkdtempSync(join(tmpdir(), "holdfast-metrics-"));
  folders.push(folder);
  const any = { host: "127.0.0.1", port: 0 };
  const service = await serve({ dataDir: folder, tcp: any, http: any, variables: {}, log: () => {} });
  try {
    const url = `http://127.0.0.1:${service.httpPort}`;
    await fetch(`${url}/v1/sessions`, { method: "POST" });
    const families = parseExposition(await (await fetch(`${url}/metrics`)).text());
    expect(sampleValue(families, "dflockd_commit_seconds_count", {})).toBeGreaterThan(0);
    expect(sampleValue(families, "dflockd_commit_changes_count", {})).toBeGreaterThan(0);
    expect(sampleValue(families, "dflockd_commits_failed_total", {})).toBe(0);
    const size = sampleValue(families, "dflockd_wal_bytes", {});
    expect(size).toBeGreaterThan(4_000_000);
    expect(size).toBeLessThan(64_000_000);
  } finally {
    await service.stop();
  }
});
