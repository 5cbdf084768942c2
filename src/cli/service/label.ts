import { hostname, userInfo } from "node:os";
import { UNPRINTABLE } from "../output/printable.ts";

export const MAX_LABEL_CHARACTERS = 64;

/** This process's label: the given text, as far as it fits, or else user, host and process id. */
export function labelOf(text: string | undefined): string {
  const cleaned = cut(text ?? "");
  return cleaned.trim() === "" ? cut(`${userName()}@${hostname().split(".", 1)[0]}:${process.pid}`) : cleaned;
}

/** The same for something that outlives this process, limited to characters that fit in an HTTP header. */
export function lastingLabel(): string {
  return cut(`${userName()}@${hostname().split(".", 1)[0]}`).replace(/[^\x20-\x7e]/g, "?");
}

function cut(text: string): string {
  return [...text.replace(UNPRINTABLE, " ")].slice(0, MAX_LABEL_CHARACTERS).join("");
}

function userName(): string {
  try {
    return userInfo().username;
  } catch {
    // A user id without a name, as in many containers.
    return String(process.getuid?.() ?? "unknown");
  }
}
