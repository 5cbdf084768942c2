/** Bundles the Worker with the console, the command and the client into `dist/`, the client's types with it. Silent when all is well; one line per problem when not. */
import { execFile } from "node:child_process";
import { rmSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { type BuildOptions, build, type Message } from "esbuild";
import { buildConsole } from "./console.ts";

const root = fileURLToPath(new URL("..", import.meta.url));

const common = {
  absWorkingDir: root,
  bundle: true,
  format: "esm",
  target: "es2024",
  logLevel: "silent",
} satisfies BuildOptions;

const worker: BuildOptions = {
  ...common,
  entryPoints: ["src/index.ts"],
  outfile: "dist/worker.js",
  platform: "neutral",
  mainFields: ["module", "main"],
  conditions: ["workerd", "worker", "browser"],
  external: ["cloudflare:*", "node:*"],
  jsx: "automatic",
};

const command: BuildOptions = {
  ...common,
  entryPoints: { holdfast: "src/cli/entry.ts" },
  outdir: "dist",
  // A command loads its own chunks only.
  splitting: true,
  chunkNames: "command/[name]-[hash]",
  platform: "node",
  packages: "external",
  banner: { js: "#!/usr/bin/env node" },
};

const client: BuildOptions = {
  ...common,
  entryPoints: ["src/client/index.ts"],
  outfile: "dist/client.js",
  platform: "neutral",
  target: "es2022",
};

/** Declarations are made by the type checker, which says what is wrong on standard output. */
async function declareClient(): Promise<void> {
  const checker = fileURLToPath(import.meta.resolve("typescript/package.json")).replace(/package\.json$/, "bin/tsc");
  const run = promisify(execFile)(process.execPath, [checker, "-p", `${root}/tsconfig.client.json`]);
  await run.catch(({ stdout }: { stdout: string }) => {
    throw new Error(stdout);
  });
}

function inOneLine({ text, location }: Message): string {
  const place = location ? `${location.file}:${location.line}: ` : "";
  return `build: ${place}${text.split("\n", 1)[0]}`;
}

function messagesOf(reason: unknown): string[] {
  const errors = (reason as { errors?: Message[] }).errors;
  return errors?.length ? errors.map(inOneLine) : [`build: ${String(reason).split("\n", 1)[0]}`];
}

// Chunks have new names when they change: the old ones would stay for ever.
rmSync(`${root}/dist/command`, { recursive: true, force: true });
// The Worker contains the console.
const served = buildConsole().then(() => build(worker));
const bundles = [command, client].map((options) => build(options));
const results = await Promise.allSettled([served, ...bundles, declareClient()]);
const problems = results.flatMap((result) => (result.status === "rejected" ? messagesOf(result.reason) : []));
if (problems.length > 0) {
  // A half-new dist would run yesterday's code without saying so.
  rmSync(`${root}/dist`, { recursive: true, force: true });
  console.error(problems.join("\n"));
  process.exitCode = 1;
}
