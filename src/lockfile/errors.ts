import { getSystemErrorMap } from "node:util";
import type { Holder } from "./holder.ts";

export type FileLockErrorKind = "held" | "timeout" | "not_owner" | "path" | "io";

/** Base class of this library's errors. Bad arguments throw a `RangeError`; an aborted signal, its own reason. */
export abstract class FileLockError extends Error {
  abstract readonly kind: FileLockErrorKind;
  /** As given to the lock. */
  readonly path: string;

  constructor(path: string, message: string, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause });
    this.path = path;
  }
}

/** An error about a lock file of another holder. */
abstract class HolderError extends FileLockError {
  /** The holder that was seen last; undefined if there is no lock file, or it came and went too fast to be read. */
  readonly holder: Holder | undefined;

  constructor(path: string, message: string, holder: Holder | undefined) {
    super(path, message);
    this.holder = holder;
  }
}

/** Another holder has the lock, and its lock file is not stale. */
export class HeldError extends HolderError {
  override readonly name = "HeldError";
  readonly kind = "held";
  constructor(path: string, holder: Holder | undefined) {
    super(path, `${path} is held`, holder);
  }
}

/** The timeout has passed. No file of this lock is left. */
export class TimeoutError extends HolderError {
  override readonly name = "TimeoutError";
  readonly kind = "timeout";
  constructor(path: string, holder: Holder | undefined) {
    super(path, `${path} was not free in time`, holder);
  }
}

/** The lock file is not, or no longer, this lock's. Nothing was changed. */
export class NotOwnerError extends HolderError {
  override readonly name = "NotOwnerError";
  readonly kind = "not_owner";
  constructor(path: string, holder: Holder | undefined) {
    super(path, holder ? `${path} is held by another owner` : `${path} is free: the lock was lost`, holder);
  }
}

/** The path cannot be that of a lock file. Nothing was changed. */
export class PathError extends FileLockError {
  override readonly name = "PathError";
  readonly kind = "path";
  /** The system's error code, if the system refused the path. */
  readonly code: string | undefined;

  constructor(path: string, message: string, cause?: unknown) {
    super(path, message, cause);
    this.code = cause === undefined ? undefined : codeOf(cause);
  }
}

/** The system failed. Its error is the `cause`. */
export class IoError extends FileLockError {
  override readonly name = "IoError";
  readonly kind = "io";
  /** The system's error code; `EBUSY` if the guard was not free in time. */
  readonly code: string | undefined;

  constructor(path: string, message: string, code: string | undefined, cause?: unknown) {
    super(path, message, cause);
    this.code = code;
  }
}

export function codeOf(error: unknown): string | undefined {
  return (error as { readonly code?: string } | undefined)?.code;
}

/** Codes by which the system reports that the path itself is at fault. */
const PATH_CODES = new Set(["ENOENT", "ENOTDIR", "ENAMETOOLONG", "ELOOP", "EISDIR"]);

/** Converts a system error to one of this library; other errors are returned unchanged. */
export function asFileLockError(path: string, error: unknown): unknown {
  if (!(error instanceof Error) || error instanceof FileLockError) return error;
  const { errno } = error as { readonly errno?: number };
  if (errno === undefined) return error;
  const code = codeOf(error);
  const message = getSystemErrorMap().get(errno)?.[1] ?? code ?? "unknown error of the system";
  return code !== undefined && PATH_CODES.has(code)
    ? new PathError(path, message, error)
    : new IoError(path, message, code, error);
}
