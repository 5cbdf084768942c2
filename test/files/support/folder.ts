import {
  lstatSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  unlinkSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseLockText } from "../../../src/lockfile/index.ts";

export const now = () => Math.floor(Date.now() / 1000);
export const OLD_S = 7200;

export const lockText = (timestamp: number, pid = 1, rest = "") => `pid=${pid}\ntimestamp=${timestamp}\n${rest}`;

/** A folder for lock files, removed at the end of its scope. */
export class Folder implements Disposable {
  readonly path = mkdtempSync(join(tmpdir(), "holdfast-files-"));

  file(name = "x"): string {
    return join(this.path, name);
  }

  write(text: string, { name = "x", ageS = 0 } = {}): void {
    writeFileSync(this.file(name), text);
    const time = Date.now() / 1000 - ageS;
    utimesSync(this.file(name), time, time);
  }

  text(name = "x"): string {
    return readFileSync(this.file(name), "utf8");
  }

  /** The fields of the lock file. Fails if it is malformed. */
  lock(name = "x") {
    const parsed = parseLockText(readFileSync(this.file(name)));
    if (parsed.kind === "malformed") throw new Error(`${name} is malformed: ${this.text(name)}`);
    return parsed;
  }

  get names(): string[] {
    return readdirSync(this.path).sort();
  }

  inode(name = "x"): number {
    return lstatSync(this.file(name)).ino;
  }

  remove(name = "x"): void {
    unlinkSync(this.file(name));
  }

  [Symbol.dispose](): void {
    rmSync(this.path, { recursive: true, force: true });
  }
}
