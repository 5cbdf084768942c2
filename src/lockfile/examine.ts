import { MAX_LOCK_BYTES, parseLockText } from "../core/protocols/lockfile/index.ts";
import { codeOf, PathError } from "./errors.ts";
import type { SeenLock } from "./holder.ts";
import type { LockPath } from "./paths.ts";
import { close, type Found, type Inode, isFound, isSameInode, look, openToRead, readStart } from "./system.ts";

/** A regular file and its content. */
export interface ExaminedLock extends SeenLock, Inode {
  readonly kind: "lock";
  readonly bytes: Uint8Array;
}

export type Examined = ExaminedLock | { readonly kind: "absent" } | { readonly kind: "not-regular" };

/** Reads what is at a path, without following a link and without blocking on a pipe. */
export function examine(path: string): Examined {
  for (;;) {
    const found = look(path);
    if (!found) return { kind: "absent" };
    if (!found.isRegular) return { kind: "not-regular" };
    const bytes = readFound(path, found);
    if (bytes !== "replaced") {
      const { dev, ino, mtimeNs } = found;
      return { kind: "lock", dev, ino, mtimeNs, bytes, text: parseLockText(bytes) };
    }
  }
}

/** What is at the path of a lock. Throws a `PathError` if it is not a regular file. */
export function examineLock({ path, given }: LockPath): Exclude<Examined, { kind: "not-regular" }> {
  const examined = examine(path);
  if (examined.kind === "not-regular") throw new PathError(given, "not a regular file");
  return examined;
}

/** Whether it is the same file, unchanged. Inodes of removed files are reused, so the bytes are compared too. */
export function isSameLock(a: ExaminedLock, b: Examined): boolean {
  return b.kind === "lock" && isSameInode(a, b) && Buffer.compare(a.bytes, b.bytes) === 0;
}

/** The content of the file that was found; empty if it is not readable. */
function readFound(path: string, found: Found): Uint8Array | "replaced" {
  const file = openFound(path);
  if (typeof file !== "number") return file;
  try {
    return isFound(file, found) ? readStart(file, MAX_LOCK_BYTES + 1) : "replaced";
  } finally {
    close(file);
  }
}

function openFound(path: string): number | Uint8Array | "replaced" {
  try {
    return openToRead(path);
  } catch (error) {
    switch (codeOf(error)) {
      case "EACCES":
      case "EPERM":
        return new Uint8Array();
      // Removed since it was found, or replaced by a link or a socket.
      case "ENOENT":
      case "ELOOP":
      case "ENXIO":
        return "replaced";
      default:
        throw error;
    }
  }
}
