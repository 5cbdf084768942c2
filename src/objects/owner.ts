import { randomHex } from "../hex.ts";

/** A session id: 128 random bits as 32 hex digits. It is never used twice. */
export function newSessionId(): string {
  return randomHex(16);
}

/**
 * The number by which statistics name a session: 1 to 2^52, drawn with the session id. Two sessions may share it, so
 * nothing is ever decided by it.
 */
export function ownerIdOf(session: string): number {
  return Number.parseInt(session.slice(0, 13), 16) + 1;
}
