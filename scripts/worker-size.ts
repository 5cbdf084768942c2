/** Prints how much `holdfast/durable-object` adds to a Worker, and fails when that is too much or has parts that it does not need. */
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import { build } from "esbuild";

const MAX_BYTES = 40_000;
/** The console, HTTP and other objects are for the whole service. */
const NEEDLESS = /^src\/(?:http|console|node|cli)\/|^node_modules\/|-object\.ts$/;
const OWN_OBJECT = "src/cloudflare/key/key-object.ts";

const { outputFiles, metafile } = await build({
  absWorkingDir: fileURLToPath(new URL("..", import.meta.url)),
  entryPoints: ["src/cloudflare/lock-key/index.ts"],
  bundle: true,
  // As it is packed: scripts/build.ts.
  minifySyntax: true,
  minifyWhitespace: true,
  write: false,
  metafile: true,
  format: "esm",
  target: "es2024",
  platform: "neutral",
  external: ["cloudflare:*"],
  logLevel: "error",
  outfile: "durable-object.js",
});

const gzipped = gzipSync(outputFiles[0]?.contents ?? "", { level: 9 }).length;
const needless = Object.keys(metafile.inputs).filter((path) => NEEDLESS.test(path) && path !== OWN_OBJECT);
console.log(`holdfast/durable-object: ${gzipped} bytes gzipped`);
for (const path of needless) console.error(`holdfast/durable-object: ${path} is not needed`);
if (gzipped > MAX_BYTES) console.error(`holdfast/durable-object: more than ${MAX_BYTES} bytes`);
if (needless.length > 0 || gzipped > MAX_BYTES) process.exitCode = 1;
