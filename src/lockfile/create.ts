import { formatLockText, type LockFields } from "../core/protocols/lockfile/index.ts";
import { codeOf } from "./errors.ts";
import { hostName, nowSeconds } from "./holder.ts";
import { auxiliaryName, type LockPath, newNonce } from "./paths.ts";
import {
  close,
  type Inode,
  inodeOf,
  link,
  openNew,
  remove,
  removeOwn,
  sync,
  syncDirectory,
  writeWhole,
} from "./system.ts";

/** What a lock file says about its creator. */
export interface FileCreator {
  readonly pid: number;
  readonly tag: string | undefined;
}

/** The text of a lock that was created. */
export type MadeLock = LockFields & { readonly nonce: string };

type Linked = "linked" | "exists" | "swept" | "unsupported";

/**
 * Creates the lock file, complete and durable, if nothing is at the path; undefined if something is. On file systems
 * with hard links, an error or a crash leaves either a complete lock file or none.
 */
export function createLock(where: LockPath, { pid, tag }: FileCreator): MadeLock | undefined {
  for (;;) {
    const fields = {
      pid,
      timestamp: nowSeconds(),
      ...(tag !== undefined && { tag }),
      host: hostName(),
      nonce: newNonce(),
    };
    const text = formatLockText(fields);
    const { own, linked } = linkNew(where, text);
    if (linked === "exists") return undefined;
    // Swept as a leftover, because this process was suspended for a minute: its timestamp is outdated too.
    if (linked === "swept") continue;
    const made = linked === "linked" ? own : createDirectly(where, text);
    if (!made) return undefined;
    orRemove(where.path, made, () => syncDirectory(where.directory));
    return fields;
  }
}

function linkNew(where: LockPath, text: string): { readonly own: Inode; readonly linked: Linked } {
  const name = auxiliaryName(where, "hf-new");
  const own = writeNew(name, text);
  const linked = orRemove(name, own, () => tryLink(name, where.path));
  if (linked === "linked") orRemove(where.path, own, () => remove(name));
  else remove(name);
  return { own, linked };
}

function tryLink(name: string, path: string): Linked {
  try {
    link(name, path);
    return "linked";
  } catch (error) {
    const code = codeOf(error) ?? "";
    if (code === "EEXIST") return "exists";
    if (code === "ENOENT") return "swept";
    // Windows refuses the name of a file that is being removed.
    if (process.platform === "win32" && ["EPERM", "EACCES", "EBUSY"].includes(code)) return "exists";
    if (["EPERM", "EACCES", "ENOTSUP", "EOPNOTSUPP", "ENOSYS", "EMLINK"].includes(code)) return "unsupported";
    throw error;
  }
}

/**
 * For file systems without hard links: for an instant the file exists without its text, which readers treat as held.
 */
function createDirectly({ path }: LockPath, text: string): Inode | undefined {
  try {
    return writeNew(path, text);
  } catch (error) {
    if (codeOf(error) === "EEXIST") return undefined;
    throw error;
  }
}

/** Creates the file with the text, durably. An error leaves nothing behind. */
function writeNew(path: string, text: string): Inode {
  const file = openNew(path);
  try {
    const own = inodeOf(file);
    orRemove(path, own, () => {
      writeWhole(file, text);
      sync(file);
    });
    return own;
  } finally {
    close(file);
  }
}

/** If the action fails, the caller never learns that the file was created, so it must not stay. */
function orRemove<T>(path: string, own: Inode, action: () => T): T {
  try {
    return action();
  } catch (error) {
    removeOwn(path, own);
    throw error;
  }
}
