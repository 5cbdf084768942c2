import { errors, type JWTPayload, jwtVerify, SignJWT } from "jose";
import type { Config } from "../config/config.ts";
import { OPERATIONS, type Scope, type ScopeOperation } from "./scope.ts";

/** The part of the configuration that decides which tickets are accepted. */
type Secrets = Pick<Config, "authToken" | "ticketSecret">;

export const MAX_TICKET_KEYS = 64;
/** The longest key, plus a star. */
const MAX_PATTERN_BYTES = 257;
/** Longer tickets are refused. */
export const MAX_TICKET_LENGTH = 32_768;

const ALGORITHM = "HS256";
const TYPE = "JWT";
const HOLDFAST = "holdfast";
const EVERY_KEY = "*";
const COMPACT_FORM = /^[\w-]+\.[\w-]+\.[\w-]+$/;

/**
 * A signed text that grants `scope` for at least `ttlSeconds`, and less than a second longer. Its content is not
 * secret. The caller must make sure that it is not too long.
 */
export async function issueTicket(
  secrets: Secrets,
  scope: Omit<Scope, "expiresAt">,
  ttlSeconds: number,
  now: number,
): Promise<string> {
  return new SignJWT({ keys: [...scope.keys], ops: [...scope.operations] })
    .setProtectedHeader({ alg: ALGORITHM, typ: TYPE })
    .setIssuer(HOLDFAST)
    .setAudience(HOLDFAST)
    .setIssuedAt(Math.floor(now / 1000))
    .setExpirationTime(Math.ceil(now / 1000) + ttlSeconds)
    .sign(await signingKey(secrets));
}

/** What a ticket allows, or undefined if it is not one of ours, was tampered with or has expired. */
export async function readTicket(secrets: Secrets, text: string, now: number): Promise<Scope | undefined> {
  if (text.length > MAX_TICKET_LENGTH || !COMPACT_FORM.test(text)) return undefined;
  try {
    const { payload } = await jwtVerify(text, await signingKey(secrets), {
      algorithms: [ALGORITHM],
      requiredClaims: ["exp"],
      currentDate: new Date(now),
    });
    return isForUs(payload) ? scopeOf(payload) : undefined;
  } catch (error) {
    if (error instanceof errors.JOSEError) return undefined;
    throw error;
  }
}

/** Other holders of the secret may sign tickets without an issuer; a ticket for another audience is refused. */
function isForUs({ iss = HOLDFAST, aud = HOLDFAST }: JWTPayload): boolean {
  return iss === HOLDFAST && (Array.isArray(aud) ? aud.includes(HOLDFAST) : aud === HOLDFAST);
}

/** A missing claim means no restriction. A signature proves who wrote the claims, not that they are valid. */
function scopeOf({ exp, keys = [EVERY_KEY], ops = [...OPERATIONS] }: JWTPayload): Scope | undefined {
  if (!Number.isSafeInteger(exp) || !isKeyList(keys) || !isOperationList(ops)) return undefined;
  return { keys, operations: ops, expiresAt: Number(exp) * 1000 };
}

function isKeyList(claim: unknown): claim is string[] {
  return Array.isArray(claim) && claim.length >= 1 && claim.length <= MAX_TICKET_KEYS && claim.every(isPattern);
}

function isPattern(item: unknown): boolean {
  return typeof item === "string" && item !== "" && new TextEncoder().encode(item).length <= MAX_PATTERN_BYTES;
}

function isOperationList(claim: unknown): claim is ScopeOperation[] {
  if (!Array.isArray(claim) || claim.length === 0 || new Set(claim).size !== claim.length) return false;
  return claim.every((item) => OPERATIONS.includes(item));
}

const HMAC = { name: "HMAC", hash: "SHA-256" } as const;

let known: { readonly source: string; readonly key: CryptoKey } | undefined;

/** The signing key of tickets, created once: an isolate has one configuration. */
async function signingKey({ authToken, ticketSecret }: Secrets): Promise<CryptoKey> {
  const secret = ticketSecret ?? authToken;
  const source = JSON.stringify(secret ?? null);
  if (known?.source === source) return known.key;
  // An open service checks no tickets; it issues them so that clients written for a closed one run unchanged.
  const bytes =
    secret === undefined
      ? crypto.getRandomValues(new Uint8Array(32))
      : new Uint8Array(new TextEncoder().encode(secret));
  const key = await crypto.subtle.importKey("raw", bytes, HMAC, false, ["sign", "verify"]);
  // If two calls race, the first key wins; otherwise a random key could not verify what it has signed.
  if (known?.source !== source) known = { source, key };
  return known.key;
}
