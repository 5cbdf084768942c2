/** Packages as users get them: packed, and installed from the file into an empty folder. */
import { execFile, execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

export const ROOT = fileURLToPath(new URL("../..", import.meta.url));

export interface Tarball {
  readonly path: string;
  readonly kilobytes: number;
}

/** Packs what `npm run build` has made. */
export function packed(name: "holdfast" | "holdfast-client"): Tarball {
  const { version } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8")) as { version: string };
  const path = join(ROOT, "pack", `${name}-${version}.tgz`);
  return { path, kilobytes: Math.ceil(statSync(path).size / 1024) };
}

export function packAll(): void {
  execFileSync(process.execPath, [join(ROOT, "scripts/pack.ts"), "--built"], {
    stdio: ["ignore", "ignore", "inherit"],
  });
}

/** A folder of its own, with nothing in it but an empty package. */
export class EmptyFolder implements Disposable {
  readonly path = mkdtempSync(join(tmpdir(), "holdfast-package-"));

  constructor() {
    this.write("package.json", '{ "private": true, "type": "module" }\n');
  }

  /** Installs a tarball; what it depends on comes from npm's cache, or from the registry. */
  async install({ path }: Tarball): Promise<string[]> {
    await this.run("npm", ["install", "--prefer-offline", "--no-audit", "--no-fund", "--silent", path]);
    return this.installed();
  }

  installed(): string[] {
    return readdirSync(join(this.path, "node_modules"))
      .filter((name) => !name.startsWith("."))
      .toSorted();
  }

  /** The files of an installed package. */
  filesOf(name: string): { readonly name: string; readonly bytes: number }[] {
    return readdirSync(join(this.path, "node_modules", name), { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => ({ name: entry.name, bytes: statSync(join(entry.parentPath, entry.name)).size }));
  }

  write(name: string, text: string): string {
    const path = join(this.path, name);
    mkdirSync(join(path, ".."), { recursive: true });
    writeFileSync(path, text);
    return path;
  }

  /** What a command prints, run in this folder. Rejects if it fails. */
  async run(file: string, args: readonly string[]): Promise<string> {
    const running = promisify(execFile)(file, args, { cwd: this.path, timeout: 60_000 });
    running.child.stdin?.end();
    return (await running).stdout;
  }

  [Symbol.dispose](): void {
    rmSync(this.path, { recursive: true, force: true });
  }
}
