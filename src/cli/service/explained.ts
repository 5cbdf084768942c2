import {
  AcquireTimeoutError,
  AuthError,
  CapacityError,
  ConnectionError,
  DrainingError,
  LimitMismatchError,
  LockLostError,
  ProtocolError,
} from "../../client/errors.ts";
import { CommandError } from "../output/errors.ts";
import { draining, full, limitMismatch, nonsense, refusal, unreachable } from "./failures.ts";
import type { Target } from "./target.ts";

/** Turns an error of the client into one for the user of a command. Other errors are returned unchanged. */
export function explained(target: Target, error: unknown, { key }: { key: string }): unknown {
  if (error instanceof AcquireTimeoutError) {
    if (error.cause !== undefined) return unreachable(target, error.cause);
    return new CommandError("busy", `busy ${key}`, { isReport: true });
  }
  if (error instanceof AuthError) return refusal(target, 403, "forbidden", undefined);
  if (error instanceof DrainingError) return draining(target);
  if (error instanceof LimitMismatchError) return limitMismatch(error.message);
  if (error instanceof CapacityError) return full(target, error.code);
  if (error instanceof ConnectionError) return unreachable(target, error.cause ?? error);
  if (error instanceof ProtocolError) return nonsense(target, error.message);
  if (error instanceof LockLostError) {
    return new CommandError("lost", `lost ${key}: its lease ended before it could be used`, { isReport: true });
  }
  return error;
}
