import { isAbsolute } from "node:path";
import { asFileLockError, codeOf, PathError } from "./errors.ts";
import { isDirectory } from "./system.ts";

/** Leaves room for the names of auxiliary files in the 255 bytes that file systems allow. */
const MAX_BASE_BYTES = 220;
const SEPARATORS = process.platform === "win32" ? ["/", "\\"] : ["/"];

/** A valid path for a lock file, and the names beside it. */
export interface LockPath {
  /** As given, for messages. */
  readonly given: string;
  readonly path: string;
  readonly directory: string;
  readonly base: string;
  readonly guard: string;
}

/** Stays valid when the process changes directory. Not normalised: ".." after a link leads elsewhere. */
export const absolutePath = (given: string) => (isAbsolute(given) ? given : `${process.cwd()}/${given}`);

/** The path of a file in whose directory a lock can be. Throws a `PathError` otherwise. Accesses only the directory. */
export function checkPath(given: string, path: string): LockPath {
  if (given === "") throw new PathError(given, "the path is empty");
  if (given.includes("\0")) throw new PathError(given, "the path contains a NUL character");
  const split = Math.max(...SEPARATORS.map((separator) => path.lastIndexOf(separator)));
  const base = path.slice(split + 1);
  if (base === "") throw new PathError(given, "the path ends in a slash");
  if (base === "." || base === "..") throw new PathError(given, "the path names a directory");
  if (new TextEncoder().encode(base).length > MAX_BASE_BYTES)
    throw new PathError(given, `the file name is longer than ${MAX_BASE_BYTES} bytes`);
  const directory = path.slice(0, split + 1);
  checkDirectory(given, directory);
  return { given, path, directory, base, guard: `${directory}.${base}.hf-guard` };
}

function checkDirectory(given: string, directory: string): void {
  try {
    if (isDirectory(directory)) return;
  } catch (error) {
    const code = codeOf(error);
    if (code === "ENOENT") throw new PathError(given, "its directory does not exist", error);
    if (code === "ENOTDIR") throw new PathError(given, "its directory is not a directory", error);
    throw asFileLockError(given, error);
  }
  throw new PathError(given, "its directory is not a directory");
}

/** 16 random hex digits. (`node:crypto` would take a tenth of the command's time to load.) */
export const newNonce = () => Buffer.from(crypto.getRandomValues(new Uint8Array(8))).toString("hex");

/** A unique name beside the lock: `.hf-new` for a text that becomes the lock, `.hf-old` for a lock moved away. */
export function auxiliaryName({ directory, base }: LockPath, suffix: "hf-new" | "hf-old", digits = newNonce()): string {
  return `${directory}.${base}.${digits}.${suffix}`;
}

/** Whether a name in the lock's directory is an auxiliary name of this lock. */
export function isAuxiliaryName({ base }: LockPath, name: string): boolean {
  const start = `.${base}.`;
  return name.startsWith(start) && /^[0-9a-f]{16}\.hf-(new|old)$/.test(name.slice(start.length));
}
