/** One line from the service. */
export type Message =
  | { readonly type: "answer"; readonly tag: string; readonly status: string; readonly rest: string }
  | { readonly type: "untagged"; readonly status: string }
  | { readonly type: "lost"; readonly token: string; readonly reason: string }
  | { readonly type: "wanted"; readonly token: string }
  | { readonly type: "present" }
  | { readonly type: "unknown" };

/** Close code: the client leaves and ends its session. */
export const DONE = 1000;
/** Close code of the server: the session to be resumed is gone. */
export const GONE = 4410;
/** Close code: the client will resume the session on another connection. */
export const DETACHED = 4412;
/** Close code of a socket that ended without one. */
export const BROKEN = 1006;
/** Not a close code of the protocol: the service has refused the token. */
export const REFUSED = 0;
export const MAX_SECONDS = 9_223_372_036;
export const MAX_SLOTS = 1_048_576;
export const MAX_KEY_BYTES = 256;
/** The service accepts 1,024 requests in flight per session; half of them are reserved for renewals and releases. */
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

/** Whether the service accepts it as a key. */
export function isKey(key: unknown): boolean {
  const isClean = typeof key === "string" && key !== "" && !/[ \t\r\n]|[\uD800-\uDFFF]/u.test(key);
  // UTF-8 takes at most three bytes for each UTF-16 code unit.
  return isClean && (key.length * 3 <= MAX_KEY_BYTES || new TextEncoder().encode(key).length <= MAX_KEY_BYTES);
}

/** Orders keys by their bytes in UTF-8. All clients take several keys in this order, so that no two wait for each other. */
export function compareKeys(a: string, b: string): number {
  const [x = "", y = ""] = [a, b].map((key) => String.fromCharCode(...new TextEncoder().encode(key)));
  return x < y ? -1 : 1;
}

/** The limit in a request; nothing for a lock. */
export function limitArg(limit: number): string {
  return limit === 1 ? "" : ` ${limit}`;
}

/** The lease in a request, from milliseconds: whole seconds, rounded up. */
export function leaseArg(ms: number | undefined): string {
  return ms === undefined ? "" : ` ${Math.ceil(ms / 1000)}`;
}

/** The last word of a request whose holder wants a notice when another client wants the key. */
export const WANTED = " wanted";

/** The timeout in a request, from milliseconds: rounded up, and 0 only if it was 0. */
export function waitArg(ms: number = FOREVER_MS): string {
  return `${Math.min(Math.ceil(ms / 1000), MAX_SECONDS)}`;
}
