/** What the service says, line by line. */
export type Message =
  | { readonly type: "answer"; readonly tag: string; readonly status: string; readonly rest: string }
  | { readonly type: "untagged"; readonly status: string }
  | { readonly type: "lost"; readonly token: string; readonly reason: string }
  | { readonly type: "wanted"; readonly token: string }
  | { readonly type: "present" }
  | { readonly type: "unknown" };

/** Close codes of the protocol. The client leaves, and its session with it. */
export const DONE = 1000;
/** The server: the session that was asked for is gone. */
export const GONE = 4410;
/** The client gives this connection up and comes back on another. */
export const PARTED = 4412;
/** Of a socket that ends without one. */
export const BROKEN = 1006;
/** Not of the protocol: the service has refused the token. */
export const REFUSED = 0;
export const MAX_SECONDS = 9_223_372_036;
export const MAX_SLOTS = 1_048_576;
export const MAX_KEY_BYTES = 256;
/** The service takes 1,024 requests at a time from one session; half of them are kept free for renewing and giving back. */
export const MAX_CLAIMS = 512;

/** Answered by the platform itself, without waking the session: cheap enough for a heartbeat. */
export const KEEPALIVE_TAG = "keepalive";

export const FOREVER_MS = Infinity;

/** A request of the wire protocol, as the text of one WebSocket frame. */
export function frameOf(tag: string, command: string, key = "_", arg = "_"): string {
  return `@${tag} ${command}\n${key}\n${arg}\n`;
}

export function messageOf(line: string): Message {
  const [, tag, status = "", rest = ""] = /^(?:@(\S+) )?([^\s@!]\S*) ?(.*)\n$/s.exec(line) ?? [];
  if (tag !== undefined) return { type: "answer", tag, status, rest };
  if (status !== "") return { type: "untagged", status };
  const [, type = "unknown", token, reason] = /^! (\w+)(?: [^ ]+ (\S+) ?(\S*))?\n$/.exec(line) ?? [];
  return { type, token, reason } as Message;
}

/** Whether the service takes it as a key. */
export function isKey(key: unknown): boolean {
  const isClean = typeof key === "string" && key !== "" && !/[ \t\r\n]|[\uD800-\uDFFF]/u.test(key);
  // No character takes more than three bytes for each of its units.
  return isClean && (key.length * 3 <= MAX_KEY_BYTES || new TextEncoder().encode(key).length <= MAX_KEY_BYTES);
}

/** The argument of a claim's limit: nothing for a lock. */
export function limitArg(limit: number): string {
  return limit === 1 ? "" : ` ${limit}`;
}

/** The argument for a lease in milliseconds: whole seconds, rather more than less. */
export function leaseArg(ms: number | undefined): string {
  return ms === undefined ? "" : ` ${Math.ceil(ms / 1000)}`;
}

/** The last word of a claim or renewal whose holder wants to be told that somebody else wants the key. */
export const WANTED = " wanted";

/** The argument for a wait: never shorter than asked for, and 0 only if 0 was. */
export function waitArg(ms: number = FOREVER_MS): string {
  return `${Math.min(Math.ceil(ms / 1000), MAX_SECONDS)}`;
}
