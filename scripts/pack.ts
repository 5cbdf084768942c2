/** Builds both packages and packs them into `pack/`: what `npm publish` would send, ready to be installed from a file. */
import { execFileSync } from "node:child_process";
import { copyFileSync, mkdirSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("..", import.meta.url));
const folder = join(root, "pack");
const clientLicense = join(root, "packages/client/LICENSE");

const run = (file: string, args: readonly string[]) =>
  execFileSync(file, args, { cwd: root, encoding: "utf8", stdio: ["ignore", "pipe", "inherit"] });

/** Packs a folder with a package.json; returns the name of the tarball. */
function pack(where: string): string {
  const args = ["pack", where, "--silent", "--pack-destination", folder, "--ignore-scripts"];
  return run("npm", args).trim();
}

// `--built`: what `npm run build` made is packed as it is.
if (!process.argv.includes("--built")) run(process.execPath, [join(root, "scripts/build.ts")]);
rmSync(folder, { recursive: true, force: true });
mkdirSync(folder);
copyFileSync(join(root, "LICENSE"), clientLicense);
for (const where of [".", "./packages/client"]) {
  const name = pack(where);
  console.log(`pack/${name}: ${Math.ceil(statSync(join(folder, name)).size / 1024)} kB`);
}
rmSync(clientLicense);
