import { existsSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { Failure } from "../../node/listeners/failure.ts";

/** The folder of package.json, whether this runs from `src/cli/` or as the bundle in `dist/`. */
function packageRoot(): string {
  let folder = dirname(fileURLToPath(import.meta.url));
  while (!existsSync(join(folder, "package.json"))) {
    const parent = dirname(folder);
    if (parent === folder) throw new Failure("package.json is missing: the installation is incomplete");
    folder = parent;
  }
  return folder;
}

export function packageVersion(): string {
  const text = readFileSync(join(packageRoot(), "package.json"), "utf8");
  return (JSON.parse(text) as { version: string }).version;
}

/** Path of the built Worker. */
export function builtWorker(): string {
  const path = join(packageRoot(), "dist", "worker.js");
  if (!existsSync(path)) throw new Failure("dist/worker.js is missing: run `npm run build` first");
  return path;
}

/** Path of the workerd binary for this machine. */
export function workerdBinary(): string {
  try {
    return (createRequire(import.meta.url)("workerd") as { default: string }).default;
  } catch {
    throw new Failure("workerd is not installed for this machine: run `npm install`");
  }
}
