import { cleanText, MAX_PID } from "../core/protocols/lockfile/index.ts";
import type { Warn } from "./remove.ts";

export interface FileLockOptions {
  /** Age in seconds beyond which a lock file may be taken over; 0 means never. Rounded down. Default: 3600. */
  readonly stale?: number | undefined;
  /** A line for people: what the lock is for. */
  readonly tag?: string | undefined;
  /** Milliseconds between two attempts, plus or minus a quarter. Default: 100. */
  readonly retryMs?: number | undefined;
  /**
   * Makes the lock belong to this process id on this host instead of to this object: another process may release and
   * refresh it under the same id. Without it, only the object that acquired a lock owns it.
   */
  readonly ownerPid?: number | undefined;
  /** Called when another program may hold the lock at the same time. Default: emits a process warning. */
  readonly onWarning?: ((message: string) => void) | undefined;
}

export interface Settings {
  readonly stale: number;
  readonly tag: string | undefined;
  readonly retryMs: number;
  readonly pid: number;
  readonly warn: Warn;
}

export function readOptions(options: FileLockOptions): Settings {
  const { stale = 3600, tag, retryMs = 100, ownerPid = process.pid, onWarning } = options;
  // Rounding down would turn it into 0, which means never.
  if (!(stale >= 1 || stale === 0)) throw new RangeError(`stale must be 0 or at least 1 second: ${stale}`);
  if (!(retryMs > 0 && retryMs <= 60_000))
    throw new RangeError(`retryMs must be above 0 and at most 60000: ${retryMs}`);
  if (!Number.isInteger(ownerPid) || ownerPid < 0 || ownerPid > MAX_PID)
    throw new RangeError(`ownerPid must be a whole number from 0 to ${MAX_PID}: ${ownerPid}`);
  return {
    stale: Math.floor(stale),
    tag: tag === undefined ? undefined : cleanText(tag),
    retryMs,
    pid: ownerPid,
    warn: onWarning ?? ((message) => process.emitWarning(message, "FileLockWarning")),
  };
}
