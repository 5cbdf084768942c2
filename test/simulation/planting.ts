/** Faults planted in copies of the sources, each of which the simulation must find. */
import { spawn } from "node:child_process";
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Story } from "./simulation.ts";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
/** Everything that a simulation reads. */
const PARTS = ["src", "test/simulation", "test/session", "test/engine", "package.json"];
const SEEDS = 10_000;

export interface Fault {
  readonly what: string;
  /** From the folder that all faults of a test are in. */
  readonly file: string;
  readonly code: string;
  readonly planted: string;
  /** Where the search begins, if the first seeds do not find it. */
  readonly from?: number;
}

export interface Simulated {
  /** As `npm run simulate -- --host` knows it. */
  readonly host: string;
  /** The folder of its sources. */
  readonly sources: string;
  readonly simulate: (seed: number) => Story | Promise<Story>;
}

/** One test for each fault: the simulation finds it, in a world in which nothing goes wrong without it. */
export function findsAll({ host, sources, simulate }: Simulated, faults: readonly Fault[]): void {
  let folder = "";

  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), "holdfast-planted-"));
  });

  afterAll(() => {
    rmSync(folder, { recursive: true, force: true });
  }, 60_000);

  describe("the simulation finds that", () => {
    it.each(faults.map((fault, number) => ({ ...fault, number })))(
      "$what",
      async ({ number, ...fault }) => {
        const copy = plant(fault, sources, join(folder, String(number)));
        const { code, output } = await simulated(copy, host, fault.from ?? 1);
        expect(output).toContain("npm run simulate -- --seed");
        expect(code).toBe(1);
        const seed = Number(/--seed (\d+)/.exec(output)?.[1]);
        expect((await simulate(seed)).problem).toBeUndefined();
      },
      120_000,
    );
  });
}

/** A copy of the sources with one fault. */
function plant({ file, code, planted }: Fault, sources: string, copy: string): string {
  for (const part of PARTS) cpSync(join(ROOT, part), join(copy, part), { recursive: true });
  symlinkSync(join(ROOT, "node_modules"), join(copy, "node_modules"));
  const path = join(copy, sources, file);
  const source = readFileSync(path, "utf8");
  expect(source.split(code).length, `the place of the fault in ${file}`).toBe(2);
  writeFileSync(
    path,
    source.replace(code, () => planted),
  );
  return copy;
}

interface Run {
  readonly code: number | null;
  readonly output: string;
}

function simulated(copy: string, host: string, from: number): Promise<Run> {
  const given = ["test/simulation/run.ts", "--host", host, "--from", String(from), "--seeds", String(SEEDS)];
  const run = spawn(process.execPath, given, { cwd: copy });
  let output = "";
  for (const stream of [run.stdout, run.stderr]) stream.on("data", (data) => (output += data));
  return new Promise((resolve) => run.on("close", (code) => resolve({ code, output })));
}
