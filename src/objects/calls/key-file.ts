import { log } from "../../log.ts";
import type { Env } from "../env.ts";

/** Where a self-hosted service keeps a key: the file's path below `objects/` in the data directory. */
function keyFile(env: Env, key: string): string {
  return `holdfast-KeyObject/${env.KEY.idFromName(key)}.sqlite`;
}

/**
 * Says which key cannot be read, and where it is stored: an operator has to look at the file. This is one of the few
 * events that name a key.
 */
export function logUnreadable(env: Env, key: string, error: unknown): void {
  log("error", "key_unreadable", { key, file: keyFile(env, key), error: String(error) }, key);
}

/**
 * The platform opens a database before any code of ours runs: where that fails, the key's object cannot say so, and only
 * the caller sees it, as an error without a cause (workerd 2026-11).
 */
export function isPlatformFault(error: unknown): boolean {
  return error instanceof Error && error.message.startsWith("internal error");
}
