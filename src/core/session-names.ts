import { hash } from "./hash.ts";
import { randomHex } from "./hex.ts";
import type { SessionKind } from "./session-counts.ts";

/** Marks the names of HTTP sessions, so that a name tells which kind of session it belongs to. */
const HTTP_PREFIX = "http:";

/** A new id for a session: 128 random bits as 32 hex digits. It is never used twice. */
export function newSessionId(): string {
  return randomHex(16);
}

/** The name under which an HTTP session is known to keys and directory. */
export function httpSessionName(id: string): string {
  return HTTP_PREFIX + id;
}

const OWNERS = 2n ** 52n - 1n;

/**
 * The number by which statistics identify a session, or a holder without one: 1 to 2^52 - 1, derived from its id. Two
 * sessions may share it, so nothing is ever decided by it.
 */
export function ownerIdOf(session: string): number {
  // The id of an HTTP session is a credential, so none of its digits may show.
  if (!/^[0-9a-f]+$/.test(session)) return hash(session) * 2 ** 20 + (hash(`owner of ${session}`) >>> 12) + 1;
  // All digits count: a platform may choose some of them by other rules than chance. The client does the same.
  return Number(BigInt(`0x${session}`) % OWNERS) + 1;
}

/** Protocols whose holders have no session. */
export const SESSIONLESS = ["file", "terraform", "relay", "worker"] as const;
export type SessionlessProtocol = (typeof SESSIONLESS)[number];

/** How a holder talks to the service. */
export type Protocol = SessionlessProtocol | "http" | "godistlock" | "dflockd";

/** Marks the requests of godistlock clients: their sessions have the same names as those of dflockd's. */
const GODISTLOCK_PREFIX = "godistlock:";

/** Begins the ids of the requests that one connection of a godistlock client makes. */
export function godistlockRequests(random: string): string {
  return GODISTLOCK_PREFIX + random;
}

/** A unique name for a holder without a session. */
export function newSessionlessOwner(protocol: SessionlessProtocol): string {
  return `${protocol}:${randomHex(16)}`;
}

/** The protocol of the holder with this name, which was granted the lock by this request. */
export function protocolOf(owner: string, request: string): Protocol {
  if (owner.startsWith(HTTP_PREFIX)) return "http";
  return sessionlessProtocolOf(owner) ?? (request.startsWith(GODISTLOCK_PREFIX) ? "godistlock" : "dflockd");
}

/** The protocol of the holder with this name; undefined if that is the name of a session. */
export function sessionlessProtocolOf(owner: string): SessionlessProtocol | undefined {
  return SESSIONLESS.find((protocol) => owner.startsWith(`${protocol}:`));
}

export function kindOfSession(session: string): SessionKind {
  return session.startsWith(HTTP_PREFIX) ? "httpSessions" : "connections";
}
