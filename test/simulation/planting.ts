/** Faults planted in copies of the sources, each of which the simulation must find. */
import { spawn } from "node:child_process";
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, it } from "vitest";

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
}

/** One test for each fault: the simulation of `host` finds it. */
export function findsAll(host: string, sources: string, faults: readonly Fault[]): void {
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
        const { code, output } = await simulated(plant(fault, sources, join(folder, String(number))), host);
        expect(output).toContain("npm run simulate -- --seed");
        expect(code).toBe(1);
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

function simulated(copy: string, host: string): Promise<{ readonly code: number | null; readonly output: string }> {
  const given = ["test/simulation/run.ts", "--host", host, "--seeds", String(SEEDS)];
  const run = spawn(process.execPath, given, { cwd: copy });
  let output = "";
  for (const stream of [run.stdout, run.stderr]) stream.on("data", (data) => (output += data));
  return new Promise((resolve) => run.on("close", (code) => resolve({ code, output })));
}
