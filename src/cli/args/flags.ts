import type { Flag } from "./spec.ts";

export const JSON_OUTPUT = { name: "--json", help: "one line of JSON, errors included" } as const satisfies Flag;
export const QUIET = { name: "--quiet", short: "-q", help: "print nothing" } as const satisfies Flag;
export const HELP = { name: "--help", short: "-h", help: "print this help" } as const satisfies Flag;

export const URL_FLAG = {
  name: "--url",
  value: "URL",
  help: "the server [HOLDFAST_URL, default http://127.0.0.1:6389]",
} as const satisfies Flag;
export const TOKEN = {
  name: "--token",
  value: "TOKEN",
  help: "token or ticket (visible in `ps`: prefer the file) [HOLDFAST_TOKEN]",
} as const satisfies Flag;
export const TOKEN_FILE = {
  name: "--token-file",
  value: "FILE",
  help: "file that holds the token",
} as const satisfies Flag;

export const LIMIT = {
  name: "--limit",
  value: "N",
  help: "holders at a time (default 1: a lock)",
} as const satisfies Flag;
export const LEASE = {
  name: "--lease",
  value: "S",
  help: "seconds the server keeps the lock without word from the holder",
} as const satisfies Flag;
export const TIMEOUT = {
  name: "--timeout",
  value: "S",
  help: "seconds to wait; 0 tries once (default: no limit)",
} as const satisfies Flag;
export const LABEL = {
  name: "--label",
  value: "TEXT",
  help: "name shown to others, 1 to 64 characters (default user@host)",
} as const satisfies Flag;
export const SESSION = {
  name: "--session",
  value: "ID",
  help: "the session that `enqueue` has opened",
} as const satisfies Flag;

/** Which server to talk to, and with which token. */
export const SERVER_FLAGS: readonly Flag[] = [URL_FLAG, TOKEN, TOKEN_FILE];
/** How results and errors are printed. */
export const OUTPUT_FLAGS: readonly Flag[] = [JSON_OUTPUT, QUIET, HELP];
