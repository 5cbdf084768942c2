import { existsSync, readdirSync, renameSync, statSync, unlinkSync } from "node:fs";
import { join } from "node:path";
import { codeOf, reasonOf } from "../../node/listeners/failure.ts";

/** A database of one page has no tables: its object has deleted everything. */
const EMPTY_DATABASE_BYTES = 4_096;
const DATABASE = /^[0-9a-f]{64}\.sqlite$/;

export interface SweepLimits {
  /** Files changed later than this are left alone. */
  readonly olderThanMs: number;
  /** Work not done in this time is left for the next sweep. */
  readonly budgetMs: number;
}

/** Marks a file that is about to be removed. */
const ASIDE = ".swept";
type Log = (line: string) => void;

/**
 * Removes what workerd leaves of objects that have deleted their state: a file of one empty page each. Returns how
 * many. Nobody may be using the directory. A file with a write-ahead log holds more than it shows, and stays. A file that
 * cannot be removed is logged and stays too: it only costs disk space.
 */
export function sweepEmptyDatabases(directory: string, limits: SweepLimits, log: Log = console.error): number {
  const complain = complainTo(log);
  for (const name of namesIn(directory, () => {})) {
    if (name.endsWith(ASIDE)) settle(join(directory, name.slice(0, -ASIDE.length)), complain);
  }
  let removed = 0;
  eachEmptyDatabase(directory, limits, complain, (path) => {
    unlinkSync(path);
    removed += 1;
  });
  return removed;
}

/**
 * The same while objects may be opened at any moment. A file is set aside first: an object that had just opened it shows
 * that by its log, and gets it back; one that comes later makes itself another.
 */
export async function sweepWhileInUse(
  directory: string,
  limits: SweepLimits & { readonly opensWithinMs: number },
  log: Log = console.error,
): Promise<number> {
  const complain = complainTo(log);
  const aside: string[] = [];
  eachEmptyDatabase(directory, limits, complain, (path) => {
    renameSync(path, path + ASIDE);
    aside.push(path);
  });
  if (aside.length === 0) return 0;
  await new Promise((resolve) => setTimeout(resolve, limits.opensWithinMs));
  return aside.filter((path) => settle(path, complain)).length;
}

/** Removes a file that was set aside, or puts it back if it has been opened. True if it is gone. */
function settle(path: string, complain: Complain): boolean {
  const aside = path + ASIDE;
  try {
    const isInUse = hasLog(path) || statSync(aside).size > EMPTY_DATABASE_BYTES;
    if (isInUse && !existsSync(path)) {
      renameSync(aside, path);
      return false;
    }
    unlinkSync(aside);
    return true;
  } catch (error) {
    complain(path, error);
    return false;
  }
}

type Complain = (path: string, error: unknown) => void;

const complainTo =
  (log: Log): Complain =>
  (path, error) =>
    log(`holdfast: cannot sweep ${path}: ${reasonOf(error)}`);

function eachEmptyDatabase(
  directory: string,
  { olderThanMs, budgetMs }: SweepLimits,
  complain: Complain,
  take: (path: string) => void,
): void {
  const now = Date.now();
  const names = new Set(namesIn(directory, complain));
  for (const name of names) {
    if (Date.now() - now > budgetMs) break;
    if (!DATABASE.test(name) || names.has(`${name}-wal`) || names.has(`${name}-journal`)) continue;
    const path = join(directory, name);
    try {
      if (isEmptySince(path, now - olderThanMs)) take(path);
    } catch (error) {
      complain(path, error);
    }
  }
}

function namesIn(directory: string, complain: Complain): string[] {
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
