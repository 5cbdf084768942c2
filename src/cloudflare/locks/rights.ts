import { OPERATIONS, permits, type Scope, type ScopeOperation } from "../../core/auth/scope.ts";
import { badArgument, shownAs } from "./arguments.ts";
import type { LocksProps } from "./binding.ts";
import { locksError } from "./errors.ts";

const RULES: Record<keyof LocksProps, readonly [mustBe: string, holds: (value: unknown) => boolean]> = {
  keys: [
    "a list of keys, or prefixes that end in *",
    (value) => Array.isArray(value) && value.every((item) => typeof item === "string" && item !== ""),
  ],
  readOnly: ["true or false", (value) => typeof value === "boolean"],
};

/**
 * Throws unless the props of the binding allow the operation on the key. The caller is trusted otherwise: only Workers of the
 * same account can be bound. Props that are not understood allow nothing: a slip in their names must not give more rights.
 */
export function checkRights(props: unknown, operation: ScopeOperation, key: string): void {
  if (permits(scopeOf(props), operation, key)) return;
  const what = operation === "stats" ? "describe" : "lock";
  throw locksError("ForbiddenError", `the props of the binding do not allow to ${what} key ${JSON.stringify(key)}`);
}

function scopeOf(props: unknown): Scope {
  for (const [name, value] of Object.entries(props ?? {})) {
    const rule = RULES[name as keyof LocksProps];
    if (!rule) throw badArgument(`props.${name} is not known; known are: ${Object.keys(RULES).join(", ")}`);
    if (!rule[1](value)) throw badArgument(`props.${name} must be ${rule[0]}, not ${shownAs(value)}`);
  }
  const { keys = ["*"], readOnly = false } = (props ?? {}) as LocksProps;
  return { keys, operations: readOnly ? ["stats"] : OPERATIONS, expiresAt: Number.POSITIVE_INFINITY };
}
