import type { LockTarget } from "./locks/client-context.ts";
import { MAX_CLAIMS } from "./wire.ts";

/**
 * Why a lock was lost. `expired`: its lease or `maxHold` has ended; `stolen`: an administrator took it; `released`: it was
 * released elsewhere, with its token; `disconnected`: the service was out of reach for too long, or the client was
 * closed.
 */
export type LossReason = "expired" | "stolen" | "released" | "disconnected";

/** The kinds of `LockError`, for a `switch`. */
export type LockErrorCode =
  | "timeout"
  | "lost"
  | "auth"
  | "limit_mismatch"
  | "max_locks"
  | "max_waiters"
  | "too_many_requests"
  | "connection"
  | "draining"
  | "already_enqueued"
  | "not_enqueued"
  | "protocol";

/** Base class of this library's errors. Bad arguments throw a `TypeError` or `RangeError`; an aborted signal, its own reason. */
export class LockError extends Error {
  override readonly name: string = "LockError";
  /** The kind of error, finer than its class. */
  readonly code: LockErrorCode;

  constructor(code: LockErrorCode, message: string, cause?: unknown) {
    // The reason belongs into the message: many logs show nothing else.
    super(message + (cause ? `: ${(cause as Error).message ?? cause}` : ""), cause ? { cause } : undefined);
    this.code = code;
  }
}

/** The timeout has passed, and the client has left the queue. Has a cause if there was no connection at that moment. */
export class AcquireTimeoutError extends LockError {
  override readonly name = "AcquireTimeoutError";
  constructor(key: string, cause?: unknown, timeoutMs = 0) {
    super("timeout", `${key} was not ${cause ? "reached" : "free"} within ${timeoutMs} ms`, cause);
  }
}

/** The lock was lost without being released by its holder. */
export class LockLostError extends LockError {
  override readonly name = "LockLostError";
  /** Why it was lost. */
  readonly reason: LossReason;
  constructor(key: string, reason: LossReason) {
    super("lost", `${key} is lost: ${reason}`);
    this.reason = reason;
  }
}

/** The token or ticket was refused, or does not cover the request. */
export class AuthError extends LockError {
  override readonly name = "AuthError";
  constructor(message: string) {
    super("auth", message);
  }
}

/** The key exists with another limit. */
export class LimitMismatchError extends LockError {
  override readonly name = "LimitMismatchError";
  constructor(key: string, limit = 1, actual?: number) {
    super("limit_mismatch", `${key} is in use with ${actual ? `limit ${actual}, not` : "another limit than"} ${limit}`);
  }
}

const ROOM = {
  max_locks: "the service is full",
  max_waiters: "the queue is full",
  too_many_requests: `this client has ${MAX_CLAIMS} requests under way`,
};

/** The service has too many keys or waiters, or this client too many requests. */
export class CapacityError extends LockError {
  override readonly name = "CapacityError";
  constructor(code: "max_locks" | "max_waiters" | "too_many_requests", key: string) {
    super(code, `no room for ${key}: ${ROOM[code]} (${code})`);
  }
}

/** The service cannot be reached, or the session was lost with its connection, or the client is closed. */
export class ConnectionError extends LockError {
  override readonly name = "ConnectionError";
  constructor(message: string, cause?: unknown) {
    super("connection", message, cause);
  }
}

/** The service takes no new work. */
export class DrainingError extends LockError {
  override readonly name = "DrainingError";
  constructor() {
    super("draining", "the service takes no new work");
  }
}

const MEANINGS: Record<string, string> = {
  error_already_enqueued: "this client has a place in the queue already",
  error_not_enqueued: "the place in the queue is gone",
};

/** The service refused a request for a reason that has no class of its own; `code` may say more. */
export class ProtocolError extends LockError {
  override readonly name = "ProtocolError";
  constructor(key: string, word: string) {
    const code = word.endsWith("_enqueued") ? word.slice(6) : "protocol";
    super(code as LockErrorCode, `${key}: ${MEANINGS[word] ?? `the service answered ${word}`}`);
  }
}

/** The error for a status of the wire protocol. */
export function errorOf(
  word: string,
  { key, limit }: Pick<LockTarget, "key" | "limit">,
  { timeout, steal }: { readonly timeout?: number | undefined; readonly steal?: boolean | undefined } = {},
): LockError {
  switch (word) {
    case "timeout":
      return new AcquireTimeoutError(key, undefined, timeout);
    case "error_lease_expired":
      return new LockLostError(key, "expired");
    case "error_auth":
      return new AuthError(`${steal ? "only the admin token may steal" : "the token does not cover"} ${key}`);
    case "error_limit_mismatch":
      return new LimitMismatchError(key, limit);
    case "error_max_locks":
    case "error_max_waiters":
      return new CapacityError(word.slice(6) as "max_locks" | "max_waiters", key);
    case "error_draining":
      return new DrainingError();
    default:
      return new ProtocolError(key, word);
  }
}
