/** What the service says, line by line. */
export type Message =
  | { readonly type: "answer"; readonly tag: string; readonly status: string; readonly rest: string }
  | { readonly type: "untagged"; readonly status: string }
  | { readonly type: "lost"; readonly token: string; readonly reason: string }
  | { readonly type: "present" }
  | { readonly type: "unknown" };

/** Answered by the platform itself, without waking the session: cheap enough for a heartbeat. */
export const KEEPALIVE_TAG = "keepalive";

const MOST_SECONDS = 9_223_372_036;
const MOST_SLOTS = 1_048_576;
const MOST_KEY_BYTES = 256;

/** A request of the wire protocol, as the text of one WebSocket frame. */
export function frameOf(tag: string | undefined, command: string, key = "_", arg = "_"): string {
  return `${tag === undefined ? "" : `@${tag} `}${command}\n${key}\n${arg}\n`;
}

export function messageOf(line: string): Message {
  const [, tag, status = "", rest = ""] = /^(?:@(\S+) )?([^\s@!]\S*) ?(.*)\n$/s.exec(line) ?? [];
  if (tag !== undefined) return { type: "answer", tag, status, rest };
  if (status !== "") return { type: "untagged", status };
  if (line === "! present\n") return { type: "present" };
  const [, token, reason] = /^! lost [^ ]+ (\S+) (\S+)\n$/.exec(line) ?? [];
  return token !== undefined && reason !== undefined ? { type: "lost", token, reason } : { type: "unknown" };
}

/** Throws unless the service takes the text as a key: no blanks, and not too long. */
export function checkKey(key: string): void {
  const isText = typeof key === "string" && key !== "" && !/[ \t\r\n]|[\uD800-\uDFFF]/u.test(key);
  if (!isText || new TextEncoder().encode(key).length > MOST_KEY_BYTES)
    throw new TypeError(`not a key: ${JSON.stringify(key)}`);
}

/** The argument of a claim's limit: nothing for a lock. */
export function limitArg(limit: number): string {
  if (!Number.isInteger(limit) || limit < 1 || limit > MOST_SLOTS) throw outOfRange("limit", limit);
  return limit === 1 ? "" : ` ${limit}`;
}

/** The argument for a lease in milliseconds: whole seconds, rather more than less. */
export function leaseArg(ms: number | undefined): string {
  if (ms === undefined) return "";
  const seconds = Math.ceil(ms / 1000);
  if (!(seconds >= 1 && seconds <= MOST_SECONDS)) throw outOfRange("lease", ms);
  return ` ${seconds}`;
}

/** The argument for a wait: never shorter than asked for, and 0 only if 0 was. */
export function waitArg(ms: number): string {
  if (!(ms >= 0)) throw outOfRange("timeout", ms);
  return `${Math.min(Math.ceil(ms / 1000), MOST_SECONDS)}`;
}

/** Throws unless it is a time to hold something for. */
export function checkHold(ms: number | undefined): void {
  if (ms !== undefined && !(ms > 0)) throw outOfRange("maxHold", ms);
}

function outOfRange(option: string, value: number): RangeError {
  return new RangeError(`${option} out of range: ${value}`);
}
