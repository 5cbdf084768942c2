import { codeOf, PathError } from "./errors.ts";
import { type Examined, type ExaminedLock, examine, isSameLock } from "./examine.ts";
import { auxiliaryName, type LockPath } from "./paths.ts";
import { link, look, remove, rename, unless } from "./system.ts";

/** A guard or a claim older than this was left by a crashed process. */
const ABANDONED_MS = 10_000;

/**
 * Removes the guard of a crashed process, and no other. Only one process at a time breaks a given guard: the one that
 * has linked it to a name derived from the guard's identity. Otherwise a second, late process could move away a guard
 * that a third has taken since.
 */
export function breakAbandoned(where: LockPath): void {
  const seen = examine(where.guard);
  if (seen.kind === "not-regular") throw new PathError(where.given, `${where.guard} is not a regular file`);
  if (seen.kind === "absent" || !isLongAgo(seen.mtimeNs)) return;
  const claim = auxiliaryName(where, "hf-old", fingerprint(seen));
  if (!makeClaim(where, claim)) return;
  try {
    if (isSameGuard(seen, examine(where.guard))) moveAway(where, seen);
  } finally {
    remove(claim);
  }
}

function isLongAgo(ns: bigint): boolean {
  return Math.abs(Date.now() - Number(ns / 1_000_000n)) > ABANDONED_MS;
}

/** 16 hex digits that are the same for every process that sees this guard. */
function fingerprint({ ino, mtimeNs }: ExaminedLock): string {
  return BigInt.asUintN(64, ino ^ mtimeNs)
    .toString(16)
    .padStart(16, "0");
}

/** False if another process has the claim, or the guard is gone. */
function makeClaim(where: LockPath, claim: string): boolean {
  try {
    link(where.guard, claim);
    return true;
  } catch (error) {
    const code = codeOf(error);
    if (code === "ENOENT") return false;
    // Without hard links there are no claims.
    if (code !== "EEXIST") return true;
    // A link has no time of its own, but creating it changes the file's. The next attempt makes the claim again.
    const made = look(claim);
    if (made && isLongAgo(made.ctimeNs)) remove(claim);
    return false;
  }
}

/** Even a process that was suspended between two calls removes only the guard it saw. */
function moveAway(where: LockPath, seen: ExaminedLock): void {
  const moved = auxiliaryName(where, "hf-old");
  if (!unless(["ENOENT"], () => rename(where.guard, moved) ?? true)) return;
  if (!isSameGuard(seen, examine(moved))) unless(["EEXIST"], () => link(moved, where.guard));
  remove(moved);
}

function isSameGuard(seen: ExaminedLock, now: Examined): boolean {
  return now.kind === "lock" && isSameLock(seen, now) && seen.mtimeNs === now.mtimeNs;
}
