import type { Rights } from "../../core/session/rights.ts";
import type { SocketProtocol } from "../../core/session/socket-session.ts";
import type { Transport } from "../directory/directory-object.ts";

/** How a client connected. Travels in this header of the upgrade, which only the Worker sets. */
export interface ClientEntry {
  /** Absent if it is dflockd's. */
  readonly protocol?: SocketProtocol | undefined;
  readonly transport: Transport;
  readonly address: string;
  /** The upgrade has authenticated the client. */
  readonly isAuthenticated: boolean;
  /** The rights that the upgrade gave the client. */
  readonly rights: Rights;
  /** A name the client has chosen, visible to others. */
  readonly label?: string | undefined;
  /** The carrier wants to be told how much of its input has been consumed. */
  readonly hasWindow: boolean;
}

export const ENTRY_HEADER = "X-Holdfast-Entry";
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
