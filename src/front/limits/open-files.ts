/** What the server may have open, derived from the limit of open files. */
export interface FileBudget {
  readonly openFiles: number;
  /** Client connections of every kind. */
  readonly connections: number;
  /** Keys that workerd may have awake at a time. */
  readonly awakeKeys: number;
  /** HTTP sessions that workerd may have awake at a time, besides those working for a connection. */
  readonly awakeSessions: number;
}

/** Listeners, logs, directory shards, metrics and everything else that does not depend on the load. */
const FIXED_FILES = 100;
/**
 * A connection takes two descriptors in workerd (2026-11), and its session's database three while the session is awake.
 */
const FILES_PER_CONNECTION = 5;
/** A database, its log and the log's index. */
const FILES_PER_OBJECT = 3;
/**
 * The rest is for connections that have ended and that workerd has not closed yet. If files are few, idle sessions need
 * a larger share to be of any use.
 */
const SHARES = {
  few: { connections: 0.54, keys: 0.31, sessions: 0.12 },
  many: { connections: 0.65, keys: 0.3, sessions: 0.025 },
} as const;
const MANY_FILES = 8_192;
const WITHOUT_LIMIT = 1_048_576;

/**
 * The maximum of open files for this process and for workerd, each. Node has raised its own limit to the hard one at
 * startup, and the guard raises workerd's.
 */
export function openFileLimit(): number {
  const { userLimits } = process.report.getReport() as { userLimits?: { open_files?: { hard?: number | string } } };
  const hard = Number(userLimits?.open_files?.hard);
  return Number.isFinite(hard) ? hard : WITHOUT_LIMIT;
}

export function budgetFor(openFiles: number): FileBudget {
  const free = Math.max(openFiles - FIXED_FILES, 32);
  const shares = openFiles < MANY_FILES ? SHARES.few : SHARES.many;
  return {
    openFiles,
    connections: Math.floor((free * shares.connections) / FILES_PER_CONNECTION),
    awakeKeys: Math.floor((free * shares.keys) / FILES_PER_OBJECT),
    awakeSessions: Math.floor((free * shares.sessions) / FILES_PER_OBJECT),
  };
}
