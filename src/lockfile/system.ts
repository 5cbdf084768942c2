import {
  closeSync,
  constants,
  fstatSync,
  fsyncSync,
  ftruncateSync,
  linkSync,
  lstatSync,
  openSync,
  readSync,
  renameSync,
  statSync,
  unlinkSync,
  writeSync,
} from "node:fs";
import { codeOf } from "./errors.ts";

/**
 * System calls, synchronous on purpose: work under the guard must not wait for the event loop or a free thread. None
 * follows a link at the end of a path, and each is repeated when a signal interrupts it.
 */

/** Windows lacks some of the flags. */
const { O_NOFOLLOW = 0, O_NONBLOCK = 0 } = constants as Partial<typeof constants>;
const CREATE = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | O_NOFOLLOW;
/** Non-blocking, so that a pipe put in the file's place cannot block us. */
const READ = constants.O_RDONLY | O_NOFOLLOW | O_NONBLOCK;
const REWRITE = constants.O_WRONLY | O_NOFOLLOW | O_NONBLOCK;
const MODE = 0o644;

/** Identifies a file. BigInts, because inodes may exceed what a double holds. */
export interface Inode {
  readonly dev: bigint;
  readonly ino: bigint;
}

export interface Found extends Inode {
  readonly isRegular: boolean;
  readonly mtimeNs: bigint;
  readonly ctimeNs: bigint;
}

export const isSameInode = (a: Inode, b: Inode) => a.dev === b.dev && a.ino === b.ino;

function uninterrupted<T>(call: () => T): T {
  for (;;) {
    try {
      return call();
    } catch (error) {
      if (codeOf(error) !== "EINTR") throw error;
    }
  }
}

/** The result of the call, or undefined if it fails with one of the codes. */
export function unless<T>(codes: readonly string[], call: () => T): T | undefined {
  try {
    return call();
  } catch (error) {
    if (codes.includes(codeOf(error) ?? "")) return undefined;
    throw error;
  }
}

/** What is at the path, without following a link; undefined if nothing is. */
export function look(path: string): Found | undefined {
  const stats = unless(["ENOENT"], () => uninterrupted(() => lstatSync(path, { bigint: true })));
  if (!stats) return undefined;
  const { dev, ino, mtimeNs, ctimeNs } = stats;
  return { dev, ino, mtimeNs, ctimeNs, isRegular: stats.isFile() };
}

export function isDirectory(path: string): boolean {
  return uninterrupted(() => statSync(path)).isDirectory();
}

/** Creates a file; fails if it exists. */
export const openNew = (path: string) => uninterrupted(() => openSync(path, CREATE, MODE));
export const openToRead = (path: string) => uninterrupted(() => openSync(path, READ));
export const openToRewrite = (path: string) => uninterrupted(() => openSync(path, REWRITE));
export const link = (from: string, to: string) => uninterrupted(() => linkSync(from, to));
export const rename = (from: string, to: string) => uninterrupted(() => renameSync(from, to));
export const sync = (file: number) => uninterrupted(() => fsyncSync(file));

export function inodeOf(file: number): Inode {
  const { dev, ino } = uninterrupted(() => fstatSync(file, { bigint: true }));
  return { dev, ino };
}

/** Whether the open file is the regular file that was found. A pipe may have reused the inode of a removed file. */
export function isFound(file: number, found: Inode): boolean {
  const stats = uninterrupted(() => fstatSync(file, { bigint: true }));
  return stats.isFile() && isSameInode(stats, found);
}

/** At most `maxBytes` bytes from the start of the file. */
export function readStart(file: number, maxBytes: number): Uint8Array {
  const bytes = new Uint8Array(maxBytes);
  let length = 0;
  while (length < maxBytes) {
    const count = uninterrupted(() => readSync(file, bytes, length, maxBytes - length, length));
    if (count === 0) break;
    length += count;
  }
  return bytes.slice(0, length);
}

/** Replaces the whole content of the file with the text. */
export function writeWhole(file: number, text: string): void {
  const bytes = new TextEncoder().encode(text);
  let length = 0;
  while (length < bytes.length)
    length += uninterrupted(() => writeSync(file, bytes, length, bytes.length - length, length));
  uninterrupted(() => ftruncateSync(file, bytes.length));
}

/** Closes and ignores errors: everything that had to be on disk was synced before. */
export function close(file: number): void {
  try {
    closeSync(file);
  } catch {
    // Linux has closed it even after EINTR or EIO; a second attempt could hit another file.
  }
}

/** Removes the name if it exists. */
export function remove(path: string): void {
  unless(["ENOENT"], () => uninterrupted(() => unlinkSync(path)));
}

/** Removes the name if it still refers to this file. */
export function removeOwn(path: string, own: Inode): void {
  const found = look(path);
  if (found && isSameInode(found, own)) remove(path);
}

/** Error codes of systems that cannot sync directories, or do not let us open this one. */
const NO_DIRECTORY_SYNC = ["EINVAL", "ENOTSUP", "EOPNOTSUPP", "ENOSYS", "EISDIR", "EPERM", "EACCES", "EBADF"];

/** Makes created, renamed and removed names durable, if the file system can. */
export function syncDirectory(path: string): void {
  unless(NO_DIRECTORY_SYNC, () => {
    const directory = uninterrupted(() => openSync(path, constants.O_RDONLY));
    try {
      sync(directory);
    } finally {
      close(directory);
    }
  });
}
