import { codeOf } from "./errors.ts";
import { type ExaminedLock, examine, isSameLock } from "./examine.ts";
import { auxiliaryName, type LockPath } from "./paths.ts";
import { link, look, remove, rename, syncDirectory } from "./system.ts";

export type Warn = (message: string) => void;

/** `changed`: something else is, or may be, at the path; check again. */
export type Removal = "removed" | "gone" | "changed";

/**
 * Removes a lock file that was examined, and no other, durably. Must be called under the guard. A program that does not
 * use guards may change the path meanwhile: its file is moved away, recognised, and put back.
 */
export function removeLock(where: LockPath, seen: ExaminedLock, warn: Warn): Removal {
  const moved = auxiliaryName(where, "hf-old");
  try {
    rename(where.path, moved);
  } catch (error) {
    const code = codeOf(error) ?? "";
    if (code === "ENOENT") return "gone";
    // Windows refuses to move a file that is open elsewhere.
    if (process.platform === "win32" && ["EPERM", "EACCES", "EBUSY"].includes(code)) return "changed";
    throw error;
  }
  const isRight = isSameLock(seen, examine(moved));
  if (!isRight) putBack(where, moved, warn);
  remove(moved);
  syncDirectory(where.directory);
  return isRight ? "removed" : "changed";
}

function putBack({ path, given }: LockPath, moved: string, warn: Warn): void {
  try {
    link(moved, path);
  } catch (error) {
    const code = codeOf(error);
    if (code === "ENOENT") return;
    // No hard link is possible, for a directory or on this file system.
    if (code !== "EEXIST" && !look(path)) rename(moved, path);
    else warn(`${given}: changed by another program while it was removed; two programs may hold the lock`);
  }
}
