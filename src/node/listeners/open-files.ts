/** What the server may have open, derived from the limit of open files. */
export interface FileBudget {
  readonly openFiles: number;
  /** Client connections of every kind. */
  readonly connections: number;
}

/** The database and its log, listeners, standard streams, connections to peers, and refused clients that hear why. */
const RESERVED_FILES = 128;
const MIN_CONNECTIONS = 16;
const WITHOUT_LIMIT = 1_048_576;
/** Fewer would show up late, as refusals. */
const FEW_OPEN_FILES = 8_192;

/** The maximum of open files for this process. Node has raised its own limit to the hard one at startup. */
export function openFileLimit(): number {
  const { userLimits } = process.report.getReport() as { userLimits?: { open_files?: { hard?: number | string } } };
  const hard = Number(userLimits?.open_files?.hard);
  return Number.isFinite(hard) ? hard : WITHOUT_LIMIT;
}

/** A connection takes one descriptor. */
export function budgetFor(openFiles: number): FileBudget {
  return { openFiles, connections: Math.max(openFiles - RESERVED_FILES, MIN_CONNECTIONS) };
}

/** A warning for the operator if there are few. */
export function fewOpenFiles({ openFiles, connections }: FileBudget): string | undefined {
  if (openFiles >= FEW_OPEN_FILES) return undefined;
  return `open files are limited to ${openFiles}, enough for ${connections} connections at a time`;
}
