import type { Transport } from "../directory/directory-object.ts";
import type { Rights } from "./rights.ts";

/** How a client came in. It travels in this header of the upgrade, which only the Worker writes. */
export interface ClientEntry {
  readonly transport: Transport;
  readonly address: string;
  /** The upgrade has shown who the client is. */
  readonly isAuthenticated: boolean;
  /** What the client may do by what the upgrade has shown. */
  readonly rights: Rights;
  /** A name the client has given itself, for others to see. */
  readonly label?: string | undefined;
  /** The carrier wants to be told how much of its input has been consumed. */
  readonly hasWindow: boolean;
}

export const ENTRY_HEADER = "X-Holdfast-Entry";
/** On an upgrade that takes up a session which has lost its socket: the secret for that. */
export const RESUME_HEADER = "X-Holdfast-Resume";

/** Headers hold nothing but Latin letters; labels and keys may. */
export const encodeEntry = (entry: ClientEntry) => encodeURIComponent(JSON.stringify(entry));
export const decodeEntry = (headers: Headers) =>
  JSON.parse(decodeURIComponent(headers.get(ENTRY_HEADER) ?? "")) as ClientEntry;
