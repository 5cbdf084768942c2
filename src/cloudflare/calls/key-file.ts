import { log } from "../../log.ts";
import type { Env } from "../env.ts";
import { objectsOf } from "../placement.ts";

/** Where a self-hosted service keeps a key: the file's path below `objects/` in the data directory. */
function keyFile(env: Env, key: string): string {
  return `holdfast-KeyObject/${objectsOf(env, "KEY").idFromName(key)}.sqlite`;
}

/**
 * Logs which key cannot be read and the file it is stored in, so that an operator can look at it. This is one of the
 * few events that name a key.
 */
export function logUnreadable(env: Env, key: string, error: unknown): void {
  log("error", "key_unreadable", { key, file: keyFile(env, key), error: String(error) }, key);
}

/**
 * The platform opens the database before any of our code runs. If that fails, the key's object cannot report it; only
 * the caller sees it, as an error without a cause (workerd 2026-11).
 */
export function isPlatformFault(error: unknown): boolean {
  return error instanceof Error && error.message.startsWith("internal error");
}
