/** Faults planted in the sources, each of which the simulation must find. */
import { spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { build, type Plugin } from "esbuild";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Story } from "./simulation.ts";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
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
        const program = join(folder, `${number}.mjs`);
        await plant(fault, sources, program);
        const { code, output } = await simulated(program, host, fault.from ?? 1);
        expect(output).toContain("npm run simulate -- --seed");
        expect(code).toBe(1);
        const seed = Number(/--seed (\d+)/.exec(output)?.[1]);
        expect((await simulate(seed)).problem).toBeUndefined();
      },
      120_000,
    );
  });
}

/** Bundles the simulation with one fault in its sources. */
async function plant({ file, code, planted }: Fault, sources: string, outfile: string): Promise<void> {
  const path = join(ROOT, sources, file);
  const source = readFileSync(path, "utf8");
  expect(source.split(code).length, `the place of the fault in ${file}`).toBe(2);
  const contents = source.replace(code, () => planted);
  const fault: Plugin = {
    name: "fault",
    setup: ({ onLoad }) =>
      onLoad({ filter: /\.ts$/ }, (args) => (args.path === path ? { contents, loader: "ts" } : undefined)),
  };
  const entryPoints = [join(ROOT, "test/simulation/run.ts")];
  await build({
    entryPoints,
    outfile,
    plugins: [fault],
    bundle: true,
    platform: "node",
    format: "esm",
    target: "node22",
  });
}

interface Run {
  readonly code: number | null;
  readonly output: string;
}

function simulated(program: string, host: string, from: number): Promise<Run> {
  const run = spawn(process.execPath, [program, "--host", host, "--from", String(from), "--seeds", String(SEEDS)]);
  let output = "";
  for (const stream of [run.stdout, run.stderr]) stream.on("data", (data) => (output += data));
  return new Promise((resolve) => run.on("close", (code) => resolve({ code, output })));
}
