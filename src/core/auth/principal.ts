import type { Config } from "../config/config.ts";
import { permits, type Scope, type ScopeOperation } from "./scope.ts";
import { decodedHeader, sameSecret } from "./secrets.ts";
import { readTicket } from "./tickets.ts";

/** The authenticated caller. `open` is any caller of a service without a token. */
export type Principal =
  | { readonly type: "open" }
  | { readonly type: "token" }
  | { readonly type: "admin" }
  | { readonly type: "ticket"; readonly scope: Scope };

/** How long a refusal is delayed, to slow down guessing. */
export const AUTH_FAILURE_PAUSE_MS = 100;

/** Decided at once, unless a ticket has to be verified. Undefined means refused. */
type Authenticated = Principal | undefined | Promise<Principal | undefined>;

type Secrets = Pick<Config, "authToken" | "adminToken" | "ticketSecret">;

/** Authenticates an `Authorization` header in which the token may also be the password of Basic authentication. */
export function authenticateAnyScheme(secrets: Secrets, credential: string | undefined): Authenticated {
  const basic = /^basic\s+(\S+)$/i.exec(credential?.trim() ?? "")?.[1];
  return basic === undefined ? authenticate(secrets, credential) : authenticateSecret(secrets, passwordIn(basic));
}

/** The password of Basic credentials, with any user name; empty if there is none. */
function passwordIn(encoded: string): Uint8Array {
  try {
    const bytes = Uint8Array.from(atob(encoded), (character) => character.charCodeAt(0));
    const colon = bytes.indexOf(":".charCodeAt(0));
    return bytes.slice(colon < 0 ? bytes.length : colon + 1);
  } catch {
    return new Uint8Array();
  }
}

/** Authenticates an `Authorization` header. */
export function authenticate(secrets: Secrets, credential = ""): Authenticated {
  const shown = bearerIn(credential);
  const decoded = decodedHeader(credential);
  const token = decoded === undefined ? shown : bearerIn(decoded);
  const isDecodedSecret =
    token !== shown && [secrets.adminToken, secrets.authToken].some((each) => isSecret(token, each));
  return authenticateSecret(secrets, isDecodedSecret ? token : shown);
}

function bearerIn(credential: string): string {
  return /^bearer\s(.*)$/is.exec(credential.trim())?.[1]?.trim() ?? "";
}

/**
 * Authenticates a bare token or ticket. It is compared with every secret, in a time that does not reveal which one it
 * came close to.
 */
export function authenticateSecret(secrets: Secrets, shown: Uint8Array | string): Authenticated {
  const [isAdminToken, isAuthToken] = [isSecret(shown, secrets.adminToken), isSecret(shown, secrets.authToken)];
  if (isAdminToken) return { type: "admin" };
  if (secrets.authToken === undefined) return { type: "open" };
  if (isAuthToken) return { type: "token" };
  return ticketHolder(secrets, typeof shown === "string" ? shown : new TextDecoder().decode(shown));
}

/** Like `authenticateSecret`, for credentials in a URL: only tickets are accepted, since URLs end up in logs. */
export function authenticateTicket(secrets: Secrets, shown: string): Authenticated {
  return secrets.authToken === undefined ? { type: "open" } : ticketHolder(secrets, shown);
}

async function ticketHolder(secrets: Secrets, text: string): Promise<Principal | undefined> {
  const scope = await readTicket(secrets, text, Date.now());
  return scope && { type: "ticket", scope };
}

function isSecret(shown: Uint8Array | string, secret: string | undefined): boolean {
  return secret !== undefined && sameSecret(shown, secret);
}

/** Whether the principal may use the operation: on this key or, without a key, at all. */
export function mayUse(principal: Principal, operation: ScopeOperation, key?: string): boolean {
  if (principal.type !== "ticket") return true;
  const { scope } = principal;
  return key === undefined ? scope.operations.includes(operation) : permits(scope, operation, key);
}

/** Whether the principal may create, keep and end a session: required for locking anything. */
export function mayHaveSession(principal: Principal): boolean {
  return mayUse(principal, "lock") || mayUse(principal, "semaphore");
}

/** Whether the principal may do what no ticket allows: read metrics and issue tickets. */
export function isTrusted(principal: Principal): boolean {
  return principal.type !== "ticket";
}

export function isAdmin(principal: Principal): boolean {
  return principal.type === "admin";
}
