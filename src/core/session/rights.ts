import type { Principal } from "../auth/principal.ts";
import { permits, type Scope } from "../auth/scope.ts";
import { familyOf } from "../protocols/wire/requests.ts";
import type { KeyRequest } from "./key-calls.ts";

/** What a client may do. Without a scope: everything that does not require admin rights. */
export interface Rights {
  readonly scope: Scope | undefined;
  readonly isAdmin: boolean;
}

export const ALL_BUT_ADMIN: Rights = { scope: undefined, isAdmin: false };

export function rightsOf(principal: Principal | undefined): Rights {
  return {
    scope: principal?.type === "ticket" ? principal.scope : undefined,
    isAdmin: principal?.type === "admin",
  };
}

type Guarded = KeyRequest | { readonly type: "stats" } | { readonly type: "query"; readonly key: string };

/** Whether the request is within the rights. An expired ticket still lets its client release what it holds. */
export function allows({ scope, isAdmin }: Rights, command: string, request: Guarded, now: number): boolean {
  if (request.type === "acquire" && request.steals) return isAdmin;
  if (!scope) return true;
  const isOver = scope.expiresAt <= now;
  if (request.type === "stats") return !isOver && scope.operations.includes("stats");
  if (request.type === "query") return !isOver && permits(scope, "stats", request.key);
  return permits(scope, familyOf(command), request.key) && (!isOver || request.type === "release");
}
