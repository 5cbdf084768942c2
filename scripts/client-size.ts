/**
 * Prints how large the client is on its way to a browser, and fails when it is too large or imports anything at all: what
 * it needs every runtime has.
 */
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import { build } from "esbuild";

/** With everything it exports, gzipped: 11 KiB. */
const MAX_BYTES = 11_264;
const root = fileURLToPath(new URL("..", import.meta.url));

const { outputFiles, metafile } = await build({
  absWorkingDir: root,
  entryPoints: ["src/client/index.ts"],
  bundle: true,
  minify: true,
  write: false,
  metafile: true,
  format: "esm",
  target: "es2022",
  platform: "neutral",
  logLevel: "error",
  outfile: "client.js",
  packages: "external",
});

const [bundle] = outputFiles;
const gzipped = gzipSync(bundle?.contents ?? "", { level: 9 }).length;
const files = Object.entries(metafile.inputs);
const foreign = files.flatMap(([path, { imports }]) => [
  ...(path.startsWith("src/client/") ? [] : [`${path} is not part of the client`]),
  ...imports.filter(({ external }) => external).map((each) => `${path} imports ${each.path}`),
]);

console.log(`client: ${gzipped} bytes gzipped, ${bundle?.contents.length} minified, ${files.length} files`);
for (const problem of foreign) console.error(`client: ${problem}`);
if (gzipped > MAX_BYTES) console.error(`client: more than ${MAX_BYTES} bytes`);
if (foreign.length > 0 || gzipped > MAX_BYTES) process.exitCode = 1;
