import { formatLockText } from "../core/protocols/lockfile/index.ts";
import { breakAbandoned } from "./abandoned.ts";
import { IoError } from "./errors.ts";
import { nowSeconds } from "./holder.ts";
import { type LockPath, newNonce } from "./paths.ts";
import { close, type Inode, inodeOf, openNew, removeOwn, unless, writeWhole } from "./system.ts";
import { deadlineAfter, type Limits, sleep } from "./waiting.ts";

const MAX_WAIT_MS = 15_000;

export type Guarded<T> = { readonly kind: "done"; readonly value: T } | { readonly kind: "busy" | "moot" };

/**
 * Runs a section while no other process has the guard of this lock. Everything that removes, moves or rewrites an
 * existing lock file does so in a section. The section is synchronous, so no process waits while it has the guard. A
 * section that returns undefined found the file changed by a program that does not use guards, and runs again. Busy:
 * not done within 15 seconds, or by the deadline if that is earlier. Moot: there was nothing left to do before the
 * guard was free.
 */
export async function withGuard<T>(
  where: LockPath,
  limits: Limits,
  section: () => T | undefined,
  isMoot = () => false,
): Promise<Guarded<T>> {
  const deadline = Math.min(limits.deadline, performance.now() + MAX_WAIT_MS);
  for (;;) {
    limits.signal?.throwIfAborted();
    const own = createGuard(where.guard);
    if (own) {
      const value = runSection(where, own, section);
      if (value !== undefined) return { kind: "done", value };
    } else {
      breakAbandoned(where);
    }
    if (performance.now() >= deadline) return { kind: "busy" };
    await sleep(2 + Math.random() * 8, { deadline, signal: limits.signal });
    if (isMoot()) return { kind: "moot" };
  }
}

/** Like `withGuard`, with a timeout in seconds; throws an `IoError` with the code `EBUSY` if the guard stays busy. */
export async function underGuard<T>(where: LockPath, section: () => T | undefined, timeout?: number): Promise<T> {
  const guarded = await withGuard(where, { deadline: deadlineAfter(timeout) }, section);
  if (guarded.kind === "done") return guarded.value;
  throw busyError(where);
}

export const busyError = ({ given, guard }: LockPath) =>
  new IoError(given, `${guard} is in use by another process`, "EBUSY");

function runSection<T>({ guard }: LockPath, own: Inode, section: () => T): T {
  try {
    return section();
  } finally {
    removeOwn(guard, own);
  }
}

function createGuard(path: string): Inode | undefined {
  const file = unless(["EEXIST"], () => openNew(path));
  if (file === undefined) return undefined;
  const own = inodeOf(file);
  try {
    const text = formatLockText({ pid: process.pid, timestamp: nowSeconds(), nonce: newNonce() });
    // The text is only for people. A full disk must not keep a lock from being released.
    unless(["ENOSPC", "EDQUOT", "EFBIG"], () => writeWhole(file, text));
    return own;
  } catch (error) {
    removeOwn(path, own);
    throw error;
  } finally {
    close(file);
  }
}
