import { readdirSync, statSync, unlinkSync } from "node:fs";
import { join } from "node:path";
import { codeOf, reasonOf } from "../system/failure.ts";

/** A database of one page has no tables: its object has deleted everything. */
const EMPTY_DATABASE_BYTES = 4_096;
const DATABASE = /^[0-9a-f]{64}\.sqlite$/;

export interface SweepLimits {
  /** Files changed later than this are left alone. */
  readonly olderThanMs: number;
  /** Work not done in this time is left for the next sweep. */
  readonly budgetMs: number;
}

/**
 * Removes what workerd leaves of objects that have deleted their state: a file of one empty page each. Returns how
 * many. A file with a write-ahead log is in use or holds more than it shows, and stays. A file that cannot be removed
 * is logged and stays too: it only costs disk space.
 */
export function sweepEmptyDatabases(
  directory: string,
  { olderThanMs, budgetMs }: SweepLimits,
  log: (line: string) => void = console.error,
): number {
  const now = Date.now();
  const complain = (path: string, error: unknown) => log(`holdfast: cannot sweep ${path}: ${reasonOf(error)}`);
  const names = new Set(namesIn(directory, complain));
  let removed = 0;
  for (const name of names) {
    if (Date.now() - now > budgetMs) break;
    if (!DATABASE.test(name) || names.has(`${name}-wal`) || names.has(`${name}-journal`)) continue;
    const path = join(directory, name);
    try {
      if (!isEmptySince(path, now - olderThanMs)) continue;
      unlinkSync(path);
      removed += 1;
    } catch (error) {
      complain(path, error);
    }
  }
  return removed;
}

function namesIn(directory: string, complain: (path: string, error: unknown) => void): string[] {
  try {
    return readdirSync(directory);
  } catch (error) {
    // Without the directory, no object of this kind was ever stored.
    if (codeOf(error) !== "ENOENT") complain(directory, error);
    return [];
  }
}

function isEmptySince(path: string, time: number): boolean {
  const { size, mtimeMs } = statSync(path, { throwIfNoEntry: false }) ?? {};
  return size === EMPTY_DATABASE_BYTES && mtimeMs !== undefined && Math.floor(mtimeMs) <= time && !hasLog(path);
}

/** Checked again right before removal: an object opened meanwhile has a log. */
function hasLog(path: string): boolean {
  return statSync(`${path}-wal`, { throwIfNoEntry: false }) !== undefined;
}
