import type { Lock, Locks } from "../../client/index.ts";
import { CommandError } from "../output/errors.ts";
import { connectLocks } from "./connected.ts";
import { explained } from "./explained.ts";
import { busyLine, showPlace } from "./queue-place.ts";
import type { Target } from "./target.ts";

export interface Wanted {
  readonly key: string;
  readonly limit: number;
  readonly leaseSeconds: number | undefined;
  /** Undefined means no limit. */
  readonly timeoutMs: number | undefined;
  readonly label: string;
}

export interface Waiting {
  /** Ends the wait with its own reason. */
  readonly signal: AbortSignal;
  /** Shows the place in the queue on standard error, if that is a terminal. */
  readonly showsPlace: boolean;
}

/** A lock at a server, and the client that renews it. */
export interface KeptLock {
  readonly lock: Lock;
  readonly locks: Locks;
  readonly waitedSeconds: number;
}

const LOOK_WITHIN_MS = 1_000;

/** Resolves once the lock is held. Throws a `CommandError`, or the signal's reason, leaving nothing at the server. */
export async function takeLock(target: Target, wanted: Wanted, { signal, showsPlace }: Waiting): Promise<KeptLock> {
  signal.throwIfAborted();
  const since = performance.now();
  const { key, limit, leaseSeconds, timeoutMs, label } = wanted;
  const locks = await connectLocks(target, label, signal);
  const query = (asked: string) => locks.query(asked);
  const hide = showsPlace ? showPlace({ key, label, query }, process.stderr, process.stderr.columns || 80) : undefined;
  try {
    const lock = await locks.acquire(key, {
      limit,
      signal,
      ...(leaseSeconds === undefined ? {} : { lease: leaseSeconds * 1000 }),
      ...(timeoutMs === undefined ? {} : { timeout: leftOf(timeoutMs, since) }),
    });
    return { lock, locks, waitedSeconds: (performance.now() - since) / 1000 };
  } catch (error) {
    const reason = await withHolder(explained(target, error, wanted), locks, key);
    hide?.();
    await locks.close();
    throw reason;
  } finally {
    hide?.();
  }
}

/** Connecting counts as waiting; a timeout other than 0 leaves at least one attempt that waits. */
function leftOf(timeoutMs: number, since: number): number {
  return timeoutMs === 0 ? 0 : Math.max(1, timeoutMs - (performance.now() - since));
}

/** Adds the current holder to the error, if it can be found out in time. */
async function withHolder(error: unknown, locks: Locks, key: string): Promise<unknown> {
  if (!(error instanceof CommandError) || error.code !== "busy") return error;
  const late = new Promise<null>((resolve) => setTimeout(resolve, LOOK_WITHIN_MS, null).unref());
  const report = await Promise.race([locks.query(key).catch(() => null), late]);
  return new CommandError("busy", busyLine(report, key), { isReport: true, cause: error });
}
