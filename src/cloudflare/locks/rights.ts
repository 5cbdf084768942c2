import type { Principal } from "../../core/auth/principal.ts";
import { OPERATIONS, permits, type Scope, type ScopeOperation } from "../../core/auth/scope.ts";
import { badArgument, shownAs } from "./arguments.ts";
import type { LocksProps } from "./binding.ts";
import { locksError } from "./errors.ts";

/** Later than any ticket ends, and a time that every clock can tell. */
const NEVER = Date.UTC(2200, 0);

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

/** The caller of the HTTP API by a binding with these props. */
export function principalOf(props: unknown): Principal {
  const scope = scopeOf(props);
  return Object.keys(props ?? {}).length === 0 ? { type: "token" } : { type: "ticket", scope };
}

function scopeOf(props: unknown): Scope {
  for (const [name, value] of Object.entries(props ?? {})) {
    const rule = RULES[name as keyof LocksProps];
    if (!rule) throw badArgument(`props.${name} is not known; known are: ${Object.keys(RULES).join(", ")}`);
    if (!rule[1](value)) throw badArgument(`props.${name} must be ${rule[0]}, not ${shownAs(value)}`);
  }
  const { keys = ["*"], readOnly = false } = (props ?? {}) as LocksProps;
  return { keys, operations: readOnly ? ["stats"] : OPERATIONS, expiresAt: NEVER };
}
