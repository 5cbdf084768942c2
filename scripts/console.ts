/** Bundles the console into a module of two texts, its script and its style, for the Worker to serve. */
import { mkdir, rename, writeFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { type BuildOptions, build } from "esbuild";

const root = fileURLToPath(new URL("..", import.meta.url));
const target = `${root}/dist/console`;

const common = {
  absWorkingDir: root,
  bundle: true,
  minify: true,
  write: false,
  logLevel: "silent",
  legalComments: "none",
} satisfies BuildOptions;

export async function buildConsole(): Promise<void> {
  const [script, style] = await Promise.all([
    text({
      ...common,
      entryPoints: ["src/console/main.tsx"],
      format: "esm",
      target: "es2022",
      platform: "browser",
      jsx: "automatic",
      jsxImportSource: "hono/jsx/dom",
    }),
    text({ ...common, entryPoints: ["src/console/style/console.css"] }),
  ]);
  await mkdir(target, { recursive: true });
  await Promise.all([
    replaceFile(
      `${target}/assets.js`,
      `export const script = ${JSON.stringify(script)};\nexport const style = ${JSON.stringify(style)};\n`,
    ),
    replaceFile(`${target}/assets.d.ts`, "export const script: string;\nexport const style: string;\n"),
  ]);
}

/** In one step: a bundler that reads the file meanwhile finds the old text or the new one. */
async function replaceFile(path: string, text: string): Promise<void> {
  const draft = `${path}.${process.pid}`;
  await writeFile(draft, text);
  await rename(draft, path);
}

async function text(options: BuildOptions): Promise<string> {
  const { outputFiles } = await build(options);
  return outputFiles?.[0]?.text ?? "";
}

if (import.meta.main) await buildConsole();
