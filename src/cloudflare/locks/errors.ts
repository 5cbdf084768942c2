import type { ClaimEnd } from "../../service.ts";

/** Errors of a binding, besides `TypeError` and `RangeError` for bad arguments. The table in docs/workers.md explains them. */
export type LocksErrorName =
  | "LockTimeoutError"
  | "LockLostError"
  | "CapacityError"
  | "LimitMismatchError"
  | "DrainingError"
  | "ForbiddenError"
  | "UnavailableError";

/**
 * An error for the caller of a binding. The message begins with the name: the caller may get a plain `Error`, unless
 * both Workers have `enhanced_error_serialization` (workerd 2026-11).
 */
export function locksError(name: LocksErrorName, text: string): Error {
  const error = new Error(`${name}: ${text}`);
  error.name = name;
  return error;
}

type Refused = Exclude<ClaimEnd, { readonly status: "granted" | "timeout" }>;
type PlainStatus = Exclude<Refused["status"], "limit_mismatch">;

const REFUSALS: Record<PlainStatus, readonly [name: LocksErrorName, reason: string]> = {
  max_locks: ["CapacityError", "the service has as many keys as MAX_LOCKS allows"],
  max_waiters: ["CapacityError", "its queue is as long as MAX_WAITERS allows"],
  lease_expired: ["LockLostError", "it was granted and lost again before it could be handed over"],
  fence_persistence: ["UnavailableError", "it has no fence left to grant"],
  unavailable: ["UnavailableError", "nothing can be stored"],
  left: ["UnavailableError", "the caller is gone"],
  // Claims of a Worker have no mark.
  standing: ["UnavailableError", "it was claimed by the same holder before"],
};

/** Why a claim was not granted. */
export function refusalOf(key: string, refused: Refused, limit: number): Error {
  const named = `key ${JSON.stringify(key)}`;
  if (refused.status === "limit_mismatch")
    return locksError("LimitMismatchError", `${named} is in use with limit ${refused.limit}, not ${limit}`);
  const [name, reason] = REFUSALS[refused.status];
  return locksError(name, `no lock on ${named}: ${reason}`);
}
