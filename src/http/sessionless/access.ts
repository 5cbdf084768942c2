import { mayUse } from "../../core/auth/principal.ts";
import type { ScopeOperation } from "../../core/auth/scope.ts";
import { fail } from "../reply/errors.ts";
import type { AppContext } from "../request/context.ts";
import { keyFault, segmentAt } from "../request/path.ts";

const NAME_SEGMENT = 2;

/** A ticket that may lock a key or read its statistics may also read its holder. */
export const TO_READ: readonly ScopeOperation[] = ["lock", "stats"];
export const TO_CHANGE: readonly ScopeOperation[] = ["lock"];

/** The key in the path, or a refusal: the name breaks its rule, or the ticket does not cover the key. */
export function keyIn(context: AppContext, operations: readonly ScopeOperation[]): string | Response {
  const key = segmentAt(context.req.path, NAME_SEGMENT);
  const fault = keyFault(key);
  if (key === undefined || fault !== undefined) return fail(context, "bad_request", fault);
  const principal = context.get("principal");
  return operations.some((operation) => mayUse(principal, operation, key)) ? key : fail(context, "forbidden");
}
