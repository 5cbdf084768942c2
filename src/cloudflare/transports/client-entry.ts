import type { ClientEntry } from "../../service.ts";

/** A client's entry travels in this header of the upgrade, which only the Worker sets. */
export const ENTRY_HEADER = "X-Holdfast-Entry";
/** Names the session: several may share an object. */
export const SESSION_HEADER = "X-Holdfast-Session-Name";
/** Set on an upgrade that resumes a session which has lost its socket: the secret for that. */
export const RESUME_HEADER = "X-Holdfast-Resume";

/** Headers are limited to Latin-1; labels and keys are not. */
export const encodeEntry = (entry: ClientEntry) => encodeURIComponent(JSON.stringify(entry));
export const decodeEntry = (headers: Headers) =>
  JSON.parse(decodeURIComponent(headers.get(ENTRY_HEADER) ?? "")) as ClientEntry;

/** Behind a carrier there is no client that could resume its session on another connection. */
export function resumableFrom({ hasWindow, address }: ClientEntry): string | undefined {
  return hasWindow ? undefined : address;
}
