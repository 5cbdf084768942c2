/**
 * Bundles the command, with the service and its console, and the modules for Workers into `dist/`, the client and the lock-file library with their types into
 * `packages/client/dist/`. Silent when all is well; one line per problem when not.
 */
import { execFile } from "node:child_process";
import { readdirSync, rmSync } from "node:fs";
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

const command: BuildOptions = {
  ...common,
  // Split by dynamic imports: a command loads what it needs, and most of them end within milliseconds.
  entryPoints: { holdfast: "src/cli/entry.ts" },
  outdir: "dist",
  splitting: true,
  chunkNames: "command/[name]-[hash]",
  platform: "node",
  // A package that is part of the bundle starts in half the time; what it requires of Node it finds through this `require`.
  external: ["bufferutil", "utf-8-validate"],
  jsx: "automatic",
  banner: {
    js: [
      "#!/usr/bin/env node",
      'import { createRequire as createRequireForBundle } from "node:module";',
      "const require = createRequireForBundle(import.meta.url);",
    ].join("\n"),
  },
  metafile: true,
  plugins: [
    {
      name: "the file command",
      setup: ({ onResolve }) =>
        onResolve({ filter: /^\.\/file\/main\.ts$/ }, () => ({ path: "./command/file.js", external: true })),
    },
    {
      // 280 kB that check forms filled in by users, which `holdfast mcp` never asks for.
      name: "no JSON Schema validator for MCP",
      setup: ({ onLoad }) =>
        onLoad({ filter: /@modelcontextprotocol\/sdk\/dist\/esm\/validation\/ajv-provider\.js$/ }, () => ({
          contents: "export class AjvJsonSchemaValidator {}",
        })),
    },
  ],
};

/** In one piece: each chunk takes half a millisecond to load, and scripts run this command often. */
const fileCommand: BuildOptions = {
  ...common,
  entryPoints: { file: "src/cli/file/main.ts" },
  outdir: "dist/command",
  platform: "node",
};

/** For Workers of others, which bundle it again. */
const workers: BuildOptions = {
  ...common,
  entryPoints: { "durable-object": "src/cloudflare/lock-key/index.ts", worker: "src/cloudflare/worker.ts" },
  outdir: "dist",
  platform: "neutral",
  mainFields: ["module", "main"],
  conditions: ["workerd", "worker", "browser"],
  external: ["cloudflare:*", "node:*"],
  jsx: "automatic",
  // Names stay as they are, for stack traces and the names of classes.
  minifySyntax: true,
  minifyWhitespace: true,
};

const client: BuildOptions = {
  ...common,
  entryPoints: { client: "src/client/index.ts" },
  outdir: "packages/client/dist",
  platform: "neutral",
  target: "es2022",
};

const lockfile: BuildOptions = {
  ...common,
  entryPoints: { lockfile: "src/lockfile/index.ts" },
  outdir: "packages/client/dist",
  platform: "node",
  target: "node20",
};

/** Names of chunks change with their content; those of earlier builds are not loaded by anything. */
function removeOldChunks(outputs: readonly string[]): void {
  for (const name of readdirSync(`${root}/dist/command`)) {
    if (name !== "file.js" && !outputs.includes(`dist/command/${name}`)) rmSync(`${root}/dist/command/${name}`);
  }
}

/** Declarations are made by the type checker, which says what is wrong on standard output. */
async function declare(project: string): Promise<void> {
  const checker = fileURLToPath(import.meta.resolve("typescript/package.json")).replace(/package\.json$/, "bin/tsc");
  const run = promisify(execFile)(process.execPath, [checker, "-p", `${root}/${project}`]);
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

// The service contains the console.
const commanded = buildConsole()
  .then(() => build(workers))
  .then(() => build(command))
  .then(({ metafile }) => removeOldChunks(Object.keys(metafile?.outputs ?? {})));
const declared = declare("tsconfig.client.json").then(() => declare("tsconfig.lockfile.json"));
const results = await Promise.allSettled([commanded, build(fileCommand), build(client), build(lockfile), declared]);
const problems = results.flatMap((result) => (result.status === "rejected" ? messagesOf(result.reason) : []));
if (problems.length > 0) {
  // A half-new dist would run yesterday's code without saying so.
  rmSync(`${root}/dist`, { recursive: true, force: true });
  console.error(problems.join("\n"));
  process.exitCode = 1;
}
