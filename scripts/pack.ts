/** Builds both packages and packs them into `pack/`: what `npm publish` would send, ready to be installed from a file. */
import { execFileSync } from "node:child_process";
import {
  copyFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { publishedManifest } from "./manifest.ts";

const root = fileURLToPath(new URL("..", import.meta.url));
const folder = join(root, "pack");

const run = (file: string, args: readonly string[]) =>
  execFileSync(file, args, { cwd: root, encoding: "utf8", stdio: ["ignore", "pipe", "inherit"] });

interface Manifest extends Readonly<Record<string, unknown>> {
  readonly files: readonly string[];
}

/** Packs a folder with a package.json, from a copy with the manifest that users get. Returns the name of the tarball. */
function pack(where: string): string {
  const manifest = JSON.parse(readFileSync(join(where, "package.json"), "utf8")) as Manifest;
  const copy = mkdtempSync(join(tmpdir(), "holdfast-pack-"));
  try {
    for (const path of manifest.files) cpSync(join(where, path), join(copy, path), { recursive: true });
    if (existsSync(join(where, "README.md"))) copyFileSync(join(where, "README.md"), join(copy, "README.md"));
    copyFileSync(join(root, "LICENSE"), join(copy, "LICENSE"));
    writeFileSync(join(copy, "package.json"), `${JSON.stringify(publishedManifest(manifest), undefined, 2)}\n`);
    return run("npm", ["pack", copy, "--silent", "--pack-destination", folder, "--ignore-scripts"]).trim();
  } finally {
    rmSync(copy, { recursive: true, force: true });
  }
}

// `--built`: what `npm run build` made is packed as it is.
if (!process.argv.includes("--built")) run(process.execPath, [join(root, "scripts/build.ts")]);
rmSync(folder, { recursive: true, force: true });
mkdirSync(folder);
for (const where of [root, join(root, "packages/client")]) {
  const name = pack(where);
  console.log(`pack/${name}: ${Math.ceil(statSync(join(folder, name)).size / 1024)} kB`);
}
