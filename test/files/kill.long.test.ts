/** Case F44 with real processes: killed at any moment, they wedge no path. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { setTimeout as pause } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import { expect, test } from "vitest";
import { FileLock, parseLockText } from "../../src/lockfile/index.ts";
import { Folder } from "./support/folder.ts";

const KILLS = 200;
/** It is left to chance whether a process is hit where it matters: it goes on until so many were. */
const HITS = 6;
const MOST_KILLS = 10 * KILLS;
const AT_ONCE = 4;

/** In one file it starts in half the time. */
async function bundleVictim(folder: Folder): Promise<string> {
  const outfile = folder.file("victim.mjs");
  const entry = fileURLToPath(new URL("programs/victim.ts", import.meta.url));
  await build({ entryPoints: [entry], bundle: true, format: "esm", platform: "node", outfile, logLevel: "silent" });
  return outfile;
}

test(`${KILLS} processes killed while they take, refresh and release leave paths that can be taken after 15 s`, async () => {
  using programs = new Folder();
  using folder = new Folder();
  const victim = await bundleVictim(programs);
  const names: string[] = [];
  const hits = () => folder.names.filter((name) => name.endsWith(".hf-guard")).length;
  const killNext = async () => {
    while (names.length < KILLS || (hits() < HITS && names.length < MOST_KILLS)) {
      const name = `x${names.length}`;
      names.push(name);
      const child = spawn(process.execPath, [victim, folder.file(name)], { stdio: ["ignore", "pipe", "inherit"] });
      const exited = once(child, "exit");
      await once(child.stdout, "data");
      await pause(Math.random() * 20);
      child.kill("SIGKILL");
      expect((await exited)[1]).toBe("SIGKILL");
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, killNext));

  const left = folder.names;
  const locks = names.filter((name) => left.includes(name));
  for (const name of locks)
    expect([name, parseLockText(readFileSync(folder.file(name))).kind]).toEqual([name, "well-formed"]);
  expect(hits()).toBeGreaterThanOrEqual(HITS);
  expect(locks.length).toBeLessThan(names.length);

  const acquired = await Promise.all(
    names.map((name) => new FileLock(folder.file(name), { stale: 2 }).acquire({ timeout: 15 })),
  );
  expect(acquired).toHaveLength(names.length);
});
