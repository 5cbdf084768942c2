/** Bundles the Worker, once for all suites that run it on workerd over real sockets. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { build, type Plugin } from "esbuild";
import type { TestProject } from "vitest/node";
import { readWranglerConfig } from "../../scripts/dev-config.ts";

/** A namespace, in the words of `wrangler.toml`. */
export interface BoundObjects {
  readonly name: string;
  readonly class_name: string;
  /** The Worker that has the class, if it is another one. */
  readonly script_name?: string;
  /** Named in `new_classes` of a migration, not in `new_sqlite_classes`. */
  readonly has_no_sql?: true;
}

/** The Worker as workerd needs it: its code, and what `wrangler.toml` says about it. */
export interface Worker {
  readonly script: string;
  readonly compatibilityDate: string;
  readonly compatibilityFlags: readonly string[];
  readonly objects: readonly BoundObjects[];
}

const fileOf = (path: string) => fileURLToPath(new URL(`../../${path}`, import.meta.url));

/** Makes a Worker one file. */
export async function bundleWorker(entryPoint: string, outfile: string, plugins: Plugin[] = []): Promise<void> {
  await build({
    entryPoints: [entryPoint],
    outfile,
    bundle: true,
    format: "esm",
    target: "es2024",
    platform: "neutral",
    mainFields: ["module", "main"],
    conditions: ["workerd", "worker", "browser"],
    external: ["cloudflare:*", "node:*"],
    jsx: "automatic",
    logLevel: "error",
    plugins,
  });
}

/** The service's own Worker, bundled into this folder. */
export async function serviceWorker(folder: string, plugins: Plugin[] = []): Promise<Worker> {
  const config = readWranglerConfig(fileOf("wrangler.toml"));
  const script = join(folder, "worker.js");
  await bundleWorker(fileOf(config.main), script, plugins);
  return {
    script,
    compatibilityDate: config.compatibility_date as string,
    compatibilityFlags: config.compatibility_flags as string[],
    objects: (config.durable_objects as { bindings: Worker["objects"] }).bindings,
  };
}

export default async function setup(project: TestProject): Promise<() => void> {
  const folder = mkdtempSync(join(tmpdir(), "holdfast-worker-"));
  project.provide("worker", await serviceWorker(folder));
  return () => rmSync(folder, { recursive: true, force: true });
}

declare module "vitest" {
  export interface ProvidedContext {
    readonly worker: Worker;
  }
}
