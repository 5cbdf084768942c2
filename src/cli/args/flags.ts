import type { Flag } from "./spec.ts";

const flag = (name: Flag["name"], value: string | undefined, help: string): Flag => ({ name, value, help });

/** Understood by every command, and not listed with its flags. */
export const HELP: Flag = { name: "--help", short: "-h", help: "print this help" };
export const JSON_OUTPUT = flag("--json", undefined, "one line of JSON, errors included");
export const QUIET: Flag = { name: "--quiet", short: "-q", help: "print nothing" };

export const URL_FLAG = flag("--url", "URL", "the server [HOLDFAST_URL, default http://127.0.0.1:6389]");
export const TOKEN = flag("--token", "TOKEN", "token or ticket (visible in `ps`: prefer the file) [HOLDFAST_TOKEN]");
export const TOKEN_FILE = flag("--token-file", "FILE", "file that holds the token");

export const LIMIT = flag("--limit", "N", "holders at a time (default 1: a lock)");
export const LEASE = flag("--lease", "S", "seconds the server keeps the lock without word from the holder");
export const TIMEOUT = flag("--timeout", "S", "seconds to wait; 0 tries once (default: no limit)");
export const LABEL = flag("--label", "TEXT", "name shown to others, 1 to 64 characters (default user@host)");
export const SESSION = flag("--session", "ID", "the session that `enqueue` has opened");

export const KEY = flag("--key", "KEY", "hold this key at the server; up to 16 of them, all or none");
export const FILE = flag("--file", "PATH", "hold this lock file");
export const STALE = flag(
  "--stale",
  "S",
  "age in seconds from which a lock file may be taken over, 0 = never (default 3600)",
);
export const TAG = flag("--tag", "TEXT", "name shown to others: tag of the file, label at the server");
export const ON_LOST: Flag = {
  name: "--on-lost",
  value: "kill|warn",
  choices: ["kill", "warn"],
  help: "when the lock is lost: end the command (default), or only say so",
};
export const FILE_TAG = flag("--tag", "T", "a line for people, kept in the file");
export const FORCE = flag("--force", undefined, "remove the lock whoever holds it, and say who that was");

export const OVERWRITE = flag("--force", undefined, "write over FILE if it exists");

export const OPERATIONS = flag("--operations", "LIST", "lock, semaphore, stats, with commas between (default lock)");
export const TTL = flag("--ttl", "S", "seconds it is good for, up to 86400 (default 300)");

/** Which server to talk to, and with which token. */
export const SERVER_FLAGS: readonly Flag[] = [URL_FLAG, TOKEN, TOKEN_FILE];
/** How results and errors are printed. */
export const OUTPUT_FLAGS: readonly Flag[] = [JSON_OUTPUT, QUIET];
