/** A session id: 128 random bits as 32 hex digits. It is never used twice. */
export function newSessionId(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/**
 * The number by which statistics name a session: 1 to 2^52, drawn with the session id. Two sessions may share it, so
 * nothing is ever decided by it.
 */
export function ownerIdOf(session: string): number {
  return Number.parseInt(session.slice(0, 13), 16) + 1;
}
